"""The figures of the lesson on trees: what Python answers, and a reader who changes the tree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from speclab.lab.tree_budget import HEADS
from speclab.ui.backend import default_lab
from speclab.ui.lesson_figures import SCRIPTS
from speclab.ui.lesson_tree_figures import head_series, tree_reply
from speclab.ui.prove_panel import answering
from speclab.ui.texts_lesson_trees import EN, ZH

ROOT = Path(__file__).parents[2]
WAIT_MS = 60_000
FOUR = [[0], [1], [0, 0], [0, 1]]


def test_words_have_the_same_keys_and_places_to_fill() -> None:
    assert EN.keys() == ZH.keys()
    assert all(text.strip() for text in (*EN.values(), *ZH.values()))
    for key, text in EN.items():
        assert set(re.findall(r"{\w+}", text)) == set(re.findall(r"{\w+}", ZH[key])), key


def test_every_word_is_used_by_a_figure() -> None:
    scripts = "".join((SCRIPTS / f"{name}.js").read_text() for name in ("tree_law", "tree_budget"))
    python = (ROOT / "speclab" / "ui" / "lesson_tree_figures.py").read_text()
    for key in EN:
        family = re.sub(r"_(top-k|without-replacement)$", "_", key)
        named = (f"words.{key}", f"'{key}'", f"{key}:", f'"{key}"', f"{family}${{")
        assert any(name in scripts + python for name in named), key


def test_the_reply_holds_the_tree_its_mask_and_both_laws() -> None:
    reply = tree_reply({"paths": FOUR, "siblings": "top-k"})
    assert reply["tokens"] == ["B", "A", "B", "A"]
    assert list(reply["parents"]) == [-1, -1, 0, 0]
    assert list(reply["positions"]) == [1, 1, 2, 2]
    assert reply["mask"][4] == [True, True, False, False, True]
    assert reply["law"] == pytest.approx(reply["p"], abs=1e-12)
    assert reply["misread"]["law"] == pytest.approx((0.5, 0.5, 0, 0), abs=1e-12)
    assert reply["misread"]["bias"] == pytest.approx(0.2)
    assert reply["per_pass"]["this_tree"] == pytest.approx(2.04)
    json.dumps(reply)


@pytest.mark.parametrize(
    "given",
    [{}, {"paths": 3, "siblings": "top-k"}, {"paths": [[0], ["x"]], "siblings": "top-k"}],
)
def test_a_request_that_makes_no_sense_is_answered(given: dict) -> None:
    reply = json.loads(answering(tree_reply, "tree", "en")(json.dumps(given)))
    assert reply.keys() == {"error"}


def test_a_series_shows_the_numbers_of_its_files() -> None:
    series = head_series(default_lab(), "en", "pocket", "medusa", "pocket-cpu-float32")
    manifest = json.loads((HEADS / "pocket" / "medusa" / "manifest.json").read_text())
    assert series["budgets"][0]["tree"] == pytest.approx(1 + manifest["accuracies"][0][0])
    assert manifest["date"] in series["detail"]
    assert series["budgets"][series["best"] - 1]["speed"] == max(
        budget["speed"] for budget in series["budgets"]
    )


# --- in the browser ------------------------------------------------------------------------------

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect


@pytest.fixture(scope="module")
def app(serve) -> str:
    """The app as people start it."""
    return serve(ROOT / "app.py")


@pytest.fixture
def page(app: str, open_page):
    """Lesson 8, ready."""
    page = open_page(f"{app}/?lesson=8")
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page.wait_for_selector("#lesson-8 .tree-budget .chart")
    return page


@pytest.mark.browser
def test_a_reader_shapes_the_tree_with_the_keyboard(page) -> None:
    figure, host = page.locator(".tree-law"), page.locator("[data-siblings]")
    figure.locator("[data-key='node-0']").focus()
    page.keyboard.press("Enter")
    expect(figure.locator("[data-key='node-0']")).to_have_attribute("aria-pressed", "true")
    figure.locator("[data-key='step-1']").focus()
    page.keyboard.press("Enter")
    expect(host).to_have_attribute("data-nodes", "3")
    expect(figure.locator("[data-key='step-1']")).to_be_focused()
    page.keyboard.press("Enter")
    expect(host).to_have_attribute("data-nodes", "2")
    expect(figure.locator("[data-value=this_tree]")).to_have_text("1.80")
    expect(figure.locator("[data-value=chain]")).to_have_text("1.39")
    figure.locator("[data-key='without-replacement']").focus()
    page.keyboard.press("Space")
    expect(host).to_have_attribute("data-siblings", "without-replacement")
    expect(figure.locator("[data-value=this_tree]")).to_have_text("1.86")
    expect(figure.locator("[data-bias]")).to_have_attribute("data-bias", "0.0372")
    figure.locator("[data-key='node-1']").click()
    figure.locator("[data-key='step1']").click()
    expect(host).to_have_attribute("data-nodes", "3")
    figure.locator("[data-key='node-']").click()
    for count in ("1", "0"):
        figure.locator("[data-key='step-1']").click()
        expect(host).to_have_attribute("data-nodes", count)
    expect(figure.locator("[data-value=this_tree]")).to_have_text("1.00")
    expect(figure.locator("[data-key='step-1']")).to_be_disabled()


@pytest.mark.browser
def test_a_chosen_node_lights_its_own_path_in_the_mask(page) -> None:
    figure = page.locator(".tree-law")
    figure.locator("[data-key='node-0,1']").click()
    expect(figure.locator(".mask .name.lit")).to_have_text("B·A")
    expect(figure.locator(".mask .place.lit")).to_have_text("+2")
    lit = [cell.get_attribute("class").split()[0] for cell in figure.locator(".mask i.lit").all()]
    assert lit == ["past", "on", "on", "off", "off", "on"]
    expect(figure.locator(".about")).to_contain_text("15 %")


@pytest.mark.browser
def test_the_slider_and_the_heads_change_chart_tree_and_sentence(page) -> None:
    figure, host = page.locator(".tree-budget"), page.locator("[data-kind]")
    expect(figure.locator(".ranks text")).to_have_count(5)
    figure.locator("input[type=range]").focus()
    page.keyboard.press("End")
    expect(host).to_have_attribute("data-nodes", "16")
    expect(figure.locator(".ranks text")).to_have_count(17)
    expect(figure.locator(".total")).to_contain_text("16 nodes")
    medusa = figure.locator(".total").text_content()
    figure.locator(".pick").nth(1).click()
    expect(host).to_have_attribute("data-kind", "hydra")
    assert figure.locator(".total").text_content() != medusa
    figure.locator(".step").first.click()
    expect(host).to_have_attribute("data-nodes", "15")
