"""Draws at one position: controls, small samples, evidence that may be watched, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.core.rules import RULES
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.lab.position_draws import (
    MAX_DRAWS,
    MIN_CONTROL_BIAS,
    bars,
    control_for,
    position_draws,
    position_law,
)


def draws(rule: str = "token", count: int = 5_000, **more):
    return position_draws(STANDARD_P, STANDARD_Q, rule, count=count, **more)


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_has_another_broken_rule_as_its_control(name: str) -> None:
    control = control_for(STANDARD_P, STANDARD_Q, name)
    assert control.rule != name
    assert RULES[control.rule].kind == "broken"
    assert control.bias >= MIN_CONTROL_BIAS


def test_equal_laws_still_have_a_control_that_errs() -> None:
    assert control_for(STANDARD_P, STANDARD_P, "token").bias > 0.01


def test_two_drafts_are_kept_less_often_than_the_bound() -> None:
    drawn = position_law(STANDARD_P, STANDARD_Q, "siblings-iid")
    assert drawn.acceptance == pytest.approx(0.755)
    assert drawn.bound == pytest.approx(0.860)
    apart = position_law(STANDARD_P, STANDARD_Q, "siblings-without-replacement")
    assert apart.bound == pytest.approx(1.0)
    assert position_law(STANDARD_P, STANDARD_Q, "token").bound is None


def test_few_draws_are_judged_by_the_exact_test() -> None:
    report = draws(count=3).report
    assert report is not None
    assert report.main.test == "multinomial-exact"
    assert report.verdict == "inconclusive"


def test_a_certain_target_leaves_nothing_to_compare() -> None:
    assert position_draws([1.0, 0.0], [0.5, 0.5], "token", count=10).report is None


def test_evidence_may_be_watched_and_finds_a_broken_rule() -> None:
    assert draws("token").anytime_p > 0.05
    assert draws("broken-redraw-from-p").anytime_p < 1e-6


def test_snapshots_lead_to_the_counts() -> None:
    first = draws(count=2_000, seed=1)
    more = draws(count=2_000, seed=3, earlier=first.counts, control_earlier=first.control_counts)
    for snapshot in more.snapshots:
        assert all(a >= b for a, b in zip(snapshot, first.counts, strict=True))
        assert all(a <= b for a, b in zip(snapshot, more.counts, strict=True))


def test_contributions_sum_to_chi_square() -> None:
    drawn = draws()
    assert drawn.report is not None
    assert sum(drawn.contributions) == pytest.approx(drawn.report.main.statistic)


def test_draws_with_other_bars_are_refused() -> None:
    with pytest.raises(BadInput, match="do not fit"):
        draws(earlier=[1, 2, 3])


@pytest.mark.parametrize("count", [0, -1, MAX_DRAWS + 1, 1.5, True])
def test_a_count_out_of_range_is_named(count: object) -> None:
    with pytest.raises(BadInput, match="cannot be made"):
        draws(count=count)  # type: ignore[arg-type]


def test_bars_are_divided_by_their_sum() -> None:
    assert np.allclose(bars([2, 1, 1], "p"), [0.5, 0.25, 0.25])


@pytest.mark.parametrize("values", [[1], [0, 0], [1, -1], [1, "x"], [float("nan"), 1], [True, 1]])
def test_bars_that_are_no_law_are_refused(values: list) -> None:
    with pytest.raises(BadInput, match="p"):
        bars(values, "p")
