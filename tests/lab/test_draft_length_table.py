"""Draft lengths on the bundled pair: exact, compared in one table, and told to people."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.engine.loop import Limits
from speclab.lab import draft_length_table
from speclab.lab.draft_length_console import print_table
from speclab.lab.draft_length_table import (
    LengthPlan,
    run_table,
    settings_of,
    turn_of,
    usual_plan,
)
from speclab.lab.prove_case import ProveSpec, look_up
from speclab.lab.prove_draws import Workbench
from speclab.lab.prove_exact import prove_exact
from speclab.lab.run_warnings import run_warnings
from speclab.lab.runs import open_run
from speclab.methods import make_method
from speclab.methods.draft_length import KINDS
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair
from speclab.models.stops import FOLDER, bundled_stops
from speclab.ui.texts_errors import sentence

DYNAMIC = [kind for kind in KINDS if kind != "constant"]


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


def spec_of(kind: str, rule: str, length: int = 3) -> ProveSpec:
    return ProveSpec(
        params={"num_speculative_tokens": 2, "draft_length": kind, "stop_threshold": 0.5},
        rule=rule,
        sampling=Sampling(top_k=2),
        prompt="Once upon a time, Once upon a",
        length=length,
    )


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("kind", DYNAMIC)
def test_law_is_the_targets_on_pocket(pocket: Pair, kind: str, rule: str) -> None:
    report = prove_exact(pocket, spec_of(kind, rule), tree=False)
    assert report.num_leaves > 8 and report.difference < 1e-12


def test_many_requests_together_are_for_constant_lengths_only(pocket: Pair) -> None:
    """That sampler knows no other length; the loop draws them."""
    for kind in KINDS:
        bench = Workbench(look_up(pocket, spec_of(kind, "token")))
        assert bench.fast == (kind == "constant")
        bench.close()


SMALL = LengthPlan(
    constants=(1, 3),
    most=4,
    thresholds=(0.6,),
    max_new_tokens=10,
    num_prompts=2,
    along=1,
    passes=2,
    allow_busy=True,
)


@pytest.fixture(scope="module")
def report(pocket: Pair) -> dict[str, Any]:
    return json.loads(json.dumps(run_table(pocket, SMALL, progress=lambda text: None)))


def test_the_table_counts_what_ran(report: dict[str, Any]) -> None:
    names = list(settings_of("pocket", SMALL))
    assert {"plain", "constant 1", "constant 3", "heuristic", "confidence 0.6", "goodput"} < {
        *names
    }
    assert [(row["setting"], row["temperature"]) for row in report["rows"]] == [
        (name, temperature) for temperature in (0.0, 1.0) for name in names
    ]
    for row in report["rows"]:
        assert row["emitted_tokens"] == 20
        assert row["tau"] == pytest.approx(20 / row["rounds"])
        assert sum(row["lengths"].values()) == row["rounds"]
        counted = sum(int(length) * count for length, count in row["lengths"].items())
        assert counted == row["drafted_tokens"] >= row["discarded_tokens"]
        value, low, high = row["speedup"]
        assert 0.0 < low <= value <= high
    rows = {(row["setting"], row["temperature"]): row for row in report["rows"]}
    assert rows["plain", 0.0]["drafted_tokens"] == 0 and rows["plain", 0.0]["speedup"][0] == 1.0
    assert rows["goodput", 0.0]["greedy_agreement"] == 1.0
    best = rows["plain", 1.0]["against_constant"]
    assert rows[best, 1.0]["speedup_against_constant"] == [1.0, 1.0, 1.0]
    assert max(map(int, rows["constant 3", 0.0]["lengths"])) == 3


def test_hindsight_is_marked_as_modelled(report: dict[str, Any]) -> None:
    assert [row["temperature"] for row in report["hindsight"]] == [0.0, 1.0]
    for row in report["hindsight"]:
        assert row["badge"] == "modelled" and row["num_tokens"] == 10
        assert row["constant_speedup"][0] == 1.0
        assert row["oracle_over_constant"] >= 1.0 - 1e-4


def test_the_table_can_be_printed(report: dict[str, Any], capsys) -> None:
    print_table(report)
    shown = capsys.readouterr().out
    assert "goodput" in shown and "oracle round by round" in shown


def test_plans_say_what_does_not_fit(pocket: Pair) -> None:
    with pytest.raises(BadInput, match="num_prompts must be at least 1, not 0"):
        LengthPlan(num_prompts=0)
    with pytest.raises(BadInput, match="At least one constant"):
        LengthPlan(constants=())
    with pytest.raises(BadInput, match="holds 1024"):
        run_table(pocket, LengthPlan(max_new_tokens=2000), progress=lambda text: None)
    assert usual_plan("smollm2-135m").most < usual_plan("pocket").most


# --- what comes with the lab ------------------------------------------------------------------


def test_the_order_turns_through_every_setting() -> None:
    for count in (1, 2, 7, 10, 14, 21, 24):
        assert {turn * turn_of(count) % count for turn in range(count)} == set(range(count))


def test_on_a_gpu_every_text_is_run_whole_before_it_is_timed(monkeypatch) -> None:
    runs: list[tuple[tuple[int, ...], int]] = []

    def note(pair: Any, prompt: tuple[int, ...], params: Any, **given: Any) -> tuple[float, None]:
        runs.append((prompt, given["count"]))
        return 1.0, None

    monkeypatch.setattr(draft_length_table, "timed_run", note)
    plan = LengthPlan(temperatures=(0.0,), max_new_tokens=30)
    quiet = SimpleNamespace(during=lambda: None)
    found = {}
    for device in ("cpu", "cuda"):
        runs.clear()
        draft_length_table._interleave(
            SimpleNamespace(device=device), {"plain": None}, [(1,), (2,)], plan, quiet, str
        )
        found[device] = list(runs)
    assert found["cpu"] == [((1,), 8), ((1,), 30), ((2,), 30)]
    assert found["cuda"] == [((1,), 30), ((2,), 30)] * 2


def test_bundled_stops_are_those_of_their_manifests() -> None:
    """And each predicts held-out tokens better than their mean acceptance does."""
    import hashlib

    folders = sorted(path.parent for path in FOLDER.glob("*/*/stop.json"))
    assert folders
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        weights = (folder / "stop.json").read_bytes()
        assert manifest["files"]["stop.json"]["sha256"] == hashlib.sha256(weights).hexdigest()
        assert (manifest["pair"], manifest["method"]) == (folder.parent.name, folder.name)
        assert folder.name in bundled_stops(folder.parent.name)
        held = manifest["held_out"]
        assert held["log_loss"] < held["log_loss_of_the_mean"]
        assert abs(held["mean_predicted"] - held["mean_acceptance"]) < 0.1
    assert not bundled_stops("custom:../pocket|x") and not bundled_stops("../models")


def test_a_learned_stop_cuts_what_pocket_discards(pocket: Pair) -> None:
    counts = {}
    for kind in ("constant", "learned"):
        params = {"num_speculative_tokens": 8, "draft_length": kind}
        live = open_run(
            pocket,
            "One morning, Mira walked to the river.",
            method="draft-model",
            params=params,
            sampling=Sampling(temperature=0.0),
            max_new_tokens=40,
            record_laws=False,
        )
        rounds = list(live)
        drafted, kept = (
            sum(getattr(r, f"num_{what}") for r in rounds) for what in ("drafted", "accepted")
        )
        counts[kind] = (drafted - kept, live.emitted)
    assert counts["learned"][0] < 0.8 * counts["constant"][0]
    assert counts["learned"][1] == counts["constant"][1]


def test_a_real_clock_is_announced(pocket: Pair) -> None:
    limits = Limits(max_new_tokens=4, max_context=1024)
    for kind in KINDS:
        method = make_method("draft-model", {"draft_length": kind})
        told = run_warnings(pocket, method, (1, 2), limits)
        assert len(told) == (kind == "goodput")
        assert all("分布不变" in sentence(text, "zh") for text in told)
