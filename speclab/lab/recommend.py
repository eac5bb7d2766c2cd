"""The gamma, width and depth with the highest predicted speedup for a method on a pair.

A few settings are measured beside plain decoding; acceptance, shapes and costs are fitted on them;
every gamma up to the deepest chain, and every measured tree, is predicted. What comes out is
modelled: measure it before you trust it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.lab.bench_prompts import check_fits
from speclab.lab.head_numbers import Measured
from speclab.lab.head_plan import reason_against
from speclab.lab.knobs import BUDGETS, WIDTHS, chain_label, knob, with_knobs
from speclab.lab.labels import parse_label
from speclab.lab.measuring import (
    BASELINE,
    Stopped,
    Unit,
    check_bounds,
    machine_facts,
    measure,
    never,
    plain_types,
)
from speclab.lab.prediction import Fit, Prediction, fit, predict_law
from speclab.lab.prediction_run import labels_of, measure_verify
from speclab.lab.round_costs import verify_curves
from speclab.lab.sweep_prompts import prompts_of
from speclab.models.pair import Pair

MORE_BUDGETS, NARROW = (4, 24), 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendPlan:
    """How much is measured.

    Attributes:
        temperature: of the requests to come. num_prompts, max_new_tokens: to measure.
        wanted_tokens: of the requests to come; None: as many as are measured.
        passes: raw ones timed per width of v(n).
    """

    temperature: float = 0.0
    num_prompts: int = 9
    max_new_tokens: int = 48
    wanted_tokens: int | None = None
    passes: int = 20

    def __post_init__(self) -> None:
        for name, most in (("num_prompts", 180), ("max_new_tokens", 4096), ("passes", 1000)):
            check_bounds(name, getattr(self, name), 1, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One setting and what it should bring.

    Attributes:
        label: the setting as `bench` takes it. gamma: of a chain. depth, width, nodes: of a tree.
        fitted_on: the measured label whose acceptance was used.
    """

    label: str
    gamma: int | None
    depth: int | None
    width: int | None
    nodes: int | None
    fitted_on: str
    predicted: Prediction

    def to_json(self) -> dict[str, Any]:
        """Return JSON types."""
        return plain_types(asdict(self))


def candidates_of(method: str) -> list[str]:
    """Return the labels to measure: chains of several lengths, trees of several budgets."""
    labels = labels_of(method)
    if knob(method, WIDTHS) is not None and knob(method, BUDGETS) is not None:
        more = [with_knobs(method, depth=5, width=4, nodes=n) for n in MORE_BUDGETS]
        more.append(with_knobs(method, depth=5, width=NARROW, nodes=8))
        labels += [label for label in more if label is not None]
    return list(dict.fromkeys(labels))


