"""A bigram table counted from the lab's own corpus: the smallest draft there is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from speclab.core.laws import Law
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel

DOCUMENTS = 4000
SMOOTHING = 0.5
"""Pseudo-tokens that every row takes from the single-token shares."""


class BigramLaws(Mapping[tuple[int, ...], Law]):
    """Law of the next token after one token, made when asked for.

    Args:
        pairs: how often each token followed each other one. vocab_size: width of the laws.
    """

    def __init__(self, pairs: Mapping[int, Counter[int]], vocab_size: int) -> None:
        self._pairs, self.vocab_size = pairs, vocab_size
        shares = np.ones(vocab_size)
        for row in pairs.values():
            for token, count in row.items():
                shares[token] += count
        self._shares = shares / shares.sum()

    def __getitem__(self, context: tuple[int, ...]) -> Law:
        law = SMOOTHING * self._shares
        row = self._pairs.get(context[-1]) if context else None
        if row:
            tokens = list(row)
            law[tokens] += [row[token] for token in tokens]
        return law / law.sum()

    @property
    def entries(self) -> int:
        """Pairs of tokens that were seen."""
        return sum(map(len, self._pairs.values()))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter((token,) for token in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


def count_pairs(texts: Sequence[Sequence[int]]) -> dict[int, Counter[int]]:
    """Return how often each token follows each other one.

    Args:
        texts: token ids.
    """
    pairs: dict[int, Counter[int]] = defaultdict(Counter)
    for text in texts:
        for first, second in pairwise(text):
            pairs[first][second] += 1
    return dict(pairs)


def bigram_model(
    pair: Pair, documents: int = DOCUMENTS, encode: Callable[[str], Sequence[int]] | None = None
) -> ToyModel:
    """Return a bigram draft for a pair, counted from the corpus of the bundled models.

    Args:
        pair: whose token ids are counted. documents: of the training split.
        encode: text to token ids; None: the pair's codec, without a chat template.
    """
    from speclab.training.corpus import documents as written

    ids = encode or (lambda text: pair.codec.encode(text, chat=False))
    pairs = count_pairs([ids(each.text) for each in written("train", documents)])
    width = pair.target.vocab_size
    return ToyModel(
        BigramLaws(pairs, width),
        1,
        width,
        name="bigram-table",
        max_context=pair.target.max_context,
    )
