"""What a chi-square test can see: its power, the smallest bias, the samples it needs.

A bias is a total variation between the law of the cells and the one sampled from. In the least
favourable direction half of the mass gains and half loses in proportion, which leaves the
noncentrality 4 N bias^2; every other direction is seen more easily. A bias inside a pooled cell is
not seen at all.
"""

from __future__ import annotations

import math

from scipy import optimize, stats

from speclab.core.errors import BadInput
from speclab.stats.cells import check_samples

LEAST = 1e-12
"""Levels and powers closer than this to 0 or 1 are out of the noncentral law's numerical reach."""


def noncentrality(num_samples: int, bias: float) -> float:
    """Return 4 N bias^2, the smallest noncentrality of any bias of this total variation.

    Minimising sum d^2 / p over sum |d| = 2 bias, sum d = 0 gives bias^2 / (a (1 - a)) for a gaining
    set of mass a.
    """
    return 4.0 * num_samples * bias**2


def chi_square_power(num_cells: int, num_samples: int, bias: float, level: float) -> float:
    """Return how often chi-square on these cells sees `bias` in the least favourable direction.

    Args:
        num_cells: at least 2. num_samples: N. bias: total variation. level: of the test.

    **Source:** noncentral chi-square: Patnaik 1949.
    """
    df = _degrees(num_cells)
    _inside("level", level)
    critical = stats.chi2.isf(level, df)
    return float(stats.ncx2.sf(critical, df, max(noncentrality(num_samples, bias), 1e-12)))


def needed_noncentrality(num_cells: int, *, level: float, power: float) -> float:
    """Return the noncentrality that chi-square on these cells sees with `power`.

    Raises:
        BadInput: for fewer than two cells, or a level or power outside (0, 1).
    """
    df = _degrees(num_cells)
    _inside("level", level)
    _inside("power", power)
    critical = stats.chi2.isf(level, df)
    if power <= level:
        return 0.0

    def gap(value: float) -> float:
        return float(stats.ncx2.sf(critical, df, value)) - power

    high = 1.0
    while gap(high) < 0.0:
        high *= 2.0
    return float(optimize.brentq(gap, 1e-12, high, xtol=1e-9))


def detectable_bias(
    num_cells: int, num_samples: int, *, level: float = 1e-3, power: float = 0.9
) -> float:
    """Return the total variation that is seen with `power` whatever its direction; at most 1."""
    needed = needed_noncentrality(num_cells, level=level, power=power)
    return min(math.sqrt(needed / (4.0 * check_samples(num_samples))), 1.0)


def samples_needed(num_cells: int, bias: float, *, level: float = 1e-3, power: float = 0.9) -> int:
    """Return the N that sees `bias` with `power` whatever its direction.

    Raises:
        BadInput: for a bias that is not above 0 and at most 1.
    """
    if not 0.0 < bias <= 1.0:
        raise BadInput(
            f"The bias is a total variation above 0 and at most 1, not {bias:g}.",
            code="bias_range",
            values={"bias": f"{bias:g}"},
        )
    return math.ceil(needed_noncentrality(num_cells, level=level, power=power) / (4.0 * bias**2))


def most_cells(
    num_samples: int, bias: float, *, level: float = 1e-3, power: float = 0.9
) -> int | None:
    """Return how many cells may be used so that `bias` is seen with `power`; None if not two."""
    low, high = 1, 2
    while high <= num_samples and chi_square_power(high, num_samples, bias, level) >= power:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if chi_square_power(middle, num_samples, bias, level) >= power:
            low = middle
        else:
            high = middle
    return low if low > 1 else None


def _inside(name: str, value: float) -> None:
    if not LEAST <= value <= 1.0 - LEAST:
        raise BadInput(
            f"The {name} lies between {LEAST:g} and 1 - {LEAST:g}, not at {value:g}.",
            code="power_range",
            values={"name": name, "low": f"{LEAST:g}", "value": f"{value:g}"},
        )


def _degrees(num_cells: int) -> int:
    if num_cells < 2:
        raise BadInput(
            f"Power needs at least two cells, not {num_cells}.",
            "Draw more samples or allow smaller cells.",
            code="power_cells",
            values={"cells": num_cells},
        )
    return num_cells - 1
