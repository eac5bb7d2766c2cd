"""A race: several ways of drafting on one prompt, on one pair, in one run.

Every lane gets the same prompt, sampling and seed. Lanes are interleaved and their order rotates
from repeat to repeat, so that a change of the machine hits all alike. Nothing is told while a lane
runs: who looks on is served between runs, not on the lane's time.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from speclab.core.errors import SpeclabError
from speclab.core.protocols import needed
from speclab.core.records import Trace
from speclab.lab.bench import processor_name
from speclab.lab.head_files import head_facts
from speclab.lab.race_plan import Lane, RacePlan, rule_for
from speclab.methods import METHODS, make_method
from speclab.models.catalogue import PAIRS

WARM_TOKENS = 8
SCHEMA_VERSION = 1
Start = Callable[..., Any]
"""As `speclab.lab.runs.open_run`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a lane did not run, or did not go on."""

    what: str
    hint: str = ""
    code: str = ""
    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: SpeclabError) -> Refusal:
        """Keep what an error says, so that a page can say it in another language."""
        values = {key: str(value) for key, value in error.values.items()}
        return cls(what=error.what, hint=error.hint, code=error.code, values=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRuns:
    """What was measured of one lane.

    Attributes:
        traces: one per finished repeat, without laws. refusal: why there are none, or no more.
    """

    lane: Lane
    traces: tuple[Trace, ...] = ()
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceResult:
    """Everything that a race measured, and where.

    Attributes:
        runs: per lane of the plan. complete: all repeats were run.
        processor, threads, load_average: of the machine when the race began; 0 threads: unknown.
        created: when it began.
    """

    schema_version: int = SCHEMA_VERSION
    plan: RacePlan
    runs: tuple[LaneRuns, ...]
    complete: bool
    processor: str = ""
    threads: int = 0
    load_average: float = 0.0
    created: str = ""

    @property
    def repeats(self) -> int:
        """Finished repeats of all lanes that ran."""
        return min((len(each.traces) for each in self.runs if not each.refusal), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceStep:
    """How far a race is.

    Attributes:
        done, total: runs. lane: that comes next; None at the end. repeat: 0 while warming up.
        result: what was measured so far.
    """

    done: int
    total: int
    lane: Lane | None
    repeat: int
    result: RaceResult


def run_race(
    pair: Any,
    plan: RacePlan,
    *,
    start: Start | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[RaceStep]:
    """Run a race; every step holds all that was measured so far.

    A lane that the pair cannot run is left out with the reason, and the others go on. A run that
    is cut short counts for nothing; what was finished before is kept.

    Args:
        pair: loaded models. plan: what to race.
        start: opens a run; default `open_run`. cancelled: asked before every run and every round.
    """
    if start is None:
        from speclab.lab.runs import open_run

        start = open_run
    race = _Race(pair, plan, start, cancelled)
    total = len(plan.lanes) * plan.repeats
    for lane in plan.lanes:
        yield race.step(total, lane, 0)
        race.attempt(lane, replace(plan, max_new_tokens=warm_tokens(pair, plan.max_new_tokens)))
    for repeat in range(plan.repeats):
        shift = repeat % len(plan.lanes)
        for lane in (*plan.lanes[shift:], *plan.lanes[:shift]):
            if cancelled():
                break
            yield race.step(total, lane, repeat + 1)
            trace = race.attempt(lane, plan)
            if trace is not None:
                race.traces[lane.label].append(trace)
            race.done += 1
    yield race.step(total, None, plan.repeats, complete=not cancelled())


def warm_tokens(pair: Any, count: int) -> int:
    """Return how many tokens a lane emits before it is timed: on a GPU all of them.

    Passes are captured there when a width or a size of the cache is first met.
    """
    on_gpu = str(getattr(pair, "device", "cpu")).startswith("cuda")
    return count if on_gpu else min(WARM_TOKENS, count)


class _Race:
    """The state of one race."""

    def __init__(
        self, pair: Any, plan: RacePlan, start: Start, cancelled: Callable[[], bool]
    ) -> None:
        self._pair, self._plan, self._start, self._cancelled = pair, plan, start, cancelled
        self.traces: dict[str, list[Trace]] = {lane.label: [] for lane in plan.lanes}
        self.refusals: dict[str, Refusal] = {}
        self.done = 0
        self._machine = {
            "processor": processor_name(),
            "load_average": round(os.getloadavg()[0], 2),
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }

    def attempt(self, lane: Lane, plan: RacePlan) -> Trace | None:
        """Return a whole run of a lane; None if it was refused before, is now, or is cut short."""
        if lane.label in self.refusals or self._cancelled():
            return None
        try:
            run = self._start(
                self._pair,
                plan.prompt,
                method=lane.method,
                params=lane.params,
                rule=rule_for(lane, plan.sampling),
                sampling=plan.sampling,
                seed=plan.seed,
                max_new_tokens=plan.max_new_tokens,
                record_laws=False,
                cancelled=self._cancelled,
            )
            try:
                for _ in run:
                    pass
            finally:
                run.close()
        except SpeclabError as error:
            self.refusals[lane.label] = Refusal.of(error)
            return None
        trace: Trace = run.trace()
        return None if self._cancelled() or trace.stop_reason == "cancelled" else trace

    def step(
        self, total: int, lane: Lane | None, repeat: int, *, complete: bool = False
    ) -> RaceStep:
        """Return how far the race is."""
        torch = sys.modules.get("torch")
        runs = tuple(
            LaneRuns(
                lane=each,
                traces=tuple(self.traces[each.label]),
                refusal=self.refusals.get(each.label),
            )
            for each in self._plan.lanes
        )
        result = RaceResult(
            plan=self._plan,
            runs=runs,
            complete=complete,
            threads=torch.get_num_threads() if torch else 0,
            **self._machine,  # type: ignore[arg-type]
        )
        return RaceStep(done=self.done, total=total, lane=lane, repeat=repeat, result=result)


# --- what a race says -----------------------------------------------------------------------------


def same_text(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Return the first position at which two texts differ; None if they are the same."""
    for place, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return place
    return None if len(one) == len(other) else min(len(one), len(other))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedMemory:
    """Weights that a lane needs beside the target's; caches come on top.

    Attributes:
        parameters, num_bytes: of the draft model or the heads. share: of the target's parameters.
    """

    parameters: int
    num_bytes: int
    share: float | None


DTYPE_BYTES: Mapping[str, int] = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def added_memory(trace: Trace) -> AddedMemory | None:
    """Return the weights that a run's method added; None where their size is not recorded.

    A trace names the pair's draft models, whether or not the method drafts with them; the size of
    a head stands in its manifest. That of a 4-bit copy of the target follows from sizes of matrices
    that no trace holds.
    """
    spec = trace.spec
    known = spec.method in METHODS
    needs = needed(make_method(spec.method, dict(spec.params))) if known else frozenset()
    folder = PAIRS[spec.pair].heads if spec.pair in PAIRS else ""
    if "quantised_draft" in needs:
        return None
    used = 2 if "second_draft" in needs else 1
    sizes = [model.num_parameters for model in spec.drafts[:used] if "draft_model" in needs]
    for kind in (need.removeprefix("head:") for need in needs if need.startswith("head:")):
        facts = head_facts(folder, kind)
        sizes.append(facts.parameters if facts else 0)
    if not all(sizes) or spec.target.dtype not in DTYPE_BYTES:
        return None
    parameters, target = sum(sizes), spec.target.num_parameters
    return AddedMemory(
        parameters=parameters,
        num_bytes=parameters * DTYPE_BYTES[spec.target.dtype],
        share=parameters / target if target else None,
    )
