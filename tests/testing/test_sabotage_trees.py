"""Classic mistakes with trees and heads, put in on purpose: a named check fails for each.

Beside every sabotage the same check passes for what is shipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from fault_kit import begin as toy_begin
from tiny_heads import HEAD_METHODS, TARGET_SHAPE, check_rounds, check_taps, random_heads
from tiny_models import tiny
from tree_kit import check_tree, random_cases

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Feedback, Proposal, Room
from speclab.core.randomness import Seeded
from speclab.core.trees import PENDING, TokenTree
from speclab.engine.loop import Limits
from speclab.methods.draft_tree import DraftTree
from speclab.methods.eagle2 import Eagle2
from speclab.methods.head_tree import HeadTreeRun
from speclab.models import llama
from speclab.models.toy import ToyModel
from speclab.testing import exact_law, largest_difference, target_law
from speclab.testing.conformance import check_honest_draft_law, toy_kit

TARGET = tiny(seed=4, **TARGET_SHAPE)
CASES = tuple(random_cases(12, 40, (1, 5, 20), seed=11))


def check_trees() -> None:
    for prompt, tree in CASES:
        check_tree(TARGET, prompt, tree, logits=1e-9, probs=1e-9)


def test_a_position_counted_by_index_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the comparison of a tree with its paths."""
    check_trees()
    by_index = property(lambda self: tuple(range(1, len(self) + 1)))
    monkeypatch.setattr(TokenTree, "position_offsets", by_index)
    with pytest.raises(AssertionError, match="logits"):
        check_trees()


def test_a_sibling_that_sees_its_sibling_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the comparison of a tree with its paths."""
    honest = TokenTree.ancestor_mask

    def with_siblings(self: TokenTree) -> np.ndarray:
        mask = honest(self)
        for node, parent in enumerate(self.parents):
            for sibling in self.children(parent):
                mask[node + 1, sibling + 1] |= sibling < node
        return mask

    check_trees()
    monkeypatch.setattr(TokenTree, "ancestor_mask", with_siblings)
    with pytest.raises(AssertionError, match="logits"):
        check_trees()


def test_a_tap_of_the_wrong_layer_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the comparison with Transformers' own hidden states; text and laws stay right."""
    taps = random_heads(TARGET, tmp_path)["eagle3"].taps
    check_taps(TARGET, [3, 1, 4, 1, 5], taps)
    honest = llama.tap_place
    monkeypatch.setattr(llama, "tap_place", lambda tap: honest(tap) - 1)
    with pytest.raises(AssertionError, match=r"hidden\[2\]"):
        check_taps(TARGET, [3, 1, 4, 1, 5], taps)


def keeps_what_it_drafted(self: HeadTreeRun, feedback: Feedback) -> None:
    """Let the pending token's feature stand for those of the tokens accepted after it."""
    count = len(feedback.emitted)
    stale = {tap: np.repeat(rows[:1], count, 0) for tap, rows in feedback.features.items()}
    self.session.extend(stale, feedback.emitted)


@pytest.mark.parametrize("name", ["eagle-1", "eagle-2", "eagle-3"])
def test_features_that_are_not_replaced_after_a_commit_are_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """By the comparison of every round with a request opened on its text."""
    heads, method = random_heads(TARGET, tmp_path), HEAD_METHODS[name]()
    assert {0, 1} < check_rounds(TARGET, method, heads, within=1e-9)
    monkeypatch.setattr(HeadTreeRun, "observe", keeps_what_it_drafted)
    with pytest.raises(AssertionError, match=r"other drafts|laws"):
        check_rounds(TARGET, method, heads, within=1e-9)


TOY, TOY_DRAFT = ToyModel.random(7), ToyModel.random(8)


def sorted_siblings(proposal: Proposal) -> Proposal:
    """Put siblings in the order of the draft's probability; each keeps the law it claims."""
    tree, order, waiting = proposal.tree, [], [PENDING]
    while waiting:
        children = tree.children(waiting.pop(0))
        children.sort(key=lambda node: -proposal.raw_draft[node]()[tree.tokens[node]])
        order += children
        waiting += children
    places = {node: place for place, node in enumerate(order)} | {PENDING: PENDING}
    return replace(
        proposal,
        tree=TokenTree(
            tuple(tree.tokens[node] for node in order),
            tuple(places[tree.parents[node]] for node in order),
        ),
        draft_probs=tuple(proposal.draft_probs[node] for node in order),
        raw_draft=tuple(proposal.raw_draft[node] for node in order),
    )


