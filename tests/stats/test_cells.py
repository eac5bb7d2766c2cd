"""Cells depend on expected counts only; bad input is named; renumbering tokens changes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.stats.cells import check_counts, check_law, count_tokens, pool, tabulate
from speclab.stats.directed import directed_test
from speclab.stats.goodness import chi_square, g_test, multinomial_test
from speclab.stats.missing_mass import missing_mass_test
from speclab.stats.sequential import EProcess
from speclab.stats.variation import total_variation


def test_rare_tokens_are_pooled_in_falling_order_and_the_rest_joins_the_last_cell() -> None:
    law = [0.5, 0.3, 0.1, 0.04, 0.03, 0.02, 0.01]
    cells = pool(law, 100)
    assert cells.members == ((0,), (1,), (2,), (3, 4, 5, 6))
    assert cells.probs == pytest.approx((0.5, 0.3, 0.1, 0.1))
    assert pool(law, 100, min_expected=10).members == ((0,), (1,), (2,), (3, 4, 5, 6))
    assert pool(law, 20).members == ((0,), (1, 2, 3, 4, 5, 6))
    assert pool(law, 100, min_expected=0).members == tuple((i,) for i in range(7))


def test_tied_tokens_share_a_cell_or_stand_alone_together() -> None:
    law = [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    assert len(pool(law, 100).members) == 7
    assert pool(law, 49).members == ((0,), (1, 2, 3, 4, 5, 6))
    assert pool(law, 100, max_cells=3).members == ((0,), (1, 2, 3, 4, 5, 6))
    # what stays below five joins the tied tokens before it, all of them
    assert pool([0.6, 0.19, 0.19, 0.02], 100).members == ((0,), (1, 2, 3))


def test_a_limit_of_cells_is_kept_and_uses_most_of_it() -> None:
    law = 1.0 / np.arange(1, 5_001)
    cells = pool(law / law.sum(), 20_000, max_cells=32)
    assert 28 <= len(cells.members) <= 32
    assert sum(len(cell) for cell in cells.members) == 5_000
    assert min(cells.probs) * 20_000 >= cells.min_expected > 5.0


def test_a_table_says_what_was_pooled_and_fits_json() -> None:
    table = tabulate([50, 30, 10, 4, 3, 2, 1], [0.5, 0.3, 0.1, 0.04, 0.03, 0.02, 0.01])
    result = chi_square(table)
    assert result.pooled == ((4, pytest.approx(10.0), 10),)
    assert (result.num_samples, result.num_cells, result.df) == (100, 4, 3)
    assert json.loads(json.dumps(asdict(result), allow_nan=False))["p_value"] == 1.0


@pytest.mark.parametrize("test", [chi_square, g_test, multinomial_test])
def test_one_impossible_token_rejects_and_is_named(test) -> None:
    result = test(tabulate([60, 39, 0, 1], [0.6, 0.4, 0.0, 0.0]))
    assert (result.p_value, result.statistic, result.forbidden) == (0.0, None, ((3, 1),))
    assert result.num_samples == 100
    json.dumps(asdict(result), allow_nan=False)


def test_one_impossible_token_rejects_everywhere_else() -> None:
    counts, law = [600, 399, 0, 1], [0.6, 0.4, 0.0, 0.0]
    draft = [0.3, 0.3, 0.2, 0.2]
    for result in (directed_test(counts, law, draft), missing_mass_test(counts, law)):
        assert (result.p_value, result.forbidden) == (0.0, ((3, 1),))
    watched = EProcess(law).update(counts)
    assert (watched.p_value, watched.forbidden) == (0.0, ((3, 1),))
    # a peaked law has one possible token: alone nothing to test, but a wrong one decides
    assert chi_square(tabulate([99, 1], [1.0, 0.0])).p_value == 0.0


BAD = [
    (lambda: check_law([0.5, 0.4]), "law_sum"),
    (lambda: check_law([1.2, -0.2]), "law_negative"),
    (lambda: check_law([0.5, np.nan]), "law_not_number"),
    (lambda: check_law([0.5, np.inf]), "law_not_number"),
    (lambda: check_law([1.0]), "law_one_token"),
    (lambda: check_law([]), "law_one_token"),
    (lambda: pool([0.5, 0.5], 0), "no_samples"),
    (lambda: pool([0.5, 0.5], -3), "no_samples"),
    (lambda: tabulate([0, 0], [0.5, 0.5]), "no_samples"),
    (lambda: pool([0.5, 0.5], 4), "one_cell"),
    (lambda: tabulate([100, 0], [1.0, 0.0]), "one_cell"),
    (lambda: pool([0.25] * 4, 1_000, max_cells=3), "one_cell"),
    (lambda: tabulate([5, 5, 1], [0.5, 0.5]), "outside_vocabulary"),
    (lambda: count_tokens([0, 1, 2], 2), "outside_vocabulary"),
    (lambda: count_tokens([0, -1], 2), "outside_vocabulary"),
    (lambda: count_tokens([], 2), "no_samples"),
    (lambda: tabulate([5], [0.5, 0.5]), "counts_invalid"),
    (lambda: tabulate([5.5, 4.5], [0.5, 0.5]), "counts_invalid"),
    (lambda: tabulate([-5, 15], [0.5, 0.5]), "counts_invalid"),
    (lambda: tabulate([5, np.nan], [0.5, 0.5]), "counts_invalid"),
]


@pytest.mark.parametrize(("call", "code"), BAD, ids=[f"{i}-{b[1]}" for i, b in enumerate(BAD)])
def test_bad_input_is_named(call, code: str) -> None:
    with pytest.raises(BadInput) as error:
        call()
    assert error.value.code == code and len(error.value.what) > 20


def test_counts_of_tokens() -> None:
    assert count_tokens([2, 0, 2], 4).tolist() == [1, 0, 2, 0]


@st.composite
def renumbered(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return p with ties and zeros, q, counts, and a new order of the tokens."""
    weights = draw(st.lists(st.sampled_from([0, 1, 1, 2, 5, 40, 300]), min_size=4, max_size=30))
    weights += [200, 500]
    law = np.array(weights, dtype=np.float64) / sum(weights)
    size = law.size
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    order = rng.permutation(size)
    other = rng.dirichlet(np.ones(size))
    wrong = draw(st.sampled_from([0.0, 0.1]))
    counts = rng.multinomial(draw(st.sampled_from([40, 2_000])), (1 - wrong) * law + wrong * other)
    return law, other, counts, order


