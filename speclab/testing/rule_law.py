"""What a rule makes of one position, exactly: the law of the first emitted token and its bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from speclab.core.laws import Law, Sampling, overlap
from speclab.core.protocols import VerifyRule
from speclab.core.randomness import Exhaustive
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.engine.one_position import OnePosition, usual_candidates, usual_sampling

__all__ = ["exact_bias", "rule_law", "usual_candidates", "usual_sampling"]


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
    place = OnePosition(rule, p, q, num_candidates=num_candidates, sampling=sampling)
    law, kept = np.zeros(place.vocab_size), 0.0
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        token, drafted = place.judge(rng)
        law[token] += rng.weight
        kept += rng.weight * drafted
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
    place = OnePosition(rule, p, q, num_candidates=num_candidates, sampling=sampling)
    law, _ = rule_law(rule, p, q, num_candidates=num_candidates, sampling=sampling)
    return max(0.0, 1.0 - overlap(law, place.target_law))
