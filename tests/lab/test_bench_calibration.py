"""A busy machine is refused with its numbers, or its report is marked."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from tiny_pairs import tiny_handle

from speclab.core.errors import BadInput
from speclab.lab import calibration
from speclab.lab.calibration import (
    Calibration,
    CpuWatch,
    QuietMachine,
    Steadiness,
    complaints,
    cpu_of_others,
    crowded,
    drifted,
    steadiness_of,
    time_again,
)
from speclab.models.pair import Pair
from speclab.models.toy_pair import load_toy

STEADY = Steadiness(median_s=1.1, fastest_s=1.0, slowest_s=1.4)
SHAKY = Steadiness(median_s=1.9, fastest_s=1.0, slowest_s=5.0)


def state(
    kernel: Steadiness = STEADY, cores: float = 0.05, run: Steadiness = STEADY
) -> Calibration:
    return Calibration(kernel=kernel, target_pass=run, load_average=(9.0,), others_cores=cores)


def test_the_watch_counts_cores_of_others() -> None:
    readings = [{1: 5.0, 2: 7.0}, {1: 6.0, 2: 7.5, 3: 0.5}, {3: 1.5}]
    moments = iter((10.0, 12.0, 16.0))
    watch = CpuWatch(others=iter(readings).__next__, now=lambda: next(moments))
    assert watch.cores() == (1.0 + 0.5 + 0.5) / 2.0, "a new process counts from its start"
    assert watch.cores() == (2.0 + 1.0) / 6.0, "one that ended keeps what was seen of it"


def test_another_process_is_seen_and_this_one_is_not() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        watch = CpuWatch()
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.4:
            sum(range(1000))
        deadline = time.perf_counter() + 10.0
        while (cores := watch.cores()) == 0.0 and time.perf_counter() < deadline:
            time.sleep(0.1)
        assert cores > 0.0
        ids = {pid for pid, _ in cpu_of_others()}
        assert busy.pid in ids and os.getpid() not in ids
    finally:
        busy.kill()
        busy.wait()


def test_steadiness() -> None:
    found = steadiness_of([3.0, 1.0, 2.0])
    assert (found.median_s, found.fastest_s, found.slowest_s, found.spread) == (2.0, 1.0, 3.0, 2.0)
    assert steadiness_of([4.0, 1.0, 2.0, 3.0]).median_s == 2.5
    calls = []
    assert time_again(lambda: calls.append(1), repeats=4, warm=2).fastest_s >= 0.0
    assert len(calls) == 6


def test_complaints_name_the_value() -> None:
    assert complaints(state()) == []
    assert crowded(calibration.BUSY_CORES) == []
    assert complaints(state(cores=1.234)) == ["other processes use 1.23 cores (at most 0.25)"]
    assert len(complaints(state(SHAKY, run=SHAKY))) == 2
    assert "1.90 times its fastest" in complaints(state(SHAKY))[0]
    slower = state(Steadiness(median_s=1.6, fastest_s=1.5, slowest_s=1.7))
    assert drifted(state(), state()) == []
    assert "1.45 times" in drifted(state(), slower)[0] and drifted(slower, state())


def quiet_machine(monkeypatch, states: list[Calibration], *, allow_busy: bool) -> QuietMachine:
    monkeypatch.setattr(calibration, "calibrate", lambda pair: states.pop(0))
    monkeypatch.setattr(calibration, "cpu_of_others", dict)
    return QuietMachine(load_toy(), allow_busy)


def test_a_quiet_machine_reports(monkeypatch) -> None:
    quiet = quiet_machine(monkeypatch, [state(), state()], allow_busy=False)
    quiet.before()
    quiet.during()
    found = quiet.after()
    assert found["busy"] is False and found["complaints"] == []
    assert found["before"]["load_average"] == [9.0], "recorded, not judged"
    assert found["before"]["kernel"]["spread"] == 1.1


def test_a_busy_machine_is_refused_before_and_after(monkeypatch) -> None:
    quiet = quiet_machine(monkeypatch, [state(cores=1.5)], allow_busy=False)
    with pytest.raises(BadInput, match=r"busy: other processes use 1\.50 cores.*--allow-busy"):
        quiet.before()
    quiet = quiet_machine(monkeypatch, [state(), state(cores=0.9)], allow_busy=False)
    quiet.before()
    with pytest.raises(BadInput, match=r"busy after the run: other processes use 0\.90"):
        quiet.after()


def test_a_machine_that_becomes_busy_ends_the_run(monkeypatch) -> None:
    quiet = quiet_machine(monkeypatch, [state()], allow_busy=False)
    quiet.before()
    moments = iter((0.0, 2.0))
    readings = iter(({7: 1.0}, {7: 3.0}))
    quiet._watch = CpuWatch(others=readings.__next__, now=lambda: next(moments))
    with pytest.raises(BadInput, match=r"busy during the run: other processes use 1\.00 cores"):
        quiet.during()


def test_allowed_busy_machines_are_marked(monkeypatch) -> None:
    quiet = quiet_machine(monkeypatch, [state(cores=1.5), state(SHAKY)], allow_busy=True)
    quiet.before()
    found = quiet.after()
    assert found["busy"] is True
    assert found["complaints"][0].startswith("other processes use 1.50 cores")
    assert any(text.endswith("after the run") for text in found["complaints"])


def test_calibrating_times_a_kernel_and_a_pass() -> None:
    target = tiny_handle(0, vocab_size=80)
    pair = Pair(name="tiny", target=target, drafts=(), codec=None, eos_ids=frozenset())
    found = calibration.calibrate(pair, watch_s=0.0)
    assert found.kernel.fastest_s > 0.0 and found.target_pass.fastest_s > 0.0
    assert found.others_cores >= 0.0
