"""Closed forms of the speed of speculation, and rounds drawn by coin beside them.

Acceptance is i.i.d. with rate alpha where a function takes `acceptance_rate`; where it takes
`rates`, position i of a draft is accepted with rates[i] given that i - 1 was.

**Source:** Leviathan, Kalman, Matias 2211.17192, equation 1, theorems 3.8 and 3.11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, isfinite, sqrt
from operator import mul

import numpy as np

from speclab.core.errors import BadInput

MOST_SIMULATED_COINS = 50_000_000


def _check(acceptance_rate: float, gamma: int) -> None:
    if not 0.0 <= acceptance_rate <= 1.0:
        raise BadInput(f"The acceptance rate must be between 0 and 1, not {acceptance_rate}.")
    if gamma < 0:
        raise BadInput(f"gamma must be >= 0, not {gamma}.")


def _check_cost(cost_ratio: float) -> None:
    if not (cost_ratio >= 0.0 and isfinite(cost_ratio)):
        raise BadInput(f"The cost ratio must be >= 0, not {cost_ratio}.")


def ideal_verify_cost(tokens: int) -> float:
    """Return v(n) = 1: a target pass costs the same whatever it carries, as Leviathan assumes."""
    return 1.0


def expected_tokens(acceptance_rate: float, gamma: int) -> float:
    """Return E[N], tokens per target pass, the extra token included.

    Example: alpha .8, gamma 4 gives 3.36.
    """
    _check(acceptance_rate, gamma)
    return sum(acceptance_rate**i for i in range(gamma + 1))


def expected_tokens_by_position(rates: Sequence[float]) -> float:
    """Return E[N] of a chain whose positions are accepted with different rates.

    Args:
        rates: conditional acceptance of position 1, 2, ..., gamma: given that all before it were.

    Returns:
        1 + the chances to reach and accept each position. Exact whatever correlates them.
    """
    for rate in rates:
        _check(rate, 0)
    return 1.0 + sum(accumulate(rates, mul))


def tokens_of_text(rates: Sequence[float], gamma: int) -> float:
    """Return tokens per target pass over a text of easy and hard stretches, exactly.

    Args:
        rates: acceptance of the token at each position of the text, coins independent.
        gamma: drafted tokens per round; the text cuts the last one.
    """
    _check(0.0, gamma)
    if not rates:
        raise BadInput("A text needs at least one position.")
    expected_rounds = [0.0] * (len(rates) + 1)
    for place in range(len(rates) - 1, -1, -1):
        reached, rounds = 1.0, 1.0
        for drafted in range(min(gamma, len(rates) - place)):
            rate = rates[place + drafted]
            _check(rate, 0)
            rounds += reached * (1.0 - rate) * expected_rounds[place + drafted + 1]
            reached *= rate
        after = min(place + gamma + 1, len(rates))
        expected_rounds[place] = rounds + reached * expected_rounds[after]
    return len(rates) / expected_rounds[0]


def acceptance_for(tokens: float, gamma: int) -> float:
    """Return the alpha whose E[N] at `gamma` is `tokens`.

    Raises:
        BadInput: if no alpha gives it.
    """
    if not 1.0 <= tokens <= gamma + 1:
        raise BadInput(
            f"With gamma {gamma} a pass emits between 1 and {gamma + 1} tokens, not {tokens}."
        )
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_tokens(middle, gamma) < tokens else (low, middle)
    return high


def speedup_from_tokens(
    tokens: float,
    gamma: int,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = ideal_verify_cost,
) -> float:
    """Return S of chains whose passes emit `tokens`: from rates by position, or a measured tau.

    Args:
        tokens: per target pass, the extra one included.
        gamma: draft steps per round, and drafted tokens in the pass.
        cost_ratio: c, one draft step / one target step, seconds over seconds.
        verify_cost: v(n), a target pass on n tokens / on 1.
    """
    _check(0.0, gamma)
    _check_cost(cost_ratio)
    return tokens / (gamma * cost_ratio + verify_cost(gamma + 1))


def walltime_speedup(
    acceptance_rate: float,
    gamma: int,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = ideal_verify_cost,
) -> float:
    """Return S: seconds per token of plain decoding over those of speculation.

    Args:
        acceptance_rate: alpha.
        gamma: drafted tokens per round.
        cost_ratio: c, one draft step / one target step, seconds over seconds.
        verify_cost: v(n), a target pass on n tokens / on 1; Leviathan assumes 1.
    """
    tokens = expected_tokens(acceptance_rate, gamma)
    return speedup_from_tokens(tokens, gamma, cost_ratio, verify_cost)


def perfect_draft_speedup(
    gamma: int, cost_ratio: float, verify_cost: Callable[[int], float] = ideal_verify_cost
) -> float:
    """Return S of a draft that is never refused: (gamma + 1) / (v(gamma + 1) + gamma c)."""
    return walltime_speedup(1.0, gamma, cost_ratio, verify_cost)


def break_even(
    gamma: int, cost_ratio: float, verify_cost: Callable[[int], float] = ideal_verify_cost
) -> float | None:
    """Return the alpha at which S is 1; None where even a perfect draft does not pay.

    Example: gamma 1 gives c + v(2) - 1.
    """
    _check(0.0, gamma)
    _check_cost(cost_ratio)
    needed = gamma * cost_ratio + verify_cost(gamma + 1)
    if needed > gamma + 1:
        return None
    return acceptance_for(max(needed, 1.0), gamma) if gamma else 0.0


def operations_factor(acceptance_rate: float, gamma: int, operations_ratio: float = 0.0) -> float:
    """Return arithmetic operations per token of speculation over those of plain decoding."""
    return (gamma * operations_ratio + gamma + 1) / expected_tokens(acceptance_rate, gamma)


def best_gamma(
    acceptance_rate: float,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = ideal_verify_cost,
    candidates: Sequence[int] = tuple(range(33)),
) -> int:
    """Return the gamma with the highest S; 0 when speculation does not pay."""
    return max(
        candidates,
        key=lambda g: (walltime_speedup(acceptance_rate, g, cost_ratio, verify_cost), -g),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRounds:
    """Rounds drawn by coin.

    Attributes:
        num_rounds: how many.
        tokens: mean tokens per pass.
        standard_error: of that mean.
        counts: rounds that emitted 1, 2, ..., gamma + 1 tokens.
    """

    num_rounds: int
    tokens: float
    standard_error: float
    counts: tuple[int, ...]

    def sigmas_from(self, expected: float) -> float:
        """Return how many standard errors the mean lies from `expected`."""
        gap = abs(self.tokens - expected)
        if self.standard_error > 0.0:
            return gap / self.standard_error
        return 0.0 if gap < 1e-12 else inf


def draw_rounds(rates: Sequence[float], num_rounds: int, seed: int) -> DrawnRounds:
    """Draw rounds, one coin per drafted token, and count what they emit.

    Args:
        rates: conditional acceptance by position; [alpha] * gamma for the i.i.d. case.
        num_rounds: how many rounds.
        seed: of the coins.

    Raises:
        BadInput: for a rate outside 0 to 1, or too many coins.
    """
    for rate in rates:
        _check(rate, 0)
    gamma = len(rates)
    if num_rounds < 2 or num_rounds * max(gamma, 1) > MOST_SIMULATED_COINS:
        raise BadInput(
            f"{num_rounds} rounds of gamma {gamma} cannot be drawn.",
            f"Draw at least 2 rounds, and at most {MOST_SIMULATED_COINS:,} coins.",
        )
    rng = np.random.default_rng(seed)
    running = np.ones(num_rounds, dtype=bool)
    tokens = np.ones(num_rounds, dtype=np.int64)
    for rate in rates:
        running &= rng.random(num_rounds) < rate
        tokens += running
    return DrawnRounds(
        num_rounds=num_rounds,
        tokens=float(tokens.mean()),
        standard_error=float(tokens.std(ddof=1)) / sqrt(num_rounds),
        counts=tuple(int(n) for n in np.bincount(tokens, minlength=gamma + 2)[1:]),
    )
