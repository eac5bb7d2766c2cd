"""A cache in two nibbles: old keys and values at 4 or 8 bits, the latest ones in full precision.

Blocks of G tokens are quantised, G the width of a head: keys per channel over the tokens of a
block, values per token over the channels of a head. The two latest blocks stay as they are: CF1,
which is full, and CF2, which fills up; then CF1 is quantised and CF2 takes its place.

Which tokens a row reads quantised follows from its position alone (`split_at`), never from how the
text came in: prompt, single tokens, drafts, rejections. Hence a row of a pass over many tokens is
the row of plain decoding, and p( . | text) is a law. Rows of one pass on both sides of a block's
end read different blocks quantised, so both copies of that block are there, with a mask per row.
In float32 passes of different widths round differently, and a number between two codes may take
either: rows then differ by up to a step of one code. In float64 they agree.

**Source:** QuantSpec 2502.10424, section 4.2 and algorithm 1.
**Deviation:** the paper quantises after a round, wherever that ends, so that its rows depend a
little on where rounds and prompt ended; here the place is fixed. CF1 is given up only once the
pending token has passed the block's end, since a rejected draft may have been there before it.
Memory is not saved: numbers are read as they were rounded, in the compute type, beside the full
ones, which a rollback of any length needs; `bytes_read` counts what a real cache would hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.models.attention import AttentionCache, AttentionSpace
from speclab.models.llama import PackedCache, PackedLlama
from speclab.models.quantised_layout import split_at
from speclab.models.quantised_numbers import HierarchicalCodes, hierarchical

Bits = Literal[4, 8]
Attend = Callable[[int, torch.Tensor], torch.Tensor]
PIECE = 256
"""Longer passes over a text run in pieces of so many tokens: scores are made for every pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """G tokens of a layer: keys per channel [kv_heads, G, head_dim], values per token likewise."""

    keys: HierarchicalCodes
    values: HierarchicalCodes

    def bytes_read(self, bits: Bits) -> int:
        """Return the bytes that a reader at 4 or 8 bits reads."""
        return self.keys.bytes_read(bits) + self.values.bytes_read(bits)


