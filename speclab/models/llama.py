"""A Llama's forward with packed projections and a preallocated cache: a third of the overhead.

A small model's pass is mostly the cost of calling operators. Here q, k and v are one product, gate
and up another, keys and values are written in place, and nothing is concatenated. The packed
weights replace the model's own storage, so memory does not grow and the model still works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from transformers import LlamaForCausalLM

from speclab.models.attention import AttentionCache, AttentionSpace, product

STATIC_ROPE = ("default", "linear", "llama3")


def tap_place(tap: str) -> int:
    """Return i of "hidden[i]"."""
    return int(tap.removeprefix("hidden[").rstrip("]"))


def can_be_packed(model: Any) -> bool:
    """Whether `model` is a plain Llama, whole on one device, that `PackedLlama` reproduces."""
    if type(model) is not LlamaForCausalLM:
        return False
    config = model.config
    plain = (
        config._attn_implementation == "sdpa"
        and config.hidden_act == "silu"
        and not config.attention_bias
        and not config.mlp_bias
        and config.rope_parameters.get("rope_type", "default") in STATIC_ROPE
    )
    places = {parameter.device for parameter in model.parameters()}
    return bool(
        plain
        and len(places) == 1
        and not model.training
        and all(_is_untouched(module) for module in model.modules())
    )


def _is_untouched(module: nn.Module) -> bool:
    """Whether nothing was hung on a module (hooks) or put in a linear map's place."""
    hooks = module._forward_hooks or module._forward_pre_hooks
    return not hooks and (type(module) is nn.Linear or not isinstance(module, nn.Linear))


def _pack(modules: Sequence[nn.Linear]) -> torch.Tensor:
    """Return the weights below each other [out, in]; each module's weight becomes a view of it."""
    whole = torch.cat([module.weight.detach() for module in modules])
    start = 0
    for module in modules:
        stop = start + module.weight.shape[0]
        module.weight.data = whole[start:stop]
        start = stop
    return whole


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """One layer's weights; matrices [out, in]."""

    norm: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class PackedLlama(AttentionSpace):
    """The packed weights of one model, shared by all its sessions.

    Args:
        model: a model that `can_be_packed`.
    """

    def __init__(self, model: LlamaForCausalLM) -> None:
        config, base = model.config, model.model
        self.embedding, self.final_norm = base.embed_tokens.weight.detach(), base.norm.weight
        self.head = model.lm_head.weight.detach()
        super().__init__(
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=base.layers[0].self_attn.head_dim,
            eps=config.rms_norm_eps,
            weight=self.head,
            rotary=base.rotary_emb,
            num_layers=len(base.layers),
        )
        self.layers = tuple(
            PackedLayer(
                norm=layer.input_layernorm.weight.detach(),
                qkv=_pack((attn.q_proj, attn.k_proj, attn.v_proj)),
                out=attn.o_proj.weight.detach(),
                mlp_norm=layer.post_attention_layernorm.weight.detach(),
                gate_up=_pack((layer.mlp.gate_proj, layer.mlp.up_proj)),
                down=layer.mlp.down_proj.weight.detach(),
            )
            for layer in base.layers
            for attn in (layer.self_attn,)
        )

    def run(
        self,
        ids: torch.Tensor,
        attend: Callable[[int, torch.Tensor], torch.Tensor],
        keep: int,
        taps: Sequence[str],
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return logits [keep, vocab] and features per tap [keep, hidden] of tokens.

        Args:
            ids: token ids [n].
            attend: (layer, queries, keys and values [n, ...]) -> attention output [n, heads *
                head_dim].
            keep, taps: as in `PackedCache.forward`.
        """
        x, features = self.through(self.embedding[ids], range(len(self.layers)), attend, taps)
        logits, last = self.finish(x[-keep:], taps)
        return logits, {tap: values[-keep:] for tap, values in features.items()} | last

    def places(self, taps: Sequence[str]) -> dict[str, int]:
        """Return per tap the layer whose input it is; the number of layers: after the norm."""
        return {tap: tap_place(tap) % (len(self.layers) + 1) for tap in taps}

    def through(
        self,
        x: torch.Tensor,
        layers: Iterable[int],
        attend: Callable[[int, torch.Tensor], torch.Tensor],
        taps: Sequence[str] = (),
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return what `layers` make of x [n, hidden], and the inputs of those that are tapped."""
        places, features = self.places(taps), {}
        for index in layers:
            features |= {tap: x for tap, place in places.items() if place == index}
            x = self.fed_forward(index, self.attended(index, x, attend))
        return x, features

    def attended(
        self, index: int, x: torch.Tensor, attend: Callable[[int, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """Return x [n, hidden] after a layer's attention, residual included."""
        layer = self.layers[index]
        qkv = product(self.normed(x, layer.norm), layer.qkv)
        return x + product(attend(index, qkv), layer.out)

    def fed_forward(self, index: int, x: torch.Tensor) -> torch.Tensor:
        """Return x [n, hidden] after a layer's MLP, residual included."""
        layer = self.layers[index]
        gate, up = product(self.normed(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
        return x + product(functional.silu(gate).mul_(up), layer.down)

    def finish(
        self, x: torch.Tensor, taps: Sequence[str] = ()
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return logits [n, vocab] of last hidden states, and the normed states if tapped."""
        x, last = self.normed(x, self.final_norm), len(self.layers)
        return product(x, self.head), {
            tap: x for tap, place in self.places(taps).items() if place == last
        }


class PackedCache(AttentionCache):
    """One session's keys and values, and the passes over them.

    Args:
        llama: the weights.
        capacity: tokens to make room for at first; grows by doubling.
    """

    def __init__(self, llama: PackedLlama, capacity: int = 256) -> None:
        super().__init__(llama, capacity)
        self.llama = llama

    def forward(
        self,
        ids: torch.Tensor,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
        keep: int,
        taps: Sequence[str] = (),
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Append tokens to the cache and return their logits.

        Args:
            ids: token ids [n].
            seen: which cached and new tokens each new one attends to [n, length+n]; None: causal.
            positions: absolute positions [n]; None: in sequence.
            keep: how many of the last tokens to return.
            taps: "hidden[i]": the input of layer i; i = number of layers, or -1: after the final
                norm.

        Returns:
            Logits [keep, vocab] and features per tap [keep, hidden].
        """
        attend = self.attention(self.length, len(ids), seen, positions)
        passed = self.llama.run(ids, attend, keep, taps)
        self.length += len(ids)
        return passed

    def attention(
        self,
        start: int,
        count: int,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
    ) -> Callable[[int, torch.Tensor], torch.Tensor]:
        """Return `attend` of `PackedLlama.run` for `count` tokens that are stored behind `start`.

        Args:
            seen: [count, start+count]; None: causal. positions: as in `forward`.
        """
        self.reserve(start + count)
        places = (
            torch.arange(start, start + count) if positions is None else torch.tensor(positions)
        )
        rotary = self.llama.rotary(places.to(self.llama.device), int(places.max()) + 1)
        mask = self.mask(seen, count, start)

        def attend(index: int, qkv: torch.Tensor) -> torch.Tensor:
            return self.attend(index, qkv, rotary, mask, start)

        return attend
