"""Counts by depth, against rounds counted by hand."""

from __future__ import annotations

import pytest

from speclab.core.records import CoinFlip, Round, Verdict
from speclab.core.trees import TokenTree
from speclab.stats.depths import counts_by_depth


def flip(node: int, accepted: bool) -> CoinFlip:
    return CoinFlip(
        node=node, token=node, target_prob=0.5, draft_prob=1, accept_prob=0.5, accepted=accepted
    )


def judged(parents: tuple[int, ...], tested: tuple[int, ...], accepted: tuple[int, ...]) -> Round:
    """Return a round whose tree has these parents, with these nodes tested and accepted."""
    flips = tuple(flip(node, node in accepted) for node in tested)
    outcome = "bonus" if tested and tested[-1] in accepted else "correction"
    return Round(
        index=0,
        context_length=5,
        tree=TokenTree(tuple(range(len(parents))), parents),
        verdict=Verdict(accepted=accepted, next_token=0, outcome=outcome, flips=flips),
        emitted=(*accepted, 0),
    )


def test_a_tree_counts_its_siblings_and_a_round_without_a_draft_counts_nowhere() -> None:
    parents = (-1, -1, -1, 0, 1, 1)
    rounds = [
        judged(parents, (0, 1, 4, 5), (1, 5)),
        judged(parents, (0, 1, 2), ()),
        judged(parents, (0, 3), (0,)),
        judged((), (), ()),
    ]
    first, second = counts_by_depth(rounds)
    assert (first.depth, second.depth) == (1, 2)
    assert first.cumulative == first.conditional == pytest.approx(2 / 3)
    assert first.tested == pytest.approx((2 + 3 + 1) / 3)
    assert second.cumulative == pytest.approx(1 / 3)
    assert second.conditional == pytest.approx(1 / 2)
    assert second.tested == pytest.approx((2 + 1) / 2), "over the rounds that tested level 2"
    assert (first.drafted, second.drafted) == (3.0, 3.0)


def test_a_chain_tests_one_and_an_unreached_depth_says_nothing() -> None:
    rounds = [judged((-1, 0, 1), (0,), ()), judged((-1, 0, 1), (0,), ())]
    first, second, third = counts_by_depth(rounds)
    assert (first.cumulative, first.tested) == (0.0, 1.0)
    assert second.conditional is None and second.tested is None and third.tested is None
    assert counts_by_depth([]) == ()
