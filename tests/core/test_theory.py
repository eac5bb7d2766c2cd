"""The closed forms, at the numbers people argue about."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.core.theory import (
    acceptance_for,
    best_gamma,
    break_even,
    draw_rounds,
    expected_tokens,
    expected_tokens_by_position,
    operations_factor,
    perfect_draft_speedup,
    speedup_from_tokens,
    tokens_of_text,
    walltime_speedup,
)

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


LEVIATHAN_TABLE_1 = [
    (0.6, 2, 1.53, 1.96),
    (0.7, 3, 1.58, 2.53),
    (0.8, 2, 1.23, 2.44),
    (0.8, 5, 1.63, 3.69),
    (0.9, 2, 1.11, 2.71),
    (0.9, 10, 1.60, 6.86),
]


@pytest.mark.parametrize(("alpha", "gamma", "operations", "speed"), LEVIATHAN_TABLE_1)
def test_leviathans_table_1_by_formula_and_by_coin(
    alpha: float, gamma: int, operations: float, speed: float
) -> None:
    """With c = 0 the speed is E[N]; 200,000 drawn rounds agree within four standard errors."""
    assert operations_factor(alpha, gamma) == pytest.approx(operations, abs=0.0051)
    assert walltime_speedup(alpha, gamma, 0.0) == pytest.approx(speed, abs=0.0051)
    drawn = draw_rounds([alpha] * gamma, 200_000, seed=1)
    assert drawn.standard_error < 0.009
    assert drawn.sigmas_from(expected_tokens(alpha, gamma)) < 4
    assert (gamma + 1) / drawn.tokens == pytest.approx(operations, abs=0.02)
    assert sum(drawn.counts) == 200_000 and len(drawn.counts) == gamma + 1


def test_drawn_rounds_tell_a_wrong_rate() -> None:
    """The negative control: one per cent of alpha is twenty standard errors away."""
    drawn = draw_rounds([0.81] * 5, 200_000, seed=1)
    assert drawn.sigmas_from(expected_tokens(0.8, 5)) > 10


def test_coins_follow_the_seed() -> None:
    assert draw_rounds([0.5, 0.4], 1000, seed=3) == draw_rounds([0.5, 0.4], 1000, seed=3)
    assert draw_rounds([0.5, 0.4], 1000, seed=3) != draw_rounds([0.5, 0.4], 1000, seed=4)
    certain = draw_rounds([1.0, 1.0], 10, seed=0)
    assert certain.sigmas_from(3.0) == 0.0 and certain.sigmas_from(2.0) == float("inf")
    for rates, rounds in (([0.5], 1), ([0.5] * 10, 10_000_000)):
        with pytest.raises(BadInput, match="cannot be drawn"):
            draw_rounds(rates, rounds, seed=0)


@given(st.lists(RATE, max_size=8))
def test_rates_by_position_are_a_mean_of_rounds(rates: list[float]) -> None:
    reached = np.cumprod([1.0, *rates])
    assert expected_tokens_by_position(rates) == pytest.approx(float(reached.sum()))
    if rates and len(set(rates)) == 1:
        assert expected_tokens_by_position(rates) == pytest.approx(
            expected_tokens(rates[0], len(rates))
        )


def test_the_mean_rate_hides_what_the_positions_know() -> None:
    """Rates that fall with depth emit more than their mean says, and rates that rise less."""
    falling, rising = [0.9, 0.7, 0.5], [0.5, 0.7, 0.9]
    flat = expected_tokens(0.7, 3)
    assert expected_tokens_by_position(rising) < flat < expected_tokens_by_position(falling)


def test_easy_and_hard_stretches_emit_less_than_their_mean() -> None:
    """Stretches of .95 and .4, 64 tokens each: 2.75 tokens per pass at gamma 8, not 2.99."""
    text = ([0.95] * 64 + [0.4] * 64) * 16
    assert expected_tokens(0.675, 8) == pytest.approx(2.987, abs=1e-3)
    assert tokens_of_text(text, 8) == pytest.approx(2.74, abs=0.03)
    ends = [expected_tokens(alpha, 8) for alpha in (0.95, 0.4)]
    longest = 2 / (1 / ends[0] + 1 / ends[1])
    assert tokens_of_text([0.95] * 5000 + [0.4] * 5000, 8) == pytest.approx(longest, rel=2e-3)


def test_a_text_of_one_rate_follows_the_formula() -> None:
    assert tokens_of_text([0.7] * 20_000, 4) == pytest.approx(expected_tokens(0.7, 4), rel=1e-3)
    assert tokens_of_text([1.0] * 10, 4) == 5.0
    assert tokens_of_text([0.3], 4) == 1.0
    assert tokens_of_text([0.3] * 7, 0) == 1.0
    with pytest.raises(BadInput, match="one position"):
        tokens_of_text([], 4)


@given(st.integers(1, 12), RATE)
def test_acceptance_is_found_again(gamma: int, alpha: float) -> None:
    found = acceptance_for(expected_tokens(alpha, gamma), gamma)
    assert expected_tokens(found, gamma) == pytest.approx(expected_tokens(alpha, gamma), abs=1e-9)


def test_tokens_out_of_reach_are_refused() -> None:
    with pytest.raises(BadInput, match="between 1 and 5"):
        acceptance_for(5.1, 4)


@pytest.mark.parametrize(
    ("gamma", "cost", "speedup"), [(8, 0.2, 9 / 2.6), (8, 0.0, 9.0), (1, 1.0, 1.0), (0, 3.0, 1.0)]
)
def test_the_perfect_draft_line(gamma: int, cost: float, speedup: float) -> None:
    """A draft five times faster, gamma 8, nothing refused: 3.46, not 41."""
    assert perfect_draft_speedup(gamma, cost) == pytest.approx(speedup)


@given(RATE, st.integers(0, 12), st.floats(0.0, 2.0))
def test_nothing_beats_the_perfect_draft(alpha: float, gamma: int, cost: float) -> None:
    assert walltime_speedup(alpha, gamma, cost) <= perfect_draft_speedup(gamma, cost) + 1e-12


def test_half_accepted_is_slower_than_no_speculation() -> None:
    assert walltime_speedup(0.5, 8, 0.2) == pytest.approx(0.77, abs=0.005)


@pytest.mark.parametrize(
    ("alpha", "cost", "speedup"),
    [(0.9, 0.5, 1.38), (0.5, 0.02, 1.79), (0.7, 0.2, 1.58), (0.8, 0.05, 3.09), (0.8, 0.3, 1.55)],
)
def test_best_speedups_that_lessons_quote(alpha: float, cost: float, speedup: float) -> None:
    best = best_gamma(alpha, cost)
    assert walltime_speedup(alpha, best, cost) == pytest.approx(speedup, abs=0.006)


@pytest.mark.parametrize(
    ("alpha", "cost", "gamma"), [(0.75, 0.02, 9), (0.8, 0.04, 9), (0.82, 0.11, 6), (0.65, 0.02, 7)]
)
def test_best_gammas(alpha: float, cost: float, gamma: int) -> None:
    assert best_gamma(alpha, cost) == gamma


def test_break_even_at_gamma_one_is_the_price() -> None:
    price = {1: 1.0, 2: 1.2}.__getitem__
    assert break_even(1, 0.1, price) == pytest.approx(0.3)
    assert break_even(1, 0.3) == pytest.approx(0.3)
    assert break_even(0, 0.3) == 0.0
    assert break_even(4, 1.5) is None


@given(st.integers(1, 12), st.floats(0.0, 0.99))
def test_at_break_even_nothing_is_gained(gamma: int, cost: float) -> None:
    alpha = break_even(gamma, cost)
    assert alpha is not None
    assert walltime_speedup(alpha, gamma, cost) == pytest.approx(1.0, abs=1e-9)


def test_costs_that_are_no_numbers_are_refused() -> None:
    for cost in (float("nan"), float("inf"), -1.0):
        with pytest.raises(BadInput, match="cost"):
            speedup_from_tokens(2.0, 2, cost)
