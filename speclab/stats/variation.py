"""How far a sample's law is from the target: total variation with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from speclab.core.errors import BadInput
from speclab.stats.cells import check_counts, check_law, check_samples

LEAST_LEVEL = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """Total variation between what was sampled and a law. JSON-ready.

    Attributes:
        estimate: 1/2 sum |observed / N - p|; too large on average, by chance alone.
        noise_floor: what a right sampler shows on average at this N, exactly.
        corrected: the estimate with the share of chance taken out; 0 up to the noise floor. Biased
            less than the estimate, or by less than a fifth of the noise floor, not unbiased.
        low, high: interval for the true value. level: its coverage at least.
        num_samples: N. num_cells: tokens or cells compared. resamples: of the bootstrap.
    """

    estimate: float
    noise_floor: float
    corrected: float
    low: float
    high: float
    level: float
    num_samples: int
    num_cells: int
    resamples: int


def noise_floor(expected_probs: ArrayLike, num_samples: int) -> float:
    """Return the mean total variation of N samples of p itself from p.

    E|X - Np| of a binomial is 2 v (1 - p) P(X = v) with v = floor(Np) + 1.

    Raises:
        BadInput: for what is not a law, or N = 0.

    **Source:** De Moivre 1730.
    """
    law, num_samples = check_law(expected_probs), check_samples(num_samples)
    inner = law[(law > 0.0) & (law < 1.0)]
    mode = np.floor(num_samples * inner) + 1.0
    deviation = 2.0 * mode * (1.0 - inner) * stats.binom.pmf(mode, num_samples, inner)
    return math.fsum(deviation) / (2.0 * num_samples)


def total_variation(
    observed: ArrayLike,
    expected_probs: ArrayLike,
    *,
    resamples: int = 1_000,
    level: float = 0.95,
    seed: int = 0,
) -> Variation:
    """Return the total variation, the part of it that is chance, and a bootstrap interval.

    Chance only adds distance, so a plain percentile interval misses 0 for a right sampler. The
    lower bound takes off the bootstrap's quantile of the distance between a sample and its source
    (the triangle inequality makes it valid), or that of samples from the law if larger; the upper
    bound adds the upward swing of the bootstrap to the estimate, which is too large on average
    already. Both err on the wide side.

    Args:
        observed: counts [cells]. expected_probs: law [cells]; of tokens, or of pooled cells to
            lower the noise floor (differences inside a cell are then not counted).
        resamples: bootstrap draws. level: of the interval. seed: of the draws.

    Raises:
        BadInput: as `check_law` and `check_counts`, or for a level outside [1e-6, 1 - 1e-6].
    """
    if not LEAST_LEVEL <= level <= 1.0 - LEAST_LEVEL:
        raise BadInput(
            f"The level of an interval lies between {LEAST_LEVEL:g} and {1 - LEAST_LEVEL}, not at "
            f"{level:g}.",
            "Choose 0.95.",
            code="level_range",
            values={"level": f"{level:g}", "low": f"{LEAST_LEVEL:g}", "high": 1 - LEAST_LEVEL},
        )
    law = check_law(expected_probs)
    counts = check_counts(observed, law.size)
    n = int(counts.sum())
    support = np.flatnonzero((law > 0.0) | (counts > 0))
    support = support[np.lexsort((counts[support], law[support]))]
    found, target = counts[support] / n, law[support]
    estimate = math.fsum(np.abs(found - target)) / 2.0
    chance, swing = _bootstrap(found, target, n, resamples, level, seed)
    return Variation(
        estimate=estimate,
        noise_floor=noise_floor(law, n),
        corrected=_corrected(found - target, target, n, estimate),
        low=max(estimate - chance, 0.0),
        high=min(estimate + swing, 1.0),
        level=level,
        num_samples=n,
        num_cells=int(law.size),
        resamples=resamples,
    )


def _bootstrap(
    found: NDArray[np.float64],
    target: NDArray[np.float64],
    n: int,
    resamples: int,
    level: float,
    seed: int,
) -> tuple[float, float]:
    """Return how far chance alone may lie below an estimate, and how far it swings upwards.

    Args:
        found, target: observed shares and the law, of the cells with either [cells].
        n: samples. resamples, level, seed: see `total_variation`.
    """
    # cells never observed stay empty in the bootstrap; drawing the others saves time
    seen = found > 0.0
    rng = np.random.default_rng(seed)
    again = rng.multinomial(n, found[seen] / found[seen].sum(), resamples) / n
    to_source = np.abs(again - found[seen]).sum(1) / 2.0
    right = np.abs(rng.multinomial(n, target / target.sum(), resamples) / n - target).sum(1) / 2.0
    to_target = (np.abs(again - target[seen]).sum(1) + target[~seen].sum()) / 2.0
    tail = (1.0 - level) / 2.0
    chance = max(float(np.quantile(distance, 1.0 - tail)) for distance in (to_source, right))
    swing = float(np.quantile(to_target, 1.0 - tail) - to_target.mean())
    return chance, swing


def _corrected(
    gap: NDArray[np.float64], target: NDArray[np.float64], n: int, estimate: float
) -> float:
    """Return the distance that, with chance added, shows `estimate` on average.

    The observed gaps are shrunk by a common factor until their mean absolute value under normal
    noise equals the observed one.
    """
    spread = np.sqrt(np.maximum((target + gap) * (1.0 - target - gap), target * (1.0 - target)) / n)
    spread = np.maximum(spread, 1e-12)

    def shown(share: float) -> float:
        ratio = share * gap / spread
        folded = spread * math.sqrt(2.0 / math.pi) * np.exp(-(ratio**2) / 2.0)
        folded += share * gap * (1.0 - 2.0 * stats.norm.cdf(-ratio))
        return float(folded.sum()) / 2.0 - estimate

    if estimate == 0.0 or shown(0.0) >= 0.0:
        return 0.0
    if shown(1.0) <= 0.0:
        return estimate
    return float(optimize.brentq(shown, 0.0, 1.0)) * estimate
