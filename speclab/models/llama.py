"""A Llama's forward with packed projections and a preallocated cache: a third of the overhead.

A small model's pass is mostly the cost of calling operators. Here q, k and v are one product, gate
and up another, keys and values are written in place, and nothing is concatenated. The packed
weights replace the model's own storage, so memory does not grow and the model still works.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from transformers import LlamaForCausalLM

STATIC_ROPE = ("default", "linear", "llama3")
SHORT_PASS = 32
"""Passes of at most this many tokens multiply scores out; longer ones use fused attention."""

FEW_TOKENS = 12
"""Up to here a float32 product on a CPU is two to four times faster as weight times input."""


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


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return x [n, in] times weight [out, in] transposed, by whichever order is faster [n, out]."""
    count = len(x)
    if count > FEW_TOKENS or x.dtype != torch.float32 or x.device.type != "cpu":
        return functional.linear(x, weight)
    columns = torch.cat((x, x)) if count == 1 else x
    return torch.mm(weight, columns.t()).t()[:count].contiguous()


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """One layer's weights; matrices [out, in]."""

    norm: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    mlp_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class PackedLlama:
    """The packed weights of one model, shared by all its sessions.

    Args:
        model: a model that `can_be_packed`.
    """

    def __init__(self, model: LlamaForCausalLM) -> None:
        config, base = model.config, model.model
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = base.layers[0].self_attn.head_dim
        self.eps, self.dtype, self.device = config.rms_norm_eps, model.dtype, model.device
        self.cache_dtype = torch.float32 if self._widens_cache() else model.dtype
        self.embedding, self.final_norm = base.embed_tokens.weight.detach(), base.norm.weight
        self.head = model.lm_head.weight.detach()
        self._rotary, self._tables = base.rotary_emb, self._no_tables()
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

    def _widens_cache(self) -> bool:
        """Half-precision products of a few rows are slow on a CPU, and less exact."""
        return self.device.type == "cpu" and self.dtype in (torch.bfloat16, torch.float16)

    def _no_tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        empty = torch.empty(0, 1, self.head_dim, dtype=self.dtype, device=self.device)
        return empty, empty

    def rotary(self, positions: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosine and signed sine [n, 1, head_dim] of `positions`, all below `longest`."""
        if len(self._tables[0]) < longest:
            places = torch.arange(max(256, 2 * longest), device=self.device)[None]
            cos, sin = self._rotary(self.embedding, places)
            signed = sin[0].clone()
            signed[:, : self.head_dim // 2].neg_()
            self._tables = cos[0][:, None], signed[:, None]
        cos, sin = self._tables
        return cos[positions], sin[positions]

    def normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return RMSNorm of x [n, hidden], through float32 whatever the dtype, as models do."""
        wide = x.float()
        scale = wide.pow(2).mean(-1, keepdim=True).add_(self.eps).rsqrt_()
        return (wide * scale).to(x.dtype) * weight


class PackedCache:
    """One session's keys and values, and the passes over them.

    Args:
        llama: the weights.
        capacity: tokens to make room for at first; grows by doubling.
    """

    def __init__(self, llama: PackedLlama, capacity: int = 256) -> None:
        self.llama, self.length = llama, 0
        self._held = self._room(capacity)

    def _room(self, capacity: int) -> torch.Tensor:
        llama = self.llama
        shape = (len(llama.layers), 2, llama.kv_heads, capacity, llama.head_dim)
        return torch.empty(shape, dtype=llama.cache_dtype, device=llama.device)

    def _reserve(self, length: int) -> None:
        if length > self._held.shape[3]:
            larger = self._room(max(length, 2 * self._held.shape[3]))
            larger[:, :, :, : self.length] = self._held[:, :, :, : self.length]
            self._held = larger

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
        llama, start, count = self.llama, self.length, len(ids)
        self._reserve(start + count)
        places = (
            torch.arange(start, start + count) if positions is None else torch.tensor(positions)
        )
        rotary = llama.rotary(places.to(llama.device), int(places.max()) + 1)
        mask = self._mask(seen, count)
        wanted = {tap_place(tap) % (len(llama.layers) + 1): tap for tap in taps}
        features = {}
        x = llama.embedding[ids]
        for index, layer in enumerate(llama.layers):
            if index in wanted:
                features[wanted[index]] = x[-keep:]
            x = x + product(self._attend(index, layer, x, rotary, mask), layer.out)
            gate, up = product(llama.normed(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
            x = x + product(functional.silu(gate).mul_(up), layer.down)
        self.length += count
        x = llama.normed(x[-keep:], llama.final_norm)
        if len(llama.layers) in wanted:
            features[wanted[len(llama.layers)]] = x
        return product(x, llama.head), features

    def _mask(self, seen: NDArray[np.bool_] | None, count: int) -> torch.Tensor | None:
        """Return what is added to the scores; None where every token sees all there is, or a long
        pass over an empty cache is causal by itself."""
        llama, total = self.llama, self.length + count
        if seen is None:
            if count == 1 or (count > SHORT_PASS and total == count):
                return None
            hidden = torch.ones(count, total, dtype=torch.bool).triu_(self.length + 1)
        else:
            hidden = torch.from_numpy(~seen)
        mask = torch.zeros(hidden.shape, dtype=llama.cache_dtype).masked_fill_(hidden, -math.inf)
        mask = mask.to(llama.device)
        return mask.repeat(llama.heads // llama.kv_heads, 1) if count <= SHORT_PASS else mask

    def _attend(
        self,
        index: int,
        layer: PackedLayer,
        x: torch.Tensor,
        rotary: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return the attention output [n, heads * head_dim] before its projection."""
        llama, start, count = self.llama, self.length, len(x)
        heads, kv_heads, head_dim = llama.heads, llama.kv_heads, llama.head_dim
        stop = start + count
        qkv = product(llama.normed(x, layer.norm), layer.qkv).view(count, -1, head_dim)
        turning = qkv[:, : heads + kv_heads]
        cos, sin = rotary
        turned = torch.addcmul(turning * cos, turning.roll(head_dim // 2, -1), sin)
        keys, values = self._held[index].unbind(0)
        keys[:, start:stop] = turned[:, heads:].transpose(0, 1)
        values[:, start:stop] = qkv[:, heads + kv_heads :].transpose(0, 1)
        query = turned[:, :heads].to(keys.dtype)
        mixed = self._mix(query, keys[:, :stop], values[:, :stop], mask)
        return mixed.to(x.dtype)

    def _mix(
        self,
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        count, heads, head_dim = query.shape
        kv_heads = len(keys)
        if count > SHORT_PASS:
            fused = functional.scaled_dot_product_attention(
                query.transpose(0, 1)[None],
                keys[None],
                values[None],
                attn_mask=mask,
                is_causal=mask is None,
                enable_gqa=True,
            )
            return fused[0].transpose(0, 1).reshape(count, -1)
        group, scale = heads // kv_heads, head_dim**-0.5
        rows = query.view(count, kv_heads, group, head_dim).permute(1, 2, 0, 3)
        rows = rows.reshape(kv_heads, group * count, head_dim)
        if mask is None:
            scores = torch.bmm(rows, keys.transpose(1, 2)).mul_(scale)
        else:
            scores = torch.baddbmm(mask, rows, keys.transpose(1, 2), alpha=scale)
        mixed = torch.bmm(scores.softmax(-1), values)
        return mixed.view(kv_heads, group, count, head_dim).permute(2, 0, 1, 3).reshape(count, -1)

    def crop(self, count: int) -> None:
        """Forget the last `count` tokens."""
        self.length -= count

    def gather(self, base: int, path: Sequence[int]) -> None:
        """Keep the first `base` tokens and, after them, those at `base + node` of `path`."""
        index = torch.tensor(path, dtype=torch.long, device=self.llama.device) + base
        kept = self._held.index_select(3, index)
        self.length = base + len(path)
        self._held[:, :, :, base : self.length] = kept
