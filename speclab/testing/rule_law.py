"""What a rule makes of one position, exactly: the law of the first emitted token and its bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.laws import RAW, Law, Row, Sampling, one_hot, overlap, process
from speclab.core.protocols import Proposal, VerifyRule
from speclab.core.randomness import Exhaustive, Randomness
from speclab.core.rows import TargetRows
from speclab.core.rules.rejection import without
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.core.trees import PENDING, TokenTree

POSITION = 1
"""Absolute position of the token judged."""

SEVERAL = frozenset({"tree", "iid_siblings", "siblings_without_replacement", "top_k_siblings"})
"""A rule that needs one of these is shown with two candidates unless told otherwise."""

FILTERED = Sampling(top_k=2)
"""A rule that judges by the raw law of a sampled draft errs only when something is filtered."""


def usual_candidates(rule: VerifyRule) -> int:
    """Return with how many candidates a rule's bias is stated: 2 for rules of siblings, else 1."""
    return 2 if rule.needs & SEVERAL and "chain" not in rule.needs else 1


def usual_sampling(rule: VerifyRule) -> Sampling:
    """Return the sampling under which a rule's bias is stated: top-k 2 where a filter matters."""
    return FILTERED if {"sampled", "raw_draft"} <= rule.needs else Sampling()


def rule_law(
    rule: VerifyRule,
    p: Sequence[float] | Law,
    q: Sequence[float] | Law,
    *,
    num_candidates: int | None = None,
    sampling: Sampling | None = None,
) -> tuple[Law, float]:
    """Return the exact law [vocab] of the first token under a rule, and how often a draft is kept.

    Candidates come about as the rule needs them: the draft's best ones ("deterministic",
    "top_k_siblings"), drawn without replacement, drawn with the target's noise ("shared_noise"), or
    else drawn independently.

    Args:
        rule: the rule, with its parameters bound.
        p: the target's law before processing [vocab].
        q: the draft's law before processing [vocab].
        num_candidates: drafted tokens at this place; None: `usual_candidates(rule)`.
        sampling: processes both laws; None: `usual_sampling(rule)`.

    Raises:
        BadInput: if p or q is no law, their lengths differ or there is no candidate.
    """
    target, draft = _Given(_checked(p, "p")), _Given(_checked(q, "q"))
    if len(target.logits) != len(draft.logits):
        raise BadInput(
            f"p has {len(target.logits)} entries and q has {len(draft.logits)}.",
            "Give both for the same tokens.",
            code="unequal_laws",
            values={"p": len(target.logits), "q": len(draft.logits)},
        )
    count = usual_candidates(rule) if num_candidates is None else num_candidates
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise BadInput(
            f"The number of candidates must be a whole number >= 1, not {count!r}.",
            code="candidate_count",
            values={"value": repr(count)},
        )
    sampling = sampling or usual_sampling(rule)
    below, law, kept = _Certain(target.logits), np.zeros(len(target.logits)), 0.0
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        proposal = _propose(rule, draft, sampling, count, rng)
        rows = TargetRows(lambda index: below if index else target, sampling, proposal.tree)
        verdict = rule.verify(rows, proposal, rng, POSITION)
        tokens = [proposal.tree.tokens[node] for node in verdict.accepted[:1]]
        law[tokens[0] if tokens else verdict.next_token] += rng.weight
        kept += rng.weight * len(tokens)
        path = rng.next_path()
    return law, kept


def exact_bias(
    rule: VerifyRule,
    p: Sequence[float] | Law = STANDARD_P,
    q: Sequence[float] | Law = STANDARD_Q,
    *,
    num_candidates: int | None = None,
    sampling: Sampling | None = None,
) -> float:
    """Return the total variation between a rule's first token and the target's law.

    Arguments as for `rule_law`; without p and q: on the standard pair, where it is `rule.bias`.
    """
    law, _ = rule_law(rule, p, q, num_candidates=num_candidates, sampling=sampling)
    target = _Given(_checked(p, "p")).law(sampling or usual_sampling(rule))
    return max(0.0, 1.0 - overlap(law, target))


def _checked(law: Sequence[float] | Law, name: str) -> Law:
    x = np.asarray(law, dtype=np.float64)
    fine = x.ndim == 1 and len(x) > 0 and bool((np.isfinite(x) & (x >= 0.0)).all())
    off = abs(float(x.sum()) - 1.0)
    if not fine or off > 1e-6:
        raise BadInput(
            f"{name} is not a law: its entries must be >= 0 and sum to 1.",
            "Scale the bars so that they sum to 1.",
            code="not_a_law",
            values={"name": name},
        )
    return x if off < 1e-12 else x / x.sum()


class _Given(Row):
    """A row whose raw law is given: logarithm and softmax would change its last bits."""

    def law(self, sampling: Sampling, counts: object = None) -> Law:
        """Return the law given, processed."""
        if sampling == RAW:
            return self.logits
        with np.errstate(divide="ignore"):
            return process(np.log(self.logits), sampling)


class _Certain(Row):
    """A row below the place judged: one token for certain, so that nothing more branches."""

    def law(self, sampling: Sampling, counts: object = None) -> Law:
        """Return all on token 0."""
        return one_hot(0, len(self.logits))


def _propose(
    rule: VerifyRule, draft: Row, sampling: Sampling, count: int, rng: Randomness
) -> Proposal:
    """Draft `count` siblings in the way the rule needs."""
    q = draft.law(sampling)
    ranked = bool(rule.needs & {"deterministic", "top_k_siblings"})
    apart = ranked or "siblings_without_replacement" in rule.needs
    tokens: list[int] = []
    laws: list[Law | None] = []
    for _ in range(min(count, int((q > 0.0).sum())) if apart else count):
        if ranked:
            token = int(q.argmax())
        elif "shared_noise" in rule.needs:
            token = rng.draw(q, at=("target", POSITION), noise="gumbel")
        else:
            token = rng.draw(q)
        tokens.append(token)
        laws.append(None if ranked else q)
        q = without(q, token) if apart else q
    return Proposal(
        tree=TokenTree(tuple(tokens), (PENDING,) * len(tokens)),
        draft_probs=tuple(laws),
        raw_draft=(draft.raw,) * len(tokens),
    )
