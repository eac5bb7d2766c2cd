"""Is the machine quiet enough to time on? Measured before, during and after every benchmark.

Two signs decide: how many cores other processes use, and whether a fixed piece of work takes the
same time again and again. The load average is kept for the record only: it lags by minutes and
counts this process too.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.trees import EMPTY_TREE
from speclab.models.pair import Pair

BUSY_CORES = 0.25
"""Other processes may use this many cores: a desktop at rest stays below."""

UNSTEADY = 1.5
"""The median of equal work may take this many times its fastest repeat."""

DRIFT = 1.3
"""The kernel may be this much slower or faster after the run than before it."""

KERNEL_SIZE, KERNEL_REPEATS, PASS_REPEATS, WARM_REPEATS = 384, 500, 20, 3
WATCH_S = 0.5
PROMPT = tuple(range(10, 74))


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadiness:
    """How long one and the same work took.

    Attributes:
        median_s, fastest_s, slowest_s: over the repeats.
    """

    median_s: float
    fastest_s: float
    slowest_s: float

    @property
    def spread(self) -> float:
        """Median over fastest: 1 on a quiet machine."""
        return self.median_s / self.fastest_s

    def to_json(self) -> dict[str, float]:
        """Return it with its spread."""
        return {
            "median_s": self.median_s,
            "fastest_s": self.fastest_s,
            "slowest_s": self.slowest_s,
            "spread": round(self.spread, 4),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The state of the machine at one moment.

    Attributes:
        kernel: a fixed product of two matrices. target_pass: a pass of the target on one token.
        load_average: of 1, 5 and 15 minutes; empty where the system has none.
        others_cores: cores that other processes used meanwhile.
    """

    kernel: Steadiness
    target_pass: Steadiness
    load_average: tuple[float, ...]
    others_cores: float

    def to_json(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "kernel": self.kernel.to_json(),
            "target_pass": self.target_pass.to_json(),
            "load_average": list(self.load_average),
            "others_cores": round(self.others_cores, 4),
        }


def steadiness_of(seconds: Sequence[float]) -> Steadiness:
    """Return median, fastest and slowest of repeats [n >= 1]."""
    return Steadiness(
        median_s=statistics.median(seconds), fastest_s=min(seconds), slowest_s=max(seconds)
    )


def time_again(work: Callable[[], object], repeats: int, warm: int = WARM_REPEATS) -> Steadiness:
    """Time `work` after `warm` untimed calls."""
    seconds = []
    for attempt in range(repeats + warm):
        begun = time.perf_counter()
        work()
        if attempt >= warm:
            seconds.append(time.perf_counter() - begun)
    return steadiness_of(seconds)


def load_average() -> tuple[float, ...]:
    """Return the load of 1, 5 and 15 minutes; empty where the system has none."""
    return os.getloadavg() if hasattr(os, "getloadavg") else ()


# --- other processes ------------------------------------------------------------------------------


@dataclass(slots=True)
class CpuWatch:
    """Counts the CPU time of other processes from its making on.

    A process that ends between two readings is not counted: what it used since the last reading
    is lost, so read again now and then.

    Attributes:
        others: returns CPU seconds by process, this one left out; for tests.
    """

    others: Callable[[], Mapping[Any, float]] = field(default=lambda: cpu_of_others())
    now: Callable[[], float] = time.perf_counter
    _begun_s: float = field(init=False)
    _last: Mapping[Any, float] = field(init=False)
    _used_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._begun_s, self._last = self.now(), self.others()

    def cores(self) -> float:
        """Return the mean number of cores that others used since the watch was made."""
        there = self.others()
        for process, seconds in there.items():
            self._used_s += max(0.0, seconds - self._last.get(process, 0.0))
        self._last = there
        passed = self.now() - self._begun_s
        return self._used_s / passed if passed > 0.0 else 0.0


def cpu_of_others() -> dict[tuple[int, float], float]:
    """Return CPU seconds by (id, start) of every other process that can be read."""
    import psutil

    own, found = os.getpid(), {}
    for process in psutil.process_iter(["pid", "create_time", "cpu_times"]):
        facts = process.info
        times = facts["cpu_times"]
        if facts["pid"] != own and times is not None:
            key = (facts["pid"], facts["create_time"])
            found[key] = times.user + times.system
    return found


