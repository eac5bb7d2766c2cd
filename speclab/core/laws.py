"""From logits to the law a token is drawn from, in float64.

Order of processing: penalties, temperature, top-k, top-p, min-p. Temperature 0 is the one-hot law
at the lowest id among the maxima.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput, NumericalFault

Law = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How logits become a law.

    Penalties count generated tokens only, not the prompt.

    Attributes:
        temperature: >= 0; 0 is greedy.
        top_k: keep the k most likely tokens; 0 keeps all. Ties go to the lower id.
        top_p: keep the smallest set of tokens whose mass reaches top_p; in (0, 1].
        min_p: drop tokens less likely than min_p times the most likely one; in [0, 1].
        repetition_penalty: > 0; divides positive and multiplies negative logits of seen tokens.
        presence_penalty: subtracted once from the logit of every seen token.
        frequency_penalty: subtracted once per occurrence.

    Raises:
        BadInput: if a value is out of range or not a number.

    **Source:** top-p: 1904.09751; repetition penalty: 1909.05858 (CTRL), equation 1.
    **Deviation:** CTRL and Transformers count the prompt as well.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    def __post_init__(self) -> None:
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise BadInput(f"{field_.name} must be a number, not {value!r}.")
        checks = (
            ("temperature", 0.0 <= self.temperature < math.inf, "a number >= 0"),
            ("top_k", self.top_k >= 0 and self.top_k % 1 == 0, "a whole number >= 0"),
            ("top_p", 0.0 < self.top_p <= 1.0, "above 0 and at most 1"),
            ("min_p", 0.0 <= self.min_p <= 1.0, "between 0 and 1"),
            ("repetition_penalty", 0.0 < self.repetition_penalty < math.inf, "a number > 0"),
            ("presence_penalty", math.isfinite(self.presence_penalty), "a finite number"),
            ("frequency_penalty", math.isfinite(self.frequency_penalty), "a finite number"),
        )
        for name, fine, wanted in checks:
            if not fine:
                raise BadInput(f"{name} must be {wanted}, not {getattr(self, name)}.")
        object.__setattr__(self, "top_k", int(self.top_k))

    @property
    def greedy(self) -> bool:
        """Whether the law is one-hot."""
        return self.temperature == 0.0

    def at_temperature(self, temperature: float | None) -> Sampling:
        """Return the same settings at another temperature; None: unchanged."""
        return self if temperature is None else replace(self, temperature=temperature)

    @property
    def penalised(self) -> bool:
        """Whether the law depends on which tokens were generated before."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )

    def counted(
        self, context: Sequence[int], prompt_length: int, drafted: Iterable[int] = ()
    ) -> Counter[int] | None:
        """Return how often each token was generated, if the law depends on it; else None.

        Args:
            context: committed tokens, prompt included. prompt_length: how many are the prompt's,
                which does not count. drafted: tokens drafted after the context.
        """
        if not self.penalised:
            return None
        counts = Counter(context[prompt_length:])
        counts.update(drafted)
        return counts

    @property
    def filtered(self) -> bool:
        """Whether tokens may be removed from the law."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0


RAW = Sampling()
"""Temperature 1, nothing filtered: the model's own law."""


def softmax(logits: NDArray) -> Law:
    """Return the float64 softmax of `logits` [vocab].

    Raises:
        NumericalFault: if a logit is NaN or +inf, or all are -inf.
    """
    x = np.asarray(logits, dtype=np.float64)
    top = x.max()
    if not math.isfinite(top):
        raise NumericalFault(
            f"The model's largest logit is {top}; no law can be made from it.",
            "The weights may be corrupt, or the dtype too narrow for this model.",
        )
    weights = np.exp(x - top)
    return weights / weights.sum()


def one_hot(token: int, size: int) -> Law:
    """Return the law that puts everything on `token` [size]."""
    law = np.zeros(size)
    law[token] = 1.0
    return law


def penalise(logits: NDArray, sampling: Sampling, counts: Mapping[int, int]) -> Law:
    """Return a float64 copy of `logits` [vocab] with the penalties of `sampling` applied.

    Tokens outside a narrower vocabulary (a draft's) have no logit and are passed over.
    """
    x = np.array(logits, dtype=np.float64)
    known = (token for token in counts if counts[token] > 0 and token < len(x))
    seen = np.fromiter(known, dtype=np.int64)
    if seen.size:
        times = np.array([counts[int(token)] for token in seen], dtype=np.float64)
        values = x[seen]
        r = sampling.repetition_penalty
        values = np.where(values > 0, values / r, values * r)
        x[seen] = values - sampling.presence_penalty - sampling.frequency_penalty * times
    return x


