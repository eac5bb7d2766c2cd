"""The closed forms, at the numbers people argue about."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.core.theory import best_gamma, expected_tokens, operations_factor, walltime_speedup

RATE = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("alpha", "gamma", "tokens"),
    [
        (0.8, 4, 3.36160),
        (0.8, 5, 3.68928),
        (0.8, 1, 1.8),
        (1.0, 7, 8.0),
        (0.0, 7, 1.0),
        (0.5, 0, 1),
    ],
)
def test_expected_tokens(alpha: float, gamma: int, tokens: float) -> None:
    """With one drafted token there is already something to gain: 1 + alpha per pass."""
    assert expected_tokens(alpha, gamma) == pytest.approx(tokens, abs=1e-12)


def test_the_rate_per_token_is_not_the_share_of_drafts_used() -> None:
    accepted = expected_tokens(0.8, 5) - 1
    assert accepted == pytest.approx(2.68928)
    assert accepted / 5 == pytest.approx(0.537856)


@pytest.mark.parametrize(
    ("alpha", "gamma", "cost", "speedup"), [(0.6, 5, 0.3, 0.9533), (0.8, 4, 0.05, 2.8013)]
)
def test_acceptance_alone_does_not_pay(
    alpha: float, gamma: int, cost: float, speedup: float
) -> None:
    assert walltime_speedup(alpha, gamma, cost) == pytest.approx(speedup, abs=1e-4)


def test_at_gamma_one_speculation_pays_above_the_cost_of_the_second_token() -> None:
    price = {1: 1.0, 2: 1.2}.__getitem__
    for alpha in (0.31, 0.29):
        pays = walltime_speedup(alpha, 1, 0.1, price) > 1
        assert pays == (alpha > 0.1 + 1.2 - 1)


@given(RATE, st.integers(0, 12))
def test_expected_tokens_is_a_mean_of_rounds(alpha: float, gamma: int) -> None:
    law = [alpha**i * (1 - alpha) for i in range(gamma)] + [alpha**gamma]
    assert sum(law) == pytest.approx(1.0)
    mean = float(np.dot(law, range(1, gamma + 2)))
    assert expected_tokens(alpha, gamma) == pytest.approx(mean)
    assert 1 <= expected_tokens(alpha, gamma) <= gamma + 1


@given(RATE, st.floats(0.0, 2.0))
def test_best_gamma_is_best_and_zero_when_nothing_pays(alpha: float, cost: float) -> None:
    best = best_gamma(alpha, cost)
    assert walltime_speedup(alpha, best, cost) >= max(
        walltime_speedup(alpha, gamma, cost) for gamma in range(33)
    )
    if alpha <= cost:
        assert best == 0


def test_more_arithmetic_per_token_is_the_price() -> None:
    assert operations_factor(0.8, 4) == pytest.approx(5 / 3.3616)
    assert operations_factor(1.0, 4) == 1.0


@pytest.mark.parametrize("alpha", [-0.1, 1.1, float("nan")])
def test_a_rate_is_between_zero_and_one(alpha: float) -> None:
    with pytest.raises(BadInput, match="acceptance rate"):
        expected_tokens(alpha, 4)


def test_negative_costs_and_gammas_are_refused() -> None:
    with pytest.raises(BadInput, match="gamma"):
        expected_tokens(0.5, -1)
    with pytest.raises(BadInput, match="cost"):
        walltime_speedup(0.5, 2, -0.1)
