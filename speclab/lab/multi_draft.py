"""How often one of several drafts is accepted on real laws, per rule, against the best possible.

At the root of every round of a sampled run the laws p and q of target and draft are taken, and the
chance that one of K candidates is accepted is computed, not drawn: i.i.d. candidates tested in turn
(SpecInfer), K-SEQ (SpecTr), candidates without replacement (RSD), and the bounds that no lossless
rule can exceed for i.i.d. candidates and for candidates without replacement. On every position

    i.i.d. <= K-SEQ <= bound of i.i.d.   and   i.i.d. <= without replacement <= bound of these.

K-SEQ and without replacement are not ordered; the report says which wins on which prompts.

The report (JSON): `schema_version` 1, `kind` "multi-draft", `pair`, `target`, `draft`, `sources`,
`dtype`, `versions`, `created`, `plan`, `complete`, `largest_violation` (of the two chains, over all
positions; rounding leaves less than 1e-9), `families` and `all`: each with `prompts`, `positions`,
`overlap` and `counts`: per K what is in `QUANTITIES` and `k_seq_minus_without`, as
[mean, low, high] with a bootstrap interval over prompts, and `winner`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.laws import Law, Sampling, overlap
from speclab.core.rules.bounds import (
    optimal_acceptance_iid,
    optimal_acceptance_without_replacement,
)
from speclab.core.rules.several import (
    acceptance_iid,
    acceptance_k_seq,
    acceptance_without_replacement,
)
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.families import CHAT_FAMILIES, TEXT_FAMILIES
from speclab.lab.measuring import Stopped, check_bounds, never, plain_types
from speclab.lab.runs import generate, provenance
from speclab.models.pair import Pair
from speclab.stats.intervals import paired_ratio_interval

BENCHMARKS = Path(__file__).resolve().parents[2] / "assets" / "benchmarks"
QUANTITIES = {
    "iid": acceptance_iid,
    "k_seq": acceptance_k_seq,
    "bound_iid": optimal_acceptance_iid,
    "without_replacement": acceptance_without_replacement,
    "bound_without_replacement": optimal_acceptance_without_replacement,
}
CHAINS = (
    ("iid", "k_seq", "bound_iid"),
    ("iid", "without_replacement", "bound_without_replacement"),
)
DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiDraftPlan:
    """How much is looked at.

    Attributes:
        families: of prompts; empty: the six that suit the pair. prompts: of each family.
        max_new_tokens: per prompt. positions: at most per prompt, evenly among its rounds.
        counts: the K. temperature: of target and draft; top_k: tokens kept of both, 0: all.
        seed: of the runs.
    """

    families: tuple[str, ...] = ()
    prompts: int = 6
    max_new_tokens: int = 32
    positions: int = 8
    counts: tuple[int, ...] = (2, 3, 4)
    temperature: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, most in (("prompts", 6), ("max_new_tokens", 1024), ("positions", 1024)):
            check_bounds(name, getattr(self, name), 1, most)
        for count in self.counts or (0,):
            check_bounds("counts", count, 1, 4)
        if self.temperature <= 0.0:
            raise BadInput(
                "At temperature 0 nothing is drawn: K drafts are one draft.",
                "Choose a temperature above 0.",
                code="multi_draft_greedy",
            )

    @property
    def sampling(self) -> Sampling:
        """Return how both models' logits become laws."""
        return Sampling(temperature=self.temperature, top_k=self.top_k)


@dataclass(frozen=True, slots=True)
class Position:
    """What was computed at one root.

    Attributes:
        prompt: number of the prompt. family: of the prompt. overlap: sum of min(p, q).
        values: by (K, quantity).
    """

    prompt: int
    family: str
    overlap: float
    values: dict[tuple[int, str], float]


def quantities(p: Law, q: Law, counts: Sequence[int]) -> dict[tuple[int, str], float]:
    """Return the chance that one of K candidates is accepted, by (K, quantity)."""
    return {
        (count, name): value(p, q, count) for count in counts for name, value in QUANTITIES.items()
    }


def violation(values: dict[tuple[int, str], float]) -> float:
    """Return by how much the two chains of inequalities are broken at most; 0 where they hold."""
    counts = {count for count, _ in values}
    return max(
        max(0.0, values[count, low] - values[count, high])
        for count in counts
        for chain in CHAINS
        for low, high in pairwise(chain)
    )


def laws_at_roots(
    pair: Pair, text: Sequence[int], roots: Sequence[int], sampling: Sampling
) -> list[tuple[Law, Law]]:
    """Return the laws of target and draft after the first n tokens of `text`, for every n."""
    keep = len(text) - min(roots) + 1
    rows = [
        model.evaluate([list(text)], [keep])[0]  # type: ignore[attr-defined]
        for model in (pair.target, pair.drafts[0])
    ]
    return [
        tuple(each[root - min(roots)].law(sampling) for each in rows)  # type: ignore[misc]
        for root in roots
    ]