class Recommending:
    """A recommendation on its way: iterate it for (prompts done, prompts), then ask `report()`.

    Args:
        pair: loaded models. method: a key of METHODS. plan: how much. stopped: asked before every
            request.

    Raises:
        BadInput: for plain decoding, or prompts that do not fit.
        UnsupportedModel: if the pair cannot run the method.
    """

    def __init__(
        self,
        pair: Pair,
        method: str,
        plan: RecommendPlan | None = None,
        *,
        stopped: Stopped = never,
    ) -> None:
        self.pair, self.method, self.plan = pair, method, plan or RecommendPlan()
        self._stopped = stopped
        if method == BASELINE:
            raise BadInput(
                "Plain decoding has nothing to choose.",
                "Choose another method.",
                code="plain_has_no_choice",
            )
        if (reason := reason_against(pair, method)) is not None:
            raise reason
        self.labels = candidates_of(method)
        self.prompts = [tokens for _, tokens in prompts_of(pair, self.plan.num_prompts)]
        check_fits(pair, self.prompts, self.plan.max_new_tokens)
        self.measured: dict[tuple[str, float], Measured] = {}
        self.costs: dict[str, Any] = {}
        self._facts, self._seconds, self._complete = machine_facts(pair), 0.0, False

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Measure; costs of raw passes come first."""
        begun, temperature = time.perf_counter(), self.plan.temperature
        self.costs = measure_verify(
            self.pair, trees=knob(self.method, WIDTHS) is not None, passes=self.plan.passes
        )
        units = {
            (label, temperature): Unit(
                pair=self.pair,
                label=label,
                sampling=Sampling(temperature=temperature),
                max_new_tokens=self.plan.max_new_tokens,
            )
            for label in (BASELINE, *self.labels)
        }
        for done in measure(units, self.prompts, self.measured, stopped=self._stopped):
            self._seconds = time.perf_counter() - begun
            self._complete = done == len(self.prompts)
            yield done, len(self.prompts)

    def report(self) -> dict[str, Any]:
        """Return `best` and all `candidates`, the best first (JSON types, all modelled).

        `best` is None and `speculate` False where plain decoding is predicted to be faster, or
        nothing was measured.
        """
        found: list[Candidate] = []
        if any(each.traces for each in self.measured.values()):
            fitted = fit(self.measured, verify_curves(self.costs["verify_cost"]))
            found = ranked(
                fitted,
                temperature=self.plan.temperature,
                prompt_lengths=[len(prompt) for prompt in self.prompts],
                max_new_tokens=self.plan.wanted_tokens or self.plan.max_new_tokens,
            )
        pays = bool(found) and found[0].predicted.speedup > 1.0
        return {
            "schema_version": 1,
            "kind": "recommendation",
            "method": self.method,
            "plan": plain_types(asdict(self.plan)),
            "complete": self._complete,
            "seconds": round(self._seconds, 1),
            **self._facts,
            "costs": self.costs,
            "speculate": pays,
            "best": found[0].to_json() if pays else None,
            "candidates": [each.to_json() for each in found],
        }


def recommend(
    pair: Pair, method: str, plan: RecommendPlan | None = None, *, stopped: Stopped = never
) -> dict[str, Any]:
    """Measure a few settings and return the report of `Recommending`."""
    work = Recommending(pair, method, plan, stopped=stopped)
    for _ in work:
        pass
    return work.report()


def ranked(
    fitted: Fit, *, temperature: float, prompt_lengths: Sequence[int], max_new_tokens: int
) -> list[Candidate]:
    """Return every setting that a fit can predict, the fastest first.

    A chain of gamma is the smallest fitted chain that reaches it, cut.

    Args:
        fitted: labels of one method. temperature: which of its fits.
        prompt_lengths, max_new_tokens: of the requests to come.
    """
    costs, found = fitted.costs[temperature], []
    chains: dict[int, str] = {}
    labels = {label: each for (label, at), each in fitted.labels.items() if at == temperature}

    def add(label: str, source: str, gamma: int | None) -> None:
        each = labels[source]
        predicted = predict_law(
            each.method,
            each.counts,
            costs,
            shape=each.shape,
            prompt_lengths=prompt_lengths,
            max_new_tokens=max_new_tokens,
            gamma=gamma,
        )
        found.append(_candidate(label, source, gamma, predicted))

    for label, each in labels.items():
        depth = each.law.depth
        if each.method == BASELINE or not depth:
            continue
        if each.shape == "chain":
            chains.setdefault(depth, label)
        else:
            add(label, label, None)
    reached = 0
    for depth in sorted(chains):
        for gamma in range(reached + 1, depth + 1):
            method = labels[chains[depth]].method
            add(chain_label(method, gamma) or chains[depth], chains[depth], gamma)
        reached = depth
    return sorted(found, key=lambda each: -each.predicted.speedup)


def _candidate(label: str, source: str, gamma: int | None, predicted: Prediction) -> Candidate:
    method, params = parse_label(label)
    tree = gamma is None

    def value(names: tuple[str, ...]) -> int | None:
        param = knob(method, names)
        return int(params[param.name]) if tree and param and param.name in params else None

    return Candidate(
        label=label,
        gamma=gamma,
        depth=value(("depth", "num_heads")),
        width=value(WIDTHS),
        nodes=value(BUDGETS),
        fitted_on=source,
        predicted=predicted,
    )
