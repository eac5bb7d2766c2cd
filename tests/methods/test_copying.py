"""Prompt lookup with its choices: which place is copied, and several continuations as one tree."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from fault_kit import GREEDY, begin, law_and_acceptance, rules_for, run
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Proposal, Room, needed, provided
from speclab.core.randomness import Seeded
from speclab.core.rules import lossless_rules
from speclab.core.trees import TokenTree
from speclab.engine.loop import Limits
from speclab.methods import make_method
from speclab.methods.prompt_lookup import MOST_COMPARED, NO_MATCH, NgramIndex, PromptLookup
from speclab.models.toy import ToyModel
from speclab.testing import check_method, exact_law, largest_difference, target_law

A, B, C, D, E, X = range(6)
TEXT = (A, B, C, X, A, B, D, X, A, B, C, E, A, B, D, E, A, B, C, X, A, B)
"""After "ab": c x a .., d x a .., c e a .., d e a .., c x a ..: c leads 3 to 2, c x 2 to 1."""
TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=30).map(tuple)


def propose(
    text: tuple[int, ...] = TEXT,
    *,
    eos: tuple[int, ...] = (),
    depth: int = 50,
    nodes: int = 256,
    **params: Any,
) -> Proposal:
    kit = DraftKit(prompt=text, sampling=GREEDY, eos_ids=frozenset(eos), vocab_size=6)
    room = Room(context=text, max_depth=depth, max_nodes=nodes)
    return make_method("prompt-lookup", params).start(kit).propose(room, Seeded(0))


def paths(proposal: Proposal) -> list[tuple[int, ...]]:
    tree = proposal.tree
    return [tree.path_tokens(leaf) for leaf in tree.leaves()]


def test_which_place_is_copied() -> None:
    """The last with a whole continuation is the fifth; the first is the first."""
    short = {"num_speculative_tokens": 2, "max_ngram": 2}
    assert propose(**short).tree.tokens == (C, X)
    assert propose(**short).evidence[0].start == 18
    assert propose(match="first", **short).evidence[0].start == 2
    assert propose(match="frequent", **short).tree.tokens == (C, X)
    text = (*TEXT[:16], A, B)
    assert propose(text, **short).tree.tokens == (D, E), "the last of four"
    assert propose(text, match="first", **short).tree.tokens == (C, X)
    more = (*TEXT[:12], A, B, C, E, A, B, D, E, A, B)
    assert propose(more, **short).tree.tokens == (D, E)
    assert propose(more, match="frequent", **short).tree.tokens == (C, E), "c 3 to 2, c e 2 to 1"


def test_of_equals_the_most_frequent_is_the_last() -> None:
    text = (A, B, C, A, B, D, A, B)
    assert propose(text, match="frequent", num_speculative_tokens=1).tree.tokens == (D,)


def test_branches_are_different_continuations_in_one_trie() -> None:
    wish = {"num_speculative_tokens": 2, "max_ngram": 2}
    two = propose(branches=2, **wish)
    assert paths(two) == [(C, X), (D, E)]
    assert [(item.node, item.start, item.stop) for item in two.evidence] == [
        (1, 18, 20),
        (3, 14, 16),
    ]
    four = propose(branches=4, **wish)
    assert four.tree == TokenTree((C, X, D, E, E, X), (-1, 0, -1, 2, 0, 2))
    assert paths(four) == [(C, X), (D, E), (C, E), (D, X)]
    frequent = propose(branches=3, match="frequent", **wish)
    assert paths(frequent) == [(C, X), (C, E), (D, E)]
    assert paths(propose(branches=2, nodes=3, **wish)) == [(C, X), (D,)], "no room for more"
    assert paths(propose(branches=2, depth=1, **wish)) == [(C,), (D,)]


def test_shorter_matches_fill_the_branches_up() -> None:
    text = (B, E, E, A, B, C, C, A, B)
    wish = {"num_speculative_tokens": 2, "max_ngram": 2}
    assert paths(propose(text, branches=3, **wish)) == [(C, C), (E, E)]
    assert paths(propose(text, branches=3, min_ngram=2, **wish)) == [(C, C)]


def test_a_copied_eos_ends_its_branch() -> None:
    tree = propose(branches=4, num_speculative_tokens=3, max_ngram=2, eos=(X,)).tree
    ended = [node for node, token in enumerate(tree.tokens) if token == X]
    assert ended and not any(tree.children(node) for node in ended)


def slow_chain(text: tuple[int, ...], gamma: int, low: int, high: int) -> tuple[int, int] | None:
    """Where today's method copies from, found by trying every place."""
    for n in range(min(high, len(text) - 1), low - 1, -1):
        ends = [e for e in range(n, len(text)) if text[e - n : e] == text[len(text) - n :]]
        if ends:
            start = max(ends, key=lambda end: (min(gamma, len(text) - end), end))
            return start, min(len(text), start + gamma)
    return None


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.integers(1, 5), st.integers(1, 2), st.integers(0, 2))
def test_one_branch_is_the_chain_it_was(
    text: tuple[int, ...], gamma: int, low: int, more: int
) -> None:
    made = {"num_speculative_tokens": gamma, "min_ngram": low, "max_ngram": low + more}
    proposal, span = propose(text, **made), slow_chain(text, gamma, low, low + more)
    if span is None:
        assert proposal is NO_MATCH
        return
    assert proposal.tree == TokenTree.chain(text[slice(*span)])
    (evidence,) = proposal.evidence
    assert (evidence.node, evidence.start, evidence.stop) == (-1, *span)


