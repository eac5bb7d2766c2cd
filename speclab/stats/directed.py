"""One question instead of many: are the tokens the target prefers emitted often enough?"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from speclab.core.errors import BadInput
from speclab.stats.cells import StatTest, check_counts, check_law

Side = Literal["two", "less"]
_MARGIN = 1e-12
"""p above q by less than this is rounding."""


def preferred_set(expected_probs: ArrayLike, draft_probs: ArrayLike) -> NDArray[np.bool_]:
    """Return the set {p > q}, bool [vocab]: where the residual max(p - q, 0) puts its mass.

    Raises:
        BadInput: for what is not a law, laws of unequal length, or p = q.
    """
    target, draft = check_law(expected_probs, "p"), check_law(draft_probs, "q")
    if target.size != draft.size:
        raise BadInput(
            f"p has {target.size} tokens and q has {draft.size}.",
            "Give both over the same vocabulary.",
            code="law_lengths",
            values={"target": target.size, "draft": draft.size},
        )
    members = target > draft + _MARGIN
    if not members.any():
        raise BadInput(
            "p and q are the same law: no token is preferred by the target.",
            "Choose another draft, or use the chi-square test.",
            code="law_equal",
        )
    return members


def directed_test(
    observed: ArrayLike, expected_probs: ArrayLike, draft_probs: ArrayLike, *, side: Side = "two"
) -> StatTest:
    """Return the exact binomial test of the set {p > q}.

    A verifier that accepts too much or redraws from the wrong residual moves mass from {p > q} to
    {q > p}. One degree of freedom, so its power does not depend on the vocabulary. A bias that
    leaves the mass of this set as it was stays unseen.

    Args:
        observed: counts [vocab]. expected_probs: p [vocab]. draft_probs: q [vocab].
        side: "less" looks only for too few samples in the set, as a leak towards q leaves.

    Raises:
        BadInput: as `check_law`, `check_counts` and `preferred_set`.
    """
    members = preferred_set(expected_probs, draft_probs)
    return set_test(observed, expected_probs, members, side=side)


def set_test(
    observed: ArrayLike,
    expected_probs: ArrayLike,
    members: NDArray[np.bool_],
    *,
    side: Side = "two",
) -> StatTest:
    """Return the exact binomial test of how many samples fall in a set chosen beforehand.

    Two-sided outcomes are ordered by their distance from the mean, as by chi-square in two cells.

    Args:
        observed: counts [vocab]. expected_probs: p [vocab]. members: the set, bool [vocab].
        side: "two", or "less" for too few only.
    """
    law = check_law(expected_probs)
    counts = check_counts(observed, law.size)
    num_samples, inside = int(counts.sum()), int(counts[members].sum())
    mass = min(math.fsum(law[members]), 1.0)
    p_value, p_strict = _tails(inside, num_samples, mass, side)
    stray = np.flatnonzero((law == 0.0) & (counts > 0))
    spread = math.sqrt(num_samples * mass * (1.0 - mass))
    distance = inside - num_samples * mass
    return StatTest(
        test="directed",
        statistic=None if stray.size else distance / spread if spread else 0.0,
        p_value=0.0 if stray.size else p_value,
        p_strict=0.0 if stray.size else p_strict,
        df=1,
        num_samples=num_samples,
        num_cells=2,
        forbidden=tuple((int(token), int(counts[token])) for token in stray),
        details=(
            ("set_tokens", float(np.count_nonzero(members))),
            ("set_mass", mass),
            ("set_share", inside / num_samples),
        ),
    )


def _tails(inside: int, num_samples: int, mass: float, side: Side) -> tuple[float, float]:
    """Return P(at least as far off) and P(further off) of Binomial(N, mass)."""
    null = stats.binom(num_samples, mass)
    if side == "less":
        return float(null.cdf(inside)), float(null.cdf(inside - 1))
    mean = num_samples * mass
    distance = abs(inside - mean)
    slack = 1e-9 * max(mean, 1.0)
    wide, narrow = distance - slack, distance + slack
    if wide <= 0.0:
        return 1.0, min(float(_outside(null, mean, narrow)), 1.0)
    return float(_outside(null, mean, wide)), float(_outside(null, mean, narrow))


def _outside(null: object, mean: float, distance: float) -> float:
    """Return P(|X - mean| >= distance)."""
    low, high = math.floor(mean - distance), math.ceil(mean + distance)
    return null.cdf(low) + null.sf(high - 1)  # type: ignore[attr-defined]


def directed_power(set_mass: float, num_samples: int, bias: float, level: float) -> float:
    """Return how often the two-sided test sees `bias` moved out of or into the set.

    Args:
        set_mass: p of the set. num_samples: N.
        bias: total variation moved across the border of the set.
        level: of the test.

    Returns:
        The smaller of both directions that are possible; exact.
    """
    null = stats.binom(num_samples, set_mass)
    mean = num_samples * set_mass
    low, high = 0, num_samples + 1
    while low < high:  # the smallest whole distance that rejects
        middle = (low + high) // 2
        if _outside(null, mean, middle) <= level:
            high = middle
        else:
            low = middle + 1
    shifted = [mass for mass in (set_mass - bias, set_mass + bias) if 0.0 <= mass <= 1.0]
    powers = (_outside(stats.binom(num_samples, mass), mean, low) for mass in shifted)
    return min((float(power) for power in powers), default=1.0)


def directed_detectable_bias(
    set_mass: float, num_samples: int, *, level: float = 1e-3, power: float = 0.9
) -> float | None:
    """Return the smallest bias seen with `power`; None where even the largest possible is not."""
    most = max(set_mass, 1.0 - set_mass)

    def gap(bias: float) -> float:
        return directed_power(set_mass, num_samples, bias, level) - power

    if gap(most) < 0.0:
        return None
    return float(optimize.brentq(gap, 0.0, most, xtol=1e-7))
