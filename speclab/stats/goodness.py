"""Do counts follow a law? Chi-square, G-test, and exact or simulated multinomial tests."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from speclab.stats.cells import StatTest, Table

Statistic = Literal["pearson", "g"]
_SLACK = 1e-9


def chi_square(table: Table) -> StatTest:
    """Return Pearson's test: sum (observed - expected)^2 / expected.

    **Source:** Pearson 1900.
    """
    statistic = math.fsum(residual**2 for residual in table.residuals())
    return _asymptotic(table, "chi-square", statistic)


def g_test(table: Table) -> StatTest:
    """Return the likelihood-ratio test: 2 sum observed ln(observed / expected).

    **Source:** Wilks 1938.
    """
    terms = special.xlogy(table.observed, np.divide(table.observed, table.expected))
    return _asymptotic(table, "g-test", max(2.0 * math.fsum(terms), 0.0))


def _asymptotic(table: Table, test: str, statistic: float) -> StatTest:
    df = len(table.observed) - 1
    p_value = float(stats.chi2.sf(statistic, df)) if df else 1.0
    return table.result(test, statistic, p_value=p_value, p_strict=p_value, df=df)


def num_outcomes(num_samples: int, num_cells: int) -> int:
    """Return how many tables of N samples in k cells there are."""
    return math.comb(num_samples + num_cells - 1, num_cells - 1)


def multinomial_test(
    table: Table,
    *,
    statistic: Statistic = "pearson",
    max_outcomes: int = 200_000,
    draws: int = 9_999,
    seed: int = 0,
) -> StatTest:
    """Return the test whose level needs no large N.

    Exact over every outcome while there are at most `max_outcomes`; otherwise p = (1 + b) /
    (1 + B) over B simulated tables, b of them at least as far off. Either is valid for any
    expected counts, so the table may be pooled with `min_expected=1` or 0.

    Args:
        table: counts in cells. statistic: what orders the outcomes.
        max_outcomes: budget of the enumeration. draws: B. seed: of the simulation.

    **Source:** simulation: Dwass 1957; (1 + b) / (1 + B): Davison and Hinkley 1997, 4.2.
    """
    # without the forbidden tokens: they decide alone and are not part of the null law
    num_samples, probs = sum(table.observed), np.array(table.cells.probs)
    if not num_samples:
        only = (("outcomes", 1.0),)
        return table.result("multinomial-exact", 0.0, p_value=1.0, p_strict=1.0, details=only)
    found = float(_statistics(np.array([table.observed]), num_samples * probs, statistic)[0])
    low, high = found * (1.0 - _SLACK) - _SLACK, found * (1.0 + _SLACK) + _SLACK
    outcomes = num_outcomes(num_samples, probs.size)
    if outcomes <= max_outcomes:
        rows = _all_tables(num_samples, probs.size)
        logs = special.gammaln(num_samples + 1) - special.gammaln(rows + 1).sum(1)
        weights = np.exp(logs + special.xlogy(rows, probs).sum(1))
        values = _statistics(rows, num_samples * probs, statistic)
        p_value, p_strict = weights[values >= low].sum(), weights[values > high].sum()
        name, details = "multinomial-exact", (("outcomes", float(outcomes)),)
    else:
        rows = np.random.default_rng(seed).multinomial(num_samples, probs / probs.sum(), draws)
        values = _statistics(rows, num_samples * probs, statistic)
        p_value = (1 + np.count_nonzero(values >= low)) / (1 + draws)
        p_strict = np.count_nonzero(values > high) / (1 + draws)
        name, details = "multinomial-simulated", (("draws", float(draws)), ("seed", float(seed)))
    return table.result(
        name,
        found,
        p_value=min(float(p_value), 1.0),
        p_strict=min(float(p_strict), 1.0),
        details=details,
    )


def _statistics(
    rows: NDArray[np.int64], expected: NDArray[np.float64], statistic: Statistic
) -> NDArray[np.float64]:
    """Return the statistic of each table [rows, cells]."""
    if statistic == "pearson":
        return ((rows - expected) ** 2 / expected).sum(1)
    return 2.0 * special.xlogy(rows, rows / expected).sum(1)


def _all_tables(num_samples: int, num_cells: int) -> NDArray[np.int64]:
    """Return every way to put N samples in k cells, [outcomes, k]."""
    rows, left = np.zeros((1, 0), dtype=np.int64), np.array([num_samples])
    for _ in range(num_cells - 1):
        choices = left + 1
        parent = np.repeat(np.arange(left.size), choices)
        first = np.repeat(np.cumsum(choices) - choices, choices)
        value = np.arange(parent.size) - first
        rows, left = np.column_stack([rows[parent], value]), left[parent] - value
    return np.column_stack([rows, left])
