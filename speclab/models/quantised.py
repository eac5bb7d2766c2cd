"""The target's own network with 4-bit weights, reading the target's cache at 4 bits: a draft.

Nothing is trained and nothing is prefilled: old keys and values are the target's, read by their
upper nibble, and the draft's own keys and values stand behind them until the target's pass writes
over them. On this machine low-bit arithmetic is emulated: weights and cache are rounded as they
would be and multiplied in the compute type, so that acceptance is real and speed is not.

**Source:** QuantSpec 2502.10424, section 4.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.core.laws import Row
from speclab.models.llama import PackedCache, PackedLlama
from speclab.models.quantised_cache import HierarchicalCache, QuantisedBlocks, split_attention
from speclab.models.quantised_numbers import four_bit_weight
from speclab.models.shallow import Attend, PackedPart, packed_cache

if TYPE_CHECKING:
    from speclab.models.transformer import TransformerHandle, TransformerSession

MATRICES = ("qkv", "out", "gate_up", "down")
"""Of each layer; embedding, output matrix and norms keep full precision, as is usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FourBitLlama:
    """A packed Llama whose layers' matrices are rounded to 4 bits.

    Attributes:
        llama: runs like any other. group_size: neighbours that share a scale and a low.
        layer_bytes: of the rounded matrices, scales and lows included.
    """

    llama: PackedLlama
    group_size: int
    layer_bytes: int

    @classmethod
    def of(cls, llama: PackedLlama, group_size: int) -> FourBitLlama:
        """Round the layers of `llama`; everything else is shared with it."""
        layers, layer_bytes = [], 0
        for layer in llama.layers:
            rounded = {}
            for name in MATRICES:
                rounded[name], count = four_bit_weight(getattr(layer, name), group_size)
                layer_bytes += count
            layers.append(replace(layer, **rounded))
        twin = copy.copy(llama)
        twin.layers = tuple(layers)
        return cls(llama=twin, group_size=group_size, layer_bytes=layer_bytes)


_ROUNDING = threading.Lock()


def four_bit_of(session: TransformerSession, llama: PackedLlama, group_size: int) -> FourBitLlama:
    """Return the session's weights at 4 bits; the handle keeps those of the size last asked for."""
    kept = session.handle._four_bit
    with _ROUNDING:
        if not kept or kept[0].group_size != group_size:
            kept[:] = [FourBitLlama.of(llama, group_size)]
        return kept[0]


class QuantisedPart(PackedPart):
    """All layers at 4 bits over a 4-bit reading of the session's cache; see `sessions.Shallow`.

    Over a hierarchical cache the blocks are the target's, and only their upper nibbles are read.
    Over a full-precision cache the draft keeps a 4-bit copy of old blocks of its own.

    Args:
        session: of a packed model. group_size: of the weights.

    Raises:
        UnsupportedModel: for a model that is no plain Llama.
    """

    def __init__(self, session: TransformerSession, group_size: int) -> None:
        super().__init__(session, 1)
        self.exit_layer = self.num_layers
        self._four_bit = four_bit_of(session, self._llama, group_size)
        cache = self._cache
        self._shared = isinstance(cache, HierarchicalCache)
        own = None if self._shared else QuantisedBlocks(cache.space, lower=False)
        self.blocks: QuantisedBlocks = cache.blocks if own is None else own  # type: ignore
        self._made_from: list[int] = []

    def _forget(self) -> None:
        """Begin a round: keep own blocks of tokens that the target had cached one round ago.

        Later ones may hold the draft's keys and values, and a rollback may have changed the text.
        """
        super()._forget()
        if self._shared:
            return
        tokens = self._session.tokens[: self._session.cache_length]
        before, self._made_from = self._made_from, tokens
        same = len(before) if tokens[: len(before)] == before else _common(before, tokens)
        self.blocks.drop_from(same)

    def _run(
        self,
        ids: Sequence[int],
        known: int,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
    ) -> torch.Tensor:
        """Return the states of `ids[known:]`, whose keys and values are stored."""
        start, count = self._cache.length + known, len(ids) - known
        attend = split_attention(
            self._cache,
            self.blocks,
            4,
            start,
            count,
            None if seen is None else seen[known:, : start + count],
            None if positions is None else positions[known:],
        )
        x = self._llama.embedding[self._session.handle.own_ids(ids[known:])]
        return self._through(x, attend)

    def _through(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        return self._four_bit.llama.through(x, range(self.num_layers), attend)[0]


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many first tokens two texts share."""
    unlike = (place for place, (a, b) in enumerate(zip(left, right)) if a != b)
    return next(unlike, min(len(left), len(right)))


@torch.inference_mode()
def rows_alone(handle: TransformerHandle, text: Sequence[int], group_size: int) -> list[Row]:
    """Return the rows after every token of a text, by the 4-bit network on a 4-bit cache.

    The cache is its own; as a draft it reads the target's keys and values instead.
    """
    session = handle.open(text[:1])
    four_bit = four_bit_of(session, packed_cache(session).llama, group_size)
    cache = PackedCache(four_bit.llama)
    blocks = QuantisedBlocks(cache.space, lower=False)
    attend = split_attention(cache, blocks, 4, 0, len(text), None, None)
    logits, _ = four_bit.llama.run(handle.own_ids(text), attend, len(text), ())
    return [Row(row) for row in handle.target_logits(logits)]
