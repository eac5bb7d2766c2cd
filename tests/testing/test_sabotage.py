"""Each classic bug, put in on purpose, is caught by a check that the honest version passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from fault_kit import begin, draft_model, one_draft
from tiny_models import tiny

from speclab.core.laws import Law, Sampling, process, residual, softmax
from speclab.core.protocols import Proposal
from speclab.core.randomness import Scripted
from speclab.core.records import CoinFlip, Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.engine.loop import Limits
from speclab.methods.draft_model import DraftModel, DraftModelRun
from speclab.models.toy import ToyModel, ToySession
from speclab.models.transformer import TransformerHandle, TransformerSession
from speclab.testing import (
    check_method,
    check_model,
    check_rule,
    exact_law,
    largest_difference,
    target_law,
)

TARGET, DRAFT = ToyModel.random(7), ToyModel.random(8)
PROMPT, LIMITS = (0, 1, 0), Limits(max_new_tokens=3, max_context=100)
BIAS = 1e-3


def distance(rule="token", method=None, sampling: Sampling | None = None) -> float:
    """Return how far the exact law of three tokens is from the target's."""
    sampling = sampling or Sampling()
    law = exact_law(
        lambda rng: begin(
            TARGET,
            PROMPT,
            method=method or draft_model(2),
            drafts=[DRAFT],
            rule=rule,
            sampling=sampling,
            rng=rng,
            n=3,
        )
    )
    return largest_difference(law.probs, target_law(TARGET, PROMPT, sampling, LIMITS))


def chain_rule(
    leftover: Callable[[Law, Law], Law] = residual,
    bonus_row: Callable[[int], int] = lambda gamma: gamma,
    accepts: Callable[[float | None, bool, float], bool] = lambda u, accepted, prob: accepted,
):
    """Return a token rule for chains whose parts can be replaced by broken ones."""

    def verify(rows, proposal, rng, position) -> Verdict:
        tree, kept, flips = proposal.tree, [], []
        for node, token in enumerate(tree.tokens):
            p, q = rows[node], proposal.draft_probs[node]
            if not np.isfinite(p).all():
                return RULES["token"].verify(rows, proposal, rng, position)
            prob = min(1.0, float(p[token] / q[token])) if q[token] > 0 else 0.0
            flip = rng.flip(prob)
            accepted = accepts(flip.u, flip.accepted, prob)
            flips.append(
                CoinFlip(
                    node=node,
                    token=token,
                    target_prob=float(p[token]),
                    draft_prob=float(q[token]),
                    accept_prob=prob,
                    accepted=accepted,
                )
            )
            if not accepted:
                drawn = rng.draw(leftover(p, q))
                return Verdict(
                    accepted=tuple(kept), next_token=drawn, outcome="correction", flips=tuple(flips)
                )
            kept.append(node)
        drawn = rng.draw(rows[bonus_row(len(tree))])
        outcome = "bonus" if tree.tokens else "plain"
        return Verdict(accepted=tuple(kept), next_token=drawn, outcome=outcome, flips=tuple(flips))

    return replace(RULES["token"], verify=verify, needs=frozenset({"chain"}))


def test_the_honest_parts_pass() -> None:
    rule = chain_rule()
    check_rule(rule)
    check_method(draft_model(2))
    assert distance(rule) < 1e-12 and distance() < 1e-12
    assert distance(sampling=Sampling(top_p=0.7)) < 1e-12


def test_no_residual_is_caught() -> None:
    broken = chain_rule(leftover=lambda p, q: p)
    with pytest.raises(AssertionError, match="law"):
        check_rule(broken)
    assert distance(broken) > BIAS
    law, _ = one_draft((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4), rule=broken)
    assert law == pytest.approx([0.35, 0.35, 0.225, 0.075])


def test_residual_softmaxed_is_caught() -> None:
    broken = chain_rule(leftover=lambda p, q: softmax(np.maximum(p - q, 0.0)))
    with pytest.raises(AssertionError, match="law"):
        check_rule(broken)
    assert distance(broken) > BIAS
    law, _ = one_draft((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4), rule=broken)
    assert law == pytest.approx([0.2623, 0.3202, 0.2588, 0.1588], abs=5e-5)


def test_bonus_from_the_wrong_row_is_caught() -> None:
    broken = chain_rule(bonus_row=lambda gamma: max(0, gamma - 1))
    assert distance(broken) > BIAS


def test_less_or_equal_at_u_zero_is_caught_by_scripted_coins() -> None:
    """Enumeration never sees u: the exact law of this bug is right."""
    broken = chain_rule(accepts=lambda u, accepted, prob: accepted if u is None else u <= prob)
    assert distance(broken) < 1e-12
    with pytest.raises(AssertionError, match="u = 0"):
        check_rule(broken)


