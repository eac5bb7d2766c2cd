"""Draft trees: honest laws under tree attention, limits, and the draft's own cache."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from fault_kit import GREEDY, begin, run
from tiny_models import tiny

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Room, provided
from speclab.core.randomness import Seeded
from speclab.core.rules import lossless_rules
from speclab.methods import make_method
from speclab.methods.draft_tree import DraftTree, DraftTreeRun, left_to_draw
from speclab.models.toy import ToyModel

KINDS = ("without-replacement", "iid", "top-k")
TARGET, DRAFT = ToyModel.random(1, vocab_size=6), ToyModel.random(2, vocab_size=6)
WARPED = Sampling(temperature=0.8, top_p=0.9, repetition_penalty=1.4)


def tree(**params: Any) -> DraftTree:
    return make_method("draft-tree", params)  # type: ignore[return-value]


def first_proposal(method: DraftTree, draft: ToyModel = DRAFT, **room: Any):
    kit = DraftKit(
        prompt=(0, 1),
        sampling=room.pop("sampling", Sampling()),
        eos_ids=frozenset(room.pop("eos", ())),
        vocab_size=6,
        drafts=(draft,),
    )
    room = {"context": (0, 1), "max_depth": 9, "max_nodes": 99, **room}
    return method.start(kit).propose(Room(**room), Seeded(room.get("seed", 3)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [Sampling(), WARPED], ids=["plain", "warped"])
def test_every_law_is_the_drafts_own_along_its_path(kind: str, sampling: Sampling) -> None:
    """Laws from tree attention against evaluations without a cache, over many rounds."""
    target, draft = tiny(seed=1), tiny(seed=1)
    prompt = (3, 1, 4)
    seen: list[tuple[list[int], Any]] = []

    class Watched(DraftTreeRun):
        def propose(self, room, rng):
            proposal = super().propose(room, rng)
            seen.append((list(room.context), proposal))
            return proposal

        def observe(self, feedback) -> None:
            super().observe(feedback)
            fresh = draft.open(self.session.tokens).score().row(0)
            assert np.abs(self.session.score().row(0).logits - fresh.logits).max() < 1e-9

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Method(DraftTree):
        def start(self, kit):
            started = super(Method, self).start(kit)
            started.__class__ = Watched
            return started

    method = Method(depth=3, width=2, siblings=kind)
    text, rounds = run(
        target, prompt, method=method, drafts=[draft], sampling=sampling, n=14, rng=Seeded(4)
    )
    assert len(text) == 14 and sum(len(r.verdict.accepted) for r in rounds) > 0
    for context, proposal in seen:
        nodes = proposal.tree
        for node, law in enumerate(proposal.draft_probs):
            parent = nodes.parents[node]
            path = nodes.path_tokens(parent)
            row = draft.evaluate([[*context, *path]], [1])[0][0]
            assert np.abs(proposal.raw_draft[node]() - row.raw()).max() < 1e-9
            counts = Counter([*context[len(prompt) :], *path])
            want = row.law(sampling, counts)
            earlier = [nodes.tokens[c] for c in nodes.children(parent) if c < node]
            if kind == "top-k":
                assert law is None and nodes.tokens[node] not in earlier
                continue
            if kind == "without-replacement":
                for token in earlier:
                    want = left_to_draw(want, token)
            assert np.abs(law - want).max() < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_the_draft_follows_the_text_to_the_end_of_its_context(kind: str) -> None:
    short = ToyModel.random(2, vocab_size=6, max_context=12)
    decoding = begin(TARGET, (0, 1), method=tree(siblings=kind), drafts=[short], n=20)
    for _ in decoding:
        session = decoding.run.session
        if session is not None and decoding.stop_reason is None:
            assert session.tokens == decoding.session.tokens
    assert len(decoding.emitted) == 20 and decoding.run.session is None


def test_a_prompt_beyond_the_drafts_context_is_decoded_plainly() -> None:
    short = ToyModel.random(2, vocab_size=6, max_context=2)
    text, rounds = run(TARGET, (0, 1, 2), method=tree(), drafts=[short], n=6)
    assert len(text) == 6 == len(rounds)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("nodes", "depth"), [(1, 9), (2, 9), (3, 9), (7, 2), (99, 1), (99, 3)])
def test_a_tree_stays_within_its_room(kind: str, nodes: int, depth: int) -> None:
    drafted = first_proposal(tree(width=2, siblings=kind), max_nodes=nodes, max_depth=depth).tree
    full = sum(2**level for level in range(1, min(3, depth) + 1))
    assert drafted.max_depth <= min(3, depth) and len(drafted) == min(nodes, full)


def test_nothing_grows_below_the_end_of_the_text() -> None:
    drafted = first_proposal(tree(width=6, siblings="top-k"), eos=[4]).tree
    ends = [node for node, token in enumerate(drafted.tokens) if token == 4]
    assert ends and not any(drafted.children(node) for node in ends)
    assert all(len(drafted.children(n)) == 6 for n in range(6) if drafted.tokens[n] != 4)


def test_siblings_come_as_asked_for() -> None:
    peaked = ToyModel.constant((0.9, 0.1, 0.0, 0.0, 0.0, 0.0))
    same = first_proposal(tree(width=4, depth=1, siblings="iid"), peaked)
    assert len(set(same.tree.tokens)) < 4 == len(same.tree), "repeats are legal"
    assert all(law is same.draft_probs[0] for law in same.draft_probs)
    apart = first_proposal(tree(width=4, depth=1, siblings="without-replacement"), peaked)
    assert sorted(apart.tree.tokens) == [0, 1], "two tokens are all there is"
    assert apart.draft_probs[1][apart.tree.tokens[1]] == 1.0
    best = first_proposal(tree(width=4, depth=1, siblings="top-k"), peaked)
    assert best.tree.tokens == (0, 1) and best.draft_probs == (None, None)
    assert same.num_draft_forwards == best.num_draft_forwards == 1


def test_what_it_provides_depends_on_the_request() -> None:
    sampled, greedy = Sampling(), GREEDY
    assert "siblings-iid" in lossless_rules(provided(tree(siblings="iid"), sampled))
    assert "k-seq" not in lossless_rules(provided(tree(), sampled))
    assert "siblings-topk" in lossless_rules(provided(tree(siblings="iid"), greedy))
    assert "siblings-topk" in lossless_rules(provided(tree(draft_temperature=0.0), sampled))
    assert "block" not in lossless_rules(provided(tree(), sampled))
    assert "block" in lossless_rules(provided(tree(width=1), sampled))


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_plain_greedy_text(kind: str) -> None:
    plain, _ = run(TARGET, (0, 1), sampling=GREEDY, n=25)
    method = tree(width=3, siblings=kind)
    text, rounds = run(TARGET, (0, 1), method=method, drafts=[DRAFT], sampling=GREEDY, n=25)
    assert text == plain and len(rounds) < 25


@pytest.mark.parametrize("kind", KINDS)
def test_matched_text_is_plain_text_of_the_same_seed(kind: str) -> None:
    for seed in range(20):
        plain, _ = run(TARGET, (0, 1), rule="match", rng=Seeded(seed), n=12)
        text, _ = run(
            TARGET,
            (0, 1),
            method=tree(siblings=kind),
            drafts=[DRAFT],
            rule="match",
            rng=Seeded(seed),
            n=12,
        )
        assert text == plain


def test_what_cannot_draft_a_tree_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="needs a draft model"):
        begin(TARGET, (0,), method=tree())
    blind = ToyModel.random(2, vocab_size=6, provides=frozenset({"rollback"}))
    with pytest.raises(UnsupportedModel, match="cannot attend to a tree"):
        begin(TARGET, (0,), method=tree(), drafts=[blind])
    with pytest.raises(BadInput, match="one of without-replacement, iid, top-k, not 'best'"):
        tree(siblings="best")