@settings(max_examples=50, deadline=None)
@given(TEXTS, st.sampled_from(["recent", "frequent", "first"]), st.integers(2, 4))
def test_trees_hold_what_stands_in_the_text(
    text: tuple[int, ...], match: str, branches: int
) -> None:
    wish = {"match": match, "num_speculative_tokens": 3}
    proposal, chain = propose(text, branches=branches, **wish), propose(text, **wish)
    tree, n = proposal.tree, len(chain.tree)
    assert tree.tokens[:n] == chain.tree.tokens, "the first branch is the chain"
    twins = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(twins)) == len(twins), "no token twice among siblings"
    found = [item for item in proposal.evidence if item.kind == "copied_from"]
    assert len(found) <= branches and len(list(tree.leaves())) <= len(found)
    for item in found:
        assert text[item.start : item.stop] == tree.path_tokens(item.node)
        assert 0 < item.start < len(text)


class Counting(tuple):
    """A text that counts how often one of its tokens or spans is read."""

    reads = 0

    def __getitem__(self, place):
        Counting.reads += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("match", ["recent", "frequent", "first"])
def test_a_tree_of_a_periodic_text_looks_at_few_places(match: str) -> None:
    """All continuations of 2000 equal tokens coincide, so every place would be tried."""
    text = Counting((A,) * 2000)
    index = NgramIndex(1, 3)
    index.update(text)
    found = list(index.ranked(text, 8, match, MOST_COMPARED))
    assert len(found) == 3 * MOST_COMPARED
    wanted = range(3, 67) if match == "first" else range(1936, 2000)
    assert set(found[:MOST_COMPARED]) == set(wanted)
    assert len(set(index.ranked(text, 8, match))) == 1999
    run = PromptLookup(branches=2, match=match).start(
        DraftKit(prompt=text, sampling=GREEDY, vocab_size=6)
    )
    room = Room(context=text, max_depth=50, max_nodes=256)
    run.propose(room, Seeded(0))
    Counting.reads = 0
    assert run.propose(room, Seeded(0)).tree == TokenTree.chain((A,) * 8)
    assert Counting.reads < 3 * MOST_COMPARED * 12


def test_what_it_is_and_needs_follows_its_branches() -> None:
    chain, tree = PromptLookup(), PromptLookup(branches=2)
    assert needed(chain) == frozenset() and needed(tree) == {"tree_mask"}
    assert {"chain", "deterministic"} <= provided(chain, Sampling())
    assert "tree" not in provided(chain, Sampling())
    assert {"tree", "top_k_siblings"} <= provided(tree, Sampling())
    assert "chain" not in provided(tree, Sampling())


TARGET = ToyModel.random(7)
PROMPT = (0, 1, 0, 2, 0, 1, 0)
LIMITS = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))


@pytest.mark.parametrize("match", ["recent", "frequent"])
def test_the_law_of_a_tree_is_the_targets(match: str) -> None:
    method = PromptLookup(branches=3, num_speculative_tokens=2, match=match, max_ngram=1)
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    rules = lossless_rules(provided(method, Sampling()))
    assert {"token", "one-hot", "match", "siblings-topk"} <= set(rules)
    for rule in rules:
        start = partial(begin, TARGET, PROMPT, method=method, rule=rule, n=3, eos=(2,))
        law = exact_law(lambda rng, start=start: start(rng=rng))
        assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
        assert largest_difference(law.probs, want) < 1e-12


@pytest.mark.parametrize("branches", [1, 2])
def test_siblings_are_accepted_with_the_sum_of_their_probabilities(branches: int) -> None:
    """https://arxiv.org/abs/2406.16858 : chosen siblings, tested in turn with what is left of p."""
    p, drafted = TARGET.law(PROMPT), (2, 1)[:branches]
    for rule in ("token", "one-hot", "match", "siblings-topk"):
        method = PromptLookup(branches=branches, num_speculative_tokens=1)
        start = partial(begin, TARGET, PROMPT, method=method, rule=rule, n=2)
        law, accepted = law_and_acceptance(lambda rng, start=start: start(rng=rng), 3)
        assert law == pytest.approx(p, abs=1e-12)
        assert accepted == pytest.approx(sum(p[token] for token in drafted), abs=1e-12)


@pytest.mark.parametrize(
    "params", [{"branches": 3}, {"branches": 2, "match": "frequent"}, {"match": "first"}], ids=str
)
def test_the_kit_passes(params: dict) -> None:
    check_method(make_method("prompt-lookup", params))


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("match", ["recent", "frequent", "first"])
def test_greedy_text_is_plain_decoding(match: str, branches: int) -> None:
    for prompt in ((0,), (0, 1, 0), (2, 2, 2, 2)):
        plain, _ = run(TARGET, prompt, sampling=GREEDY, n=30)
        method = PromptLookup(match=match, branches=branches)
        for rule in rules_for("tree", "deterministic", "top_k_siblings"):
            text, _ = run(TARGET, prompt, method=method, rule=rule, sampling=GREEDY, n=30)
            assert text == plain
