"""The negative control: a rule known to be wrong that a method can serve, chosen for a context."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.laws import RAW, Law, align, one_hot
from speclab.core.protocols import Room, VerifyRule, provided
from speclab.core.randomness import Seeded
from speclab.core.rules import RULES, rule_named
from speclab.core.trees import PENDING
from speclab.engine.chain_sampler import PLACE_BY_PLACE
from speclab.lab.prove_case import Case
from speclab.lab.runs import check_compatible
from speclab.models.pair import Pair
from speclab.stats.power import detectable_bias
from speclab.testing import exact_bias

MOST_TOKENS, MOST_TOKENS_IN_TREES = 64, 12
"""Widest laws whose bias is enumerated, with one candidate and with several."""
TOO_EASY = ("broken-softmax-residual",)
"""It emits what the target forbids: one sample rejects it, so it says nothing about a test."""
NOTICEABLE = 0.05
"""Below this bias of every broken rule, a lossy one may serve."""
FAIR_CELLS = 32
FAIR_SHARE = 2.0
"""A control is fair if its bias is this many times what a chi-square of 32 cells can see: it is
then rejected almost surely, and a much larger bias would show less about the test."""


def choose_control(
    case: Case, first: FirstDraft, target: Law, *, together: bool = False
) -> tuple[VerifyRule, float | None] | None:
    """Return a wrong rule and its total variation on the first token; None if none would show.

    Args:
        first: what is drafted there. target: law of the first token [vocab].
        together: whether the rule under test is decoded by `ChainSampler`, as its control should.

    Raises:
        BadInput: if the rule asked for keeps the target's law, or the method cannot serve it.
    """
    name = case.spec.control
    if name is not None:
        rule = rule_named(name)
        if rule.lossless:
            raise BadInput(
                f"The control {name} is a right rule: it can show nothing.",
                "Choose a lossy or broken one.",
                code="control_right",
                values={"name": name},
            )
        check_compatible(case.method, rule, case.pair, case.spec.sampling)
        return rule, first.bias(rule, target)
    given = provided(case.method, case.spec.sampling)
    wrong = [
        rule
        for rule in RULES.values()
        if not rule.lossless
        and (not together or rule.name in PLACE_BY_PLACE)
        and rule.needs <= given
        and rule.name not in (case.spec.rule, *TOO_EASY)
    ]
    biases = {rule.name: first.bias(rule, target) for rule in wrong}
    wrong = [rule for rule in wrong if biases[rule.name] is None or biases[rule.name]]
    if not wrong:
        return None

    def bias_of(rule: VerifyRule) -> float:
        return biases[rule.name] or 0.0

    seen = detectable_bias(FAIR_CELLS, case.spec.num_samples, level=case.spec.alpha)
    least = max(NOTICEABLE, FAIR_SHARE * seen)
    fair = [rule for rule in wrong if rule.kind == "broken" and bias_of(rule) >= least]
    if fair:
        best = min(fair, key=bias_of)
    else:
        best = max(
            wrong,
            key=lambda rule: (
                rule.kind == "broken" and bias_of(rule) >= NOTICEABLE,
                bias_of(rule),
                rule.bias,
            ),
        )
    return best, biases[best.name]


@dataclass(frozen=True, slots=True)
class FirstDraft:
    """What is drafted for the first token.

    Attributes:
        law: of the first candidate [vocab]; one-hot where it is chosen; None: nothing is drafted.
        sampled: whether the candidates are drawn. count: how many there are.
    """

    law: Law | None
    sampled: bool = False
    count: int = 0

    def bias(self, rule: VerifyRule, target: Law) -> float | None:
        """Return a rule's exact total variation on the first token; None where it is not known.

        Not known: laws too wide to enumerate, several chosen candidates, and rules that read the
        draft's raw law, which a filter or a temperature of the draft's own sets apart from q.
        """
        if self.law is None:
            return 0.0
        if "raw_draft" in rule.needs or (self.count > 1 and not self.sampled):
            return None
        kept = np.flatnonzero((target > 0.0) | (self.law > 0.0))
        if len(kept) > (MOST_TOKENS if self.count == 1 else MOST_TOKENS_IN_TREES):
            return None
        return exact_bias(
            rule, target[kept], self.law[kept], num_candidates=self.count, sampling=RAW
        )


def first_draft(case: Case, pair: Pair) -> FirstDraft:
    """Return what the method drafts for the first token."""
    decoding = case.begin(Seeded(case.spec.seed), pair)
    try:
        room = Room(
            context=list(case.tokens),
            max_depth=max(case.spec.length - 1, 0),
            max_nodes=case.limits.max_nodes,
        )
        proposal = decoding.run.propose(room, Seeded(case.spec.seed))
    finally:
        decoding.run.close()
        decoding.session.close()
    children = proposal.tree.children(PENDING)
    if not children:
        return FirstDraft(None)
    law = proposal.draft_probs[children[0]]
    size = pair.target.vocab_size
    token = proposal.tree.tokens[children[0]]
    wide = one_hot(token, size) if law is None else align(law, size)
    return FirstDraft(wide, law is not None, len(children))
