"""The map of drafters in lesson 9: every method, read from its card, with its measured numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from speclab.methods import METHODS
from speclab.methods.kinds import OF_THE_PASS, by_kind
from speclab.ui import lesson_map_figures, lessons, texts_lesson_map
from speclab.ui.backend import default_lab
from speclab.ui.lesson_figures import SCRIPTS
from speclab.ui.lesson_map_figures import MEASURES, greedy_rows, map_view, needs_of
from speclab.ui.lessons import measured
from speclab.ui.texts_lesson_map import EN, WORDS_MAP, ZH
from tests.ui.map_app import REPORT

ROOT = Path(__file__).parents[2]
WAIT_MS = 60_000


def test_words_have_the_same_keys_and_places_to_fill() -> None:
    assert EN.keys() == ZH.keys()
    for key, text in EN.items():
        assert text.strip() and ZH[key].strip()
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", ZH[key])), key


def test_every_word_is_used() -> None:
    script = (SCRIPTS / "family_map.js").read_text(encoding="utf-8")
    code = script + Path(lesson_map_figures.__file__).read_text(encoding="utf-8")
    for key in texts_lesson_map.EN:
        family = any(key.startswith(each) for each in ("need_", "law_", "shape_", "measure_"))
        assert family or f"words.{key}" in code or f'"{key}"' in code, key


def test_every_need_of_every_card_has_words() -> None:
    for name, method in METHODS.items():
        for need in method.card.needs - OF_THE_PASS:
            key = "head" if need.startswith("head:") else need
            assert f"need_{key}" in EN, f"{name}: {need}"
        assert all(text not in method.card.needs for text in needs_of(method.card, "zh"))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_map_holds_every_method_once(lang: str) -> None:
    view = map_view(default_lab(), lang, None)
    shown = {kind["name"]: [each["name"] for each in kind["methods"]] for kind in view["kinds"]}
    assert shown == by_kind(METHODS) and view["families"] == []
    for kind in view["kinds"]:
        for method in kind["methods"]:
            assert method["title"] == getattr(METHODS[method["name"]].card.title, lang)
            assert method["laws"] and method["shapes"] and method["measured"] is None
            assert bool(method["needs"]) == (kind["name"] != "text")


def test_measured_lines_are_the_greedy_ones_by_method() -> None:
    assert greedy_rows(REPORT)["prompt-lookup"]["families"]["copy"]["tau"] == 4.0
    assert set(greedy_rows(REPORT)) == {"prompt-lookup", "draft-model"}
    view = map_view(default_lab(), "zh", REPORT)
    assert view["families"] == [["story", "故事"], ["copy", "照抄"]]
    by_name = {each["name"]: each for kind in view["kinds"] for each in kind["methods"]}
    copy = by_name["prompt-lookup"]["measured"]["cells"]["copy"]
    assert copy == {"tau": 4.0, "speedup": 2.0, "copied_share": 0.5} and set(copy) == set(MEASURES)
    assert by_name["medusa"]["measured"] is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_dots_are_spoken_of_only_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    given: list[dict] = []
    monkeypatch.setattr(
        lesson_map_figures, "component", lambda name, message, **more: given.append(message)
    )
    for report in (None, REPORT):
        monkeypatch.setattr(lesson_map_figures, "kept_report", lambda pair, it=report: it)
        figure = {"pair": "pocket", "caption": "Cards.", "dots": "Dots."}
        lesson_map_figures.family_map(default_lab(), lang, **figure)
    bare, dotted = given
    assert bare["caption"] == "Cards." and dotted["caption"] == "Cards. Dots."
    assert bare["detail"] == WORDS_MAP[lang]["map_none"] and bare["families"] == []
    assert "made up" in dotted["detail"] and "2026-01-02" in dotted["detail"]
    assert not any("python" in text or "speclab" in text for text in WORDS_MAP[lang].values())


def test_a_pair_without_a_table_has_no_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lessons, "BENCHMARKS", tmp_path)
    assert lesson_map_figures.kept_report("pocket") is None
    (tmp_path / "families-pocket.json").write_text(json.dumps(REPORT), encoding="utf-8")
    assert lesson_map_figures.kept_report("pocket") == REPORT == measured("families-pocket")


# --- in the browser ------------------------------------------------------------------------------

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/", "/zh"])
def test_the_map_stands_in_its_lesson(serve, open_page, path: str) -> None:
    page = open_page(f"{serve(ROOT / 'app.py')}{path}?lesson=9")
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    figure = page.locator("#lesson-9 .family-map")
    expect(figure.locator("tbody tr[data-method]")).to_have_count(len(METHODS))
    expect(figure.locator("tbody[data-kind]")).to_have_count(len(by_kind(METHODS)))
    expect(figure.locator("[data-method=kangaroo] th")).to_contain_text(
        EN["need_head"] if path == "/" else ZH["need_head"]
    )


@pytest.mark.browser
def test_every_measured_family_is_a_dot_where_its_number_says(serve, open_page) -> None:
    page = open_page(f"{serve(Path(__file__).parent / 'map_app.py')}/?lesson=9")
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    figure = page.locator("#lesson-9 .family-map")
    expect(figure.locator("[data-method] .dot")).to_have_count(4)
    expect(figure.locator(".legend [data-family] .dot")).to_have_count(2)
    looked = figure.locator("[data-method=prompt-lookup] .plot")
    assert looked.locator("title").text_content() == "story 1.20\ncopy 4.00"
    expect(figure.locator("[data-method=kangaroo] .none")).to_have_text(EN["not_run"])
    expect(figure).to_contain_text("made up")
    expect(figure.locator("figcaption")).to_contain_text("Dots: measured")

    def places() -> list[float]:
        moved = "dots => dots.map((dot) => dot.getAttribute('transform'))"
        found = looked.locator(".dot").evaluate_all(moved)
        return [float(re.match(r"translate\((\S+) ", each)[1]) for each in found]

    story, copy = places()
    assert 0 < story < copy
    figure.get_by_text(EN["measure_speedup"], exact=True).click()
    expect(looked.locator("title")).to_have_text("story 0.60\ncopy 2.00")
    slow, fast = places()
    assert story < slow < fast, "the axis of speedups begins at 0"
    figure.get_by_text(EN["measure_copied_share"], exact=True).click()
    expect(looked.locator("title")).to_have_text("story 0 %\ncopy 50 %")
    assert len(places()) == 2
