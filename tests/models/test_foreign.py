"""Drafts with a tokenizer of their own: exact laws on toys, caches that follow a text, limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fault_kit import begin, draft_model, law_and_acceptance, rules_for
from foreign_kit import (
    DRAFT_WORDS,
    TARGET_WORDS,
    Counting,
    WordTokens,
    foreign_toy_kit,
    toy_foreign,
    trained,
    trained_spelling,
)
from tiny_models import tiny

from speclab.core.laws import Sampling, overlap, residual
from speclab.core.protocols import DraftKit, Room, provided
from speclab.core.randomness import Seeded
from speclab.core.rules import RULES
from speclab.engine.loop import Limits
from speclab.engine.memo import MemoHandle
from speclab.methods import make_method
from speclab.methods.token_intersection import TokenIntersection, TokenIntersectionRun
from speclab.models.foreign import NO_LIMIT, ForeignDraft, IntersectionHandle, OwnText
from speclab.models.spelling import SameIds, Spelling
from speclab.models.text import TextCodec
from speclab.models.toy import ToyModel
from speclab.testing import check_method, exact_law, largest_difference, target_law
from speclab.testing.conformance import check_honest_draft_law

UNIFORM = np.full(5, 0.2)
LETTERS = ("a", "b", "c", "d", "e")
OWN = ("c", "zz", "a", "b")
OWN_LAW = (0.25, 0.5, 0.15, 0.10)
Q = np.array([0.3, 0.2, 0.5, 0.0, 0.0])


def start_with(method):
    target = ToyModel.constant(UNIFORM)
    draft = toy_foreign(LETTERS, OWN, ToyModel.constant(OWN_LAW))

    def start(rng, rule="token"):
        return begin(target, (0,), method=method, drafts=[draft], rule=rule, rng=rng, n=2)

    return start


@pytest.mark.parametrize("rule", rules_for("chain", "sampled"))
def test_the_law_on_the_tokens_that_both_have(rule: str) -> None:
    """A23: p uniform over 5, q = (.5, .3, .2) over 3 of them; half of the draft's law elsewhere."""
    start = start_with(TokenIntersection(num_speculative_tokens=1))
    law, acceptance = law_and_acceptance(lambda rng: start(rng, rule), 5)
    assert law == pytest.approx(UNIFORM, abs=1e-12)
    if rule == "token":
        assert acceptance == pytest.approx(0.6) == overlap(UNIFORM, Q)
        assert residual(UNIFORM, Q) == pytest.approx([0, 0, 0, 0.5, 0.5])


class Unnormalised(TokenIntersectionRun):
    """Draws on the shared tokens and claims the draft's own law there."""

    def propose(self, room, rng):
        proposal = super().propose(room, rng)
        laws = zip(proposal.draft_probs, self._masses, strict=True)
        claimed = tuple(None if law is None else law * mass for law, mass in laws)
        return replace(proposal, draft_probs=claimed)


class Forgets(TokenIntersection):
    def start(self, kit):
        run = super().start(kit)
        run.__class__ = Unnormalised
        return run


def test_renormalising_cannot_be_forgotten() -> None:
    start = start_with(Forgets(num_speculative_tokens=1))
    law, _ = law_and_acceptance(start, 5)
    assert 0.5 * np.abs(law - UNIFORM).sum() > 0.2
    check_honest_draft_law(TokenIntersection(), make_kit=foreign_toy_kit)
    with pytest.raises(AssertionError, match="law claimed"):
        check_honest_draft_law(Forgets(), make_kit=foreign_toy_kit)


METHODS = (
    make_method("string-match", {"num_speculative_tokens": 3}),
    make_method("token-intersection", {"num_speculative_tokens": 2}),
    draft_model(2),
    make_method("draft-tree", {"depth": 2, "width": 2, "siblings": "top-k"}),
)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.card.name)
def test_conformance_with_two_tokenizers(method) -> None:
    check_method(method, make_kit=foreign_toy_kit)


CASES = [
    pytest.param(method, rule.name, id=f"{method.card.name}-{rule.name}")
    for method in METHODS
    for rule in RULES.values()
    if rule.lossless and rule.needs <= provided(method, Sampling())
]


