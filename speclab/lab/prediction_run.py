"""Measures a pair on two halves of its prompts and lets each half predict the other.

The report (JSON): `schema_version` 1, `kind` "prediction", the facts of the machine, `plan`,
`complete`, `seconds`, `num_requests` per label of each half, `costs` (`target_step_s`, and v(n) by
shape in `verify_cost`), `skipped`, and

- `rows`: per fold (which half was fitted), label and temperature `measured` (`speedup` and `tau`
  with `_low` and `_high`), `predicted` (the fields of `prediction.Prediction`) and the relative
  `error` of `positions` (rates by position), `iid` (alpha alone, same costs) and `formula`;
- `median_error`: of the absolute errors by kind, over all rows; `by_method`, `by_temperature`: the
  same of their rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.lab.bench_prompts import check_fits
from speclab.lab.head_numbers import Measured
from speclab.lab.head_plan import reason_against
from speclab.lab.head_table import branching
from speclab.lab.knobs import BUDGETS, WIDTHS, chain_label, knob, with_knobs
from speclab.lab.labels import gamma_of, parse_label
from speclab.lab.measuring import (
    BASELINE,
    Stopped,
    Unit,
    check_bounds,
    machine_facts,
    measure,
    never,
    plain_types,
    point_of,
)
from speclab.lab.pass_costs import measure_costs
from speclab.lab.prediction import Key, compare, fit, median_error
from speclab.lab.round_costs import verify_curves
from speclab.lab.sweep_prompts import halves, prompts_of
from speclab.methods import METHODS
from speclab.models.pair import Pair

GAMMAS = (2, 4, 8)
BUDGETS_OF_TREES = (8, 16)
TREE_DEPTH, TREE_WIDTH = 5, 4
DRAFT_TREES = ((2, 2), (3, 2))
"""(depth, width) of the draft model's own trees."""

WIDTHS_OF_CHAINS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 33)
WIDTHS_OF_TREES = (1, 3, 5, 7, 9, 13, 17, 25, 33, 65)
KINDS = ("positions", "iid", "formula")


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionPlan:
    """How much is run.

    Attributes:
        labels: to predict; empty: several settings of every method that the pair can run.
        temperatures: 0 is greedy. num_prompts: both halves together.
        max_new_tokens: per prompt, EOS ignored. repeats: of all prompts.
        passes: raw ones timed per width of v(n).
    """

    labels: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = (0.0, 1.0)
    num_prompts: int = 36
    max_new_tokens: int = 32
    repeats: int = 1
    passes: int = 20

    def __post_init__(self) -> None:
        for name, least, most in (
            ("num_prompts", 2, 180),
            ("max_new_tokens", 2, 4096),
            ("repeats", 1, 100),
            ("passes", 1, 1000),
        ):
            check_bounds(name, getattr(self, name), least, most)
        if not self.temperatures:
            raise BadInput("At least one temperature is needed.")
        for label in self.labels:
            gamma_of(label)


def usual_labels(pair: Pair) -> tuple[list[str], dict[str, Any]]:
    """Return settings of every method that a pair can run, and why others are left out."""
    labels: list[str] = []
    skipped: dict[str, Any] = {}
    for method in METHODS:
        if method == BASELINE:
            continue
        reason = reason_against(pair, method)
        if reason is None:
            labels += labels_of(method)
        else:
            skipped[method] = {"what": reason.what, "code": reason.code, "values": reason.values}
    return labels, skipped


def labels_of(method: str) -> list[str]:
    """Return chains and trees of a method, whatever it calls its parameters."""
    found = [chain_label(method, gamma) for gamma in GAMMAS]
    if knob(method, WIDTHS) is not None:
        if knob(method, BUDGETS) is None:
            found += [with_knobs(method, depth=d, width=w) for d, w in DRAFT_TREES]
        else:
            found += [
                with_knobs(method, depth=TREE_DEPTH, width=TREE_WIDTH, nodes=n)
                for n in BUDGETS_OF_TREES
            ]
    return list(dict.fromkeys(label for label in found if label is not None)) or [method]


def measure_verify(pair: Pair, *, trees: bool, passes: int) -> dict[str, Any]:
    """Measure v(n) of chains and, if wanted, of branching trees.

    Returns:
        `target_step_s`, and `verify_cost` by shape and n.
    """
    chain = measure_costs(pair, passes, widths=WIDTHS_OF_CHAINS)
    found = {
        "target_step_s": chain["target_step_s"],
        "verify_cost": {"chain": chain["verify_cost"]},
    }
    if trees:
        tree = measure_costs(pair, passes, widths=WIDTHS_OF_TREES, shape=branching)
        found["verify_cost"]["tree"] = tree["verify_cost"]
    return found


