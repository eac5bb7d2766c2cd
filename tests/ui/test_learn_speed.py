"""The figures of the lessons on speed: what Python answers, and a reader who moves the knobs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from speclab.core.theory import best_gamma, expected_tokens, walltime_speedup
from speclab.lab.draft_ladder import KINDS, Ladder, LadderPlan
from speclab.lab.own_numbers import one_draft
from speclab.lab.published import CURVES
from speclab.models.catalogue import load_pair
from speclab.stats.pace import ttft_s
from speclab.ui import lesson_draft_figures, lesson_speed_figures, texts_lesson_drafts
from speclab.ui import texts_lesson_speed as texts_speed
from speclab.ui.backend import default_lab
from speclab.ui.lesson_draft_figures import (
    batch_reply,
    equal_speed_lines,
    ladder_view,
    measured_drafts,
    pace_of,
    plane_reply,
    published_curve,
    published_drafts,
)
from speclab.ui.lesson_figures import SCRIPTS
from speclab.ui.lesson_speed_figures import (
    curves_reply,
    exercise_reply,
    measure_here,
    published_rows,
    recorded_runs,
    rounds_reply,
)
from speclab.ui.lessons import heads, measured
from speclab.ui.prove_panel import answering
from tests.ui.fake_lab import fake_lab

ROOT = Path(__file__).parents[2]
WAIT_MS = 60_000
BATCH = {"device": "a100", "draft": "llama-1b", "alpha": 0.75, "gamma": 3, "context": 256}
SCRIPT_NAMES = (
    "axes",
    "speed_curve",
    "coins_table",
    "own_numbers",
    "draft_plane",
    "draft_ladder",
    "batch_limit",
    "token_times",
)


@pytest.mark.parametrize("texts", [texts_speed, texts_lesson_drafts], ids=["speed", "drafts"])
def test_words_have_the_same_keys_and_places_to_fill(texts) -> None:
    assert texts.EN.keys() == texts.ZH.keys()
    assert all(text.strip() for text in (*texts.EN.values(), *texts.ZH.values()))
    for key, text in texts.EN.items():
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", texts.ZH[key])), key


@pytest.mark.parametrize("texts", [texts_speed, texts_lesson_drafts], ids=["speed", "drafts"])
def test_every_word_is_used_by_a_figure(texts) -> None:
    scripts = "".join((SCRIPTS / f"{name}.js").read_text() for name in SCRIPT_NAMES)
    modules = (lesson_speed_figures, lesson_draft_figures)
    code = scripts + "".join(Path(module.__file__).read_text() for module in modules)
    for key in texts.EN:
        kinds = [kind for kind in ("cell_", "limit_", "run_", "rung_") if kind in key]
        families = [f"{kind}{brace}" for kind in kinds for brace in ("${", "{")]
        named = (f"words.{key}", f"'{key}'", f'"{key}"', *families)
        assert any(name in code for name in named), key


def test_lessons_come_in_teaching_order() -> None:
    assert [head.number for head in heads("en")] == [1, 2, 3, 6, 7, 8, 9]


# --- lesson 6 ------------------------------------------------------------------------------------


def test_the_curves_follow_the_passes_that_are_chosen() -> None:
    ideal = curves_reply({"alpha": 0.8, "c": 0.2, "costs": "ideal"})
    assert ideal["speed"][4] == pytest.approx(walltime_speedup(0.8, 4, 0.2))
    assert ideal["best"] == best_gamma(0.8, 0.2)
    report = measured("pocket-cpu-float32")["costs"]
    real = curves_reply({"alpha": 0.8, "c": 0.2, "costs": "pocket-cpu-float32"})
    assert real["verify_cost"][4] == report["verify_cost"]["5"]
    assert real["speed"][4] == pytest.approx(
        expected_tokens(0.8, 4) / (0.8 + report["verify_cost"]["5"])
    )
    here = curves_reply({"alpha": 0.8, "c": 0.2, "costs": {"verify_cost": {"1": 1, "17": 17}}})
    assert here["verify_cost"][16] == 17.0 and here["verify_cost"][8] == 9.0


def test_recorded_runs_are_the_greedy_ones_of_the_report() -> None:
    report = measured("pocket-cpu-float32")
    runs = recorded_runs(report)
    sampled = [row | {"temperature": 1.0} for row in report["rows"]]
    assert recorded_runs(report | {"rows": [*report["rows"], *sampled]}) == runs
    assert {run["gamma"] for run in runs} >= {3, 5}
    assert all(run["low"] <= run["speed"] <= run["high"] < run["tau"] for run in runs)


@pytest.mark.parametrize(
    ("reply", "name", "given"),
    [
        (curves_reply, "curves", {"alpha": 2, "c": 0.1, "costs": "ideal"}),
        (curves_reply, "curves", {"alpha": 0.5, "c": 0.1, "costs": "../secret"}),
        (curves_reply, "curves", {"alpha": 0.5, "c": 0.1, "costs": {"verify_cost": {}}}),
        (rounds_reply, "rounds", {"rows": [{"alpha": 3, "gamma": 2}], "rounds": 10, "seed": 1}),
        (rounds_reply, "rounds", {"rows": [{"alpha": 0.5, "gamma": 2}], "rounds": 1e12, "seed": 1}),
        (exercise_reply, "exercise", {"kind": "one-draft", "number": "x", "cells": {}}),
        (exercise_reply, "exercise", {"kind": "none", "number": 1, "cells": {}}),
        (plane_reply, "plane", {"drafts": [{"alpha": 0.5, "c": 99}]}),
        (batch_reply, "batch", BATCH | {"batch": 1, "device": "abacus"}),
        (batch_reply, "batch", BATCH | {"batch": 1, "gamma": 10**9}),
        (batch_reply, "batch", {}),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_request_that_makes_no_sense_is_answered(reply, name, given, lang) -> None:
    assert json.loads(answering(reply, name, lang)(json.dumps(given))).keys() == {"error"}


def test_coins_stand_beside_the_formula() -> None:
    rows = [{"alpha": 0.8, "gamma": 5}, {"stretches": [0.95, 0.4], "length": 50, "gamma": 8}]
    coins, stretches = rounds_reply({"rows": rows, "rounds": 20_000, "seed": 1})["rows"]
    assert coins["formula"] == pytest.approx(3.689, abs=1e-3)
    assert coins["simulated"]["low"] < 3.689 < coins["simulated"]["high"]
    assert stretches["mean_alpha"] == pytest.approx(0.675)
    assert stretches["simulated"]["high"] < stretches["formula"]


def test_an_exercise_is_checked_by_recomputing() -> None:
    right = one_draft(42).answers
    reply = exercise_reply({"kind": "one-draft", "number": 42, "cells": dict(right)})
    assert all(reply["marks"].values()) and "answers" not in reply


def test_a_run_leaves_the_line_when_it_fails() -> None:
    lab = fake_lab()
    with pytest.raises(AttributeError):
        list(measure_here(lab, "en", "pocket", "story", 4))
    ticket = lab.turnstile.join()
    assert lab.turnstile.ahead(ticket) == 0


# --- lesson 7 ------------------------------------------------------------------------------------


def test_the_better_draft_is_the_slower_one() -> None:
    a, b = plane_reply({"drafts": [{"alpha": 0.9, "c": 0.5}, {"alpha": 0.5, "c": 0.02}]})["drafts"]
    assert (a["gamma"], b["gamma"]) == (3, 4)
    assert (round(a["speed"], 2), round(b["speed"], 2)) == (1.38, 1.79)


def test_lines_of_equal_speed_rise_with_the_cost() -> None:
    for line in equal_speed_lines():
        alphas = [alpha for _, alpha in line["points"]]
        assert alphas == sorted(alphas) and alphas[-1] <= 1.0


def test_measured_drafts_are_rows_of_their_reports() -> None:
    name = "pocket-cpu-float32"
    (point,) = measured_drafts(default_lab(), "zh", [name])
    report = measured(name)
    assert point["c"] == report["costs"]["cost_ratio"]
    assert point["speed"] == max(run["speed"] for run in recorded_runs(report))


def test_a_ladder_shows_what_its_report_holds() -> None:
    plan = LadderPlan(rungs=("draft", "target"), gammas=(1, 3), num_prompts=2, max_new_tokens=8)
    ladder = Ladder(load_pair("pocket"), plan)
    for _ in ladder:
        pass
    report = ladder.report()
    view = ladder_view(report, "zh")
    draft, target = view["rungs"]
    assert target["alpha"] > 0.95 and draft["c"] < target["c"]
    for rung, source in zip(view["rungs"], report["rungs"], strict=True):
        points = {point["gamma"]: point for point in source["points"]}
        assert rung["speed"] == max(point["speedup"] for point in points.values())
        assert rung["modelled"] == points[rung["gamma"]]["modelled"]
        assert rung["low"] <= rung["speed"] <= rung["high"]
    assert view["lines"] and not view["missing"]
    json.dumps(view)


def test_every_kind_of_rung_has_a_name() -> None:
    assert all(f"rung_{kind}" in texts_lesson_drafts.EN for kind in KINDS)


def test_published_points_are_those_of_the_tables() -> None:
    drafts = published_drafts("leviathan-4", task="EnDe", temperature=0)
    assert [draft["speed"] for draft in drafts] == [3.4, 2.8, 1.7]
    curve = published_curve("vllm-eagle-1", "zh")
    assert dict(zip(curve["batches"], curve["speeds"], strict=True))[56] == 0.71
    assert "2503.01840" in CURVES["vllm-eagle-1"].arxiv and "Table 5" in curve["name"]
    rows = published_rows("leviathan-1")
    assert rows[3] == {
        "alpha": 0.8,
        "gamma": 5,
        "published": {"operations": 1.63, "speed": 3.69},
    }


def test_the_gain_is_gone_in_a_large_batch_and_comes_back_with_long_caches() -> None:
    short = batch_reply(BATCH | {"batch": 256})
    assert short["points"][0]["speed"] > 1.5 > 1 > short["points"][-1]["speed"]
    assert short["best"]["gamma"] == 0 and 48 < short["crossing"] < 128
    long = batch_reply(BATCH | {"batch": 256, "context": 65536})
    assert long["points"][-1]["speed"] > 1.4 and long["points"][-1]["limit"] == "kv"
    assert not long["points"][-1]["fits"]


def test_paces_are_those_of_the_recorded_runs() -> None:
    lab = default_lab()
    plain = pace_of(lab, "pocket-story-autoregressive.json", 40)
    drafted = pace_of(lab, "pocket-story-draft-model.json", 40)
    trace = lab.recorded["pocket-story-draft-model.json"].trace
    assert drafted["ttft_ms"] == 1e3 * ttft_s(trace) > plain["ttft_ms"]
    assert drafted["median_gap_ms"] == 0 < plain["median_gap_ms"]
    assert drafted["tpot_ms"] < plain["tpot_ms"]
    assert len(plain["times_ms"]) == 40 and plain["times_ms"] == sorted(plain["times_ms"])


# --- in the browser ------------------------------------------------------------------------------

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect


@pytest.fixture(scope="module")
def app(serve) -> str:
    """The app as people start it."""
    return serve(ROOT / "app.py")


@pytest.fixture
def lesson(app: str, open_page):
    """Open a lesson by its number and wait until its end is there."""

    def open_(number: int, path: str = "/"):
        page = open_page(f"{app}{path}?lesson={number}")
        page.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        page.wait_for_selector(f"#lesson-{number} .foot")
        return page

    return open_


@pytest.mark.browser
def test_knobs_passes_coins_and_own_numbers_answer(lesson) -> None:
    page = lesson(6)
    figure, host = page.locator(".speed-curve"), page.locator("#speed-curve [data-speed]")
    expect(host).to_have_attribute("data-speed", "1.66")
    figure.locator("[data-knob=gamma]").focus()
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    expect(host).to_have_attribute("data-speed", "1.87")
    figure.locator("[data-knob=alpha]").focus()
    page.keyboard.press("Home")
    expect(host).to_have_attribute("data-best", "0")
    expect(figure.locator(".total")).to_contain_text("No drafting at all is fastest")
    figure.locator(".pick").nth(1).click()
    expect(host).to_have_attribute("data-costs", "pocket-cpu-float32")
    expect(figure.locator(".runs li").first).to_contain_text("times plain decoding")

    table = page.locator(".coins-table")
    expect(table.locator("tbody tr")).to_have_count(7)
    expect(table.locator("tbody tr").nth(6).locator("td.outside")).to_have_count(1)
    table.locator(".again").click()
    expect(page.locator("[data-seed='101']")).to_be_attached()
    expect(table.locator(".again")).to_be_focused()

    exercise = page.locator(".own-numbers")
    exercise.locator("[data-key=number]").fill("20260042")
    page.keyboard.press("Enter")
    expect(page.locator("[data-number='20260042']")).to_be_attached()
    answers = one_draft(20260042).answers
    for cell, value in answers.items():
        exercise.locator(f"[data-key={cell}]").fill(f"{value + (cell == 'speed'):.2f}")
    exercise.locator("[data-key=check]").click()
    expect(exercise.locator(".cell.right")).to_have_count(4)
    expect(exercise.locator(".cell.wrong")).to_have_count(1)
    expect(exercise.locator(".verdict")).to_have_text("4 of 5 are right.")
    exercise.locator("[data-key=speed]").fill(f"{answers['speed']:.2f}")
    page.keyboard.press("Enter")
    expect(exercise.locator(".verdict")).to_contain_text("All right: 5 of 5.")


@pytest.mark.browser
def test_drafts_batch_and_stairs_answer_in_chinese(lesson) -> None:
    page = lesson(7, "/zh")
    plane = page.locator(".draft-plane:not(.draft-ladder)")
    expect(plane.locator(".total")).to_contain_text("B 更快，尽管 A 的接受率更高")
    plane.locator("[data-knob=c-A]").focus()
    page.keyboard.press("Home")
    expect(plane.locator(".total")).to_contain_text("A 更快。")
    expect(plane.locator("rect.published")).to_have_count(3)

    batch = page.locator(".batch-limit")
    batch.locator("[data-knob=batch]").focus()
    page.keyboard.press("End")
    expect(page.locator("[data-batch='256']")).to_have_attribute("data-limit", "compute")
    expect(batch.locator(".total")).to_contain_text("不要起草")
    batch.locator("[data-knob=context]").focus()
    page.keyboard.press("End")
    expect(page.locator("[data-batch='256']")).to_have_attribute("data-limit", "kv")
    batch.locator(".picks .pick").nth(3).click()
    expect(batch.locator(".total")).to_contain_text("装不进")
    expect(page.locator("[data-row=median_gap] td").nth(1)).to_have_text("0.0 毫秒")


@pytest.mark.browser
@pytest.mark.slow
def test_an_own_run_stands_on_the_curve(lesson) -> None:
    page = lesson(6)
    page.locator("#own-run").click()
    host = page.locator("#speed-curve [data-speed]")
    expect(host).to_have_attribute("data-own", "1")
    expect(host).to_have_attribute("data-costs", "here")
    expect(page.locator(".speed-curve .runs li")).to_have_count(1)
    expect(page.locator(".speed-curve .status")).to_contain_text("by the formula")
