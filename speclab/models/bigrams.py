"""Bigram tables: which token follows which, counted from text. The smallest drafts there are."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from speclab.core.errors import ModelUnavailable
from speclab.core.laws import Law
from speclab.models.catalogue import PAIRS

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "models" / "bigrams"
UNKNOWN = -1
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


def likeliest_next(pairs: Mapping[int, Counter[int]], vocab_size: int) -> tuple[int, ...]:
    """Return per token the one that most often follows it [vocab_size].

    Ties go to the lower id; -1 where a token was never followed.
    """
    found = [UNKNOWN] * vocab_size
    for token, row in pairs.items():
        found[token] = min(row, key=lambda other: (-row[other], other))
    return tuple(found)


def read_table(file: Path) -> dict[str, Any]:
    """Return a table of likeliest tokens with its provenance (JSON types).

    Raises:
        ModelUnavailable: if the file is none.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        table = data["likeliest"]
        whole = all(isinstance(token, int) and UNKNOWN <= token < len(table) for token in table)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelUnavailable(
            f"{file.name} is no table of likeliest tokens: {error!r}."
        ) from error
    if not whole:
        raise ModelUnavailable(f"{file.name} names tokens that are not in its vocabulary.")
    return data


@lru_cache(maxsize=16)
def bundled_likeliest(pair: str) -> tuple[int, ...] | None:
    """Return the table that comes with a pair's target [vocab]; None if there is none."""
    target = PAIRS[pair].target if pair in PAIRS else None
    for file in sorted(FOLDER.glob("*.json")):
        data = read_table(file)
        if data["target"] == target:
            return tuple(data["likeliest"])
    return None
