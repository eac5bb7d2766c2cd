"""One position, judged by a rule: how its candidates come about and what is emitted first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.laws import RAW, Law, Row, Sampling, one_hot, process
from speclab.core.protocols import Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.rows import TargetRows
from speclab.core.rules.rejection import without
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


class OnePosition:
    """A rule, the two laws it meets and the candidates it wants.

    Args:
        rule: the rule, with its parameters bound.
        p: the target's law before processing [vocab].
        q: the draft's law before processing [vocab].
        num_candidates: drafted tokens at this place; None: `usual_candidates(rule)`.
        sampling: processes both laws; None: `usual_sampling(rule)`.

    Raises:
        BadInput: if p or q is no law, their lengths differ or there is no candidate.
    """

    def __init__(
        self,
        rule: VerifyRule,
        p: Sequence[float] | Law,
        q: Sequence[float] | Law,
        *,
        num_candidates: int | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self.rule, self.sampling = rule, sampling or usual_sampling(rule)
        self.target, self.draft = GivenRow(checked_law(p, "p")), GivenRow(checked_law(q, "q"))
        self.vocab_size = len(self.target.logits)
        if self.vocab_size != len(self.draft.logits):
            raise BadInput(
                f"p has {self.vocab_size} entries and q has {len(self.draft.logits)}.",
                "Give both for the same tokens.",
                code="unequal_laws",
                values={"p": self.vocab_size, "q": len(self.draft.logits)},
            )
        count = usual_candidates(rule) if num_candidates is None else num_candidates
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise BadInput(
                f"The number of candidates must be a whole number >= 1, not {count!r}.",
                code="candidate_count",
                values={"value": repr(count)},
            )
        self.num_candidates = count
        self._below = _Certain(self.target.logits)

    @property
    def target_law(self) -> Law:
        """The law that the emitted token should have [vocab]."""
        return self.target.law(self.sampling)

    def judge(self, rng: Randomness) -> tuple[int, bool]:
        """Draft, verify; return the first token emitted and whether it was a drafted one."""
        proposal = self._propose(rng)
        rows = TargetRows(
            lambda index: self._below if index else self.target, self.sampling, proposal.tree
        )
        verdict = self.rule.verify(rows, proposal, rng, POSITION)
        if verdict.accepted:
            return proposal.tree.tokens[verdict.accepted[0]], True
        return verdict.next_token, False

    def _propose(self, rng: Randomness) -> Proposal:
        """Draft siblings in the way the rule needs.

        The draft's best ones ("deterministic", "top_k_siblings"), drawn without replacement, drawn
        with the target's noise ("shared_noise"), or else drawn independently.
        """
        needs, q = self.rule.needs, self.draft.law(self.sampling)
        ranked = bool(needs & {"deterministic", "top_k_siblings"})
        apart = ranked or "siblings_without_replacement" in needs
        count = self.num_candidates
        tokens: list[int] = []
        laws: list[Law | None] = []
        for _ in range(min(count, int((q > 0.0).sum())) if apart else count):
            if ranked:
                token = int(q.argmax())
            elif "shared_noise" in needs:
                token = rng.draw(q, at=("target", POSITION), noise="gumbel")
            else:
                token = rng.draw(q)
            tokens.append(token)
            laws.append(None if ranked else q)
            q = without(q, token) if apart else q
        return Proposal(
            tree=TokenTree(tuple(tokens), (PENDING,) * len(tokens)),
            draft_probs=tuple(laws),
            raw_draft=(self.draft.raw,) * len(tokens),
        )


def checked_law(law: Sequence[float] | Law, name: str) -> Law:
    """Return the law as float64 [vocab] that sums to one.

    Raises:
        BadInput: naming it, if it is no law.
    """
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


class GivenRow(Row):
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