class PredictionRun:
    """A prediction on its way: iterate it for (prompts done, prompts), then ask `report()`.

    Args:
        pair: loaded models. plan: how much. stopped: asked before every request.

    Raises:
        BadInput: if prompts and tokens do not fit.
    """

    def __init__(self, pair: Pair, plan: PredictionPlan, *, stopped: Stopped = never) -> None:
        self.pair, self.plan, self._stopped = pair, plan, stopped
        usual, self.skipped = usual_labels(pair)
        self.labels = list(plan.labels) or usual
        if plan.labels:
            self.skipped = {}
        for label in self.labels:
            if (reason := reason_against(pair, parse_label(label)[0])) is not None:
                raise reason
        first, second = halves(prompts_of(pair, plan.num_prompts))
        self.prompts = [each for both in _zipped(first, second) for each in both]
        self._half = [
            half for both in _zipped([0] * len(first), [1] * len(second)) for half in both
        ]
        check_fits(pair, self.prompts, plan.max_new_tokens)
        self.measured: dict[Key, Measured] = {}
        self.costs: dict[str, Any] = {}
        self._facts, self._seconds, self._complete = machine_facts(pair), 0.0, False

    def units(self) -> dict[Key, Unit]:
        """Return what takes its turn: plain decoding and every label, at every temperature."""
        return {
            (label, temperature): Unit(
                pair=self.pair,
                label=label,
                sampling=Sampling(temperature=temperature),
                max_new_tokens=self.plan.max_new_tokens,
            )
            for temperature in self.plan.temperatures
            for label in (BASELINE, *self.labels)
        }

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Measure; costs of raw passes come first."""
        begun = time.perf_counter()
        trees = any(knob(parse_label(label)[0], WIDTHS) is not None for label in self.labels)
        self.costs = measure_verify(self.pair, trees=trees, passes=self.plan.passes)
        total = len(self.prompts) * self.plan.repeats
        for done in measure(
            self.units(),
            self.prompts,
            self.measured,
            repeats=self.plan.repeats,
            stopped=self._stopped,
        ):
            self._seconds = time.perf_counter() - begun
            self._complete = done == total
            yield done, total

    def report(self) -> dict[str, Any]:
        """Return predictions and measurements (JSON types; see the module)."""
        parts = [self._part(half) for half in (0, 1)]
        counts = [min((len(each.traces) for each in part.values()), default=0) for part in parts]
        rows = self._rows(parts) if all(counts) else []
        return {
            "schema_version": 1,
            "kind": "prediction",
            "plan": plain_types({**asdict(self.plan), "labels": self.labels}),
            "complete": self._complete,
            "seconds": round(self._seconds, 1),
            **self._facts,
            "num_requests": counts,
            "costs": self.costs,
            "rows": rows,
            "median_error": errors_of(rows),
            "by_method": _grouped(rows, "method"),
            "by_temperature": _grouped(rows, "temperature"),
            "skipped": self.skipped,
        }

    def _part(self, half: int) -> dict[Key, Measured]:
        return {
            key: Measured(
                seconds={at: s for at, s in each.seconds.items() if self._half[at[1]] == half},
                traces={at: t for at, t in each.traces.items() if self._half[at[1]] == half},
            )
            for key, each in self.measured.items()
        }

    def _rows(self, parts: Sequence[dict[Key, Measured]]) -> list[dict[str, Any]]:
        verify, units = verify_curves(self.costs["verify_cost"]), self.units()
        rows = []
        for fold, (seen, unseen) in enumerate((parts, parts[::-1])):
            fitted = fit(seen, verify)
            points = {
                key: point_of(units[key], each, unseen[BASELINE, key[1]])
                for key, each in unseen.items()
            }
            rows += [{"fold": fold, **row} for row in compare(fitted, unseen, points)]
        return rows


def errors_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the median absolute relative error of each kind of prediction."""
    return {kind: median_error(rows, kind) for kind in KINDS}


def _grouped(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, dict[str, float | None]]:
    found = dict.fromkeys(row[name] for row in rows)
    return {
        f"{value:g}" if isinstance(value, float) else str(value): errors_of(
            [row for row in rows if row[name] == value]
        )
        for value in found
    }


def _zipped(first: Sequence[Any], second: Sequence[Any]) -> list[list[Any]]:
    """Return pairs, then what is left of the longer one."""
    short = min(len(first), len(second))
    pairs = [[a, b] for a, b in zip(first[:short], second[:short], strict=True)]
    return [*pairs, [*first[short:], *second[short:]]]