class SabotagedRun(DraftModelRun):
    """A draft whose claim or choice can be broken after each honest proposal."""

    change: Callable[[Proposal], Proposal] = staticmethod(lambda proposal: proposal)

    def propose(self, room, rng) -> Proposal:
        """Draft honestly, then break it."""
        return self.change(super().propose(room, rng))


def broken_method(change: Callable[[Proposal], Proposal], sampling: Sampling | None = None):
    """Return draft-model with gamma 2 whose proposals pass through `change`."""

    class Run(SabotagedRun):
        pass

    Run.change = staticmethod(change)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Broken(DraftModel):
        num_speculative_tokens: int = 4

        def start(self, kit):
            used = sampling or kit.sampling
            return Run(kit.drafts[0], kit, used, self.num_speculative_tokens, 0.0)

    return Broken


def test_the_harness_itself_is_honest() -> None:
    honest = broken_method(lambda proposal: proposal)
    check_method(honest())
    assert distance(method=honest(num_speculative_tokens=2)) < 1e-12


def test_argmax_draft_with_a_softmax_q_is_caught() -> None:
    def claim_softmax(proposal: Proposal) -> Proposal:
        laws = tuple(raw() for raw in proposal.raw_draft)
        return replace(proposal, draft_probs=laws)

    greedy = Sampling(temperature=0.0)
    broken = broken_method(claim_softmax, greedy)
    with pytest.raises(AssertionError, match="law claimed"):
        check_method(broken())
    assert distance(method=broken(num_speculative_tokens=2)) > BIAS
    law, _ = one_draft((0.5, 0.3, 0.2), (0.4, 0.35, 0.25), method=broken(num_speculative_tokens=1))
    assert law == pytest.approx([1.0, 0.0, 0.0]), "the fingerprint: token 0 every time"


def test_dropping_a_drawn_token_is_caught() -> None:
    def drop_improbable(proposal: Proposal) -> Proposal:
        tokens, laws = proposal.tree.tokens, proposal.draft_probs
        keep = 0
        while keep < len(tokens) and laws[keep][tokens[keep]] >= 0.2:
            keep += 1
        return replace(
            proposal,
            tree=TokenTree.chain(tokens[:keep]),
            draft_probs=laws[:keep],
            raw_draft=proposal.raw_draft[:keep],
        )

    class DropRun(SabotagedRun):
        change = staticmethod(drop_improbable)

        def propose(self, room, rng) -> Proposal:
            start = self.session.length
            proposal = super().propose(room, rng)
            self.session.rollback(start + len(proposal.tree))
            return proposal

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Drops(DraftModel):
        def start(self, kit):
            return DropRun(kit.drafts[0], kit, kit.sampling, self.num_speculative_tokens, 0.0)

    with pytest.raises(AssertionError, match="law claimed"):
        check_method(Drops())
    assert distance(method=Drops(num_speculative_tokens=2)) > BIAS
    law, _ = one_draft((0.5, 0.5), (0.9, 0.1), method=Drops(num_speculative_tokens=1))
    assert law == pytest.approx([0.55, 0.45])
    kept = draft_model(2, min_confidence=0.2)
    check_method(kept)
    assert distance(method=kept) < 1e-12


def test_top_p_on_one_side_only_is_caught() -> None:
    def claim_unfiltered(proposal: Proposal) -> Proposal:
        return replace(proposal, draft_probs=tuple(raw() for raw in proposal.raw_draft))

    filtered = Sampling(top_p=0.7)
    broken = broken_method(claim_unfiltered, filtered)
    with pytest.raises(AssertionError, match="law claimed"):
        check_method(broken())
    assert distance(method=broken(num_speculative_tokens=2), sampling=filtered) > BIAS
    top_k = broken_method(claim_unfiltered, Sampling(top_k=2))
    law, acceptance = one_draft(
        (0.5, 0.5, 0.0, 0.0),
        (0.4, 0.3, 0.2, 0.1),
        method=top_k(num_speculative_tokens=1),
        sampling=Sampling(top_k=2),
    )
    assert law == pytest.approx([4 / 7, 3 / 7, 0, 0]) and acceptance == pytest.approx(1.0)


def test_temperature_on_the_draft_only_is_caught() -> None:
    def ignores_sampling(rows: TargetRows, proposal, rng, position) -> Verdict:
        raw = TargetRows(rows.row, Sampling(), proposal.tree)
        return RULES["token"].verify(raw, proposal, rng, position)

    broken = replace(RULES["token"], verify=ignores_sampling)
    half = Sampling(temperature=0.5)
    assert distance(broken, sampling=half) > BIAS > distance(sampling=half)
    p, q = (0.6, 0.3, 0.1), (0.3, 0.4, 0.3)
    law, _ = one_draft(p, q, rule=broken, sampling=half)
    assert law == pytest.approx(p), "the untempered law"
    assert process(np.log(p), half) != pytest.approx(p)


