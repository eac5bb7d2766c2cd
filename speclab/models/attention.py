"""Attention over a preallocated cache, for packed models: one product, one rotary, one mask.

Shared by the packed Llama and by trained heads of one layer, which have a cache of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

SHORT_PASS = 32
"""Passes of at most this many tokens multiply scores out; longer ones use fused attention."""

FEW_TOKENS = 12
"""Up to here a float32 product on a CPU is two to four times faster as weight times input."""


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return x [n, in] times weight [out, in] transposed, by whichever order is faster [n, out]."""
    count = len(x)
    if count > FEW_TOKENS or x.dtype != torch.float32 or x.device.type != "cpu":
        return functional.linear(x, weight)
    columns = torch.cat((x, x)) if count == 1 else x
    return torch.mm(weight, columns.t()).t()[:count].contiguous()


def mix(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """Return what n tokens take from m cached ones [n, heads * head_dim].

    Args:
        query: [n, heads, head_dim]. keys, values: [kv_heads, m, head_dim].
        mask: as `AttentionCache.mask` makes it.
    """
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


class AttentionSpace:
    """What every layer of one packed model shares: its heads, dtype, rotary tables and norm.

    Args:
        heads, kv_heads, head_dim: of each layer.
        eps: of RMSNorm.
        weight: any matrix of the model; dtype and device are its own.
        rotary: Transformers' rotary embedding: (x, positions [1, n]) -> cosine and sine.
        num_layers: how many layers have keys and values.
    """

    def __init__(
        self,
        *,
        heads: int,
        kv_heads: int,
        head_dim: int,
        eps: float,
        weight: torch.Tensor,
        rotary: Any,
        num_layers: int,
    ) -> None:
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.eps, self.num_layers = eps, num_layers
        self.dtype, self.device = weight.dtype, weight.device
        self.cache_dtype = torch.float32 if self._widens_cache() else weight.dtype
        self._rotary, self._tables = rotary, self._no_tables()

    def _widens_cache(self) -> bool:
        """Half-precision products of a few rows are slow on a CPU, and less exact."""
        return self.device.type == "cpu" and self.dtype in (torch.bfloat16, torch.float16)

    def _no_tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        empty = torch.empty(0, 1, self.head_dim, dtype=self.dtype, device=self.device)
        return empty, empty

    def rotary(self, positions: torch.Tensor, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosine and signed sine [n, 1, head_dim] of `positions`, all below `longest`."""
        tables = self._tables
        if len(tables[0]) < longest:
            places = torch.arange(max(256, 2 * longest), device=self.device)[None]
            like = torch.empty(0, dtype=self.dtype, device=self.device)
            cos, sin = self._rotary(like, places)
            signed = sin[0].clone()
            signed[:, : self.head_dim // 2].neg_()
            tables = cos[0][:, None], signed[:, None]
            if len(tables[0]) > len(self._tables[0]):
                self._tables = tables
        cos, sin = tables
        return cos[positions], sin[positions]

    def turned(
        self, qkv: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return rotated queries [n, heads, head_dim], and keys and values [kv_heads, n, head_dim].

        Args:
            qkv: queries, keys and values [n, (heads + 2 kv_heads) head_dim], not yet rotated.
            rotary: cosine and signed sine of the tokens' positions.
        """
        heads, kv_heads, head_dim = self.heads, self.kv_heads, self.head_dim
        qkv = qkv.view(len(qkv), -1, head_dim)
        turning = qkv[:, : heads + kv_heads]
        cos, sin = rotary
        turned = torch.addcmul(turning * cos, turning.roll(head_dim // 2, -1), sin)
        keys = turned[:, heads:].transpose(0, 1)
        return turned[:, :heads], keys, qkv[:, heads + kv_heads :].transpose(0, 1)

    def normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return RMSNorm of x [n, hidden], through float32 whatever the dtype, as models do."""
        wide = x.float()
        scale = wide.pow(2).mean(-1, keepdim=True).add_(self.eps).rsqrt_()
        return (wide * scale).to(x.dtype) * weight


class AttentionCache:
    """Keys and values of one session, written in place.

    Args:
        space: what the layers share.
        capacity: tokens to make room for at first; grows by doubling.
    """

    def __init__(self, space: AttentionSpace, capacity: int = 256) -> None:
        self.space, self.length = space, 0
        self._held = self._room(capacity)

    def _room(self, capacity: int) -> torch.Tensor:
        space = self.space
        shape = (space.num_layers, 2, space.kv_heads, capacity, space.head_dim)
        return torch.empty(shape, dtype=space.cache_dtype, device=space.device)

    def reserve(self, length: int) -> None:
        """Make room for `length` tokens."""
        if length > self._held.shape[3]:
            held = self._held.shape[3]
            larger = self._room(max(length, 2 * held))
            larger[:, :, :, :held] = self._held
            self._held = larger

    def mask(
        self, seen: NDArray[np.bool_] | None, count: int, start: int | None = None
    ) -> torch.Tensor | None:
        """Return what is added to the scores of `count` new tokens; `seen` as in `forward`.

        They stand behind `start` others; None: behind all that are held.

        None where every token sees all there is, or a long pass over an empty cache is causal by
        itself.
        """
        space, start = self.space, self.length if start is None else start
        total = start + count
        if seen is None:
            if count == 1 or (count > SHORT_PASS and total == count):
                return None
            hidden = torch.ones(count, total, dtype=torch.bool).triu_(start + 1)
        else:
            hidden = torch.from_numpy(~seen)
        mask = torch.zeros(hidden.shape, dtype=space.cache_dtype).masked_fill_(hidden, -math.inf)
        mask = mask.to(space.device)
        return mask.repeat(space.heads // space.kv_heads, 1) if count <= SHORT_PASS else mask

    def attend(
        self,
        index: int,
        qkv: torch.Tensor,
        rotary: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor | None,
        start: int | None = None,
    ) -> torch.Tensor:
        """Store the new keys and values of a layer and attend; `length` is left to the caller.

        Args:
            index: which layer.
            qkv: queries, keys and values [n, (heads + 2 kv_heads) head_dim], not yet rotated.
            rotary: cosine and signed sine of the new tokens' positions.
            mask: from `mask`.
            start: where they are stored; None: behind all that are held.

        Returns:
            The attention output [n, heads * head_dim] before its projection.
        """
        start = self.length if start is None else start
        stop = start + len(qkv)
        query, new_keys, new_values = self.space.turned(qkv, rotary)
        keys, values = self._held[index].unbind(0)
        keys[:, start:stop] = new_keys
        values[:, start:stop] = new_values
        mixed = mix(query.to(keys.dtype), keys[:, :stop], values[:, :stop], mask)
        return mixed.to(qkv.dtype)

    def crop(self, count: int) -> None:
        """Forget the last `count` tokens."""
        self.length -= count

    def gather(self, base: int, path: Sequence[int]) -> None:
        """Keep the first `base` tokens and, after them, those at `base + node` of `path`."""
        index = torch.tensor(path, dtype=torch.long, device=self.space.device) + base
        kept = self._held.index_select(3, index)
        self.length = base + len(path)
        self._held[:, :, :, base : self.length] = kept
