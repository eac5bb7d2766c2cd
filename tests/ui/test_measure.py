"""The tab Measure: what its panels answer, and the page in a browser, in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speclab.core.errors import BadInput, SpeclabError
from speclab.core.theory import break_even, expected_tokens, walltime_speedup
from speclab.stats.diagnosis import SENTENCES
from speclab.ui import (
    measure_arrivals,
    measure_batch,
    measure_best,
    measure_passes,
    measure_predict,
    measure_reports,
    measure_sweep,
    measure_why,
)
from speclab.ui.backend import Lab, default_lab
from speclab.ui.measure_panel import read_number
from speclab.ui.running import StopFlag
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_measure import MEASURE
from speclab.ui.texts_measure_panels import ZH_DIAGNOSIS

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

ROOT = Path(__file__).parents[2]
APP = Path(__file__).with_name("measure_app.py")
SLOW_MS = 90_000
browser_test = pytest.mark.browser


@pytest.fixture(scope="module")
def lab() -> Lab:
    return default_lab()


# --- words ----------------------------------------------------------------------------------------


def test_every_word_exists_in_both_languages_with_the_same_slots() -> None:
    english, chinese = MEASURE["en"], MEASURE["zh"]
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        slots = [sorted(re.findall(r"\{(\w+)\}", each)) for each in (text, chinese[key])]
        assert slots[0] == slots[1], key


def test_chinese_words_are_chinese() -> None:
    for key, text in MEASURE["zh"].items():
        words = re.sub(r"\{\w+\}|https:\S+", "", text)
        assert not re.search(r"[A-Za-z]{2,} [a-z]{2,} [a-z]{2,}", words), key


# --- at best --------------------------------------------------------------------------------------


def best(**more: Any) -> dict[str, Any]:
    return measure_best.best_reply({**measure_best.FIRST, **more}, "en")


def test_the_numbers_at_best_are_those_of_the_formulas() -> None:
    reply = best(alpha=0.8, c=0.05, gamma=4)
    assert reply["numbers"]["tokens"][0] == f"{expected_tokens(0.8, 4):.2f}" == "3.36"
    assert reply["values"]["speedup"] == pytest.approx(walltime_speedup(0.8, 4, 0.05), abs=1e-4)
    assert reply["numbers"]["break"][0] == f"{break_even(4, 0.05):.2f}"
    assert reply["numbers"]["perfect"][0] == f"{5 / 1.2:.2f}×"
    assert len(reply["table"]["rows"]) == measure_best.MAX_GAMMA + 1


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_draft_that_cannot_pay_is_told_so(lang: str) -> None:
    given = {**measure_best.FIRST, "alpha": 0.1, "c": 0.9, "gamma": 8}
    reply = measure_best.best_reply(given, lang)
    assert reply["values"]["best"] == 0 and reply["sentences"][0]["tone"] == "bad"
    assert MEASURE[lang]["best_none"] in [each["text"] for each in reply["sentences"]]


def test_with_measured_passes_gamma_ends_where_the_widest_was() -> None:
    sent = {"1": 1.0, "2": 1.1, "5": 1.4}
    reply = best(costs="here", here=sent, gamma=16)
    assert reply["most"] == reply["gamma"] == 4 and "5" in reply["note"]
    assert reply["values"]["speedup"] < best(gamma=4)["values"]["speedup"]
    assert best(costs="pocket-cpu-float32", gamma=16)["gamma"] == 16


@pytest.mark.parametrize("sent", [None, {}, {"1": "x"}, {"0": 1.0}, {"1": -1}, {"1": 1e9}, [1, 2]])
def test_costs_that_no_machine_has_are_refused(sent: Any) -> None:
    with pytest.raises(BadInput):
        best(costs="here", here=sent)


@pytest.mark.parametrize("field", ["alpha", "c", "gamma"])
@pytest.mark.parametrize("value", [-1, 99, "nan", "x", None, 1e999])
def test_values_out_of_range_are_named(field: str, value: Any) -> None:
    with pytest.raises(BadInput) as caught:
        best(**{field: value})
    assert MEASURE["en"][f"best_{field}"] in str(caught.value)
    assert "可以取" in error_text(caught.value, "zh")


def test_measured_runs_are_starting_points(lab: Lab) -> None:
    starts = measure_best.options(lab, "en")["starts"]
    assert starts
    for start in starts:
        reply = best(**{key: start[key] for key in ("alpha", "c", "gamma", "costs")})
        assert reply["gamma"] == start["gamma"]


def test_whole_numbers_are_asked_for() -> None:
    assert read_number({"n": "3"}, "n", "N", (1, 4), whole=True) == 3
    with pytest.raises(BadInput):
        read_number({"n": "2.5"}, "n", "N", (1, 4), whole=True)


# --- batch ----------------------------------------------------------------------------------------


def batch(**more: Any) -> dict[str, Any]:
    return measure_batch.roofline_reply({**measure_batch.FIRST, **more}, "en")


def test_speculation_stops_helping_at_some_batch_unless_the_cache_is_what_is_read() -> None:
    short, long = batch(context=256), batch(context=131_072)
    assert short["crossing"] is not None and long["crossing"] is None
    never = batch(alpha=0.0, draft="llama-8b")
    assert never["crossing"] == 1.0 and never["sentences"][1]["tone"] == "bad"


def test_every_device_target_and_draft_answers_in_both_languages(lab: Lab) -> None:
    offered = measure_batch.options(lab, "en")
    for field, names in (("hardware", "hardware"), ("target", "targets"), ("draft", "drafts")):
        for name, _ in offered[names]:
            for lang in ("en", "zh"):
                reply = measure_batch.roofline_reply({**measure_batch.FIRST, field: name}, lang)
                assert len(reply["table"]["rows"]) == len(measure_batch.BATCHES)
                assert json.loads(json.dumps(reply)) == reply


@pytest.mark.parametrize(
    "more", [{"hardware": "x"}, {"target": None}, {"draft": "head:x"}, {"context": -1}]
)
def test_devices_and_models_that_are_not_there_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        batch(**more)


# --- sweep and prediction -------------------------------------------------------------------------


def sweep_given(**more: Any) -> dict[str, Any]:
    usual = {"pair": "pocket", **measure_sweep.USUAL, "methods": ["prompt-lookup"]}
    return {**usual, "num_prompts": 1, "max_new_tokens": 8, **more}


@pytest.fixture(scope="module")
def pocket() -> Any:
    if not (ROOT / "assets" / "models" / "pocket" / "manifest.json").exists():
        pytest.skip("the bundled pair is not there")
    from speclab.models.catalogue import load_pair

    return load_pair("pocket", device="cpu", dtype="float32")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_stopped_sweep_keeps_its_points(lab: Lab, pocket: Any, lang: str) -> None:
    stop = StopFlag()
    name, work = measure_sweep.sweep_plan(lab, sweep_given(), stop, lang)
    assert name == "pocket"
    seen: list[dict[str, Any]] = []
    for message in work(pocket):
        seen.append(message)
        stop.raised = "view" in message
    last = seen[-1]
    assert last["op"] == "done" and not last["view"]["report"]["complete"]
    assert last["view"]["count"] == 2 == len(last["view"]["table"]["rows"])
    assert MEASURE[lang]["sweep_partly"] in last["view"]["sentences"][0]["text"]
    assert json.loads(json.dumps(last)) == last


@pytest.mark.parametrize(
    "more",
    [
        {"pair": "nowhere"},
        {"axis": "colour"},
        {"methods": []},
        {"methods": ["nothing"]},
        {"methods": "draft-model"},
        {"num_prompts": 10_000},
        {"max_new_tokens": "1e9"},
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_anything_loads(lab: Lab, more: Any) -> None:
    with pytest.raises(BadInput):
        measure_sweep.sweep_plan(lab, sweep_given(**more), StopFlag(), "en")


def test_labels_show_parameters_that_are_words(lab: Lab) -> None:
    text = measure_reports.label_text(lab, "draft-model:draft_length=goodput", "en")
    assert text.endswith("= goodput)")
    shown = measure_reports.label_text(lab, "draft-model:num_speculative_tokens=4", "en")
    assert shown.endswith("= 4)")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_over_gamma_the_chart_is_of_rounds_alone(lab: Lab, lang: str) -> None:
    ranged = {"speedup": 1.1, "decode_speedup": 1.4, "tau": 2.0}
    limits = {f"{name}_{end}": value for name, value in ranged.items() for end in ("low", "high")}
    point = {"method": "draft-model", "label": "draft-model", "value": 2, **ranged, **limits}
    lines = {"gammas": [0, 1], "speedup": [1.0, 1.4], "perfect": [1.0, 2.0]}
    report = {"axis": "gamma", "points": [point], "theory": {"draft-model": lines}}
    drawn = measure_sweep._figure(lab, report, measure_sweep.speed_shown("gamma"), lang)
    assert [trace["y"] for trace in drawn["data"]] == [[1.0, 1.4], [1.0, 2.0], [1.4]]
    title = drawn["layout"]["yaxis"]["title"]
    assert MEASURE[lang]["sweep_fig_decode_speedup"] in (title, title.get("text"))
    other = {**report, "axis": "output-length", "theory": {}}
    whole = measure_sweep._figure(lab, other, measure_sweep.speed_shown("output-length"), lang)
    assert whole["data"][0]["y"] == [1.1]


def test_a_prediction_compares_both_halves(lab: Lab, pocket: Any) -> None:
    given = {"pair": "pocket", "temperature": 0, "methods": ["prompt-lookup"]}
    given |= {"num_prompts": 4, "max_new_tokens": 8}
    _, work = measure_predict.predict_plan(lab, given, StopFlag(), "en")
    *_, last = work(pocket)
    view = last["view"]
    assert view["report"]["complete"] and view["count"] == 2 * 3
    assert len(view["table"]["rows"][0]) == len(view["table"]["head"])
    assert json.loads(json.dumps(view)) == view


# --- ladder, passes, recommendation ---------------------------------------------------------------


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_batched_passes_say_where_speculation_stops_helping(lab: Lab, lang: str) -> None:
    slow = {str(n): float(n) for n in (1, 2, 3)}
    report = {
        "pair": "pocket",
        "created": "2026-01-02",
        "plan": {"context": 64, "tokens": [1, 2, 3]},
        "seconds": 1.0,
        "target_s": {"1": {"1": 1.0, "2": 1.0, "3": 1.0}, "2": slow},
        "draft_s": {"1": 0.1, "2": 0.1},
    }
    view = measure_passes.passes_view(lab, report, 0.7, lang)
    assert view["count"] == 2 and len(view["sentences"]) == 2
    assert all(each["tone"] == "open" for each in view["sentences"])
    assert "2" in view["sentences"][0]["text"] and json.loads(json.dumps(view)) == view
    half = measure_passes.passes_view(lab, {**report, "target_s": {}, "draft_s": {}}, 0.7, lang)
    assert half["count"] == 0 and half["costs"] is None


def test_arrivals_compare_three_servers_on_the_same_requests(monkeypatch) -> None:
    monkeypatch.setattr(measure_arrivals, "REQUESTS", 20)
    given = {**measure_batch.FIRST, "rates": "4", "new_tokens": 16}
    for lang in ("en", "zh"):
        reply = measure_arrivals.arrivals_reply(given, lang)
        assert len(reply["table"]["rows"]) == 3 * len(measure_arrivals.RATES["4"])
        assert reply["sentences"][0]["mark"] == MEASURE[lang]["ms_modelled"]
        assert json.loads(json.dumps(reply)) == reply
    with pytest.raises(BadInput):
        measure_arrivals.arrivals_reply({**given, "new_tokens": 0}, "en")


# --- why is mine slower ---------------------------------------------------------------------------


def why(lab: Lab, text: Any, lang: str = "en", **more: Any) -> dict[str, Any]:
    given = text if isinstance(text, str) else json.dumps(text)
    return measure_why.why_reply(lab, {"text": given, **more}, lang)


def test_chinese_diagnoses_have_the_same_keys_and_slots() -> None:
    assert ZH_DIAGNOSIS.keys() == SENTENCES.keys()
    for key, text in SENTENCES.items():
        slots = [sorted(re.findall(r"\{\w+[^}]*\}", each)) for each in (text, ZH_DIAGNOSIS[key])]
        assert slots[0] == slots[1], key


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_trace_of_the_player_is_diagnosed(lab: Lab, lang: str) -> None:
    recording = next(each for each in lab.recorded.values() if each.method == "draft-model")
    text = recording.trace.to_json()
    reply = why(lab, text, lang)
    keys = {key.removeprefix("why_limit_") for key in MEASURE[lang] if "why_limit_" in key}
    assert reply["factor"] in keys
    assert reply["sentences"][0]["mark"] == MEASURE[lang]["ms_modelled"]
    quick = why(lab, text, lang, step_ms="1000")["sentences"][0]
    assert quick["tone"] == "good" and quick["text"] != reply["sentences"][0]["text"]


def test_every_line_of_a_recorded_table_is_diagnosed(lab: Lab) -> None:
    reply = measure_why.why_reply(lab, {"recorded": "heads-pocket"}, "en")
    whole = reply["tables"][-1]
    assert len(whole["rows"]) > 20 and all(len(row) == len(whole["head"]) for row in whole["rows"])


DEEP = "[" * 100_000
HOSTILE = [
    *("", "no", "[]", "null", "1", "NaN", '{"x": Infinity}', DEEP, '{"a":' * 5000, "\\u0000"),
    *('{"rounds": 3}', '{"rounds": [], "schema_version": 1}', '{"points": 5}', '{"rows": [1]}'),
    '{"points": [{"shape": "plain"}, {"method": "x", "temperature": null}]}',
    '{"rows": [{"shape": "plain", "temperature": 0}, {"label": "x", "temperature": 0}]}',
    '{"pair": "<img src=x onerror=alert(1)>"}',
    "9" * 5000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_cannot_be_read_is_refused_in_words(lab: Lab, text: str) -> None:
    with pytest.raises(SpeclabError) as caught:
        why(lab, text)
    assert error_text(caught.value, "zh") and len(str(caught.value)) < 600


def test_a_text_that_is_too_long_is_never_parsed(lab: Lab, monkeypatch) -> None:
    monkeypatch.setattr(measure_why, "MOST_CHARS", 10)
    with pytest.raises(BadInput) as caught:
        why(lab, '{"rounds": []}')
    assert "10" in str(caught.value)


def test_rows_with_numbers_that_are_none_are_refused(lab: Lab) -> None:
    report = json.loads(json.dumps(measure_why.reports()["heads-pocket"]))
    for row in report["rows"]:
        row["target_s_per_round"] = 0
    with pytest.raises(SpeclabError):
        why(lab, report)


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(serve: Callable[..., str]) -> str:
    return serve(APP)


def panel_of(page: Any, name: str) -> Any:
    """Open a panel and return its root, painted."""
    page.get_by_role("tab", name=MEASURE["en"][f"panel_{name}"], exact=True).click()
    root = page.locator(f"#measure-{name} .pv-root")
    expect(root.locator("> *").first).to_be_visible()
    return root


@browser_test
def test_panels_paint_and_stop_keeps_what_was_measured(app: str, open_page: Callable) -> None:
    page = open_page(app)
    page.set_default_timeout(SLOW_MS)
    expect.set_options(timeout=SLOW_MS)
    root = panel_of(page, "best")
    before = root.get_attribute("data-speedup")
    page.locator("#measure-best [data-field=gamma]").focus()
    page.keyboard.press("ArrowRight")
    expect(root).not_to_have_attribute("data-speedup", before)
    for name in ("batch", "predict"):
        panel_of(page, name)
    sweep = panel_of(page, "sweep")
    recorded = sweep.get_attribute("data-points")
    sweep.locator("[data-field=max_new_tokens]").fill("128")
    sweep.locator("[data-do=run]").click()
    page.wait_for_function(
        "(recorded) => document.querySelector('#measure-sweep .pv-root').dataset.points"
        " && document.querySelector('#measure-sweep .pv-root').dataset.points !== recorded",
        arg=recorded,
    )
    sweep.locator("[data-do=stop]").click()
    page.wait_for_selector("#measure-sweep .pv-root[data-state=idle]")
    assert int(sweep.get_attribute("data-points")) >= 3
    expect(sweep.locator(".pv-status").first).to_contain_text("stay")


@browser_test
def test_the_chinese_page_fits_a_phone(app: str, open_page: Callable) -> None:
    page = open_page(f"{app}/zh", viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.set_default_timeout(SLOW_MS)
    page.wait_for_selector("#measure-best .pv-root[data-speedup]")
    for tab in page.locator("#measure-panels [role=tab]").all():
        if tab.is_visible():
            tab.click()
    page.wait_for_timeout(300)
    text = page.locator("body").inner_text()
    assert not re.search(r"[A-Za-z]{3,} (of|the|and|is|per) [a-z]+", text)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_damaged_recording_is_left_out_and_the_page_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("sweep-pocket-gamma", "ladder-pocket"):
        whole = (measure_reports.BENCHMARKS / f"{name}.json").read_text(encoding="utf-8")
        half = whole[: len(whole) // 2] if name.startswith("sweep") else whole
        (tmp_path / f"{name}.json").write_text(half, encoding="utf-8")
    monkeypatch.setattr(measure_reports, "BENCHMARKS", tmp_path)
    measure_reports.reports.cache_clear()
    try:
        assert list(measure_reports.reports()) == ["ladder-pocket"]
        assert measure_sweep.options(default_lab(), "en")["recorded"] == []
    finally:
        measure_reports.reports.cache_clear()
    assert "sweep-pocket-gamma.json is damaged" in caplog.text
