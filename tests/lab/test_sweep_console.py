"""The commands of the speed lab: reports as JSON, tables, Ctrl-C keeps what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.lab import sweep_console
from speclab.lab.sweep_console import kept_path, ladder, predict, sweep
from speclab.lab.terminal import busy_lines

SMALL: dict[str, Any] = {
    **{"prompts": 2, "max_new_tokens": 4, "json_to": "-", "device": "cpu"},
    "allow_busy": True,
}
FACTS = {"pair": "p", "device": "cpu", "dtype": "float32"}


class Quiet:
    """Stands in for the machine: quiet, or busy at the end."""

    def __init__(self, busy: bool = False, refuses: bool = False) -> None:
        self.busy, self.refuses, self.calls = busy, refuses, []
        self.found = ["a pass takes 3 times its fastest"] if busy else []

    def before(self) -> None:
        self.calls.append("before")

    def during(self) -> None:
        self.calls.append("during")

    def after(self) -> dict[str, Any]:
        self.calls.append("after")
        if self.refuses:
            raise BadInput("The machine is busy after the run.")
        return {"busy": self.busy}


class Work:
    """A report of a sweep, whole or not."""

    def __init__(self, complete: bool = True) -> None:
        self.complete = complete

    def report(self) -> dict[str, Any]:
        return {"kind": "sweep", "complete": self.complete, **FACTS}


def finish(
    news: Iterator[str], quiet: Quiet | None = None, *, keep: bool = False, whole: bool = True
) -> None:
    quiet = quiet or Quiet()
    sweep_console._finish(Work(whole), news, lambda report: None, quiet, "-", keep)


@pytest.fixture(autouse=True)
def quick(monkeypatch, pocket) -> None:
    """Hand out the pair that is loaded already, and time few raw passes."""
    monkeypatch.setattr("speclab.models.catalogue.load_pair", lambda *_, **__: pocket)

    def few(pair, repeats=1, **more):
        return measure(pair, 1, **more)

    from speclab.lab.pass_costs import measure_costs as measure

    for module in ("sweep", "prediction_run", "draft_ladder"):
        monkeypatch.setattr(f"speclab.lab.{module}.measure_costs", few)


def test_sweep_writes_its_report(capsys) -> None:
    sweep(values="2", methods="draft-model", **SMALL)
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert [point["value"] for point in report["points"]] == [2, 2]
    assert "2 of 2 prompts, gamma 2" in shown.err


def test_sweep_shows_a_table(capsys) -> None:
    sweep(values="2", methods="prompt-lookup", **{**SMALL, "json_to": None})
    assert "prompt-lookup" in capsys.readouterr().out


def test_predict_writes_its_report(capsys) -> None:
    predict(labels="prompt-lookup", temperatures="0", **SMALL)
    report = json.loads(capsys.readouterr().out)
    assert len(report["rows"]) == 2 and report["median_error"]["positions"] is not None


def test_ladder_writes_its_report(capsys) -> None:
    ladder(rungs="undistilled,draft", gammas="2", **SMALL)
    report = json.loads(capsys.readouterr().out)
    assert [rung["kind"] for rung in report["rungs"]] == ["undistilled", "draft"]


def test_every_report_has_a_table(capsys) -> None:
    from speclab.lab.recommend import Recommending, RecommendPlan
    from speclab.models.catalogue import load_pair

    plan = RecommendPlan(num_prompts=1, max_new_tokens=4, passes=1)
    work = Recommending(load_pair("pocket"), "prompt-lookup", plan)
    list(work)
    sweep_console.print_recommendation(work.report())
    batches = {
        **{"kind": "batch", "pair": "p", "dtype": "d", "device": "cpu", "threads": 1},
        **{"seconds": 1.0, "plan": {"tokens": [1, 2]}, "draft_s": {"1": 0.1}},
        "target_s": {"1": {"1": 1.0, "2": 1.1}},
    }
    sweep_console.print_batches(batches)
    shown = capsys.readouterr()
    assert "Recommended" in shown.err and "gains at every batch" in shown.err
    assert "1.10" in shown.out


def test_what_was_stopped_before_anything_was_measured_claims_nothing(capsys) -> None:
    facts = {"pair": "p", "dtype": "d", "device": "cpu", "threads": 1, "seconds": 0.0}
    sweep_console.print_batches(
        {**facts, "kind": "batch", "plan": {"tokens": [1, 2]}, "draft_s": {}, "target_s": {"1": {}}}
    )
    stopped = {"kind": "recommendation", "complete": False, "candidates": [], "best": None}
    sweep_console.print_recommendation({**facts, **stopped})
    shown = capsys.readouterr()
    assert "gains" not in shown.err and "Recommended" not in shown.err
    assert "No batch was measured" in shown.err and "Nothing was measured" in shown.err
    assert shown.out.count("stopped early") == 1


def test_ctrl_c_keeps_what_was_measured(capsys) -> None:
    def interrupted():
        yield "1 of 2"
        raise KeyboardInterrupt

    finish(interrupted(), whole=False)
    shown = capsys.readouterr()
    state = {"busy": False, "calibration": {"complaints": []}}
    assert json.loads(shown.out) == {**Work(False).report(), **state} and "Stopped" in shown.err
    finish(interrupted(), whole=False, quiet=Quiet(busy=True))
    stopped = json.loads(capsys.readouterr().out)
    assert stopped["busy"] is True and "3 times" in stopped["calibration"]["complaints"][0]


def test_a_table_of_a_busy_machine_says_so() -> None:
    report = {"busy": True, "calibration": {"complaints": ["others use 2 cores"]}}
    assert busy_lines(report)[0].startswith("On a BUSY machine")
    assert busy_lines(report)[1] == "busy: others use 2 cores"
    assert busy_lines({"busy": False}) == busy_lines({}) == []


def test_an_error_on_the_way_is_raised_after_writing(capsys) -> None:
    def failing():
        yield "1 of 2"
        raise UnsupportedModel("No such pass.")

    with pytest.raises(UnsupportedModel, match="No such pass"):
        finish(failing(), whole=False)
    assert json.loads(capsys.readouterr().out)["kind"] == "sweep"


def test_only_whole_reports_of_a_quiet_machine_are_kept(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(sweep_console, "BENCHMARKS", tmp_path)
    place = tmp_path / "sweep-p.json"
    place.write_text("kept before", encoding="utf-8")

    def interrupted():
        yield "1 of 2"
        raise KeyboardInterrupt

    finish(interrupted(), keep=True)
    finish(iter(["1 of 1"]), keep=True, whole=False)
    finish(iter(["1 of 1"]), Quiet(busy=True), keep=True)
    with pytest.raises(BadInput, match="busy after"):
        finish(iter(["1 of 1"]), Quiet(refuses=True), keep=True)
    shown = capsys.readouterr()
    assert shown.err.count("Not kept") == 4 and shown.out.count('"kind"') == 4
    assert place.read_text(encoding="utf-8") == "kept before"
    quiet = Quiet()
    finish(iter(["1 of 2", "2 of 2"]), quiet, keep=True)
    assert quiet.calls == ["before", "during", "during", "after"]
    kept = json.loads(place.read_text(encoding="utf-8"))
    assert kept == {**Work().report(), "busy": False, "calibration": {"busy": False}}


def test_a_busy_machine_is_refused_before_it_measures(monkeypatch) -> None:
    def busy(self: Any) -> None:
        raise BadInput("The machine is busy.")

    monkeypatch.setattr("speclab.lab.calibration.QuietMachine.before", busy)
    monkeypatch.setattr("speclab.lab.sweep.measure", lambda *_, **__: pytest.fail("measured"))
    with pytest.raises(BadInput, match="busy"):
        sweep(values="2", methods="draft-model", **{**SMALL, "allow_busy": False})
    for call in (sweep, predict, ladder):
        with pytest.raises(BadInput, match="exclude each other"):
            call(keep=True, allow_busy=True)


def test_reports_are_kept_by_kind_pair_axis_and_where_it_ran() -> None:
    gamma = {"kind": "sweep", "axis": "gamma", **FACTS}
    assert kept_path(gamma).name == "sweep-p-gamma.json"
    assert kept_path({**gamma, "dtype": "bfloat16"}).name == "sweep-p-gamma-cpu-bfloat16.json"
    assert kept_path({**gamma, "device": "cuda:0"}).name == "sweep-p-gamma-cuda-float32.json"
    assert kept_path({"kind": "ladder", **FACTS}).parent == Path("assets/benchmarks").resolve()


def test_bad_values_are_refused_before_anything_is_loaded() -> None:
    for call, word in (
        (lambda: sweep(axis="mood"), "mood"),
        (lambda: sweep(values="0"), "gamma"),
        (lambda: sweep(axis="temperature", values="nan"), "finite"),
        (lambda: predict(prompts=1), "num_prompts"),
        (lambda: ladder(rungs="attic"), "attic"),
        (lambda: ladder(gammas="1,two"), "'two' is no whole number"),
        (lambda: ladder(gammas="1.5"), "'1.5' is no whole number"),
        (lambda: predict(temperatures="0,hot"), "'hot' is no number"),
    ):
        with pytest.raises(BadInput, match=word):
            call()
