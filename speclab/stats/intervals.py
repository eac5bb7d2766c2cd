"""Intervals by the bootstrap. The unit is the prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


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
