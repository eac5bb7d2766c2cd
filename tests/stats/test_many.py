"""Many p-values: Holm, and uniformity."""

from __future__ import annotations

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.stats.many import holm, uniformity


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.6, 0.5]) == (1.0, 1.0)
    assert holm([]) == ()


def test_holm_errs_anywhere_in_at_most_its_level() -> None:
    rng = np.random.default_rng(0)
    shared = rng.random((4_000, 1))
    for p in (rng.random((4_000, 10)), np.broadcast_to(shared, (4_000, 10))):
        assert np.mean([min(holm(row)) <= 0.05 for row in p]) <= 0.06


def test_uniform_p_values_lie_on_the_line_and_skewed_ones_do_not() -> None:
    rng = np.random.default_rng(1)
    right = uniformity(rng.random(500).tolist())
    assert right.p_value > 0.01 and right.num_repeats == 500
    inside = [
        low <= x <= high for low, x, high in zip(right.band_low, right.quantiles, right.band_high)
    ]
    assert np.mean(inside) > 0.85
    wrong = uniformity((rng.random(500) ** 2).tolist())
    assert wrong.p_value < 1e-6 and wrong.alarm_rate > 0.15
    with pytest.raises(BadInput):
        uniformity([])


@pytest.mark.parametrize("wrong", [float("nan"), -0.1, 1.1])
def test_what_is_no_p_value_is_refused(wrong) -> None:
    for call in (holm, uniformity):
        with pytest.raises(BadInput) as error:
            call([0.5, wrong])
        assert error.value.code == "not_p_values"
