"""Suffix decoding: counts against brute force, an example worked by hand, both modes, the law."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from fault_kit import GREEDY, begin, law_and_acceptance, rules_for, run
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.earlier_texts import EarlierTexts, TextStore
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Proposal, Room, needed, provided
from speclab.core.randomness import Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.engine.loop import Decoding, Limits
from speclab.methods import make_method
from speclab.methods.suffix import Suffix
from speclab.methods.suffix_candidates import Bounds, likeliest_path, likeliest_tree
from speclab.methods.suffix_tree import ROOT, SuffixTrie, longer_trie
from speclab.models.toy import ToyModel
from speclab.testing import check_method, exact_law, largest_difference, target_law

A, B, C, D, E = range(5)
TEXT = (A, B, C, A, B, C, A, B, D, A, B)
"""After "ab": c, c, d; after "abc": a, a. Worked by hand below."""
TEXTS = st.lists(st.lists(st.integers(0, 2), max_size=14), min_size=1, max_size=3)


def propose(
    text: tuple[int, ...] = TEXT,
    *earlier: tuple[int, ...],
    eos: tuple[int, ...] = (),
    depth: int = 50,
    nodes: int = 256,
    **params: Any,
) -> Proposal:
    store = TextStore("letters")
    for one in earlier:
        store.add(one)
    kit = DraftKit(
        prompt=text,
        sampling=GREEDY,
        eos_ids=frozenset(eos),
        vocab_size=5,
        store=store.snapshot() if earlier else None,
    )
    room = Room(context=text, max_depth=depth, max_nodes=nodes)
    return make_method("suffix", params).start(kit).propose(room, Seeded(0))


def occurrences(texts: list[list[int]], sequence: tuple[int, ...]) -> int:
    n = len(sequence)
    return sum(
        tuple(text[at : at + n]) == sequence for text in texts for at in range(len(text) - n + 1)
    )


def sequences(texts: list[list[int]], longest: int) -> set[tuple[int, ...]]:
    return {
        tuple(text[at : at + n])
        for text in texts
        for n in range(1, longest + 1)
        for at in range(len(text) - n + 1)
    }


def trie_of(texts: list[list[int]], depth: int) -> SuffixTrie:
    trie = SuffixTrie(depth)
    for text in texts:
        trie.begin_text()
        trie.extend(text)
    return trie


# --- the trie --------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.integers(1, 5))
def test_counts_are_those_of_a_plain_count(texts: list[list[int]], depth: int) -> None:
    trie = trie_of(texts, depth)
    known = sequences(texts, depth)
    for sequence in known | {(0, 1, 2), (2, 2)}:
        if len(sequence) <= depth:
            assert trie.count(sequence) == occurrences(texts, sequence)
    assert len(trie) == 1 + len(known), "a node per sequence, none for longer ones"
    assert trie.counts[ROOT] == trie.length == sum(map(len, texts))


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 2), max_size=8), st.integers(2, 5))
def test_a_foreign_text_is_followed_as_far_as_it_occurs(
    texts: list[list[int]], other: list[int], depth: int
) -> None:
    trie, tail = trie_of(texts, depth), [ROOT]
    for end, token in enumerate(other, 1):
        tail = trie.follow(tail, token)
        known = [
            m
            for m in range(1, min(end, depth - 1) + 1)
            if occurrences(texts, tuple(other[end - m : end]))
        ]
        assert len(tail) == 1 + len(known)
        for m, node in enumerate(tail[1:], 1):
            assert trie.counts[node] == occurrences(texts, tuple(other[end - m : end]))


def test_reading_costs_a_step_per_depth_and_nothing_twice() -> None:
    trie = SuffixTrie(4)
    trie.extend(range(100))
    assert len(trie) <= 1 + 100 * 4
    kit = DraftKit(prompt=TEXT, sampling=GREEDY, vocab_size=5)
    started = Suffix().start(kit)
    room = Room(context=TEXT, max_depth=9, max_nodes=9)
    first = started.propose(room, Seeded(0))
    size = len(started._here), started._here.length
    assert started.propose(room, Seeded(1)) == first
    assert (len(started._here), started._here.length) == size


# --- candidates ------------------------------------------------------------------------------


def test_the_example_worked_by_hand() -> None:
    """m = 2, budget 2 * 2: c, a, b with 2/3 each, then d before c as it was read last: 1/3."""
    path = propose(factor=2.0)
    assert path.tree.tokens == (C, A, B, D) and path.tree.is_chain
    confidence, copied = path.evidence
    assert confidence.values == pytest.approx((2 / 3, 2 / 3, 2 / 3, 1 / 3))
    assert (copied.kind, copied.node) == ("copied_from", -1)
    assert TEXT[copied.start : copied.stop] == (C, A, B, D) and copied.stop == 9
    tree = propose(factor=2.0, mode="tree")
    assert tree.tree.tokens == (C, A, B, D) and tree.tree.parents == (-1, 0, 1, -1)
    assert tree.evidence[0].values == pytest.approx((2 / 3, 2 / 3, 2 / 3, 1 / 3))
    branches = {item.node: TEXT[item.start : item.stop] for item in tree.evidence[1:]}
    assert branches == {2: (C, A, B), 3: (D,)}


def test_a_path_ends_below_the_least_probability_and_at_its_budget() -> None:
    assert propose(factor=2.0, min_probability=0.5).tree.tokens == (C, A, B)
    assert propose(factor=2.0, min_probability=0.7).evidence[0].kind == "no_match"
    assert propose(factor=1.0).tree.tokens == (C, A), "floor(2 * 1)"
    assert propose(factor=0.75, offset=1.0).tree.tokens == (C, A), "floor(2 * 0.75 + 1)"
    assert propose(factor=0.0, offset=3.0).tree.tokens == (C, A, B)
    assert propose(factor=0.25).tree.tokens == (), "floor(2 * 0.25) = 0"
    assert propose(factor=4.0, num_speculative_tokens=3).tree.tokens == (C, A, B)
    assert propose(factor=4.0, max_depth=3).tree.tokens == (C, A), "match and draft: 3 tokens"
    assert propose(factor=2.0, depth=1).tree.tokens == (C,)
    assert propose(factor=2.0, mode="tree", depth=1).tree.tokens == (C, D)
    assert propose(factor=2.0, mode="tree", nodes=2).tree.tokens == (C, A)
    assert propose(depth=0).tree.tokens == () == propose(nodes=0).tree.tokens


def test_eos_is_drafted_and_nothing_after_it() -> None:
    for mode in ("path", "tree"):
        tree = propose(factor=4.0, mode=mode, eos=(A,)).tree
        ended = [node for node, token in enumerate(tree.tokens) if token == A]
        assert ended and not any(tree.children(node) for node in ended)


def test_earlier_texts_are_used_where_they_promise_more() -> None:
    alone = propose((C, A, B))
    assert alone.tree.tokens == () and alone.evidence[0].kind == "no_match"
    warm = propose((C, A, B), (A, B, E, E, D))
    assert warm.tree.tokens == (E, E)
    assert [(item.kind, item.value) for item in warm.evidence[1:]] == [("from_earlier_text", 2.0)]
    here = propose((A, B, C, D, A, B), (A, B, E, E, E))
    assert here.tree.tokens == (C, D), "of equal scores this text's"
    longer = propose((D, B, C, A, B), (A, B, E, E, E))
    assert longer.tree.tokens == (E, E), "a longer match drafts more"


def test_no_sequence_reaches_from_one_earlier_text_into_the_next() -> None:
    assert propose((C, A), (B, A), (E, E, E)).tree.tokens == ()
    assert propose((C, A), (B, A, E, E)).tree.tokens == (E,)


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.integers(1, 2), st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.4]))
def test_scores_are_the_best_that_brute_force_finds(
    texts: list[list[int]], match: int, nodes: int, least: float
) -> None:
    """Every path after a match has the probability that plain counts give it."""
    longest = 5
    trie = trie_of(texts, longest)
    for start in {s for s in sequences(texts, match) if len(s) == match}:
        probs: dict[tuple[int, ...], float] = {(): 1.0}
        for path in sorted({s[match:] for s in sequences(texts, longest) if s[:match] == start}):
            if path:
                parent = (*start, *path[:-1])
                total = sum(occurrences(texts, (*parent, token)) for token in range(3))
                probs[path] = probs[path[:-1]] * occurrences(texts, (*start, *path)) / total
        fine = {path: prob for path, prob in probs.items() if path and prob >= least}
        (node,) = [n for n in range(len(trie)) if n and sequence_of(trie, n) == start]
        bounds = Bounds(nodes=nodes, depth=longest, least=least)
        tree = likeliest_tree(trie, node, match, bounds)
        best = sorted(fine.values(), reverse=True)[:nodes]
        assert tree.score == pytest.approx(sum(best), abs=1e-12)
        path = likeliest_path(trie, node, match, bounds)
        so_far: tuple[int, ...] = ()
        for token, prob in zip(path.tokens, path.probs, strict=True):
            beside = [p for other, p in probs.items() if other[:-1] == so_far and other]
            so_far = (*so_far, token)
            assert prob == pytest.approx(max(beside))
            assert prob == pytest.approx(probs[so_far])
        assert path.score <= tree.score + 1e-12


def sequence_of(trie: SuffixTrie, node: int) -> tuple[int, ...]:
    parents = {child: parent for parent in range(len(trie)) for child in trie.children(parent)}
    found: list[int] = []
    while node != ROOT:
        found.append(trie.tokens[node])
        node = parents[node]
    return tuple(reversed(found))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.sampled_from(["path", "tree"]))
def test_every_branch_stands_where_its_evidence_says(text: list[int], mode: str) -> None:
    proposal = propose(tuple(text), mode=mode, factor=2.0, max_depth=8)
    tree = proposal.tree
    for item in proposal.evidence:
        if item.kind == "copied_from":
            leaf = item.node if item.node >= 0 else len(tree) - 1
            assert tuple(text[item.start : item.stop]) == tree.path_tokens(leaf)
    assert len({(p, t) for p, t in zip(tree.parents, tree.tokens)}) == len(tree), "no twins"


# --- the law ---------------------------------------------------------------------------------

TARGET = ToyModel.random(7)
PROMPT = (0, 1, 0, 1, 2, 0, 1)
LIMITS = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
TREE = {"mode": "tree", "factor": 4.0, "num_speculative_tokens": 4, "min_probability": 0.0}


def warm_start(method: Suffix, rule: str, rng: Any) -> Decoding:
    """A run that may copy from an earlier text; the store grows during the run."""
    store = TextStore("toy")
    store.add((0, 1, 1, 0, 1, 1))
    decoding = begin(TARGET, PROMPT, rule=rule, rng=rng, n=3, eos=(2,))
    kit = DraftKit(
        prompt=PROMPT,
        sampling=Sampling(),
        eos_ids=frozenset({2}),
        vocab_size=3,
        store=store.snapshot(),
    )
    decoding.run = method.start(kit)
    store.add((0, 1, 0, 0, 0))
    return decoding


@pytest.mark.parametrize("mode", ["path", "tree"])
def test_the_law_is_the_targets_with_earlier_texts_too(mode: str) -> None:
    method = make_method("suffix", {**TREE, "mode": mode})
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    rules = lossless_rules(provided(method, Sampling()))
    assert {"token", "one-hot", "match", "siblings-topk"} <= set(rules)
    for rule in rules:
        law = exact_law(partial(warm_start, method, rule))
        assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
        assert largest_difference(law.probs, want) < 1e-12


def test_siblings_are_accepted_with_the_sum_of_their_probabilities() -> None:
    """Chosen siblings: the chance of acceptance is the mass of the target on them, in any order."""
    text = (0, 1, 2, 0, 2, 1, 0)
    p = TARGET.law(text)
    for rule in ("token", "one-hot", "match", "siblings-topk"):

        def start(rng: Any, rule: str = rule) -> Decoding:
            method = make_method("suffix", {**TREE, "num_speculative_tokens": 2})
            return begin(TARGET, text, method=method, rule=rule, rng=rng, n=2)

        law, accepted = law_and_acceptance(start, 3)
        assert law == pytest.approx(p, abs=1e-12)
        assert accepted == pytest.approx(p[1] + p[2], abs=1e-12)


def test_a_tree_needs_a_target_that_sees_one_and_a_path_does_not() -> None:
    tree, path = Suffix(mode="tree"), Suffix()
    assert needed(tree) == {"tree_mask"} and needed(path) == frozenset()
    assert "tree" in provided(tree, Sampling()) and "chain" not in provided(tree, Sampling())
    assert {"chain", "top_k_siblings"} <= provided(path, Sampling())
    assert RULES["block"].needs - provided(path, Sampling()) == {"sampled"}


@pytest.mark.parametrize("params", [{}, TREE, {"factor": 4.0, "offset": 2.0}], ids=str)
def test_the_kit_passes(params: dict) -> None:
    check_method(make_method("suffix", params))


@pytest.mark.parametrize("prompt", [(0,), (0, 0), (0, 1, 0), (2, 2, 2, 2)])
@pytest.mark.parametrize("params", [{"factor": 4.0}, TREE], ids=["path", "tree"])
def test_greedy_text_is_plain_decoding(prompt: tuple[int, ...], params: dict) -> None:
    plain, _ = run(TARGET, prompt, sampling=GREEDY, n=30)
    method = make_method("suffix", params)
    for rule in rules_for("tree", "deterministic", "top_k_siblings"):
        text, rounds = run(TARGET, prompt, method=method, rule=rule, sampling=GREEDY, n=30)
        assert text == plain
        assert sum(round_.num_accepted for round_ in rounds) + len(rounds) == 30


def test_closing_forgets_and_a_stopped_run_leaves_nothing() -> None:
    decoding = begin(TARGET, PROMPT, method=Suffix(), n=30)
    iterator = iter(decoding)
    next(iterator)
    iterator.close()
    assert decoding.stop_reason == "cancelled" and len(decoding.run._here) == 1


def test_a_state_key_tells_runs_with_other_earlier_texts_apart() -> None:
    def key(*texts: tuple[int, ...]) -> object:
        store = TextStore("toy")
        for text in texts:
            store.add(text)
        kit = DraftKit(prompt=(0,), sampling=GREEDY, vocab_size=5, store=store.snapshot())
        return Suffix().start(kit).state_key()

    assert key((1, 2)) == key((1, 2)) != key((2, 1)) != key()


def test_a_live_store_would_be_no_function_of_the_text() -> None:
    """Why runs see a view: what a store gains on the way changes the next proposal."""
    store = TextStore("toy")
    kit = partial(DraftKit, prompt=(C, A, B), sampling=GREEDY, vocab_size=5)
    room = Room(context=(C, A, B), max_depth=9, max_nodes=9)
    before = Suffix().start(kit(store=store.snapshot()))
    store.add((A, B, E, E))
    live = Suffix().start(kit(store=store.snapshot()))
    assert before.propose(room, Seeded(0)).tree.tokens == ()
    assert live.propose(room, Seeded(0)).tree.tokens == (E, E)


def test_budgets_do_not_suffer_from_binary_fractions() -> None:
    """0.29 * 100 is 28.999999999999996: the budget is 29."""
    assert math.floor(0.29 * 100) == 28
    started = Suffix(factor=0.29).start(DraftKit(prompt=(0,), sampling=GREEDY, vocab_size=5))
    room = Room(context=(0,), max_depth=99, max_nodes=99)
    assert started._bounds(100, room).nodes == 16
    assert (
        Suffix(factor=0.29, num_speculative_tokens=32)
        .start(DraftKit(prompt=(0,), sampling=GREEDY, vocab_size=5))
        ._bounds(100, room)
        .nodes
        == 29
    )


# --- the trie of a session -------------------------------------------------------------------


def parts_of(trie: SuffixTrie) -> list[object]:
    """Return everything a trie holds."""
    return [getattr(trie, name) for name in sorted(vars(trie))]


def started_on(earlier: EarlierTexts | None, depth: int = 6, prompt: tuple[int, ...] = TEXT) -> Any:
    kit = DraftKit(prompt=prompt, sampling=GREEDY, vocab_size=5, store=earlier)
    return Suffix(max_depth=depth, factor=2.0).start(kit)


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS, st.integers(1, 5))
def test_a_trie_read_on_is_the_one_that_all_texts_give(
    first: list[list[int]], more: list[list[int]], depth: int
) -> None:
    """Node by node, so that drafts are the same to the last tie."""
    old = trie_of(first, depth)
    before = [list(part) if isinstance(part, list) else part for part in parts_of(old)]
    known = dict(old._child)
    longer = longer_trie(old, more, depth)
    assert parts_of(longer) == parts_of(trie_of([*first, *more], depth))
    assert parts_of(old) == before and old._child == known, "other runs may be reading it"
    assert parts_of(longer_trie(None, first, depth)) == parts_of(old)


def test_a_sessions_runs_read_one_trie_and_only_what_is_new_is_counted(monkeypatch) -> None:
    """A run of a session with 5 earlier texts counts the last one only, not all of them again."""
    read: list[int] = []
    extend = SuffixTrie.extend

    def noted(self: SuffixTrie, tokens: Any) -> None:
        tokens = tuple(tokens)
        read.extend(tokens)
        extend(self, tokens)

    monkeypatch.setattr(SuffixTrie, "extend", noted)
    store, other = TextStore("toy"), TextStore("toy")
    for text in range(5):
        store.add((text,) * 100)
        other.add((text,) * 100)
        started, again = (started_on(store.snapshot()) for _ in range(2))
        assert started._earlier is again._earlier
    assert len(read) == 5 * 100 + 10 * len(TEXT)
    assert started_on(other.snapshot())._earlier is not started._earlier, "another session"
    assert started_on(store.snapshot(), 7)._earlier is not started._earlier, "another depth"
    assert started_on(None)._earlier.length == 0
    started.close()
    assert again._earlier.length == 500, "closing a run leaves the others theirs"


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8),
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
    st.sampled_from(["path", "tree"]),
)
def test_drafts_are_those_of_a_trie_counted_anew(
    texts: list[list[int]], prompt: list[int], mode: str
) -> None:
    """Over a whole session: texts are added, and the oldest ones dropped."""
    store, method = (
        TextStore("toy", max_texts=4, max_tokens=30),
        make_method("suffix", {"mode": mode, "factor": 2.0, "max_depth": 6}),
    )
    room = Room(context=tuple(prompt), max_depth=6, max_nodes=12)
    for text in texts:
        store.add(text)
        view = store.snapshot()
        proposals = []
        for earlier in (view, replace(view, workshop=None)):
            kit = DraftKit(prompt=tuple(prompt), sampling=GREEDY, vocab_size=5, store=earlier)
            proposals.append(method.start(kit).propose(room, Seeded(0)))
        assert proposals[0] == proposals[1]