def changed(siblings: str, change: Callable[[Proposal], Proposal]) -> Any:
    """Return draft-tree whose proposals pass through `change`."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Changed(DraftTree):
        def start(self, kit: DraftKit) -> Any:
            run = DraftTree.start(self, kit)
            honest = run.propose
            run.propose = lambda room, rng: change(honest(room, rng))
            return run

    return Changed(depth=1, width=2, siblings=siblings)


def distance(method: Any, rule: str) -> float:
    """Return how far the exact law of two tokens is from the target's."""
    request = {"method": method, "drafts": [TOY_DRAFT], "rule": rule, "n": 2}
    law = exact_law(lambda rng: toy_begin(TOY, (0, 1, 0), rng=rng, **request))
    limits = Limits(max_new_tokens=2, max_context=100)
    return largest_difference(law.probs, target_law(TOY, (0, 1, 0), Sampling(), limits))


def test_drawn_siblings_that_were_sorted_are_caught() -> None:
    """By the law each node claims, and by the exact law: they are judged in the order of drawing.

    Chosen siblings may be sorted at will: the rule for them spends the same mass in any order.
    """
    drawn, chosen = "siblings-without-replacement", "siblings-topk"
    for change, broken in ((lambda proposal: proposal, False), (sorted_siblings, True)):
        method = changed("without-replacement", change)
        if broken:
            with pytest.raises(AssertionError, match="law claimed"):
                check_honest_draft_law(method)
        else:
            check_honest_draft_law(method)
        assert (distance(method, drawn) > 1e-3) == broken
    for change in (sorted_siblings, upside_down):
        assert distance(changed("top-k", change), chosen) < 1e-12


def upside_down(proposal: Proposal) -> Proposal:
    """Turn the order of one level of siblings round."""
    turned = {name: getattr(proposal, name)[::-1] for name in ("draft_probs", "raw_draft")}
    tree = TokenTree(proposal.tree.tokens[::-1], proposal.tree.parents)
    return replace(proposal, tree=tree, **turned)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftsOn(Eagle2):
    """Does not know what ends a text."""

    def start(self, kit: DraftKit) -> Any:
        """Begin with a request that has no end."""
        return Eagle2.start(self, replace(kit, eos_ids=frozenset()))


def check_ends(method: Any) -> None:
    """Nothing hangs below a token that ends the text.

    Raises:
        AssertionError: naming the tree.
    """
    ends = 0
    for eos in range(4):
        kit = replace(toy_kit(), eos_ids=frozenset({eos}))
        room = Room(context=kit.prompt, max_depth=9, max_nodes=64)
        tree = method.start(kit).propose(room, Seeded(0)).tree
        ended = [node for node, token in enumerate(tree.tokens) if token == eos]
        ends += len(ended)
        assert not any(tree.children(node) for node in ended), f"{tree} goes on after {eos}"
    assert ends


def test_a_tree_that_grows_below_the_end_is_caught() -> None:
    shape = {"depth": 4, "top_k": 3, "total_tokens": 20}
    check_ends(Eagle2(**shape))
    with pytest.raises(AssertionError, match="goes on after"):
        check_ends(DraftsOn(**shape))


class ReusesItsTree:
    """Keeps the tree in which a text ended, and begins the next request with it."""

    kept: ClassVar[list[TokenTree]] = []

    def __init__(self, run: Any) -> None:
        self.run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def propose(self, room: Room, rng: Any) -> Proposal:
        """Offer what is left of the request before."""
        honest = self.run.propose(room, rng)
        if not self.kept:
            return honest
        tree = self.kept.pop()
        return Proposal(tree=tree, draft_probs=(None,) * len(tree))

    def observe(self, feedback: Feedback) -> None:
        """Keep the tree if the text ends here."""
        self.run.observe(feedback)
        if END in feedback.emitted:
            self.kept.append(feedback.proposal.tree)


END = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuses(Eagle2):
    """EAGLE-2 with such a run."""

    def start(self, kit: DraftKit) -> Any:
        """Begin with whatever was kept."""
        return ReusesItsTree(Eagle2.start(self, kit))


def trees_of(method: Any, prompt: tuple[int, ...], seed: int = 0) -> list[TokenTree]:
    request = {"method": method, "rule": "siblings-topk", "eos": (END,), "rng": Seeded(seed)}
    decoding = toy_begin(TOY, prompt, n=40, **request)
    trees = [round_.tree for round_ in decoding]
    assert decoding.emitted[-1] == END
    return trees


def check_no_memory(method: Any) -> None:
    """Drafts of a request do not depend on the request before, which came to its end.

    Raises:
        AssertionError: if they do.
    """
    for seed, prompt in enumerate(((0, 1, 0), (1, 1), (0, 0))):
        alone = trees_of(method, (1, 0))
        ReusesItsTree.kept.clear()
        trees_of(method, prompt, seed)
        assert trees_of(method, (1, 0)) == alone, "drafts of another request"
        ReusesItsTree.kept.clear()


def test_a_tree_reused_after_the_end_is_caught() -> None:
    """By the next request's drafts; its law stays right, since drafts are only drafts."""
    shape = {"depth": 3, "top_k": 2, "total_tokens": 5}
    check_no_memory(Eagle2(**shape))
    with pytest.raises(AssertionError, match="drafts of another request"):
        check_no_memory(Reuses(**shape))
