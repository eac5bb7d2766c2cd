"""Lookahead beside a draft model: drawn and chosen siblings in one proposal, exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fault_kit import GREEDY, begin, children, law_and_acceptance, run
from tiny_models import tiny

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import Proposal, Room, provided
from speclab.core.randomness import Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.core.trees import PENDING, TokenTree
from speclab.engine.loop import Limits
from speclab.methods import make_method
from speclab.methods.lookahead_draft import LookaheadDraftRun
from speclab.models.toy import ToyModel
from speclab.testing import check_method, exact_law, largest_difference, target_law
from speclab.testing.conformance import check_honest_draft_law

TARGET, DRAFT = ToyModel.random(7), ToyModel.random(8)
PROMPT = (0, 1, 0)


def both(depth: int = 2, window: int = 2, ngram: int = 2, guesses: int = 2, **more: Any) -> Any:
    params = {"depth": depth, "window": window, "ngram": ngram, "guesses": guesses, **more}
    return make_method("lookahead-draft", params)


def test_the_kit_holds_with_guesses_in_the_first_and_in_later_proposals() -> None:
    check_method(both())
    check_method(both(ngram=3, pool_from_prompt=True))


@pytest.mark.parametrize("rule", ["token", "one-hot", "match"])
def test_the_law_is_the_targets(rule: str) -> None:
    n, limits = 3, Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
    mixed: list[bool] = []

    def start(rng: Any) -> Any:
        request = {"drafts": [DRAFT], "rule": rule, "rng": rng, "n": n, "eos": [2]}
        decoding = begin(TARGET, PROMPT, method=both(pool_from_prompt=True), **request)
        honest = decoding.run.propose

        def propose(room: Room, rng: Any) -> Any:
            proposal = honest(room, rng)
            mixed.append(len({law is None for law in proposal.draft_probs}) == 2)
            return proposal

        decoding.run.propose = propose
        return decoding

    law = exact_law(start)
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(law.probs, target_law(TARGET, PROMPT, Sampling(), limits)) < 1e-12
    assert any(mixed)


class ClaimsALaw(LookaheadDraftRun):
    """Gives the guesses of the pool the law that the draft's first token was drawn from."""

    def propose(self, room: Room, rng: Any) -> Any:
        proposal = super().propose(room, rng)
        law = next((law for law in proposal.draft_probs if law is not None), None)
        laws = tuple(law if own is None else own for own in proposal.draft_probs)
        return replace(proposal, draft_probs=laws)


def claiming() -> Any:
    class Liar(type(both())):
        def start(self, kit):
            started = super().start(kit)
            started.__class__ = ClaimsALaw
            return started

    return Liar(depth=1, window=2, ngram=2, guesses=2, pool_from_prompt=True)


def test_a_guess_that_claims_to_be_drawn_is_caught() -> None:
    """By the honest-law check and by the exact law."""
    check_honest_draft_law(both(depth=1, pool_from_prompt=True))
    with pytest.raises(AssertionError, match="law claimed"):
        check_honest_draft_law(claiming())
    target, drafts = ToyModel.random(17), [ToyModel.random(18)]
    limits = Limits(max_new_tokens=2, max_context=100)
    want = target_law(target, PROMPT, Sampling(), limits)
    for method, far in ((both(depth=1, pool_from_prompt=True), False), (claiming(), True)):
        law = exact_law(
            lambda rng, m=method: begin(target, PROMPT, method=m, drafts=drafts, rng=rng, n=2)
        )
        assert (largest_difference(law.probs, want) > 1e-3) == far


def test_mixed_siblings_by_hand() -> None:
    """p = (.5, .3, .2): token 0 drawn from q = (.8, .1, .1), then token 2 chosen.

    Token 0 is drawn and kept with min(p, q) = .5 (tokens 1 and 2 with .1 each); a refusal leaves
    (0, .2, .1) / .3, of which the guess takes a third, 0.1.
    """
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.8, 0.1, 0.1])
    target = ToyModel.constant(p)

    def offered(rng: Any) -> Any:
        drawn = rng.draw(q)
        tokens = (drawn,) if drawn == 2 else (drawn, 2)
        tree = TokenTree(tokens, (PENDING,) * len(tokens))
        return Proposal(tree=tree, draft_probs=(q, None)[: len(tokens)])

    def start(rng: Any, rule: str) -> Any:
        method = replace(children((), ()), offer=lambda context, rng: offered(rng))
        return begin(target, (0,), method=method, rule=rule, rng=rng, n=2)

    for rule, wanted in (("token", 0.8), ("one-hot", None), ("match", None)):
        law, kept = law_and_acceptance(lambda rng, rule=rule: start(rng, rule), 3)
        assert law == pytest.approx(p, abs=1e-12)
        assert wanted is None or kept == pytest.approx(wanted, abs=1e-12)
    law, _ = law_and_acceptance(lambda rng: start(rng, "siblings-iid"), 3)
    assert np.abs(law - p).max() > 1e-3, "a rule for drawn siblings gives the guess a law it lacks"


