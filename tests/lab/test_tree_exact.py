"""Rounds over trees of any shape: exact under the right rule, and what the misread ones do."""

from __future__ import annotations

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.core.rules import RULES
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.lab.tree_exact import (
    MAX_NODES,
    MISREAD_OF,
    RULE_OF,
    chain_of,
    compare_tree,
    round_law,
    shapes_of,
    sibling_rates,
)
from speclab.methods.rank_trees import RankTree, expected_tokens
from speclab.testing import rule_law

P, Q = tuple(STANDARD_P.tolist()), tuple(STANDARD_Q.tolist())
SMALL = [shape for count in range(4) for shape in shapes_of(count)]


@pytest.mark.parametrize("siblings", RULE_OF)
@pytest.mark.parametrize("shape", SMALL, ids=lambda shape: str(shape.paths))
def test_every_small_tree_keeps_the_law_and_is_worth_the_sum_of_its_paths(
    siblings: str, shape: RankTree
) -> None:
    found = compare_tree(shape.paths, P, Q, siblings)
    assert np.abs(np.array(found.exact.law) - P).max() < 1e-12
    assert found.exact.texts_apart < 1e-12
    rates = (sibling_rates(STANDARD_P, STANDARD_Q, siblings, 4),) * 4
    assert found.exact.tokens_per_pass == pytest.approx(expected_tokens(shape, rates), abs=1e-12)
    assert found.exact.tokens_per_pass == pytest.approx(1 + sum(found.exact.accepted), abs=1e-12)
    assert found.chain <= found.best + 1e-12 >= found.exact.tokens_per_pass


def test_trees_are_counted_once_each() -> None:
    """The ordered trees of n nodes below a root are the Catalan numbers."""
    assert [len(set(shapes_of(n))) for n in range(6)] == [1, 1, 2, 5, 14, 42]
    assert all(len(list(shapes_of(n))) == len(set(shapes_of(n))) for n in range(6))


@pytest.mark.parametrize("siblings", RULE_OF)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_siblings_alone_agree_with_the_law_of_one_position(siblings: str, count: int) -> None:
    """`rule_law` drafts and judges with code of its own."""
    shape = RankTree.of([(rank,) for rank in range(count)])
    for names in (RULE_OF, {"top-k": MISREAD_OF["top-k"]}):
        if siblings not in names:
            continue
        rule = RULES[names[siblings]]
        found = round_law(shape, STANDARD_P, STANDARD_Q, siblings, rule)
        law, kept = rule_law(rule, P, Q, num_candidates=count)
        assert np.abs(np.array(found.law) - law).max() < 1e-12
        assert sum(found.accepted) == pytest.approx(kept, abs=1e-12)


def test_the_soft_q_accepts_a_chosen_child_that_agrees_every_time() -> None:
    found = compare_tree(((0,), (1,)), (0.51, 0.49), (0.51, 0.49), "top-k")
    assert found.exact.accepted == pytest.approx((0.51, 0.49), abs=1e-12)
    assert found.misread.law == pytest.approx((1.0, 0.0), abs=1e-12)


def test_a_q_that_keeps_what_was_drawn_is_biased_from_the_second_child_on() -> None:
    p, q = (0.6, 0.3, 0.1), (0.05, 0.15, 0.8)
    found = compare_tree(((0,), (1,)), p, q, "without-replacement")
    assert found.exact.law == pytest.approx(p, abs=1e-12)
    assert found.misread.law == pytest.approx((0.225, 0.675, 0.1), abs=1e-12)
    chain = compare_tree(chain_of(2).paths, p, q, "without-replacement")
    assert chain.misread.law == pytest.approx(p, abs=1e-12)


def test_chosen_children_need_breadth_where_drawn_ones_can_go_deep() -> None:
    wide, long = ((0,), (1,)), chain_of(2).paths
    taus = {
        siblings: [compare_tree(s, P, Q, siblings).exact.tokens_per_pass for s in (wide, long)]
        for siblings in RULE_OF
    }
    assert taus["top-k"] == pytest.approx([1.8, 1.39])
    assert taus["without-replacement"][0] < taus["without-replacement"][1]


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([(rank,) for rank in range(4)] + [(0, 0)], f"at most {MAX_NODES} nodes"),
        ([(0, 0)], "lacks its parent"),
        ([(0,), (0,)], "given twice"),
        ([(1,)], "without the sibling before it"),
        ([(0,), (-1,)], "there are 4 tokens"),
        ([(0,), (0.5,)], "there are 4 tokens"),
    ],
)
def test_what_is_no_tree_is_refused(paths: list[tuple], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        compare_tree(tuple(paths), P, Q, "top-k")


def test_siblings_of_no_known_kind_are_refused() -> None:
    with pytest.raises(BadInput, match="not 'iid'"):
        compare_tree(((0,),), P, Q, "iid")