@settings(max_examples=60, deadline=None)
@given(renumbered())
def test_renumbering_tokens_changes_no_verdict(case) -> None:
    law, draft, counts, order = case
    new_law, new_draft, new_counts = law[order], draft[order], counts[order]
    for limits in ({}, {"max_cells": 4}):
        cells, other = pool(law, 500, **limits), pool(new_law, 500, **limits)
        old = {frozenset(cell) for cell in cells.members}
        assert {frozenset(order[list(cell)].tolist()) for cell in other.members} == old
        assert sorted(cells.probs) == sorted(other.probs)
    table, again = tabulate(counts, law), tabulate(new_counts, new_law)
    pairs = [(test(table), test(again)) for test in (chi_square, g_test)]
    pairs += [tuple(multinomial_test(t, draws=199, max_outcomes=99) for t in (table, again))]
    pairs += [(directed_test(counts, law, draft), directed_test(new_counts, new_law, new_draft))]
    pairs += [
        (
            missing_mass_test(counts, law, draws=999),
            missing_mass_test(new_counts, new_law, draws=999),
        )
    ]
    for left, right in pairs:
        assert left.p_value == pytest.approx(right.p_value, rel=1e-9), left.test
        assert len(left.forbidden) == len(right.forbidden)
    assert EProcess(law).update(counts).p_value == pytest.approx(
        EProcess(new_law).update(new_counts).p_value, rel=1e-9
    )
    left, right = (
        total_variation(c, p, resamples=99) for c, p in ((counts, law), (new_counts, new_law))
    )
    assert asdict(left) == pytest.approx(asdict(right), rel=1e-9)


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ([1e300, 1], "no_samples"),
        ([10**30, 1], "no_samples"),
        ([2**62, 2**62], "no_samples"),
        ([10**400, 1], "counts_invalid"),
        (["1", "2"], "counts_invalid"),
        ([None, 1], "counts_invalid"),
        ([1, [2]], "counts_invalid"),
        ([1 + 2j, 1], "counts_invalid"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_counts_out_of_reach_are_refused(counts, code) -> None:
    with pytest.raises(BadInput) as error:
        check_counts(counts, 2)
    assert error.value.code == code