class QuantisedBlocks:
    """The quantised blocks of one cache, and their numbers as readers see them.

    A block is made when a row first reads it and dropped when one of its tokens is overwritten.

    Args:
        space: the model. lower: keep the lower nibbles as well, so that 8 bits can be read.
    """

    def __init__(self, space: AttentionSpace, *, lower: bool = True) -> None:
        self.space, self.group, self.lower = space, space.head_dim, lower
        self.layers: list[list[Block]] = [[] for _ in range(space.num_layers)]
        self._reads: dict[Bits, torch.Tensor] = {}

    def drop_from(self, position: int, layer: int | None = None) -> None:
        """Forget the blocks, of one layer or all, that hold a token at or behind `position`."""
        for blocks in self.layers if layer is None else [self.layers[layer]]:
            del blocks[position // self.group :]

    def read(
        self, layer: int, bits: Bits, keys: torch.Tensor, values: torch.Tensor, stop: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the first `stop` keys and values [kv_heads, stop, head_dim] of a layer, rounded.

        Args:
            keys, values: in full precision [kv_heads, n, head_dim]; n >= stop.
            stop: a multiple of the group.
        """
        done = len(self.layers[layer]) * self.group
        if done < stop:
            self._make(layer, keys[:, done:stop], values[:, done:stop])
        if not stop:
            return keys[:, :0], values[:, :0]
        held = self._reads[bits][layer]
        return held[0, :, :stop], held[1, :, :stop]

    def _make(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Quantise the next blocks of a layer."""
        group, start = self.group, len(self.layers[layer]) * self.group
        stop = start + keys.shape[1]
        apart = (len(keys), -1, group, self.space.head_dim)
        dtype = torch.promote_types(keys.dtype, torch.float32)
        own_keys = hierarchical(keys.to(dtype).reshape(apart), -2, lower=self.lower)
        own_values = hierarchical(values.to(dtype).reshape(apart), -1, lower=self.lower)
        for index in range(keys.shape[1] // group):
            block = Block(keys=own_keys.part(1, index), values=own_values.part(1, index))
            self.layers[layer].append(block)
        for bits in self._bits():
            held = self._room(bits, stop, keys)[layer]
            for place, codes in enumerate((own_keys, own_values)):
                held[place, :, start:stop] = _at(codes, bits, dtype).reshape(keys.shape)

    def _bits(self) -> tuple[Bits, ...]:
        return (4, 8) if self.lower else (4,)

    def _room(self, bits: Bits, length: int, like: torch.Tensor) -> torch.Tensor:
        """Return [layers, 2, kv_heads, capacity, head_dim] with room for `length` tokens."""
        held = self._reads.get(bits)
        if held is None or held.shape[3] < length:
            capacity = max(length, 2 * held.shape[3] if held is not None else 8 * self.group)
            shape = (len(self.layers), 2, like.shape[0], capacity, like.shape[2])
            larger = torch.empty(shape, dtype=like.dtype, device=like.device)
            if held is not None:
                larger[:, :, :, : held.shape[3]] = held
            held = self._reads[bits] = larger
        return held

    def bytes_read(self, bits: Bits, stop: int) -> int:
        """Return the bytes of the first `stop` tokens in all layers that a reader reads."""
        count = stop // self.group
        return sum(block.bytes_read(bits) for layer in self.layers for block in layer[:count])


def _at(codes: HierarchicalCodes, bits: Bits, dtype: torch.dtype) -> torch.Tensor:
    return codes.at_four_bits(dtype) if bits == 4 else codes.at_eight_bits(dtype)


def split_attention(
    cache: AttentionCache,
    blocks: QuantisedBlocks,
    bits: Bits,
    start: int,
    count: int,
    seen: NDArray[np.bool_] | None,
    positions: Sequence[int] | None,
) -> Attend:
    """Return `attend` of `PackedLlama.run` for `count` tokens that are stored behind `start`.

    Every row reads the tokens before its own split from `blocks` and all others in full precision.

    Args:
        cache: holds keys and values in full precision; new ones are stored there.
        bits: at which the row reads the blocks.
        seen: [count, start+count]; None: causal. positions: absolute [count]; None: in sequence.

    Raises:
        BadInput: if a row would read a drafted token quantised that stands beside others.
    """
    space, stop = cache.space, start + count
    cache.reserve(stop)
    places = np.arange(start, stop) if positions is None else np.asarray(positions)
    splits = np.array([split_at(int(place), blocks.group) for place in places])
    if seen is not None:
        _check_in_line(seen, places, splits, start)
    least, most = int(splits.min()), int(splits.max())
    mask = _split_mask(space, start, count, seen, splits)
    rotary = space.rotary(torch.from_numpy(places).to(space.device), int(places.max()) + 1)

    def attend(layer: int, qkv: torch.Tensor) -> torch.Tensor:
        query, new_keys, new_values = space.turned(qkv, rotary)
        keys, values = cache._held[layer].unbind(0)
        keys[:, start:stop] = new_keys
        values[:, start:stop] = new_values
        blocks.drop_from(start, layer)
        old_keys, old_values = blocks.read(layer, bits, keys, values, most)
        late_keys, late_values = keys[:, least:stop], values[:, least:stop]
        mixed = mix_two(
            query.to(keys.dtype), (old_keys, late_keys), (old_values, late_values), mask
        )
        return mixed.to(qkv.dtype)

    return attend


def _check_in_line(seen: NDArray[np.bool_], places: NDArray, splits: NDArray, start: int) -> None:
    """Refuse rows that do not see all they would read quantised: blocks belong to one text."""
    for row, split in enumerate(splits):
        if not seen[row, : int(split)].all():
            depth = int(places[row]) - start
            raise BadInput(
                f"A draft {depth} tokens deep does not fit a quantised cache: its first tokens "
                "would be quantised before they are accepted.",
                "Draft fewer tokens in depth, or choose a target with a full-precision cache.",
                code="draft_too_deep",
                values={"depth": depth},
            )


def _split_mask(
    space: AttentionSpace,
    start: int,
    count: int,
    seen: NDArray[np.bool_] | None,
    splits: NDArray,
) -> torch.Tensor | None:
    """Return what is added to the scores of quantised and full columns; None: nothing is hidden.

    Columns [max split + (start+count-min split)]: the tokens that any row reads quantised, then
    those that any row reads in full precision.
    """
    least, most, stop = int(splits.min()), int(splits.max()), start + count
    if seen is None and count == 1:
        return None
    own = splits[:, None]
    if seen is None:
        seen = np.arange(stop) <= start + np.arange(count)[:, None]
    old = np.arange(most) < own
    late = (np.arange(least, stop) >= own) & seen[:, least:]
    hidden = torch.from_numpy(~np.concatenate((old, late), 1))
    mask = torch.zeros(hidden.shape, dtype=space.cache_dtype).masked_fill_(hidden, -math.inf)
    return mask.to(space.device).repeat(space.heads // space.kv_heads, 1)


def mix_two(
    query: torch.Tensor,
    keys: tuple[torch.Tensor, torch.Tensor],
    values: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """Return what n tokens take from two stretches of tokens under one softmax [n, heads * dim].

    Args:
        query: [n, heads, head_dim]. keys, values: two of [kv_heads, m, head_dim] each.
        mask: [heads / kv_heads * n, both m]; None: nothing is hidden.
    """
    count, heads, head_dim = query.shape
    kv_heads, cut = len(keys[0]), keys[0].shape[1]
    group, scale = heads // kv_heads, head_dim**-0.5
    rows = query.view(count, kv_heads, group, head_dim).permute(1, 2, 0, 3)
    rows = rows.reshape(kv_heads, group * count, head_dim)
    scores = torch.cat([torch.bmm(rows, part.transpose(1, 2)) for part in keys], -1).mul_(scale)
    if mask is not None:
        scores += mask
    weights = scores.softmax(-1)
    mixed = torch.bmm(weights[..., :cut], values[0]) + torch.bmm(weights[..., cut:], values[1])
    return mixed.view(kv_heads, group, count, head_dim).permute(2, 0, 1, 3).reshape(count, -1)


class HierarchicalCache(PackedCache):
    """One session's keys and values, of which old ones are read at 8 bits; see the module.

    Args:
        llama: the weights. capacity: tokens to make room for at first; grows by doubling.
    """

    def __init__(self, llama: PackedLlama, capacity: int = 256) -> None:
        super().__init__(llama, capacity)
        self.blocks = QuantisedBlocks(llama)

    def attention(
        self,
        start: int,
        count: int,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
    ) -> Attend:
        """Return what attends at 8 bits; see `split_attention`."""
        return split_attention(self, self.blocks, 8, start, count, seen, positions)

    def forward(
        self,
        ids: torch.Tensor,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
        keep: int,
        taps: Sequence[str] = (),
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Append tokens and return logits and features; a long text runs in pieces."""
        count = len(ids)
        if seen is not None or positions is not None or count <= PIECE:
            return super().forward(ids, seen, positions, keep, taps)
        logits, features = [], []
        for begin in range(0, count, PIECE):
            part = ids[begin : begin + PIECE]
            wanted = min(len(part), begin + len(part) - (count - keep))
            found = super().forward(part, None, None, max(wanted, 1), taps)
            if wanted > 0:
                logits.append(found[0])
                features.append(found[1])
        return torch.cat(logits), {tap: torch.cat([part[tap] for part in features]) for tap in taps}

    def gather(self, base: int, path: Sequence[int]) -> None:
        """Keep the first `base` tokens and, after them, those at `base + node` of `path`."""
        super().gather(base, path)
        self.blocks.drop_from(base)


def bytes_read(
    cache: AttentionCache, blocks: QuantisedBlocks, bits: Bits, position: int, full_bytes: float
) -> float:
    """Return the bytes of keys and values that the row at `position` reads, all layers together.

    Counted in the tensors that hold the codes; late tokens, the row's own aside, at `full_bytes`
    per number.
    """
    split, space = split_at(position, blocks.group), cache.space
    late = 2 * space.num_layers * space.kv_heads * (position - split) * space.head_dim
    return blocks.bytes_read(bits, split) + late * full_bytes
