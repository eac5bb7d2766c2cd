"""How well a target drafts with some sublayers left out, at every place of given texts at once.

Each token of a text is the pending one of a round of its own: it sees the text before it through
the whole network's keys and values, and itself through the draft's. One pass does them all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.core.errors import UnsupportedModel
from speclab.models.llama import PackedCache
from speclab.models.shallow import through_kept
from speclab.models.transformer import TransformerHandle


@dataclass(frozen=True, slots=True)
class _Text:
    """A text in a cache of its own, and where it is drafted after.

    Attributes:
        ids: of the tokens drafted after [n]. places: their positions [n].
        seen: [n, text + n]. laws: the whole network's after them [n, vocab].
    """

    cache: PackedCache
    ids: torch.Tensor
    places: list[int]
    seen: NDArray[np.bool_]
    laws: torch.Tensor


class SkipProbe:
    """The target's laws on texts, beside which those of any draft are held.

    Args:
        handle: the target. texts: (tokens, the first place to draft after).

    Attributes:
        positions: places looked at. attention_cost, mlp_cost: numbers multiplied per token by each
            layer's attention and MLP. head_cost: by the head.

    Raises:
        UnsupportedModel: for a model whose layers cannot be run one by one.
    """

    @torch.inference_mode()
    def __init__(
        self, handle: TransformerHandle, texts: Sequence[tuple[Sequence[int], int]]
    ) -> None:
        cache = handle.new_cache()
        if not isinstance(cache, PackedCache):
            raise UnsupportedModel(
                f"{handle.name} cannot run some of its layers alone.",
                "Choose a plain Llama such as pocket or SmolLM2, or another method.",
                code="no_early_exit",
                values={"model": handle.name},
            )
        self._llama = llama = cache.llama
        self.num_layers = llama.num_layers
        self.attention_cost = [one.qkv.numel() + one.out.numel() for one in llama.layers]
        self.mlp_cost = [one.gate_up.numel() + one.down.numel() for one in llama.layers]
        self.head_cost = llama.head.numel()
        self._texts = [self._prepared(handle, tokens, first) for tokens, first in texts]
        self.positions = sum(len(text.places) for text in self._texts)

    def _prepared(self, handle: TransformerHandle, tokens: Sequence[int], first: int) -> _Text:
        size, places = len(tokens), list(range(first, len(tokens)))
        cache = PackedCache(self._llama, size + len(places))
        ids = handle.own_ids(tokens)
        logits, _ = cache.forward(ids, None, None, len(places))
        seen = np.zeros((len(places), size + len(places)), dtype=bool)
        seen[:, :size] = np.arange(size) < np.array(places)[:, None]
        seen[:, size:] = np.eye(len(places), dtype=bool)
        return _Text(cache, ids[first:], places, seen, logits.float().softmax(-1))

    @torch.inference_mode()
    def acceptance(self, attention: Collection[int], mlp: Collection[int]) -> tuple[float, float]:
        """Return how much of a first draft is accepted at temperature 1, and at 0.

        Args:
            attention, mlp: layers whose attention, or whose MLP, is left out.

        Returns:
            The mean overlap of draft and target, and how often their likeliest tokens agree.
        """
        overlap = agree = 0.0
        for text in self._texts:
            count = len(text.places)
            attend = text.cache.attention(text.cache.length, count, text.seen, text.places)
            x = self._llama.embedding[text.ids]
            x = through_kept(self._llama, x, attend, attention, mlp)
            laws = self._llama.finish(x)[0].float().softmax(-1)
            overlap += float(torch.minimum(laws, text.laws).sum())
            agree += float((laws.argmax(-1) == text.laws.argmax(-1)).sum())
        return overlap / self.positions, agree / self.positions
