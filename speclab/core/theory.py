"""Closed forms of the speed of speculation. Acceptance is i.i.d. with rate alpha here.

**Source:** Leviathan, Kalman, Matias 2211.17192, equation 1, theorems 3.8 and 3.11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from speclab.core.errors import BadInput


def _check(acceptance_rate: float, gamma: int) -> None:
    if not 0.0 <= acceptance_rate <= 1.0:
        raise BadInput(f"The acceptance rate must be between 0 and 1, not {acceptance_rate}.")
    if gamma < 0:
        raise BadInput(f"gamma must be >= 0, not {gamma}.")


def expected_tokens(acceptance_rate: float, gamma: int) -> float:
    """Return E[N], tokens per target pass, the extra token included.

    Example: alpha .8, gamma 4 gives 3.36.
    """
    _check(acceptance_rate, gamma)
    return sum(acceptance_rate**i for i in range(gamma + 1))


def walltime_speedup(
    acceptance_rate: float,
    gamma: int,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = lambda tokens: 1.0,
) -> float:
    """Return S: seconds per token of plain decoding over those of speculation.

    Args:
        acceptance_rate: alpha.
        gamma: drafted tokens per round.
        cost_ratio: c, one draft step / one target step, seconds over seconds.
        verify_cost: v(n), a target pass on n tokens / on 1; Leviathan assumes 1.
    """
    if cost_ratio < 0.0:
        raise BadInput(f"The cost ratio must be >= 0, not {cost_ratio}.")
    return expected_tokens(acceptance_rate, gamma) / (gamma * cost_ratio + verify_cost(gamma + 1))


def operations_factor(acceptance_rate: float, gamma: int, operations_ratio: float = 0.0) -> float:
    """Return arithmetic operations per token of speculation over those of plain decoding."""
    return (gamma * operations_ratio + gamma + 1) / expected_tokens(acceptance_rate, gamma)


def best_gamma(
    acceptance_rate: float,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = lambda tokens: 1.0,
    candidates: Sequence[int] = tuple(range(33)),
) -> int:
    """Return the gamma with the highest S; 0 when speculation does not pay."""
    return max(
        candidates,
        key=lambda g: (walltime_speedup(acceptance_rate, g, cost_ratio, verify_cost), -g),
    )
