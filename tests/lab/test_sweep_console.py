"""The commands of the speed lab: reports as JSON, tables, Ctrl-C keeps what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speclab.core.errors import BadInput
from speclab.lab import sweep_console
from speclab.lab.sweep_console import kept_path, ladder, predict, sweep

SMALL: dict[str, Any] = {"prompts": 2, "max_new_tokens": 4, "json_to": "-", "device": "cpu"}


@pytest.fixture(autouse=True)
def quick(monkeypatch, pocket) -> None:
    """Hand out the pair that is loaded already, and time few raw passes."""
    monkeypatch.setattr("speclab.models.catalogue.load_pair", lambda *_, **__: pocket)

    def few(pair, repeats=1, **more):
        return measure(pair, 1, **more)

    from speclab.lab.bench import measure_costs as measure

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


def test_ctrl_c_keeps_what_was_measured(capsys) -> None:
    def interrupted():
        yield "1 of 2"
        raise KeyboardInterrupt

    class Work:
        def report(self) -> dict[str, str]:
            return {"kind": "sweep"}

    sweep_console._finish(Work(), interrupted(), lambda report: None, "-", False)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"kind": "sweep"} and "Stopped" in shown.err


def test_reports_are_kept_by_kind_pair_and_axis() -> None:
    assert kept_path({"kind": "sweep", "pair": "p", "axis": "gamma"}).name == "sweep-p-gamma.json"
    assert kept_path({"kind": "ladder", "pair": "p"}).parent == Path("assets/benchmarks").resolve()


def test_bad_values_are_refused_before_anything_is_loaded() -> None:
    for call, word in (
        (lambda: sweep(axis="mood"), "mood"),
        (lambda: sweep(values="0"), "gamma"),
        (lambda: sweep(axis="temperature", values="nan"), "finite"),
        (lambda: predict(prompts=1), "num_prompts"),
        (lambda: ladder(rungs="attic"), "attic"),
    ):
        with pytest.raises(BadInput, match=word):
            call()