def most_likely(law: Law, count: int) -> NDArray[np.int64]:
    """Return the `count` most likely ids, most likely first; ties go to the lower id."""
    ids = np.arange(len(law))
    if count < len(law):
        least = np.partition(law, len(law) - count)[len(law) - count]
        ids = np.flatnonzero(law >= least)
    return ids[np.argsort(-law[ids], kind="stable")][:count]


def _filter(law: Law, sampling: Sampling) -> Law:
    """Apply top-k, top-p and min-p, in this order, to a law [vocab]; renormalise."""
    order = most_likely(law, sampling.top_k or len(law))
    mass = law[order]
    if sampling.top_p < 1.0:
        cumulative = mass.cumsum() / mass.sum()
        kept = 1 + int((cumulative[:-1] < sampling.top_p).sum())
        order, mass = order[:kept], mass[:kept]
    if sampling.min_p > 0.0:
        keep = mass >= sampling.min_p * mass[0]
        order, mass = order[keep], mass[keep]
    out = np.zeros_like(law)
    out[order] = mass / mass.sum()
    return out


def process(logits: NDArray, sampling: Sampling, counts: Mapping[int, int] | None = None) -> Law:
    """Return the law [vocab] that `sampling` makes of `logits` [vocab].

    Args:
        logits: one row of any float dtype; upcast before anything else.
        sampling: the request's settings.
        counts: how often each token was generated before this position, on this row's own path.

    Raises:
        NumericalFault: if the logits are not usable.
    """
    if counts and sampling.penalised:
        logits = penalise(logits, sampling, counts)
    if sampling.greedy:
        return one_hot(Row(logits).top(), len(logits))
    x = np.asarray(logits, dtype=np.float64)
    if sampling.temperature != 1.0:
        x = (x - x.max()) / sampling.temperature
    law = softmax(x)
    return _filter(law, sampling) if sampling.filtered else law


MAX_LAWS = 2
"""Laws a row keeps: the raw one and the one asked for last."""


@dataclass(slots=True)
class Row:
    """One row of logits and the laws already made of it (at most `MAX_LAWS`).

    Attributes:
        logits: [vocab], any float dtype.
    """

    logits: NDArray
    _laws: dict[Sampling, Law] = field(default_factory=dict)

    def law(self, sampling: Sampling, counts: Mapping[int, int] | None = None) -> Law:
        """Return the processed law [vocab]; made once unless penalties apply. Do not modify it."""
        if counts and sampling.penalised:
            return process(self.logits, sampling, counts)
        law = self._laws.get(sampling)
        if law is None:
            law = process(self.logits, sampling)
            kept = {RAW: self._laws[RAW]} if RAW in self._laws else {}
            self._laws = {**kept, sampling: law}
        return law

    def raw(self) -> Law:
        """Return the law before processing [vocab]."""
        return self.law(RAW)

    def top(self) -> int:
        """Return the lowest id among the largest logits: the draw at temperature 0.

        Raises:
            NumericalFault: if the largest logit is not finite.
        """
        token = int(self.logits.argmax())
        if not math.isfinite(self.logits[token]):
            raise NumericalFault(f"The model's largest logit is {self.logits[token]}.")
        return token

    def top_gap(self) -> float:
        """Return the difference of the two largest logits."""
        two = np.partition(np.asarray(self.logits, dtype=np.float64), -2)[-2:]
        return float(two[1] - two[0])


def align(law: Law, size: int) -> Law:
    """Return `law` padded with zeros or cut to `size` entries (padded vocabularies)."""
    if len(law) == size:
        return law
    if len(law) < size:
        return np.concatenate([law, np.zeros(size - len(law))])
    return law[:size]


def residual(p: Law, q: Law) -> Law:
    """Return norm(max(0, p - q)) [vocab]; p itself where nothing is left.

    **Source:** Leviathan et al. 2211.17192, section 2.3; Chen et al. 2302.01318, equation 2.
    """
    size = max(len(p), len(q))
    rest = np.maximum(align(p, size) - align(q, size), 0.0)[: len(p)]
    total = rest.sum()
    if not math.isfinite(total):
        raise NumericalFault("A law holds NaN: no residual can be made.")
    return rest / total if total > 0.0 else p


def overlap(p: Law, q: Law) -> float:
    """Return sum of min(p, q) = 1 - TV(p, q): the chance that a token drawn from q is accepted."""
    size = min(len(p), len(q))
    return float(np.minimum(p[:size], q[:size]).sum())
