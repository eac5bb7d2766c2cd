"""Bootstrap intervals of paired ratios."""

from __future__ import annotations

import numpy as np
import pytest

from speclab.stats.intervals import paired_rate_interval, paired_ratio_interval


def test_ratio_of_totals_not_mean_of_ratios() -> None:
    ratio, low, high = paired_ratio_interval([1.0, 100.0], [1.0, 50.0])
    assert ratio == pytest.approx(101 / 51)
    assert low <= ratio <= high


def test_constant_ratio_has_no_width() -> None:
    bottom = np.random.default_rng(0).uniform(1, 9, 30)
    assert paired_ratio_interval(3 * bottom, bottom) == pytest.approx((3.0, 3.0, 3.0))


def test_interval_covers_about_its_level() -> None:
    generator, hits = np.random.default_rng(1), 0
    for _ in range(200):
        bottom = generator.uniform(1, 2, 40)
        top = bottom * generator.normal(1.5, 0.3, 40)
        _, low, high = paired_ratio_interval(top, bottom, resamples=500)
        hits += low <= 1.5 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_same_data_same_interval() -> None:
    top, bottom = [1.0, 2.0, 4.0], [1.0, 1.0, 1.0]
    assert paired_ratio_interval(top, bottom) == paired_ratio_interval(top, bottom)


def test_rates_of_equal_lengths_are_ratios_of_seconds() -> None:
    slow, fast, tokens = [3.0, 5.0, 4.0, 9.0], [2.0, 2.5, 3.0, 4.0], [8.0] * 4
    plain = paired_ratio_interval(slow, fast, seed=3)
    assert paired_rate_interval(slow, fast, tokens, tokens, seed=3) == pytest.approx(plain)


def test_a_run_that_stops_early_is_not_faster() -> None:
    """Half the seconds for half the tokens: no speedup, where seconds alone would say 2."""
    long, short = [4.0, 6.0, 8.0], [2.0, 3.0, 4.0]
    found = paired_rate_interval(long, short, [40.0, 60.0, 80.0], [20.0, 30.0, 40.0])
    assert found == pytest.approx((1.0, 1.0, 1.0))
    assert paired_ratio_interval(long, short)[0] == 2.0
