"""Power in the least favourable direction, stated and simulated."""

from __future__ import annotations

import math

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.stats.cells import tabulate
from speclab.stats.goodness import chi_square
from speclab.stats.power import (
    chi_square_power,
    detectable_bias,
    most_cells,
    noncentrality,
    samples_needed,
)

N, BIAS = 20_000, 0.02


def least_favourable(law: np.ndarray, bias: float) -> np.ndarray:
    """Return p with `bias` moved in proportion between the two halves of the mass."""
    half = np.cumsum(law) <= 0.5 + 1e-9
    mass = law[half].sum()
    assert mass == pytest.approx(0.5, abs=0.02)
    return np.where(half, law * (1 + bias / mass), law * (1 - bias / (1 - mass)))


def laws() -> list[np.ndarray]:
    uneven = np.random.default_rng(0).dirichlet(np.full(16, 3.0)) / 2
    return [np.full(32, 1 / 32), np.concatenate([uneven, uneven[::-1]])]


@pytest.mark.parametrize("law", laws(), ids=["even", "uneven"])
def test_a_bias_of_two_hundredths_is_caught_on_32_cells(law) -> None:
    rng = np.random.default_rng(1)
    wrong = least_favourable(law, BIAS)
    p_values = np.array(
        [chi_square(tabulate(rng.multinomial(N, wrong), law)).p_value for _ in range(2_000)]
    )
    assert np.mean(p_values <= 0.05) > 0.9
    for level in (0.05, 1e-3):
        stated = chi_square_power(32, N, BIAS, level)
        assert np.mean(p_values <= level) == pytest.approx(stated, abs=0.03)


def test_no_other_direction_is_seen_less_often() -> None:
    rng = np.random.default_rng(2)
    law = rng.dirichlet(np.ones(32))
    for _ in range(200):
        gap = rng.normal(size=32) * rng.choice([law, np.sqrt(law), np.ones(32) / 32])
        gap -= gap.mean()
        gap *= 2 * BIAS / np.abs(gap).sum()
        assert N * (gap**2 / law).sum() >= noncentrality(N, BIAS) - 1e-9


def test_on_more_cells_power_and_the_n_it_needs() -> None:
    assert chi_square_power(32, N, BIAS, 0.05) > 0.9 > chi_square_power(64, N, BIAS, 0.05)
    for cells in (8, 32, 500):
        for level in (0.05, 1e-3):
            needed = samples_needed(cells, BIAS, level=level)
            assert chi_square_power(cells, needed, BIAS, level) >= 0.9
            assert chi_square_power(cells, needed - 1, BIAS, level) < 0.9
            bias = detectable_bias(cells, needed, level=level)
            assert bias == pytest.approx(BIAS, rel=1e-3)


def test_how_many_cells_a_bias_allows() -> None:
    cells = most_cells(N, BIAS, level=1e-3)
    assert chi_square_power(cells, N, BIAS, 1e-3) >= 0.9
    assert chi_square_power(cells + 1, N, BIAS, 1e-3) < 0.9
    assert most_cells(100, BIAS) is None


def test_edges() -> None:
    assert chi_square_power(8, N, 0.0, 0.05) == pytest.approx(0.05, abs=1e-6)
    assert detectable_bias(8, 2) == 1.0
    for call, code in (
        (lambda: samples_needed(8, 0.0), "bias_range"),
        (lambda: chi_square_power(1, N, BIAS, 0.05), "power_cells"),
        (lambda: detectable_bias(8, 0), "no_samples"),
    ):
        with pytest.raises(BadInput) as error:
            call()
        assert error.value.code == code


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, math.nan])
def test_a_level_or_power_of_nothing_or_everything_is_refused_at_once(level) -> None:
    for call in (
        lambda: detectable_bias(8, N, level=level),
        lambda: detectable_bias(8, N, power=level),
        lambda: samples_needed(8, BIAS, level=level),
        lambda: chi_square_power(8, N, BIAS, level),
        lambda: most_cells(N, BIAS, level=level),
    ):
        with pytest.raises(BadInput) as error:
            call()
        assert error.value.code == "power_range"
