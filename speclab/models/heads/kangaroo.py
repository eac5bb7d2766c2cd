"""Kangaroo's adapter: one attention block between a target's early layers and its own head.

The draft is the target's first layers, the adapter and the target's map to the vocabulary. The
adapter is a norm, an attention block with a residual and no MLP, and another norm; its keys and
values are its own.

Public layout: `layers.0.input_layernorm`, `layers.0.self_attn.{q,k,v,o}_proj`, `norm`; the map to
the vocabulary is the target's and not among them. Which layer the adapter reads is not in public
files; those of this lab say it in `config.json` as `exit_layer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from speclab.core.errors import ModelUnavailable
from speclab.models.attention import AttentionCache, AttentionSpace, product
from speclab.models.heads.eagle_files import head_layer, head_source
from speclab.models.heads.files import (
    check_shape,
    check_target,
    read_config,
    read_manifest,
    read_tensors,
    refuse_unknown,
)
from speclab.models.transformer import to_numpy

NAME = "kangaroo"
LAYER = "layers.0."
DEEP, EXITS = 40, (2, 3)
"""Layers from which on a target counts as deep, and the exit layers of the paper's two sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KangarooWeights:
    """The tensors of one adapter; matrices [out, in].

    Attributes:
        norm: [h], before attention. qkv, out: of the attention block. final_norm: [h].
    """

    norm: Tensor
    qkv: Tensor
    out: Tensor
    final_norm: Tensor


class KangarooNet(AttentionSpace):
    """One adapter's weights and its pass, shared by all sessions.

    Args:
        weights: the tensors. config: a `LlamaConfig` of its attention block.
        rotary: Transformers' rotary embedding of that configuration.

    **Source:** Kangaroo 2404.18911, section 3.1 and figure 3.
    """

    def __init__(self, weights: KangarooWeights, config: Any, rotary: Any) -> None:
        super().__init__(
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
            weight=weights.qkv,
            rotary=rotary,
            num_layers=1,
        )
        self.weights = weights

    def forward(self, cache: AttentionCache, states: Tensor) -> Tensor:
        """Append places to the cache and return what the target's head reads of them [n, h].

        Args:
            cache: one session's keys and values.
            states: the target's, after its exit layer and before its final norm [n, h].
        """
        weights, start, count = self.weights, cache.length, len(states)
        places = torch.arange(start, start + count, device=self.device)
        cache.reserve(start + count)
        qkv = product(self.normed(states, weights.norm), weights.qkv)
        rotary, mask = self.rotary(places, start + count), cache.mask(None, count)
        x = states + product(cache.attend(0, qkv, rotary, mask), weights.out)
        cache.length += count
        return self.normed(x, weights.final_norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class KangarooHandle:
    """A loaded adapter of one target.

    Attributes:
        exit_layer: how many of the target's layers stand before it.
        taps: the target's states that it reads.
        vocab_size: of the target.
        num_parameters: of the adapter; what it shares with the target is not counted.
        rank_acceptance: how often the target's choice was the draft's r-th best, if measured.
    """

    net: KangarooNet
    exit_layer: int
    taps: tuple[str, ...]
    vocab_size: int
    name: str = NAME
    num_parameters: int = 0
    source: str = ""
    rank_acceptance: tuple[float, ...] = ()

    def open(self) -> KangarooSession:
        """Return a session without any places."""
        return KangarooSession(self)


@dataclass(slots=True)
class KangarooSession:
    """One request's keys and values of the adapter, one place per token that it was shown."""

    handle: KangarooHandle
    _cache: AttentionCache = field(init=False)

    def __post_init__(self) -> None:
        self._cache = AttentionCache(self.handle.net)

    @property
    def length(self) -> int:
        """Places held."""
        return self._cache.length

    @torch.inference_mode()
    def extend(self, states: NDArray) -> NDArray:
        """Append places and return what the target's head reads after the last one [1, h].

        Args:
            states: the target's, after its exit layer [n, h].
        """
        net = self.handle.net
        given = torch.from_numpy(states).to(net.device, net.dtype)
        return to_numpy(net.forward(self._cache, given)[-1:])

    def rollback(self, length: int) -> None:
        """Forget every place from `length` on."""
        self._cache.crop(max(0, self.length - length))

    def close(self) -> None:
        """Release the cache."""
        self._cache = AttentionCache(self.handle.net, 0)


def load_head(folder: Path, target: Any) -> KangarooHandle:
    """Load an adapter from a folder in its public layout.

    Args:
        folder: `config.json` and weights. target: the `TransformerHandle` whose layers it reads.

    Raises:
        ModelUnavailable: for a wrong shape, a missing or unknown key, a layer that the target does
            not have, or an adapter of another target.
    """
    manifest, tensors = read_manifest(folder), read_tensors(folder)
    check_target(manifest, target, NAME)
    config = read_config(folder)
    exit_layer = _exit_layer(config, target)
    layer, rotary = head_layer(folder, config, target)
    hidden = target.model.get_input_embeddings().weight.shape[1]
    known: list[str] = []

    def take(key: str, *shape: int) -> Tensor:
        known.append(key)
        tensor = check_shape(tensors, key, shape, head=NAME, target=target.name)
        return tensor.to(target.device, target.model.dtype)

    queries, keys = (
        count * layer.head_dim for count in (layer.num_attention_heads, layer.num_key_value_heads)
    )
    attention = f"{LAYER}self_attn."
    rows = {"q": queries, "k": keys, "v": keys}
    weights = KangarooWeights(
        norm=take(f"{LAYER}input_layernorm.weight", hidden),
        qkv=torch.cat([take(f"{attention}{n}_proj.weight", r, hidden) for n, r in rows.items()]),
        out=take(f"{attention}o_proj.weight", hidden, queries),
        final_norm=take("norm.weight", hidden),
    )
    refuse_unknown(tensors, [*known, f"{attention}rotary_emb.inv_freq"], head=NAME)
    return KangarooHandle(
        net=KangarooNet(weights, layer, rotary),
        exit_layer=exit_layer,
        taps=(f"hidden[{exit_layer}]",),
        vocab_size=target.vocab_size,
        num_parameters=sum(tensors[key].numel() for key in known),
        source=head_source(folder, manifest),
        rank_acceptance=tuple(manifest.get("rank_acceptance", ())),
    )


def _exit_layer(config: Mapping[str, Any], target: Any) -> int:
    """Return how many of the target's layers stand before the adapter; the paper's where unsaid.

    Raises:
        ModelUnavailable: if the target has no further layer.
    """
    layers = int(target.model.config.num_hidden_layers)
    chosen = int(config.get("exit_layer") or EXITS[layers >= DEEP])
    if chosen >= layers:
        raise ModelUnavailable(
            f"The {NAME} head reads layers {[chosen]}; {target.name} has {layers}.",
            "The head was made for another target.",
            code="head_layers",
            values={"head": NAME, "wanted": [chosen], "target": target.name, "layers": layers},
        )
    return chosen
