"""Parallel heads of multi-token prediction: one decoder layer for each distance, on a shared trunk.

Head k reads what the target's last layer reads and predicts the token k + 2 places after it; the
target's own last layer predicts the next one. Norm and map to the vocabulary are the target's.
No head sees a drafted token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from speclab.core.errors import ModelUnavailable
from speclab.core.laws import Row
from speclab.models.attention import AttentionCache, AttentionSpace, product
from speclab.models.heads.eagle_files import head_source
from speclab.models.heads.files import (
    check_shape,
    check_target,
    read_config,
    read_manifest,
    read_tensors,
    refuse_unknown,
)
from speclab.models.heads.mtp import PartialRotary
from speclab.models.heads.mtp_rope import plain_rope

HEAD_KEY = re.compile(r"extra_heads\.(\d+)\.self_attn\.q_proj\.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One head's decoder layer; matrices [out, in].

    Attributes:
        norm, mlp_norm: [h]. qkv: packed projections. out, gate_up, down: the rest.
    """

    norm: Tensor
    qkv: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class ParallelNet(AttentionSpace):
    """All heads' weights and their pass, shared by all sessions.

    Args:
        layers: one per head. final_norm: the target's [h]. lm_head: the target's [vocab, h].
        heads, kv_heads, head_dim, eps: of every layer.
        rotary: (x, positions) -> cosine and sine.

    **Source:** Gloeckle et al. 2404.19737, section 2.
    """

    def __init__(
        self,
        layers: Sequence[LayerWeights],
        *,
        final_norm: Tensor,
        lm_head: Tensor,
        heads: int,
        kv_heads: int,
        head_dim: int,
        eps: float,
        rotary: Any,
    ) -> None:
        super().__init__(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            eps=eps,
            weight=lm_head,
            rotary=rotary,
            num_layers=len(layers),
        )
        self.layers, self.final_norm, self.lm_head = tuple(layers), final_norm, lm_head

    def forward(self, cache: AttentionCache, states: Tensor) -> Tensor:
        """Append states [n, h] to every head's cache; return logits after the last [heads, vocab].

        Args:
            cache: one session's keys and values, a layer per head.
            states: what the target's last layer reads, of the next n positions.
        """
        count, start = len(states), cache.length
        positions = torch.arange(start, start + count, device=self.device)
        rotary, mask = self.rotary(positions, start + count), cache.mask(None, count)
        cache.reserve(start + count)
        last = []
        for index, layer in enumerate(self.layers):
            qkv = product(self.normed(states, layer.norm), layer.qkv)
            mixed = cache.attend(index, qkv, rotary, mask)[-1:]
            x = states[-1:] + product(mixed, layer.out)
            gate, up = product(self.normed(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
            last.append(x + product(functional.silu(gate).mul_(up), layer.down))
        cache.length += count
        return product(self.normed(torch.cat(last), self.final_norm), self.lm_head)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelHandle:
    """Loaded parallel heads of one target.

    Attributes:
        name: "parallel_mtp". taps: the feature they read.
        vocab_size: width of their rows.
        num_parameters: of the heads; what they share with the target is not counted.
    """

    name: str
    net: ParallelNet
    taps: tuple[str, ...]
    vocab_size: int
    num_parameters: int = 0
    source: str = ""

    @property
    def num_heads(self) -> int:
        """How many tokens they draft at most."""
        return self.net.num_layers

    def open(self) -> ParallelSession:
        """Return a session without any positions."""
        return ParallelSession(self)

    def row(self, logits: Tensor) -> Row:
        """Return logits [vocab] as a row."""
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return Row(wide[: self.vocab_size].cpu().numpy())


@dataclass(slots=True)
class ParallelSession:
    """One request's positions; nothing that is drafted enters the cache.

    Attributes:
        handle: the heads. length: positions cached.
    """

    handle: ParallelHandle
    length: int = 0
    _cache: AttentionCache = field(init=False)
    _waiting: list[NDArray] = field(default_factory=list)
    _root: Tensor | None = None

    def __post_init__(self) -> None:
        self._cache = AttentionCache(self.handle.net)

    def extend(self, features: Mapping[str, NDArray], tokens: Sequence[int]) -> None:
        """Append positions; the next `root` feeds them.

        Args:
            features: per tap [n, h].
            tokens: the token after each [n]; only their number counts.
        """
        (tap,) = self.handle.taps
        assert len(features[tap]) == len(tokens), f"{len(features[tap])}, {len(tokens)} tokens"
        if len(tokens):
            self._waiting.append(features[tap])

    @torch.inference_mode()
    def root(self) -> Tensor | None:
        """Return the heads' logits after the last position [heads, vocab]; None before any."""
        if self._waiting:
            net = self.handle.net
            joined = torch.from_numpy(np.concatenate(self._waiting))
            self._root = net.forward(self._cache, joined.to(net.device, net.dtype))
            self.length, self._waiting = self._cache.length, []
        return self._root

    def cache_rows(self) -> int:
        """Rows really held: for state checks."""
        return self._cache.length

    def close(self) -> None:
        """Release the cache."""
        self._cache = AttentionCache(self.handle.net, 0)
        self.length, self._root, self._waiting = 0, None, []


def load_head(folder: Path, target: Any) -> ParallelHandle:
    """Load parallel heads: Llama layers under `extra_heads.{k}.*`.

    Raises:
        ModelUnavailable: for a missing key, a wrong shape, positions that are not plain, or heads
            made for another target.
    """
    manifest = read_manifest(folder)
    check_target(manifest, target, "parallel_mtp")
    tensors, config, model = read_tensors(folder), read_config(folder), target.model
    count = 1 + max((int(m[1]) for key in tensors if (m := HEAD_KEY.fullmatch(key))), default=-1)
    if not count:
        raise ModelUnavailable(
            "No parallel head was found; extra_heads.0.self_attn.q_proj.weight is expected.",
            "The file holds another kind of head.",
            code="parallel_layout",
        )
    reader = _Reader(tensors, config, target)
    theta, _ = plain_rope(config, model.config, whole=True)
    head_dim = reader.head_dim
    layers = [reader.layer(f"extra_heads.{number}.") for number in range(count)]
    refuse_unknown(tensors, reader.used, head="parallel_mtp")
    net = ParallelNet(
        layers,
        final_norm=model.model.norm.weight.detach(),
        lm_head=model.get_output_embeddings().weight.detach(),
        heads=reader.heads,
        kv_heads=reader.kv_heads,
        head_dim=head_dim,
        eps=float(reader.setting("rms_norm_eps")),
        rotary=PartialRotary(head_dim, head_dim, theta),
    )
    return ParallelHandle(
        name="parallel_mtp",
        net=net,
        taps=(f"hidden[{int(model.config.num_hidden_layers) - 1}]",),
        vocab_size=target.vocab_size,
        num_parameters=sum(tensor.numel() for tensor in tensors.values()),
        source=head_source(folder, manifest),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """The heads' tensors, checked against their configuration and their target."""

    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]
    target: Any
    used: set[str] = field(default_factory=set)

    def setting(self, name: str) -> Any:
        """Return a value of the heads' configuration, or else of the target's."""
        own = self.config.get(name)
        return getattr(self.target.model.config, name, None) if own is None else own

    @property
    def heads(self) -> int:
        """Query heads of a layer."""
        return int(self.setting("num_attention_heads"))

    @property
    def kv_heads(self) -> int:
        """Key and value heads of a layer."""
        return int(self.setting("num_key_value_heads") or self.heads)

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return int(self.setting("head_dim") or self.target.model.config.hidden_size // self.heads)

    def take(self, key: str, *shape: int) -> Tensor:
        """Return a tensor, checked, as the target holds its own."""
        self.used.add(key)
        name = self.target.name
        found = check_shape(self.tensors, key, shape, head="parallel_mtp", target=name)
        return found.to(self.target.device, self.target.model.dtype)

    def layer(self, stem: str) -> LayerWeights:
        """Return the weights of one head."""
        hidden, wide = int(self.target.model.config.hidden_size), self.heads * self.head_dim
        narrow, inner = self.kv_heads * self.head_dim, int(self.setting("intermediate_size"))
        attention, mlp = f"{stem}self_attn.", f"{stem}mlp."
        qkv = [
            self.take(f"{attention}{name}_proj.weight", rows, hidden)
            for name, rows in (("q", wide), ("k", narrow), ("v", narrow))
        ]
        both = [self.take(f"{mlp}{name}_proj.weight", inner, hidden) for name in ("gate", "up")]
        return LayerWeights(
            norm=self.take(f"{stem}input_layernorm.weight", hidden),
            qkv=torch.cat(qkv),
            out=self.take(f"{attention}o_proj.weight", hidden, wide),
            mlp_norm=self.take(f"{stem}post_attention_layernorm.weight", hidden),
            gate_up=torch.cat(both),
            down=self.take(f"{mlp}down_proj.weight", hidden, inner),
        )