def test_rules_for_one_kind_of_siblings_are_refused_a_mixture() -> None:
    assert set(lossless_rules(provided(both(), Sampling()))) == {"token", "one-hot", "match"}
    assert "siblings-topk" in lossless_rules(provided(both(), GREEDY))
    greedy = both(draft_temperature=0.0)
    assert "siblings-topk" in lossless_rules(provided(greedy, Sampling()))
    assert RULES["siblings-iid"].needs - provided(both(), Sampling()) >= {"sampled"}


def test_drawn_nodes_come_first_and_carry_the_drafts_own_law() -> None:
    target, draft = tiny(seed=1), tiny(seed=2)
    decoding = begin(
        target,
        (3, 1, 4, 3, 1),
        method=both(depth=3, ngram=3, pool_from_prompt=True),
        drafts=[draft],
        sampling=Sampling(temperature=0.6),
        rng=Seeded(4),
        n=30,
    )
    seen: list[tuple[list[int], Any]] = []
    honest = decoding.run.propose

    def propose(room: Room, rng: Any) -> Any:
        seen.append((list(room.context), honest(room, rng)))
        return seen[-1][1]

    decoding.run.propose = propose
    beside = 0
    for round_ in decoding:
        assert decoding.stop_reason or decoding.run.session.tokens == decoding.session.tokens
        beside += any(not round_.sampled[node] for node in round_.verdict.accepted)
    assert beside > 0, "no guess of the pool was ever accepted"
    for context, proposal in seen:
        laws = proposal.draft_probs
        drawn = sum(law is not None for law in laws)
        assert all(law is not None for law in laws[:drawn])
        assert proposal.tree.parents[:drawn] == tuple(range(-1, drawn - 1))
        for node in range(drawn):
            path = proposal.tree.path_tokens(proposal.tree.parents[node])
            ((row,),) = draft.evaluate([[*context, *path]], [1])
            assert np.abs(laws[node] - row.law(Sampling(temperature=0.6))).max() < 1e-9
        for node in range(PENDING, len(proposal.tree)):
            siblings = [proposal.tree.tokens[child] for child in proposal.tree.children(node)]
            assert len(siblings) == len(set(siblings))
    origins = [f for _, p in seen for f in p.evidence if f.kind == "pool_hit"]
    assert origins and all(set(fact.values) <= {0.0, 1.0} for fact in origins)


def test_a_guess_that_begins_like_the_chain_shares_its_nodes() -> None:
    """The draft draws 1, 2 with certainty; the pool holds 1, 2, 0 and 1, 0, 2 after the 0."""
    cycle = {0: 1, 1: 2, 2: 0, 3: 0}
    laws = {(last,): np.eye(4)[follows] for last, follows in cycle.items()}
    sure = ToyModel({(): np.eye(4)[0], **laws}, 1, 4)
    decoding = begin(sure, (3, 0), method=both(ngram=4), drafts=[sure], n=9)
    for suffix in ((1, 0, 2), (1, 2, 0)):
        decoding.run._ahead._pool.add(0, suffix)
    rounds = iter(decoding)
    first = next(rounds)
    assert first.tree.tokens == (1, 2, 0, 0, 2) and first.tree.parents == (-1, 0, 1, 0, 3)
    assert first.sampled == (True, True, False, False, False)
    assert first.emitted == (1, 2, 0, 1), "two drawn tokens, one guess and the bonus"
    assert decoding.run.session.tokens == decoding.session.tokens == [3, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("length", [1, 6, 7, 8, 12])
def test_a_draft_with_a_shorter_context_leaves_the_pool_to_guess(length: int) -> None:
    target, short = ToyModel.random(3), ToyModel.random(4, max_context=8)
    prompt = ([0, 1, 0] * 5)[:length]
    plain, _ = run(target, prompt, sampling=GREEDY, n=20)
    text, rounds = run(target, prompt, method=both(), drafts=[short], sampling=GREEDY, n=20)
    assert text == plain and any(round_.tree.tokens for round_ in rounds)


def test_without_a_draft_it_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="needs a draft model") as caught:
        begin(TARGET, PROMPT, method=both())
    assert caught.value.code == "lookahead_needs_draft"


def test_the_same_seed_draws_the_same() -> None:
    texts = {
        tuple(run(TARGET, PROMPT, method=both(), drafts=[DRAFT], rng=Seeded(5), n=20)[0])
        for _ in range(3)
    }
    assert len(texts) == 1
