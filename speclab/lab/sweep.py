"""Sweeps: one thing is varied, and methods are measured beside plain decoding at every value.

A sweep can be stopped between any two requests and keeps what was measured. The report (JSON):

- `schema_version` 1, `kind` "sweep", `axis`, `symbol`, `unit`, `values` asked for, `plan`,
  `complete` (whether every value was measured), `seconds`, and the facts of the machine (`pair`,
  `dtype`, `device`, `target`, `draft`, `sources`, `threads`, `processor`, `load_average`,
  `versions`, `created`);
- `costs`: c and v(n) of raw passes (`target_step_s`, `draft_step_s`, `cost_ratio`, `verify_cost`);
- `points`: per value and label what `measuring.point_of` returns, with `axis` and `value`: `tau`,
  `speedup` (whole requests) and `decode_speedup` (rounds only), each with `_low` and `_high` by a
  bootstrap over prompts paired with plain decoding of the same turns, `seconds_per_token` (same),
  `plain_seconds_per_token`, `acceptance_rate`, `acceptance` by depth, `draft_share`,
  `prefill_share`, `drafted_per_round` and the rest of a line of a table of heads. Plain decoding is
  a point too;
- `theory`: lines by method over gamma, see `sweep_theory` (only for the axis gamma);
- `skipped`: why methods were left out.
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
from speclab.lab.labels import parse_label
from speclab.lab.measuring import (
    BASELINE,
    Prompt,
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
from speclab.lab.sweep_axes import Axis, Value, axis_named, label_at, methods_for
from speclab.lab.sweep_prompts import families_of, least_length, prompts_of, prompts_of_length
from speclab.lab.sweep_theory import theory_lines
from speclab.models.pair import Pair

COST_WIDTHS = (1, 2, 3, 5, 7, 9, 13, 17, 25, 33)
USUAL_BUDGET_S, FEWEST_PROMPTS = 55.0, 2
MOST_PROMPTS, MOST_TOKENS, MOST_REPEATS, MOST_VALUES, MOST_PASSES = 180, 4096, 100, 32, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What to vary and how much to run.

    Attributes:
        axis: a key of AXES. values: empty: the axis's usual ones.
        methods: labels; empty: the usual ones that the pair can run and the axis changes; ("all",):
            every one.
        temperature: of all points, unless it is the axis; None: 1 for top-p, else greedy.
        num_prompts: per value; of a family: of each. max_new_tokens: per prompt, EOS ignored.
        repeats: of all prompts. passes: raw ones timed per width of v(n).
        budget_s: about how long the sweep may take: when plain decoding at the measured cost of a
            pass would take longer, each value gets fewer prompts, but not fewer than
            FEWEST_PROMPTS; None: as long as it takes.
    """

    axis: str = "gamma"
    values: tuple[Value, ...] = ()
    methods: tuple[str, ...] = ()
    temperature: float | None = None
    num_prompts: int = 9
    max_new_tokens: int = 32
    repeats: int = 1
    passes: int = 15
    budget_s: float | None = None

    def __post_init__(self) -> None:
        axis = axis_named(self.axis)
        for name, most in (
            ("num_prompts", MOST_PROMPTS),
            ("max_new_tokens", MOST_TOKENS),
            ("repeats", MOST_REPEATS),
            ("passes", MOST_PASSES),
        ):
            check_bounds(name, getattr(self, name), 1, most)
        if len(self.values) > MOST_VALUES:
            raise BadInput(
                f"A sweep has at most {MOST_VALUES} values, not {len(self.values)}.",
                code="too_many_values",
                values={"most": MOST_VALUES, "count": len(self.values)},
            )
        for value in self.values:
            axis.check(value)
        if self.temperature is not None:
            axis_named("temperature").check(self.temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStep:
    """News of a sweep on its way.

    Attributes:
        done, total: prompts run and to run. value: being measured.
        points: new ones; empty between them.
    """

    done: int
    total: int
    value: Value
    points: tuple[dict[str, Any], ...] = ()


class Sweep:
    """A sweep on its way: iterate it for its steps, ask `report()` at any time.

    Everything that could be refused is made first: labels and prompts of every value.

    Args:
        pair: loaded models. plan: what to vary.
        stopped: asked before every request; when true, the value being measured ends with the
            prompts that are complete.

    Raises:
        BadInput: if the pair cannot run it at every value.
    """

    def __init__(self, pair: Pair, plan: SweepPlan, *, stopped: Stopped = never) -> None:
        self.pair, self.plan, self._stopped = pair, plan, stopped
        self.axis = axis_named(plan.axis)
        self.labels, self.skipped = methods_for(pair, self.axis, plan.methods)
        self.values, self._families = self._values_and_families()
        self._work = [(value, self._units(value), self._prompts(value)) for value in self.values]
        self.points: list[dict[str, Any]] = []
        self._under_way: tuple[Value, dict[str, Unit], dict[str, Measured]] | None = None
        self.costs: dict[str, Any] = {}
        self._facts, self._begun, self._seconds = machine_facts(pair), time.perf_counter(), 0.0
        self._complete = False

    def __iter__(self) -> Iterator[SweepStep]:
        """Measure value by value; the costs of raw passes come first."""
        self._begun = time.perf_counter()
        self.costs = measure_costs(self.pair, self.plan.passes, widths=COST_WIDTHS)
        self._keep_to_budget()
        total, done = sum(len(prompts) for *_, prompts in self._work) * self.plan.repeats, 0
        for value, units, prompts in self._work:
            measured: dict[str, Measured] = {}
            self._under_way = value, units, measured
            for _ in measure(
                units, prompts, measured, repeats=self.plan.repeats, stopped=self._stopped
            ):
                done += 1
                self._seconds = time.perf_counter() - self._begun
                yield SweepStep(done=done, total=total, value=value)
            points = self._points(value, units, measured)
            self.points += points
            self._under_way = None
            self._seconds = time.perf_counter() - self._begun
            if points:
                yield SweepStep(done=done, total=total, value=value, points=tuple(points))
            if self._stopped():
                return
        self._complete = True

    def _keep_to_budget(self) -> None:
        """Take fewer prompts per value where all of them would exceed the budget."""
        if self.plan.budget_s is None:
            return
        tokens = sum(len(units) * self._new_tokens(value) for value, units, _ in self._work)
        per_prompt_s = tokens * self.plan.repeats * self.costs["target_step_s"]
        left_s = self.plan.budget_s - (time.perf_counter() - self._begun)
        count = max(FEWEST_PROMPTS, int(left_s / per_prompt_s))
        self._work = [(value, units, prompts[:count]) for value, units, prompts in self._work]

    def report(self) -> dict[str, Any]:
        """Return what was measured so far (JSON types; see the module).

        Of the value under way, the prompts that every method has finished are points too.
        """
        points = [*self.points, *(self._points(*self._under_way) if self._under_way else ())]
        return {
            "schema_version": 1,
            "kind": "sweep",
            "axis": self.axis.name,
            "symbol": self.axis.symbol,
            "unit": self.axis.unit,
            "values": list(self.values),
            "plan": plain_types(asdict(self.plan)),
            "complete": self._complete,
            "seconds": round(self._seconds, 1),
            **self._facts,
            "costs": self.costs,
            "points": points,
            "theory": theory_lines(points, self.costs) if self.axis.name == "gamma" else {},
            "skipped": self.skipped,
        }

    def _values_and_families(self) -> tuple[tuple[Value, ...], dict[str, list[Prompt]]]:
        if self.axis.name != "family":
            return self.plan.values or self._usual(), {}
        families = families_of(self.pair, self.plan.num_prompts)
        values = self.plan.values or tuple(families)
        unknown = [value for value in values if value not in families]
        if unknown:
            raise BadInput(
                f"{self.pair.name} has no prompts of the family {unknown[0]!r}.",
                f"Families: {', '.join(families)}.",
                code="unknown_sweep_family",
                values={"name": unknown[0], "known": ", ".join(families)},
            )
        return values, families

    def _usual(self) -> tuple[Value, ...]:
        """Return the axis's values; of lengths, those that fit the requests and the target."""
        if self.axis.name != "prompt-length":
            return self.axis.values
        least = least_length(self.pair, self.plan.num_prompts)
        most = self.pair.target.max_context - self.plan.max_new_tokens
        fitting = tuple(value for value in self.axis.values if least <= int(value) <= most)
        return fitting or (max(least, int(self.axis.values[0])),)

    def _prompts(self, value: Value) -> list[Prompt]:
        count = self.plan.num_prompts
        if self.axis.name == "family":
            prompts = self._families[str(value)]
        elif self.axis.name == "prompt-length":
            check_fits(self.pair, [(0,) * int(value)], self.plan.max_new_tokens)
            prompts = prompts_of_length(self.pair, int(value), count)
        else:
            prompts = [tokens for _, tokens in prompts_of(self.pair, count)]
        check_fits(self.pair, prompts, self._new_tokens(value))
        return prompts

    def _new_tokens(self, value: Value) -> int:
        return int(value) if self.axis.name == "output-length" else self.plan.max_new_tokens

    def _sampling(self, value: Value) -> Sampling:
        usual = 1.0 if self.axis.name == "top-p" else 0.0
        given = self.plan.temperature
        temperature = usual if given is None else given
        if self.axis.name == "temperature":
            temperature = float(value)
        return Sampling(
            temperature=temperature, top_p=float(value) if self.axis.name == "top-p" else 1.0
        )

    def _units(self, value: Value) -> dict[str, Unit]:
        labels = (label_at(self.axis, label, value) for label in self.labels)
        kept = dict.fromkeys((BASELINE, *(label for label in labels if label is not None)))
        sampling, count = self._sampling(value), self._new_tokens(value)
        return {
            label: Unit(pair=self.pair, label=label, sampling=sampling, max_new_tokens=count)
            for label in kept
        }

    def _points(
        self, value: Value, units: dict[str, Unit], measured: dict[str, Measured]
    ) -> list[dict[str, Any]]:
        if not measured or not all(measured.get(label, Measured()).traces for label in units):
            return []
        base = measured[BASELINE]
        return [
            {"axis": self.axis.name, "value": value, **point_of(unit, measured[label], base)}
            for label, unit in units.items()
        ]


def run_sweep(pair: Pair, plan: SweepPlan, *, stopped: Stopped = never) -> dict[str, Any]:
    """Run a sweep to its end and return its report."""
    sweep = Sweep(pair, plan, stopped=stopped)
    for _ in sweep:
        pass
    return sweep.report()


def points_of(report: dict[str, Any], method: str) -> list[dict[str, Any]]:
    """Return the points of one method in the order of the values."""
    return [point for point in report["points"] if parse_label(point["label"])[0] == method]


def swept_methods(points: Sequence[dict[str, Any]]) -> list[str]:
    """Return the methods that have points, plain decoding left out."""
    return [name for name in dict.fromkeys(point["method"] for point in points) if name != BASELINE]


__all__ = ["Axis", "Sweep", "SweepPlan", "SweepStep", "points_of", "run_sweep", "swept_methods"]