@pytest.mark.parametrize("method, rule", CASES)
def test_exact_law_with_two_tokenizers(method, rule: str) -> None:
    target = ToyModel.random(7, vocab_size=4)
    draft = toy_foreign(TARGET_WORDS, DRAFT_WORDS, ToyModel.random(8, vocab_size=5))
    limits = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
    want = target_law(target, (0, 1, 0), Sampling(), limits)

    def start(rng):
        return begin(
            target, (0, 1, 0), method=method, drafts=[draft], rule=rule, rng=rng, n=3, eos=[2]
        )

    found = exact_law(start)
    assert sum(found.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(found.probs, want) < 1e-12


def test_rows_are_a_function_of_the_text_however_it_came_about() -> None:
    draft = toy_foreign(TARGET_WORDS, DRAFT_WORDS, ToyModel.random(8, vocab_size=5))
    session = draft.open((0, 1, 0))
    for token in (1, 3, 2, 0):
        session.commit((), token)
        fresh = draft.open(session.tokens).score().row(0)
        assert session.score().row(0).logits == pytest.approx(fresh.logits)
    session.rollback(4)
    session.extend([3])
    fresh = draft.open((0, 1, 0, 1, 3))
    ((whole,),) = draft.evaluate([(0, 1, 0, 1, 3)], [1])
    for row in (session.score().row(0), whole, MemoHandle(draft).open(fresh.tokens).score().row(0)):
        assert row.logits == pytest.approx(fresh.score().row(0).logits)


def test_a_cache_follows_a_text_whose_tokens_change() -> None:
    both = trained_spelling()
    model = tiny(seed=3, vocab_size=290)
    text = OwnText(model, both)
    tokens: list[int] = []
    passes = 0
    for token in (*range(30, 60), 3, 3, *range(60, 90)):
        tokens.append(token)
        row = text.follow(tokens).score().row(0)
        own = both.own_ids(tokens)
        assert text.session is not None and text.session.tokens == own
        fresh = model.open(own).score().row(0)
        assert np.abs(row.raw() - fresh.raw()).max() < 1e-9
        passes += 1
    shorter = tokens[:10]
    row = text.follow(shorter).score().row(0)
    fresh = model.open(both.own_ids(shorter)).score().row(0)
    assert np.abs(row.raw() - fresh.raw()).max() < 1e-9
    assert text.session.num_forwards <= passes + 2, "the text was prefilled again"
    text.close()
    text.close()


@pytest.mark.parametrize("name", ["string-match", "token-intersection"])
def test_a_round_after_a_long_text_tokenises_its_end_only(name: str) -> None:
    target, own = TextCodec(trained(300)), Counting(TextCodec(trained(290, other=True)))
    both = Spelling(target, own, target_size=300, draft_size=290)
    model = ToyModel.constant(np.full(290, 1 / 290))
    foreign = ForeignDraft(model=model, spelling=both, num_ids=290, shared_mass=1.0)
    text = target.encode_plain("the fox upon the other one " * 100)
    kit = DraftKit(
        prompt=tuple(text),
        sampling=Sampling(),
        vocab_size=300,
        drafts=(IntersectionHandle(foreign=foreign, vocab_size=300),),
        foreign=foreign,
    )
    run, counts = make_method(name).start(kit), [own.num_bytes]
    for more in target.encode_plain(" one two three"):
        run.propose(Room(context=text, max_depth=8, max_nodes=8), Seeded(0))
        text = [*text, more]
        counts.append(own.num_bytes)
    assert counts[0] >= 2700, "the prompt is tokenised once"
    assert counts[-1] - counts[1] < 150 * 8 * (len(counts) - 2)
    assert counts[-1] - counts[1] < 2700 * (len(counts) - 2) / 2


def test_of_a_long_text_the_draft_sees_the_end() -> None:
    model = replace(ToyModel.random(4, vocab_size=3), max_context=16)
    text = OwnText(model, SameIds(), reserve=4)
    tokens = [0, 1, 2] * 20
    starts = set()
    for length in range(1, len(tokens)):
        session = text.follow(tokens[:length])
        assert 1 <= session.length <= 12 and session.tokens == tokens[:length][-session.length :]
        starts.add(length - session.length)
    assert starts == set(range(0, 54, 6))


def test_the_end_of_a_long_text_stands_behind_the_drafts_start() -> None:
    model = replace(ToyModel.random(4, vocab_size=3), max_context=16)
    draft = WordTokens(["<s>", "a", "b"], start=(0,))
    both = Spelling(WordTokens(["a", "b"]), draft, target_size=2, draft_size=3)
    text, starts = OwnText(model, both, reserve=4), set()
    for length in range(1, 60):
        start, *rest = text.follow(([0, 1] * 30)[:length]).tokens
        assert start == 0 and 1 <= len(rest) <= 11
        assert rest == ([1, 2] * 30)[length - len(rest) : length]
        starts.add(length - len(rest))
    assert starts == set(range(0, 55, 5))
    tiny_context = OwnText(replace(model, max_context=1), both)
    assert tiny_context.follow([0, 1]).tokens == [2]


def test_a_draft_that_has_nothing_to_say_of_the_shared_tokens() -> None:
    nothing = ToyModel.constant((0.0, 1.0, 0.0, 0.0))
    draft = toy_foreign(LETTERS, OWN, nothing)
    law = draft.open((0,)).score().row(0).raw()
    assert law == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0])
    assert draft.max_context == NO_LIMIT and "rollback" in draft.provides


def test_shares_of_the_law_are_shown() -> None:
    kit = foreign_toy_kit((0, 1, 0), Sampling())
    room = Room(context=[0, 1, 0], max_depth=3, max_nodes=8)
    proposal = TokenIntersection().start(kit).propose(room, Seeded(0))
    (shown,) = proposal.evidence
    before, after = (
        kit.foreign.spelling.own_ids((0, 1, 0, *tokens)) for tokens in ((), proposal.tree.tokens)
    )
    assert shown.kind == "retokenised" and shown.value == len(after) - len(before)
    shared = kit.foreign.spelling.shared_own
    first = kit.foreign.model.law(before)[shared].sum()
    assert shown.values[0] == pytest.approx(first) and len(shown.values) == len(proposal.tree)
    assert all(0.0 < value < 1.0 for value in shown.values)


def test_the_words_of_toys_are_tokenised_longest_first() -> None:
    assert WordTokens(TARGET_WORDS).encode_plain("aab") == [0, 3]
    both = Spelling(WordTokens(TARGET_WORDS), WordTokens(DRAFT_WORDS), target_size=4, draft_size=5)
    assert both.own_ids((0, 1, 0)) == [1, 0] and both.own_ids((3, 0)) == [1, 0]
