"""The speed of a draft over gamma, by the closed forms: what a lesson draws and a reader changes.

Modelled: acceptance is i.i.d. with rate alpha, one draft step costs c target steps, a pass on n
tokens costs v(n) steps.

**Source:** Leviathan, Kalman, Matias 2211.17192, equation 1 and theorem 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from speclab.core.errors import BadInput
from speclab.core.theory import (
    best_gamma,
    expected_tokens,
    ideal_verify_cost,
    walltime_speedup,
)

MAX_GAMMA = 16
"""The widest pass of the benchmark reports holds 17 tokens."""
MAX_COST_RATIO = 2.0
LANDMARKS = (0.5, 0.7, 0.9)
"""Acceptance rates drawn beside the reader's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedCurves:
    """Speedups over gamma = 0, 1, ..., MAX_GAMMA.

    Attributes:
        tokens: E[N] per gamma. speed: S per gamma. perfect: S if every draft were accepted.
        landmarks: (acceptance rate, S per gamma) of a few other drafts at the same cost.
        best: the gamma with the highest S; 0 where speculation does not pay.
        ceiling: limit of E[N] as gamma grows, 1 / (1 - alpha); None at alpha 1.
        perfect_limit: limit of the perfect draft's speed as gamma grows while passes stay free,
            1 / c; None at c 0 or where v(n) grows.
    """

    tokens: tuple[float, ...]
    speed: tuple[float, ...]
    perfect: tuple[float, ...]
    landmarks: tuple[tuple[float, tuple[float, ...]], ...]
    best: int
    ceiling: float | None
    perfect_limit: float | None


def check_draft(acceptance_rate: float, cost_ratio: float) -> None:
    """Refuse values that no draft has.

    Raises:
        BadInput: naming the value.
    """
    if not (math.isfinite(acceptance_rate) and 0.0 <= acceptance_rate <= 1.0):
        raise BadInput(
            f"The acceptance rate must be between 0 and 1, not {acceptance_rate}.",
            code="field_range",
            values={"name": "α", "low": 0, "high": 1, "value": acceptance_rate},
        )
    if not (math.isfinite(cost_ratio) and 0.0 <= cost_ratio <= MAX_COST_RATIO):
        raise BadInput(
            f"The cost ratio must be between 0 and {MAX_COST_RATIO:g}, not {cost_ratio}.",
            code="field_range",
            values={"name": "c", "low": 0, "high": MAX_COST_RATIO, "value": cost_ratio},
        )


def speed_curves(
    acceptance_rate: float,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = ideal_verify_cost,
) -> SpeedCurves:
    """Return the speedups of a draft over gamma.

    Args:
        acceptance_rate: alpha. cost_ratio: c, one draft step / one target step.
        verify_cost: v(n), a target pass on n tokens / on 1.

    Raises:
        BadInput: for values that no draft has.
    """
    check_draft(acceptance_rate, cost_ratio)
    gammas = range(MAX_GAMMA + 1)

    def speeds(alpha: float) -> tuple[float, ...]:
        return tuple(walltime_speedup(alpha, gamma, cost_ratio, verify_cost) for gamma in gammas)

    return SpeedCurves(
        tokens=tuple(expected_tokens(acceptance_rate, gamma) for gamma in gammas),
        speed=speeds(acceptance_rate),
        perfect=speeds(1.0),
        landmarks=tuple((alpha, speeds(alpha)) for alpha in LANDMARKS),
        best=best_gamma(acceptance_rate, cost_ratio, verify_cost, tuple(gammas)),
        ceiling=None if acceptance_rate == 1.0 else 1.0 / (1.0 - acceptance_rate),
        perfect_limit=1.0 / cost_ratio if cost_ratio and verify_cost is ideal_verify_cost else None,
    )


def top_speed(acceptance_rate: float, cost_ratio: float) -> tuple[int, float]:
    """Return the best gamma with free passes and its S, at most MAX_GAMMA.

    Args:
        acceptance_rate: alpha. cost_ratio: c, one draft step / one target step.
    """
    check_draft(acceptance_rate, cost_ratio)
    gamma = best_gamma(acceptance_rate, cost_ratio, candidates=range(MAX_GAMMA + 1))
    return gamma, walltime_speedup(acceptance_rate, gamma, cost_ratio)


def acceptance_needed(speed: float, cost_ratio: float) -> float | None:
    """Return the smallest alpha whose best gamma reaches a speed; None where none does.

    Args:
        speed: S to reach, >= 1. cost_ratio: c, one draft step / one target step.
    """
    if speed <= 1.0:
        return min(cost_ratio, 1.0)
    if top_speed(1.0, cost_ratio)[1] < speed:
        return None
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if top_speed(middle, cost_ratio)[1] < speed else (low, middle)
    return high
