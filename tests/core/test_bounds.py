"""The best possible acceptance of several candidates, and how near the rules come."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling, overlap
from speclab.core.rules import RULES
from speclab.core.rules.bounds import (
    candidates_iid,
    candidates_without_replacement,
    optimal_acceptance,
    optimal_acceptance_iid,
    optimal_acceptance_without_replacement,
)
from speclab.testing.rule_law import rule_law

P, Q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.6, 0.1, 0.1])
SURE_P = np.array([0.4, 0.35, 0.2, 0.05])


def laws(count: int, size: int, seed: int = 0):
    generator = np.random.default_rng(seed)
    for case in range(count):
        p, q = generator.dirichlet(np.full(size, 0.5), 2)
        if case % 3 == 0:
            q[case % size] = 0.0
            q /= q.sum()
        if case % 4 == 0:
            p[(case + 1) % size] = 0.0
            p /= p.sum()
        yield p, q


def test_the_table_of_two_candidates() -> None:
    assert optimal_acceptance_iid(P, Q, 2) == pytest.approx(0.860, abs=5e-4)
    assert optimal_acceptance_without_replacement(P, Q, 2) == pytest.approx(1.0, abs=1e-12)
    want = {"k-seq": 0.788, "siblings-iid": 0.755, "siblings-without-replacement": 0.860}
    for name, accepted in want.items():
        law, kept = rule_law(RULES[name], P, Q, num_candidates=2)
        assert kept == pytest.approx(accepted, abs=5e-4), name
        assert np.abs(law - P).max() < 1e-12


def test_one_candidate_is_the_overlap() -> None:
    for p, q in laws(50, 6):
        for bound in (optimal_acceptance_iid, optimal_acceptance_without_replacement):
            assert bound(p, q, 1) == pytest.approx(overlap(p, q), abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ratio_order_finds_the_best_of_all_sets(count: int) -> None:
    for p, q in laws(60, 6, seed=count):
        whole = optimal_acceptance(p, candidates_iid(q, count))
        assert optimal_acceptance_iid(p, q, count) == pytest.approx(whole, abs=1e-12)


def test_the_laws_of_candidates_sum_to_one() -> None:
    for _, q in laws(10, 5):
        sets = candidates_iid(q, 2)
        for one, two in product(range(5), repeat=2):
            if one < two:
                both = sets[(1 << one) | (1 << two)]
                assert both == pytest.approx(2 * q[one] * q[two], abs=1e-15)
        for make in (candidates_iid, candidates_without_replacement):
            assert make(q, 3).sum() == pytest.approx(1.0, abs=1e-12)


def nearly_sure(rare: float) -> np.ndarray:
    """A draft that gives three of four tokens next to nothing, in fixed proportions."""
    return np.array([1.0 - 6.0 * rare, rare, 2.0 * rare, 3.0 * rare])


@pytest.mark.parametrize("rare", [1e-9, 1e-13, 1e-15, 1e-17, 1e-30])
def test_a_nearly_sure_draft_loses_no_digit(rare: float) -> None:
    """At 1e-17 the first token has probability 1 in float64; the others still have their shares."""
    bound = optimal_acceptance_without_replacement(SURE_P, nearly_sure(rare), 2)
    assert bound == pytest.approx(0.49 / 0.6, abs=1e-12)
    for count in (2, 3):
        law = candidates_without_replacement(nearly_sure(rare), count)
        found = optimal_acceptance_without_replacement(SURE_P, nearly_sure(rare), count)
        assert found == pytest.approx(optimal_acceptance(SURE_P, law), abs=1e-12)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_bound_of_drafts_over_eighteen_orders_of_magnitude(count: int) -> None:
    generator = np.random.default_rng(count)
    for _ in range(12):
        q = 10.0 ** -generator.uniform(0.0, 18.0, 6)
        q /= q.sum()
        p = generator.dirichlet(np.full(6, 0.5))
        best = optimal_acceptance(p, candidates_without_replacement(q, count))
        found = optimal_acceptance_without_replacement(p, q, count)
        assert found == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_tokens_of_probability_zero_change_no_bound(count: int) -> None:
    for p, q in laws(40, 5, seed=count):
        wide = [np.concatenate([law, np.zeros(12)]) for law in (p, q)]
        for bound in (optimal_acceptance_iid, optimal_acceptance_without_replacement):
            assert bound(*wide, count) == pytest.approx(bound(p, q, count), abs=1e-12)


def test_no_rule_accepts_more_than_the_bound_and_more_candidates_help() -> None:
    for p, q in laws(25, 4, seed=5):
        iid = [optimal_acceptance_iid(p, q, count) for count in (1, 2, 3)]
        assert iid == sorted(iid)
        for count in (1, 2):
            apart = optimal_acceptance_without_replacement(p, q, count)
            most = {"siblings-iid": iid[count - 1], "k-seq": iid[count - 1]}
            most["siblings-without-replacement"] = apart
            for name, bound in most.items():
                kept = rule_law(RULES[name], p, q, num_candidates=count, sampling=Sampling())[1]
                assert kept <= bound + 1e-12, name


def test_what_has_no_bound_is_refused() -> None:
    with pytest.raises(BadInput, match="at least one"):
        optimal_acceptance_iid(P, Q, 0)
    with pytest.raises(BadInput, match="16 sets, not 3"):
        optimal_acceptance(P, np.ones(3))
    with pytest.raises(BadInput, match="too many sets"):
        candidates_iid(np.full(17, 1 / 17), 2)
