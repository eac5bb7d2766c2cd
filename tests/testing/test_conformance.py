"""The shipped conformance kit: passes for what we ship, fails for what is broken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_methods import TOY_METHODS, small

from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.methods import METHODS, make_method
from speclab.methods.draft_model import DraftModel, DraftModelRun
from speclab.models.toy import FEATURE_TAP, ToyModel
from speclab.testing import check_method, check_model, check_rule
from speclab.testing.conformance import check_honest_draft_law

SHIPPED = [
    *map(small, METHODS),
    make_method("draft-model", {"num_speculative_tokens": 2, "shared_noise": True}),
    make_method("draft-tree", {"depth": 2, "siblings": "iid"}),
    make_method("draft-tree", {"depth": 2, "width": 3, "siblings": "top-k"}),
]


@pytest.mark.parametrize("method", [*SHIPPED, *TOY_METHODS], ids=repr)
def test_methods(method) -> None:
    check_method(method)


class RawClaim(DraftModelRun):
    """Draws from the filtered law and claims the raw one, from a given round on."""

    honest_rounds = 0

    def propose(self, room, rng):
        proposal = super().propose(room, rng)
        self.honest_rounds -= 1
        greedy = any(law is None for law in proposal.draft_probs)
        if self.honest_rounds >= 0 or greedy:
            return proposal
        return replace(proposal, draft_probs=tuple(make() for make in proposal.raw_draft))


class RawClaimLater(RawClaim):
    """The same, honest in its first round."""

    honest_rounds = 1


@pytest.mark.parametrize("kind", [RawClaim, RawClaimLater])
def test_a_claimed_law_that_was_not_drawn_from_is_caught(kind) -> None:
    class Liar(DraftModel):
        def start(self, kit):
            run = super().start(kit)
            run.__class__ = kind
            return run

    check_honest_draft_law(DraftModel(num_speculative_tokens=2))
    with pytest.raises(AssertionError, match="law claimed"):
        check_honest_draft_law(Liar(num_speculative_tokens=2))


class SpentNoise(DraftModelRun):
    """Draws with the noise of the position before, which the text already depends on."""

    def _choose(self, law, position, rng):
        return super()._choose(law, position - 1, rng)


def test_noise_that_the_text_depends_on_is_no_noise() -> None:
    class Late(DraftModel):
        def start(self, kit):
            run = super().start(kit)
            run.__class__ = SpentNoise
            return run

    check_honest_draft_law(DraftModel(num_speculative_tokens=2, shared_noise=True))
    with pytest.raises(AssertionError, match=r"round 2.*law claimed"):
        check_honest_draft_law(Late(num_speculative_tokens=2, shared_noise=True))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules(rule) -> None:
    check_rule(rule)


def test_toy_model() -> None:
    check_model(ToyModel.random(7), (0, 1, 0), tolerance=0.0, taps=(FEATURE_TAP,))
    check_model(ToyModel.random(7), (0,), tolerance=0.0, tree=TokenTree.chain((1, 2, 0)))
