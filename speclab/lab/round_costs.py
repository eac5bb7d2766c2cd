"""What a round costs, fitted on the requests of some prompts by small linear models.

seconds of a request = prefill + rounds + outside
prefill            = a + b * prompt tokens                     (by method: the draft's is in it)
round              = drafting + target pass + other
drafting           = a + b * passes + c * nodes                (by method)
target pass        = plain pass * v(1 + nodes + passengers)    (v from raw passes, see `bench`)
other              = a + b * nodes                             (by method: rule, caches)
outside            = a + b * rounds                            (all methods: opening, records)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.records import Trace

Verify = Callable[[int], float]
"""v(n), a target pass on n tokens / on 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Seconds as a sum of non-negative terms.

    Attributes:
        fixed_s: always. by: seconds per unit of each further term.
    """

    fixed_s: float = 0.0
    by: tuple[float, ...] = ()

    @classmethod
    def fit(cls, rows: Iterable[Sequence[float]], seconds: Iterable[float]) -> Linear:
        """Return the best non-negative fit by least squares; zeros without rows.

        Args:
            rows: the terms of each observation. seconds: of each observation.

        **Source:** Lawson and Hanson 1974, non-negative least squares (scipy).
        """
        from scipy.optimize import nnls

        terms = np.array([[1.0, *row] for row in rows], dtype=np.float64)
        if not len(terms):
            return cls()
        scale = np.maximum(terms.max(0), 1e-12)
        found, _ = nnls(terms / scale, np.asarray(list(seconds), dtype=np.float64))
        fixed, *by = (found / scale).tolist()
        return cls(fixed_s=fixed, by=tuple(by))

    def of(self, *terms: float) -> float:
        """Return the seconds of an observation."""
        return self.fixed_s + sum(each * term for each, term in zip(self.by, terms, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCosts:
    """Seconds of one method: of prefill by prompt tokens, of drafting by passes and nodes, and of
    the rest of a round by nodes.

    Attributes:
        prefill, drafting, other: see the module. looking: of a round that found nothing to draft.
    """

    prefill: Linear
    drafting: Linear
    other: Linear
    looking: Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCosts:
    """What requests of a pair cost.

    Attributes:
        target_step_s: mean plain target pass. verify: v(n) by shape, "chain" or "tree".
        methods: by name, plain decoding among them. outside: what is in no round.
    """

    target_step_s: float
    verify: Mapping[str, Verify]
    methods: Mapping[str, MethodCosts]
    outside: Linear

    def round_s(
        self,
        method: str,
        depth: int,
        nodes: int,
        passes: float,
        shape: str,
        passengers: int = 0,
    ) -> float:
        """Return the seconds of one round that drafts so much, and what rides in its pass."""
        costs = self.methods[method]
        pass_s = self.target_step_s * self.verify[shape](1 + nodes + passengers)
        draft_s = costs.drafting.of(passes, nodes) if depth else costs.looking.of()
        return draft_s + pass_s + costs.other.of(nodes)

    def cost_ratio(self, method: str, nodes: float, passes: float) -> float:
        """Return c: seconds of drafting per pass (per token where nothing passes) / a target step.

        0 where nothing is drafted.
        """
        steps = passes or nodes
        drafting = self.methods[method].drafting.of(passes, nodes)
        return drafting / steps / self.target_step_s if steps else 0.0


def fit_costs(
    requests: Sequence[tuple[float, Trace]], verify: Mapping[str, Verify], plain: str
) -> RoundCosts:
    """Return the costs that fit some requests best.

    Args:
        requests: (seconds, trace) of several methods. verify: of raw passes, by shape.
        plain: name of plain decoding.

    Raises:
        BadInput: if plain decoding is not among them.
    """
    by_method: dict[str, list[tuple[float, Trace]]] = {}
    for seconds, trace in requests:
        by_method.setdefault(trace.spec.method, []).append((seconds, trace))
    if plain not in by_method:
        raise BadInput("Costs are relative to plain decoding, which was not run.")
    plain_rounds = [round_ for _, trace in by_method[plain] for round_ in trace.rounds]
    outside = [
        (len(trace.rounds), seconds - trace.prefill_s - sum(r.timing.total_s for r in trace.rounds))
        for seconds, trace in requests
    ]
    return RoundCosts(
        target_step_s=float(np.mean([round_.timing.target_s for round_ in plain_rounds])),
        verify=verify,
        methods={name: _fit_method([t for _, t in own]) for name, own in by_method.items()},
        outside=Linear.fit([(n,) for n, _ in outside], [max(s, 0.0) for _, s in outside]),
    )


def _fit_method(traces: Sequence[Trace]) -> MethodCosts:
    rounds = [round_ for trace in traces for round_ in trace.rounds]
    drafting = [round_ for round_ in rounds if round_.num_drafted]
    idle = [round_.timing.draft_s for round_ in rounds if not round_.num_drafted]
    return MethodCosts(
        prefill=Linear.fit(
            [(len(trace.prompt_tokens),) for trace in traces],
            [trace.prefill_s for trace in traces],
        ),
        drafting=Linear.fit(
            [(r.num_draft_forwards, r.num_drafted) for r in drafting],
            [r.timing.draft_s for r in drafting],
        ),
        other=Linear.fit(
            [(r.num_drafted,) for r in rounds],
            [r.timing.verify_s + r.timing.commit_s for r in rounds],
        ),
        looking=Linear(fixed_s=float(np.mean(idle)) if idle else 0.0),
    )


def verify_curves(costs: Mapping[str, Any]) -> dict[str, Verify]:
    """Return v(n) by shape from measured tables.

    Args:
        costs: "chain" and, where trees were measured, "tree": v by n in decimal.
    """
    curves = {shape: verify_curve(dict(table)) for shape, table in costs.items()}
    return {"tree": curves["chain"], **curves}


def verify_curve(table: Mapping[str, float]) -> Verify:
    """Return v(n), linear between the widths; beyond them it rises as between the last two."""
    widths, values = [int(n) for n in table], list(table.values())
    rise = 0.0
    if len(widths) > 1:
        rise = max(0.0, (values[-1] - values[-2]) / (widths[-1] - widths[-2]))

    def v(tokens: int) -> float:
        return float(np.interp(tokens, widths, values)) + rise * max(0, tokens - widths[-1])

    return v
