"""The negative control: a rule known to be wrong that a method can serve, chosen for a context."""

from __future__ import annotations

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

MOST_TOKENS = 48
"""Tokens of either law over which biases are compared; the most likely ones."""
TOO_EASY = ("broken-softmax-residual",)
"""It emits what the target forbids: one sample rejects it, so it says nothing about a test."""
NOTICEABLE = 0.05
"""Below this bias of every broken rule, a lossy one may serve."""
FAIR_CELLS = 32
FAIR_SHARE = 2.0
"""A control is fair if its bias is this many times what a chi-square of 32 cells can see: it is
then rejected almost surely, and a much larger bias would show less about the test."""


def choose_control(
    case: Case, draft: Law | None, target: Law
) -> tuple[VerifyRule, float | None] | None:
    """Return a wrong rule and its total variation on the first token; None if none can be served.

    Args:
        draft: law of the first drafted token [vocab], as `first_draft`. target: of the first token.

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
        return rule, _bias(rule, target, draft)
    given = provided(case.method, case.spec.sampling)
    alike = PLACE_BY_PLACE if case.rule.name in PLACE_BY_PLACE else RULES.keys()
    wrong = [
        rule
        for rule in RULES.values()
        if not rule.lossless
        and rule.name in alike
        and rule.needs <= given
        and rule.name not in (case.spec.rule, *TOO_EASY)
    ]
    if not wrong:
        return None
    biases = {rule.name: _bias(rule, target, draft) for rule in wrong}

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


def first_draft(case: Case, pair: Pair) -> Law | None:
    """Return the law of the first drafted token; None where nothing is drafted there."""
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
        return None
    law = proposal.draft_probs[children[0]]
    size = pair.target.vocab_size
    return one_hot(proposal.tree.tokens[children[0]], size) if law is None else align(law, size)


def _bias(rule: VerifyRule, target: Law, draft: Law | None) -> float | None:
    """Return a rule's total variation on these laws; None where they are too wide to enumerate."""
    if draft is None:
        return 0.0
    kept = np.flatnonzero((target > 0.0) | (draft > 0.0))
    if len(kept) > MOST_TOKENS:
        kept = np.argsort(-np.maximum(target, draft), kind="stable")[:MOST_TOKENS]
    p, q = target[kept], draft[kept]
    if not (p.sum() > 0.0 and q.sum() > 0.0):
        return None
    return exact_bias(rule, p / p.sum(), q / q.sum(), sampling=RAW)
