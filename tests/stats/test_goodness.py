"""Chi-square, G and multinomial tests against other code, and over repeats."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from speclab.stats.cells import Cells, StatTest, Table, tabulate
from speclab.stats.goodness import chi_square, g_test, multinomial_test, num_outcomes

LAW = np.random.default_rng(5).dirichlet(np.full(40, 0.5))


def whole(observed: list[int], law: list[float]) -> Table:
    return tabulate(observed, law, min_expected=0)


def test_values_equal_those_of_scipy() -> None:
    observed, law = [44, 25, 21, 10], [0.4, 0.3, 0.2, 0.1]
    table = whole(observed, law)
    expected = 100 * np.array(law)
    for ours, lambda_ in ((chi_square(table), "pearson"), (g_test(table), "log-likelihood")):
        theirs = stats.power_divergence(observed, expected, lambda_=lambda_)
        assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
        assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-12)
        assert ours.df == 3
    assert sum(r**2 for r in table.residuals()) == pytest.approx(chi_square(table).statistic)


def test_an_empty_cell_counts_in_the_g_test() -> None:
    assert g_test(whole([12, 0], [0.5, 0.5])).statistic == pytest.approx(24 * math.log(2))


@pytest.mark.parametrize("statistic", ["pearson", "g"])
def test_the_exact_test_sums_every_table_at_least_as_far_off(statistic) -> None:
    law, observed, n = (0.5, 0.3, 0.2), [3, 1, 4], 8

    def far(counts: tuple[int, ...]) -> float:
        pairs = [(o, n * p) for o, p in zip(counts, law)]
        if statistic == "pearson":
            return sum((o - e) ** 2 / e for o, e in pairs)
        return 2 * sum(o * math.log(o / e) for o, e in pairs if o)

    at_least = further = 0.0
    for texts in itertools.product(range(3), repeat=n):
        counts = tuple(texts.count(token) for token in range(3))
        weight = math.prod(law[token] for token in texts)
        at_least += weight * (far(counts) >= far(tuple(observed)) - 1e-9)
        further += weight * (far(counts) > far(tuple(observed)) + 1e-9)
    result = multinomial_test(whole(observed, list(law)), statistic=statistic)
    assert result.test == "multinomial-exact"
    assert result.detail("outcomes") == num_outcomes(8, 3) == 45
    assert (result.p_value, result.p_strict) == pytest.approx((at_least, further), rel=1e-9)


def test_simulated_agrees_with_exact_and_never_says_zero() -> None:
    table = whole([14, 3, 3], [0.5, 0.3, 0.2])
    exact = multinomial_test(table)
    simulated = multinomial_test(table, max_outcomes=10, draws=40_000)
    assert simulated.test == "multinomial-simulated"
    assert simulated.p_value == pytest.approx(exact.p_value, abs=0.01)
    impossible_by_chance = whole([0, 0, 40], [0.5, 0.3, 0.2])
    assert multinomial_test(impossible_by_chance, max_outcomes=10, draws=99).p_value == 0.01


def repeats(test, num_samples: int, law: np.ndarray, **pooling) -> list[StatTest]:
    rng = np.random.default_rng(11)
    return [test(tabulate(rng.multinomial(num_samples, law), law, **pooling)) for _ in range(1_000)]


@pytest.mark.parametrize("test", [chi_square, g_test])
@pytest.mark.parametrize("pooling", [{}, {"max_cells": 16}])
def test_calibration_of_asymptotic_tests(test, pooling, calibrated) -> None:
    calibrated(repeats(test, 5_000, LAW, **pooling))


def test_calibration_of_the_exact_test(calibrated) -> None:
    calibrated(repeats(multinomial_test, 30, np.array([0.5, 0.3, 0.2]), min_expected=0))


def test_calibration_of_the_simulated_test(calibrated) -> None:
    rng = np.random.default_rng(12)
    calibrated(
        [
            multinomial_test(
                tabulate(rng.multinomial(60, LAW), LAW, min_expected=1), draws=499, seed=seed
            )
            for seed in range(1_000)
        ]
    )


def test_the_check_of_calibration_notices_pooling_by_what_was_seen(calibrated) -> None:
    """The classic mistake: keep the cells that happen to be large."""
    rng, results = np.random.default_rng(13), []
    for _ in range(1_000):
        counts = rng.multinomial(300, LAW)
        alone = np.flatnonzero(counts >= 5)
        rest = tuple(np.flatnonzero(counts < 5).tolist())
        members = (*((int(token),) for token in alone), rest)
        probs = tuple(float(LAW[list(cell)].sum()) for cell in members)
        cells = Cells(
            members=members, probs=probs, vocab_size=40, num_samples=300, min_expected=5.0
        )
        results.append(chi_square(cells.count(counts)))
    with pytest.raises(AssertionError):
        calibrated(results)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("statistic", ["pearson", "g"])
def test_a_law_of_one_token_that_was_never_emitted_is_rejected_without_a_warning(statistic) -> None:
    found = multinomial_test(tabulate([0, 4], [1.0, 0.0]), statistic=statistic)
    assert (found.p_value, found.p_strict, found.forbidden) == (0.0, 0.0, ((1, 4),))
