"""The map of drafters in lesson 9: every method, read from its card, with its measured numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from speclab.methods import METHODS
from speclab.methods.kinds import OF_THE_PASS, by_kind
from speclab.ui import lesson_map_figures, texts_lesson_map
from speclab.ui.backend import default_lab
from speclab.ui.lesson_figures import SCRIPTS
from speclab.ui.lesson_map_figures import MEASURES, greedy_rows, map_view, needs_of
from speclab.ui.texts_lesson_map import EN, ZH

ROOT = Path(__file__).parents[2]
WAIT_MS = 60_000


def cell(tau: float, share: float = 0.0) -> dict[str, Any]:
    return {"tau": tau, "speedup": tau / 2, "copied_share": share}


def line(method: str, temperature: float = 0.0, tau: float = 2.0) -> dict[str, Any]:
    return {
        "method": method,
        "temperature": temperature,
        "draft_passes": 0.0,
        "memory": {"parameters": 0},
        "families": {"story": cell(1.2), "copy": cell(tau, 0.5)},
    }


REPORT = {
    "families": ["story", "copy"],
    "rows": [
        line("prompt-lookup", tau=4.0),
        line("prompt-lookup", 1.0, tau=3.0),
        line("draft-model:num_speculative_tokens=6"),
    ],
}


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
