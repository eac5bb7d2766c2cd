"""One degree of freedom on {p > q}."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from speclab.core.errors import BadInput
from speclab.stats.cells import tabulate
from speclab.stats.directed import (
    directed_detectable_bias,
    directed_power,
    directed_test,
    preferred_set,
    set_test,
)
from speclab.stats.goodness import chi_square

P, Q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.6, 0.1, 0.1])


def test_the_set_is_where_the_residual_puts_its_mass() -> None:
    assert preferred_set(P, Q).tolist() == [True, False, True, False]
    for other, code in ((P, "law_equal"), ([0.5, 0.5], "law_lengths")):
        with pytest.raises(BadInput) as error:
            preferred_set(P, other)
        assert error.value.code == code


def test_tails_are_those_of_the_binomial() -> None:
    result = directed_test([45, 40, 5, 10], P, Q)
    null = stats.binom(100, 0.65)
    assert result.p_value == pytest.approx(null.cdf(50) + null.sf(79), rel=1e-12)
    assert result.p_strict == pytest.approx(null.cdf(49) + null.sf(80), rel=1e-12)
    assert result.statistic == pytest.approx(-15 / np.sqrt(100 * 0.65 * 0.35))
    less = directed_test([45, 40, 5, 10], P, Q, side="less")
    assert less.p_value == pytest.approx(null.cdf(50), rel=1e-12)
    assert directed_test([65, 25, 0, 10], P, Q).p_value == 1.0
    even = set_test([10, 10], [0.5, 0.5], np.array([True, False]))
    assert even.p_value == pytest.approx(1.0)
    assert even.p_strict == pytest.approx(1.0 - stats.binom.pmf(10, 20, 0.5))


def test_its_power_does_not_depend_on_the_vocabulary() -> None:
    rng = np.random.default_rng(0)
    shares = []
    for size in (8, 4_096):
        target, draft = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        inside = preferred_set(target, draft)
        mass = target[inside].sum()
        wrong = np.where(inside, target * (1 - 0.02 / mass), target * (1 + 0.02 / (1 - mass)))
        seen = [
            directed_test(rng.multinomial(20_000, wrong), target, draft).p_value <= 1e-3
            for _ in range(300)
        ]
        shares.append(np.mean(seen))
        assert directed_power(mass, 20_000, 0.02, 1e-3) == pytest.approx(shares[-1], abs=0.03)
    assert min(shares) > 0.95
    counts = [rng.multinomial(20_000, wrong) for _ in range(100)]
    assert np.mean([chi_square(tabulate(c, target)).p_value <= 1e-3 for c in counts]) < 0.3


def test_smallest_bias_is_seen_with_the_power_asked_for() -> None:
    bias = directed_detectable_bias(0.65, 2_000, level=0.01, power=0.8)
    assert directed_power(0.65, 2_000, bias, 0.01) == pytest.approx(0.8, abs=0.01)
    assert directed_detectable_bias(0.5, 3, level=1e-3) is None


def test_a_draft_that_leaks_is_caught_from_one_side() -> None:
    rng = np.random.default_rng(1)
    law = 0.9 * P + 0.1 * Q
    results = [directed_test(rng.multinomial(5_000, law), P, Q, side="less") for _ in range(200)]
    assert np.mean([result.p_value <= 1e-3 for result in results]) > 0.9


@pytest.mark.parametrize("side", ["two", "less"])
def test_calibration(side, calibrated) -> None:
    rng = np.random.default_rng(2)
    calibrated([directed_test(rng.multinomial(5_000, P), P, Q, side=side) for _ in range(1_000)])