# --- measuring and judging ------------------------------------------------------------------------


def calibrate(pair: Pair, *, watch_s: float = WATCH_S) -> Calibration:
    """Time the kernel and the target's pass, and watch the other processes meanwhile."""
    import torch

    watch, begun = CpuWatch(), time.perf_counter()
    matrix = torch.full((KERNEL_SIZE, KERNEL_SIZE), 1.0 / KERNEL_SIZE)
    kernel = time_again(lambda: torch.mm(matrix, matrix), KERNEL_REPEATS)
    session = pair.target.open(PROMPT)

    def one_pass() -> None:
        session.rollback(len(PROMPT))
        session.score(EMPTY_TREE).row(0)

    target_pass = time_again(one_pass, PASS_REPEATS)
    session.close()
    time.sleep(max(0.0, watch_s - (time.perf_counter() - begun)))
    return Calibration(
        kernel=kernel,
        target_pass=target_pass,
        load_average=load_average(),
        others_cores=watch.cores(),
    )


def complaints(state: Calibration) -> list[str]:
    """Return what is wrong with a machine, each with its value; empty if it is quiet."""
    found = crowded(state.others_cores)
    for name, steadiness in (("a fixed product", state.kernel), ("a pass", state.target_pass)):
        if steadiness.spread > UNSTEADY:
            found.append(
                f"{name} takes {steadiness.spread:.2f} times its fastest (at most {UNSTEADY:g})"
            )
    return found


def crowded(cores: float) -> list[str]:
    """Return a complaint when other processes use too much."""
    if cores <= BUSY_CORES:
        return []
    return [f"other processes use {cores:.2f} cores (at most {BUSY_CORES:g})"]


def drifted(before: Calibration, after: Calibration) -> list[str]:
    """Return a complaint when the kernel's time changed over the run."""
    change = after.kernel.median_s / before.kernel.median_s
    if 1.0 / DRIFT <= change <= DRIFT:
        return []
    return [f"a fixed product takes {change:.2f} times what it took before"]


@dataclass(slots=True)
class QuietMachine:
    """Watches one benchmark and refuses to report when the machine is busy.

    Attributes:
        pair: whose target is timed. allow_busy: note complaints instead of refusing.
        found: complaints so far.
    """

    pair: Pair
    allow_busy: bool = False
    found: list[str] = field(default_factory=list)
    _before: Calibration | None = None
    _watch: CpuWatch | None = None

    def before(self) -> None:
        """Calibrate before the run.

        Raises:
            BadInput: if the machine is busy, with the value.
        """
        self._before = calibrate(self.pair)
        self._note(complaints(self._before), "")
        self._watch = CpuWatch()

    def during(self) -> None:
        """Look at the other processes between two repeats.

        Raises:
            BadInput: if they have used too much since the run began.
        """
        assert self._watch is not None
        found = crowded(self._watch.cores())
        if not self.allow_busy:  # else `after` notes it once, for the whole run
            self._note(found, " during the run")

    def after(self) -> dict[str, Any]:
        """Calibrate again and return everything for the report.

        Raises:
            BadInput: if the machine became busy.
        """
        assert self._before is not None and self._watch is not None
        meanwhile = self._watch.cores()
        self._note(crowded(meanwhile), " during the run")
        last = calibrate(self.pair)
        self._note([*complaints(last), *drifted(self._before, last)], " after the run")
        return {
            "before": self._before.to_json(),
            "after": last.to_json(),
            "others_cores_meanwhile": round(meanwhile, 4),
            "limits": {"others_cores": BUSY_CORES, "spread": UNSTEADY, "drift": DRIFT},
            "busy": bool(self.found),
            "complaints": list(self.found),
        }

    def _note(self, complaints_: Sequence[str], when: str) -> None:
        if not complaints_:
            return
        if not self.allow_busy:
            raise BadInput(
                f"The machine is busy{when}: {'; '.join(complaints_)}.",
                "Close other programs and run it again, or use --allow-busy: the report is then "
                "marked busy.",
            )
        self.found += [text + when for text in complaints_ if text + when not in self.found]