class KeepsRejected(ToySession):
    """Keeps one rejected token in its cache."""

    def commit(self, path, next_token) -> None:
        """Commit, then leave the first rejected node behind."""
        rejected = [node for node in range(len(self._scored)) if node not in path]
        extra = [self._scored.tokens[node] for node in rejected[:1]]
        super().commit(path, next_token)
        self.cache += extra


class RollsBackTooFar(ToySession):
    """Forgets one token too many."""

    def rollback(self, length: int) -> None:
        """Roll back to one token before `length`."""
        super().rollback(max(1, length - 1))


def toy_with(session: type[ToySession]) -> ToyModel:
    @dataclass(frozen=True, slots=True)
    class Sabotaged(ToyModel):
        def open(self, prompt, taps=()):
            return session(self, list(prompt))

    table = ToyModel.random(7)
    return Sabotaged(table.laws, table.order, table.vocab_size)


@pytest.mark.parametrize("session", [KeepsRejected, RollsBackTooFar])
def test_a_toy_cache_off_by_one_is_caught(session: type[ToySession]) -> None:
    check_model(toy_with(ToySession), PROMPT, tolerance=0.0)
    with pytest.raises(AssertionError):
        check_model(toy_with(session), PROMPT, tolerance=0.0)


class TargetKeepsRejected(TransformerSession):
    """Crops one row too few when it commits."""

    def _crop(self, count: int) -> None:
        super()._crop(count - 1 if self._extra and count > 0 else count)


class TargetRollsBackTooFar(TransformerSession):
    """Crops one row too many when it rolls back."""

    def rollback(self, length: int) -> None:
        """Roll back, then lose the cache's last row unnoticed."""
        super().rollback(length)
        self._cache.crop(-1)


class Beside:
    """A cache that gathers the rows beside the path."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def gather(self, base: int, path: Sequence[int]) -> None:
        """Keep the row before each node of the path."""
        self._cache.gather(base, [max(0, node - 1) for node in path])


class TargetGathersTheWrongBranch(TransformerSession):
    """Keeps the rows beside the accepted path."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._cache = Beside(self._cache)


@pytest.mark.parametrize(
    "session", [TargetKeepsRejected, TargetRollsBackTooFar, TargetGathersTheWrongBranch]
)
def test_a_transformer_cache_off_by_one_is_caught(session: type[TransformerSession]) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Sabotaged(TransformerHandle):
        def open(self, prompt, taps=()):
            return session(self, prompt, taps)

    honest = tiny(seed=1)
    check_model(honest, (3, 1, 4), tolerance=1e-9)
    broken = Sabotaged(model=honest.model, name="broken", vocab_size=honest.vocab_size)
    with pytest.raises(AssertionError):
        check_model(broken, (3, 1, 4), tolerance=1e-9)


class ForgetsTooMuch(DraftModelRun):
    """Rolls its draft back one token too far after every rejection."""

    def observe(self, feedback) -> None:
        """Roll back too far: the text stays right, the acceptance decays."""
        rejected = len(feedback.verdict.accepted) < len(feedback.proposal.tree)
        super().observe(feedback)
        if rejected:
            del self.session.tokens[-2]


@pytest.mark.parametrize("broken", [False, True])
def test_a_draft_rolled_back_too_far_is_caught_by_its_state(broken: bool) -> None:
    """The law stays right, so that only the state shows it."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Method(DraftModel):
        def start(self, kit):
            kind = ForgetsTooMuch if broken else DraftModelRun
            return kind(kit.drafts[0], kit, kit.sampling, self.num_speculative_tokens, 0.0)

    decoding = begin(TARGET, PROMPT, method=Method(num_speculative_tokens=2), drafts=[DRAFT], n=30)
    drifted = [
        decoding.run.session.tokens != decoding.session.tokens
        for round_ in decoding
        if round_.stop_reason is None
    ]
    assert any(drifted) == broken
    assert distance(method=Method(num_speculative_tokens=2)) < 1e-12


def test_scripted_coins_reject_an_impossible_token() -> None:
    """The honest rule beside `<=`: u = 0 and p = 0 is a rejection."""
    p, q = np.array([0.0, 1.0]), np.array([0.5, 0.5])

    class Given:
        def law(self, sampling, counts=None):
            return p

    proposal = Proposal(tree=TokenTree.chain((0,)), draft_probs=(q,))
    rows = TargetRows(lambda index: Given(), Sampling(), proposal.tree)  # type: ignore[arg-type]
    assert RULES["token"].verify(rows, proposal, Scripted([0.0, 0.0]), 1).accepted == ()
    loose = chain_rule(accepts=lambda u, accepted, prob: u is not None and u <= prob)
    assert loose.verify(rows, proposal, Scripted([0.0, 0.0]), 1).accepted == (0,)
