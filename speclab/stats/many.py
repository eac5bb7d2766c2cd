"""Several p-values at once: Holm's correction, and whether p-values are uniform over repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from speclab.core.errors import BadInput
from speclab.stats.cells import StatTest, check_samples


def _checked(p_values: Sequence[float]) -> NDArray[np.float64]:
    given = np.asarray(p_values, dtype=np.float64)
    wrong = given[~((given >= 0.0) & (given <= 1.0))]
    if wrong.size:
        raise BadInput(
            f"A p-value lies between 0 and 1, not at {wrong[0]:g}.",
            "Check the test that it came from.",
            code="not_p_values",
            values={"value": f"{wrong[0]:g}"},
        )
    return given


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted so that rejecting below alpha errs anywhere in at most alpha.

    Valid under any dependence. The smallest one is the p-value of "all is right".

    Raises:
        BadInput: for what is not a p-value.

    **Source:** Holm 1979.
    """
    given = _checked(p_values)
    order = np.argsort(given, kind="stable")
    factors = np.arange(given.size, 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * factors), 1.0)
    return tuple(float(p) for p in adjusted)


def randomised(results: Sequence[StatTest], *, seed: int = 0) -> tuple[float, ...]:
    """Return p-values that are exactly uniform for discrete statistics too.

    The p-value of a discrete test is too large on average, so even a right sampler's are not
    uniform; p_strict + u (p_value - p_strict) are. To look at, never to decide by.
    """
    noise = np.random.default_rng(seed).random(len(results))
    return tuple(r.p_strict + float(u) * (r.p_value - r.p_strict) for r, u in zip(results, noise))


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniformity:
    """Whether p-values over repeats are uniform, as they are for a right sampler.

    Attributes:
        statistic: largest gap of the two distribution functions (Kolmogorov-Smirnov).
        p_value: of that gap. num_repeats: how many p-values.
        level: of the false-alarm rate. alarm_rate: share of p-values at or below it.
        expected_quantiles, quantiles: the points of a QQ plot, sorted.
        band_low, band_high: where 95 % of each point of a right sampler falls.
    """

    statistic: float
    p_value: float
    num_repeats: int
    level: float
    alarm_rate: float
    expected_quantiles: tuple[float, ...]
    quantiles: tuple[float, ...]
    band_low: tuple[float, ...]
    band_high: tuple[float, ...]


def uniformity(p_values: Sequence[float], *, level: float = 0.05) -> Uniformity:
    """Return the test that p-values are uniform, and their QQ plot.

    Give `randomised` p-values for discrete tests.

    Raises:
        BadInput: without p-values, or for what is none.

    **Source:** Kolmogorov 1933; band: the k-th of n uniforms is Beta(k, n + 1 - k).
    """
    n = check_samples(len(p_values))
    given = np.sort(_checked(p_values))
    found = stats.kstest(given, "uniform")
    rank = np.arange(1, n + 1)
    return Uniformity(
        statistic=float(found.statistic),
        p_value=float(found.pvalue),
        num_repeats=n,
        level=level,
        alarm_rate=float(np.mean(given <= level)),
        expected_quantiles=tuple((rank / (n + 1)).tolist()),
        quantiles=tuple(given.tolist()),
        band_low=tuple(stats.beta.ppf(0.025, rank, n + 1 - rank).tolist()),
        band_high=tuple(stats.beta.ppf(0.975, rank, n + 1 - rank).tolist()),
    )