@dataclass(slots=True)
class MultiDraftMeasurement:
    """A measurement on its way: iterate it for (prompts done, prompts), then ask `report()`."""

    pair: Pair
    plan: MultiDraftPlan
    stopped: Stopped = never
    found: list[Position] = field(default_factory=list)
    _done: int = 0

    def prompts(self) -> list[tuple[str, str]]:
        """Return (family, prompt) in turns."""
        chat = bool(self.pair.codec.chat_by_default)
        families = self.plan.families or (CHAT_FAMILIES if chat else TEXT_FAMILIES)
        return bench_prompts(chat, self.plan.prompts * len(families), families)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Run every prompt once and compute at its roots."""
        if not self.pair.drafts:
            raise BadInput(
                f"The pair {self.pair.name} has no draft model.",
                "Choose another pair.",
                code="no_draft_here",
                values={"pair": self.pair.name},
            )
        prompts = self.prompts()
        for number, (family, prompt) in enumerate(prompts):
            if self.stopped():
                return
            self.found += self._positions(number, family, prompt)
            self._done = number + 1
            yield self._done, len(prompts)

    def _positions(self, number: int, family: str, prompt: str) -> list[Position]:
        trace = generate(
            self.pair,
            prompt,
            method="multi-draft",
            num_drafts=max(self.plan.counts),
            sampling=self.plan.sampling,
            seed=self.plan.seed,
            max_new_tokens=self.plan.max_new_tokens,
            record_laws=False,
        )
        text = (*trace.prompt_tokens, *trace.emitted)
        roots = [round_.context_length for round_ in trace.rounds]
        step = max(1, -(-len(roots) // self.plan.positions))
        chosen = roots[::step]
        laws = laws_at_roots(self.pair, text, chosen, self.plan.sampling) if chosen else []
        return [
            Position(number, family, overlap(p, q), quantities(p, q, self.plan.counts))
            for p, q in laws
        ]

    def report(self) -> dict[str, Any]:
        """Return what was found so far (JSON types; see the module)."""
        families = dict.fromkeys(position.family for position in self.found)
        return {
            "schema_version": 1,
            "kind": "multi-draft",
            "pair": self.pair.name,
            "target": self.pair.target.name,
            "draft": self.pair.drafts[0].name,
            "sources": list(self.pair.notes),
            "dtype": self.pair.dtype,
            "versions": provenance(),
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "plan": plain_types(asdict(self.plan)),
            "complete": self._done == len(self.prompts()),
            "largest_violation": max((violation(each.values) for each in self.found), default=0.0),
            "families": {
                family: self._numbers([each for each in self.found if each.family == family])
                for family in families
            },
            "all": self._numbers(self.found) if self.found else None,
        }

    def _numbers(self, positions: Sequence[Position]) -> dict[str, Any]:
        return {
            "prompts": len({position.prompt for position in positions}),
            "positions": len(positions),
            "overlap": mean_over_prompts(positions, [each.overlap for each in positions]),
            "counts": {str(count): _counted(positions, count) for count in self.plan.counts},
        }


def _counted(positions: Sequence[Position], count: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: mean_over_prompts(positions, [each.values[count, name] for each in positions])
        for name in QUANTITIES
    }
    difference = mean_over_prompts(
        positions,
        [
            each.values[count, "k_seq"] - each.values[count, "without_replacement"]
            for each in positions
        ],
    )
    return {**found, "k_seq_minus_without": difference, "winner": winner(difference)}


def winner(difference: Sequence[float]) -> str:
    """Return which of the two accepts more, by the interval of K-SEQ minus without replacement."""
    _, low, high = difference
    if low > 0.0:
        return "k_seq"
    return "without_replacement" if high < 0.0 else "undecided"


def mean_over_prompts(positions: Sequence[Position], values: Sequence[float]) -> list[float]:
    """Return the mean of one value per position and its bootstrap interval over prompts."""
    totals: dict[int, list[float]] = {}
    for position, value in zip(positions, values, strict=True):
        sums = totals.setdefault(position.prompt, [0.0, 0.0])
        sums[0] += value
        sums[1] += 1.0
    tops, bottoms = zip(*totals.values(), strict=True)
    return [round(value, DIGITS) for value in paired_ratio_interval(tops, bottoms)]


def report_path(pair: str) -> Path:
    """Return where the report of a pair is kept."""
    return BENCHMARKS / f"multi-draft-{pair}.json"
