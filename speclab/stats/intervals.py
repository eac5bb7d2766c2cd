"""Intervals by the bootstrap. The unit is the prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def paired_ratio_interval(
    top: Sequence[float],
    bottom: Sequence[float],
    *,
    level: float = 0.95,
    resamples: int = 4000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Return sum(top) / sum(bottom) and its bootstrap interval over pairs.

    Args:
        top, bottom: one value per prompt [n], paired.
        level: of the interval. resamples: bootstrap draws. seed: of the draws.

    Returns:
        (ratio of totals, lower bound, upper bound).

    **Source:** Efron 1979; ratio of totals, so long prompts weigh as they should.
    """
    a, b = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(a), size=(resamples, len(a)))
    ratios = a[picks].sum(1) / b[picks].sum(1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(ratios, [tail, 1.0 - tail])
    return float(a.sum() / b.sum()), float(low), float(high)


def paired_rate_interval(
    top_seconds: Sequence[float],
    bottom_seconds: Sequence[float],
    top_tokens: Sequence[float],
    bottom_tokens: Sequence[float],
    *,
    level: float = 0.95,
    resamples: int = 4000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Return seconds per token of the top over those of the bottom, with a bootstrap interval.

    Sampled runs differ in length, so that total seconds alone would compare unequal work. With
    equal lengths this is `paired_ratio_interval` of the seconds.

    Args:
        top_seconds, bottom_seconds, top_tokens, bottom_tokens: one value per prompt [n], paired.
        level: of the interval. resamples: bootstrap draws. seed: of the draws.

    Returns:
        (ratio of totals, lower bound, upper bound).

    **Source:** Efron 1979; the prompt is drawn with all four of its values.
    """
    values = np.asarray((top_seconds, bottom_seconds, top_tokens, bottom_tokens), dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, values.shape[1], (resamples, values.shape[1]))

    def ratio_of(totals: NDArray[np.float64]) -> NDArray[np.float64]:
        top_s, bottom_s, top_n, bottom_n = totals
        return (top_s / top_n) / (bottom_s / bottom_n)

    tail = (1.0 - level) / 2.0
    low, high = np.quantile(ratio_of(values[:, picks].sum(-1)), [tail, 1.0 - tail])
    return float(ratio_of(values.sum(-1))), float(low), float(high)
