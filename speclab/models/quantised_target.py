"""A target whose old keys and values are read at 8 bits: another law, with its own baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Row
from speclab.models.abilities import QUANTISED_DRAFT
from speclab.models.quantised_cache import HierarchicalCache
from speclab.models.transformer import TransformerHandle

SUFFIX = ", 8-bit cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalHandle(TransformerHandle):
    """A plain Llama over a hierarchical cache.

    Its rows are a function of the text alone, as those of any target, but not those of the same
    weights over a full-precision cache: lossless means relative to this one.

    **Source:** QuantSpec 2502.10424, section 4.2; the split by position: `models.quantised_cache`.
    """

    def new_cache(self) -> HierarchicalCache:
        """Return an empty cache.

        Raises:
            UnsupportedModel: if the model is no plain Llama.
        """
        packed = self._packed_llama()
        if packed is None:
            raise no_nibbles(self.name)
        return HierarchicalCache(packed)

    @torch.inference_mode()
    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return, per sequence, the rows after its last `keep` tokens; each through a new cache."""
        rows = []
        for sequence, count in zip(sequences, keep, strict=True):
            logits, _ = self.new_cache().forward(self.own_ids(sequence), None, None, count)
            rows.append([Row(row) for row in self.target_logits(logits)])
        return rows


def with_cache(
    handle: TransformerHandle, cache: Literal["full", "hierarchical"]
) -> TransformerHandle:
    """Return a target over the cache that its pair names; packed weights are shared.

    Raises:
        UnsupportedModel: if the model is no plain Llama and the cache is not a full one.
    """
    if cache == "full":
        return handle
    if QUANTISED_DRAFT not in handle.provides:
        raise no_nibbles(handle.name)
    made = HierarchicalHandle(
        model=handle.model,
        name=handle.name + SUFFIX,
        vocab_size=handle.vocab_size,
        vocab_map=handle.vocab_map,
        source=handle.source,
        provides=handle.provides,
    )
    for shared in ("_packed", "_four_bit"):
        object.__setattr__(made, shared, getattr(handle, shared))
    return made


def no_nibbles(name: str) -> UnsupportedModel:
    """Return why a model has no hierarchical cache."""
    return UnsupportedModel(
        f"{name} is no plain Llama: its cache cannot be kept in nibbles.",
        "Choose pocket or SmolLM2.",
        code="no_nibbles",
        values={"model": name},
    )
