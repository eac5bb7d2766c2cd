"""Acceptance of several candidates in closed form, against every branch of the rule itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling, overlap
from speclab.core.rules import RULES
from speclab.core.rules.bounds import (
    candidates_without_replacement,
    optimal_acceptance,
    optimal_acceptance_iid,
    optimal_acceptance_without_replacement,
)
from speclab.core.rules.several import (
    acceptance_iid,
    acceptance_k_seq,
    acceptance_without_replacement,
)
from speclab.testing.rule_law import rule_law

P, Q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.6, 0.1, 0.1])
OF_RULE = {
    "siblings-iid": acceptance_iid,
    "k-seq": acceptance_k_seq,
    "siblings-without-replacement": acceptance_without_replacement,
}


@st.composite
def two_laws(draw, size: int = 5):
    weight = st.one_of(st.just(0.0), st.floats(0.001, 1.0), st.floats(1.0, 50.0))
    both = []
    for _ in range(2):
        weights = np.array(draw(st.lists(weight, min_size=size, max_size=size)))
        weights[draw(st.integers(0, size - 1))] += 0.5
        both.append(weights / weights.sum())
    return both


def test_the_standard_pair() -> None:
    assert acceptance_iid(P, Q, 2) == pytest.approx(0.755, abs=5e-4)
    assert acceptance_k_seq(P, Q, 2) == pytest.approx(0.788, abs=5e-4)
    assert acceptance_without_replacement(P, Q, 2) == pytest.approx(0.860, abs=5e-4)


def test_k_seq_and_without_replacement_are_not_ordered() -> None:
    p, q = np.array([0.52, 0.43, 0.05]), np.array([0.52, 0.31, 0.17])
    assert acceptance_k_seq(p, q, 2) == pytest.approx(0.9496, abs=5e-5)
    assert acceptance_without_replacement(p, q, 2) == pytest.approx(0.9248, abs=5e-5)
    assert acceptance_k_seq(P, Q, 2) < acceptance_without_replacement(P, Q, 2)


@settings(max_examples=25, deadline=None)
@given(two_laws(4), st.integers(1, 3))
def test_they_are_what_the_rules_do(laws, count: int) -> None:
    p, q = laws
    for name, value in OF_RULE.items():
        if name == "siblings-without-replacement" and np.count_nonzero(q) < count:
            continue
        _, kept = rule_law(RULES[name], p, q, num_candidates=count, sampling=Sampling())
        assert value(p, q, count) == pytest.approx(kept, abs=1e-9), name


@settings(max_examples=200, deadline=None)
@given(two_laws(6), st.integers(1, 4))
def test_the_bound_of_ratio_order_is_the_best_of_all_sets(laws, count: int) -> None:
    p, q = laws
    best = optimal_acceptance(p, candidates_without_replacement(q, count))
    found = optimal_acceptance_without_replacement(p, q, count)
    assert found == pytest.approx(best, abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(two_laws(6), st.integers(1, 4))
def test_the_chain_of_inequalities(laws, count: int) -> None:
    p, q = laws
    in_turn = acceptance_iid(p, q, count)
    assert overlap(p, q) <= in_turn + 1e-9
    assert in_turn <= acceptance_k_seq(p, q, count) + 1e-9
    assert acceptance_k_seq(p, q, count) <= optimal_acceptance_iid(p, q, count) + 1e-9
    apart = acceptance_without_replacement(p, q, count)
    assert in_turn <= apart + 1e-9
    assert apart <= optimal_acceptance_without_replacement(p, q, count) + 1e-9


def wide_laws(size: int, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(size, 0.1))
    q = 0.7 * p[generator.permutation(size)] + 0.3 * generator.dirichlet(np.full(size, 0.1))
    return [0.5 * p + 0.5 * q, q]


def test_representatives_stand_for_all_refused_tokens() -> None:
    for seed in range(4):
        p, q = wide_laws(60, seed)
        for count in (3, 4):
            every = acceptance_without_replacement(p, q, count, representatives=60)
            some = acceptance_without_replacement(p, q, count)
            assert some == pytest.approx(every, abs=2e-3)


def test_wide_vocabularies_and_sure_drafts() -> None:
    p, q = wide_laws(3000, 1)
    for count in (2, 3, 4):
        bound = optimal_acceptance_without_replacement(p, q, count)
        assert acceptance_without_replacement(p, q, count) <= bound + 1e-9 <= 1.0 + 2e-9
        padded = [np.concatenate([law, np.zeros(500)]) for law in (p, q)]
        assert optimal_acceptance_without_replacement(*padded, count) == pytest.approx(
            bound, abs=1e-12
        )
    sure = np.full(50, 1e-9)
    sure[3] += 1.0 - sure.sum()
    for count in (2, 3, 4):
        assert optimal_acceptance_without_replacement(sure, sure, count) == pytest.approx(1.0)
        assert acceptance_without_replacement(sure, sure, count) == pytest.approx(1.0)


@pytest.mark.parametrize("rare", [1e-3, 1e-9, 1e-13, 1e-17])
def test_what_a_nearly_sure_draft_leaves_is_drawn_from_its_rest(rare: float) -> None:
    """After the sure token the rule draws from the others' shares, however small: .75 of p kept."""
    p = np.array([0.4, 0.35, 0.2, 0.05])
    q = np.array([1.0 - 6.0 * rare, rare, 2.0 * rare, 3.0 * rare])
    assert acceptance_without_replacement(p, q, 2) == pytest.approx(0.75, abs=1e-9)
    for count in (2, 3):
        rule = RULES["siblings-without-replacement"]
        _, kept = rule_law(rule, p, q, num_candidates=count, sampling=Sampling())
        assert acceptance_without_replacement(p, q, count) == pytest.approx(kept, abs=1e-9)


def test_a_draft_of_fewer_tokens_is_drawn_whole() -> None:
    q = np.array([0.5, 0.5, 0.0, 0.0])
    assert optimal_acceptance_without_replacement(P, q, 3) == pytest.approx(0.8)
    assert acceptance_without_replacement(P, q, 3) == pytest.approx(0.8)


def test_no_candidate_is_refused() -> None:
    for value in OF_RULE.values():
        with pytest.raises(BadInput, match="at least one"):
            value(P, Q, 0)
