"""Total variation: chance, correction, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from speclab.core.errors import BadInput
from speclab.stats.variation import noise_floor, total_variation


def biased(law: np.ndarray, bias: float) -> np.ndarray:
    """Return a law at total variation `bias`: half of the tokens gain, half lose."""
    up = np.arange(law.size) % 2 == 0
    mass = law[up].sum()
    return np.where(up, law * (1 + bias / mass), law * (1 - bias / (1 - mass)))


def test_noise_floor_is_the_mean_over_every_outcome() -> None:
    law, n = np.array([0.5, 0.3, 0.2]), 17
    k = np.arange(n + 1)
    gaps = [np.abs(k / n - p) @ stats.binom.pmf(k, n, p) for p in law]
    assert noise_floor(law, n) == pytest.approx(sum(gaps) / 2, rel=1e-12)


@pytest.mark.parametrize(("cells", "n"), [(8, 1_000), (32, 20_000), (200, 5_000)])
@pytest.mark.parametrize("bias", [0.0, 0.02, 0.1])
def test_interval_covers_and_correction_removes_most_of_chance(cells, n, bias) -> None:
    rng = np.random.default_rng(4)
    law = rng.dirichlet(np.full(cells, 2.0))
    wrong = biased(law, bias)
    found = [
        total_variation(rng.multinomial(n, wrong), law, resamples=200, seed=i) for i in range(150)
    ]
    assert np.mean([v.low <= bias <= v.high for v in found]) >= 0.93
    plain = np.mean([v.estimate for v in found]) - bias
    corrected = np.mean([v.corrected for v in found]) - bias
    assert plain > -1e-3
    assert abs(corrected) < max(plain, 0.2 * found[0].noise_floor)
    if bias == 0.0:
        assert np.mean([v.estimate for v in found]) == pytest.approx(found[0].noise_floor, rel=0.1)
        assert np.mean([v.low == 0.0 for v in found]) >= 0.93


def test_a_large_bias_is_bounded_away_from_zero() -> None:
    law = np.full(16, 1 / 16)
    found = total_variation(np.random.default_rng(0).multinomial(20_000, biased(law, 0.1)), law)
    assert 0.08 < found.low < 0.1 < found.high < 0.12
    assert found.num_samples == 20_000 and found.num_cells == 16


def test_extremes() -> None:
    assert total_variation([10, 0], [0.0, 1.0]).estimate == 1.0
    same = total_variation([50, 50], [0.5, 0.5])
    assert (same.estimate, same.corrected, same.low) == (0.0, 0.0, 0.0)
    with pytest.raises(BadInput) as error:
        total_variation([5, 5], [0.5, 0.5], level=1.0)
    assert error.value.code == "level_range"


@pytest.mark.parametrize("level", [1e-300, 1.0 - 1e-12, float("nan")])
def test_a_level_out_of_reach_of_the_bootstrap_is_refused(level) -> None:
    with pytest.raises(BadInput) as error:
        total_variation([5, 5], [0.5, 0.5], level=level)
    assert error.value.code == "level_range"
    found = total_variation([9, 1], [0.5, 0.5], level=1e-6)
    assert found.low <= found.high


@pytest.mark.parametrize("samples", [0, -1, 1.5, float("nan")])
def test_a_noise_floor_needs_samples(samples) -> None:
    with pytest.raises(BadInput) as error:
        noise_floor([0.5, 0.5], samples)
    assert error.value.code == "no_samples"
