"""Tab Learn: lessons open by link, list and keyboard; predictions answer in the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gradio as gr
import pytest

from speclab.core.errors import BadInput
from speclab.ui import lesson_figures, lessons
from speclab.ui.backend import default_lab
from speclab.ui.lesson_figures import build_figure, every_figure
from speclab.ui.lessons import Figure, read_lesson, slugs
from speclab.ui.pages import build
from speclab.ui.texts_learn import EN, ZH
from tests.ui.fake_lab import fake_lab

ROOT = Path(__file__).parents[2]
WAIT_MS = 60_000


# --- without a browser ---------------------------------------------------------------------------


def test_words_have_the_same_keys() -> None:
    assert EN.keys() == ZH.keys()
    assert all(text.strip() for text in (*EN.values(), *ZH.values()))


def figures() -> list[tuple[str, str, Figure]]:
    return [
        (lang, slug, block)
        for lang in lessons.LANGUAGES
        for slug in slugs()
        for block in read_lesson(slug, lang).blocks
        if isinstance(block, Figure)
    ]


@pytest.mark.parametrize(
    ("lang", "slug", "figure"), figures(), ids=lambda value: getattr(value, "name", value)
)
def test_every_figure_of_a_lesson_can_be_built(lang: str, slug: str, figure: Figure) -> None:
    with gr.Blocks() as blocks:
        build_figure(default_lab(), lang, figure.name, figure.options)
    assert blocks.blocks


def test_every_figure_is_used_by_a_lesson() -> None:
    assert {figure.name for _, _, figure in figures()} == every_figure().keys()


def test_a_figure_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadInput, match="no figure 'pie'"), gr.Blocks():
        build_figure(default_lab(), "en", "pie", {})


def test_the_pages_are_built_without_reading_a_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        pytest.fail("a lesson was read before anybody opened it")

    monkeypatch.setattr(lessons, "_blocks", refuse)
    read_lesson.cache_clear()
    build(fake_lab())


def test_a_live_measurement_leaves_the_line_when_it_fails() -> None:
    lab = fake_lab()
    with pytest.raises(AttributeError):
        list(lesson_figures.measure_live(lab, "en", "pocket"))
    ticket = lab.turnstile.join()
    assert lab.turnstile.ahead(ticket) == 0


# --- in the browser ------------------------------------------------------------------------------

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect


@pytest.fixture(scope="module")
def app(serve) -> str:
    """The app as people start it."""
    return serve(ROOT / "app.py")


@pytest.fixture
def lesson(app: str, open_page) -> Callable:
    """Open a lesson by its link and wait until its end is there."""

    def open_(number: int, path: str = "/", query: str = "", **options):
        page = open_page(f"{app}{path}?lesson={number}{query}", **options)
        page.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        page.wait_for_selector(f"#lesson-{number} .foot")
        page.wait_for_selector(f"#lesson-{number} .sl-prose p")
        return page

    return open_


@pytest.mark.browser
def test_a_wrong_prediction_is_answered_in_the_page(lesson) -> None:
    page = lesson(3)
    sent: list[str] = []
    box = page.locator("#lesson-3 .predict")
    expect(box.locator(".feedback")).to_be_empty()
    page.wait_for_load_state()
    page.on("request", lambda request: sent.append(request.url))
    box.locator(".choice").nth(0).click()
    expect(box.locator(".feedback")).to_contain_text("Not so.")
    expect(box.locator(".feedback")).to_contain_text("second helping")
    expect(box.locator(".feedback")).to_contain_text("0.20 + 0.70 × 0.50 = 0.55")
    expect(box.locator(".choice.right")).to_have_text("0.55")
    box.locator(".choice").nth(1).click()
    expect(box.locator(".feedback b").first).to_have_text("Yes.")
    assert not [url for url in sent if "predict" in url]
    quiet = 0
    for turn in range(4):  # a page that loads slowly may still ask for a figure once
        sent.clear()
        box.locator(".choice").nth(turn % 2).click()
        word = "Yes." if turn % 2 else "Not so."
        expect(box.locator(".feedback b").first).to_have_text(word)
        quiet += not [url for url in sent if "queue/join" in url]
    assert quiet >= 3


@pytest.mark.browser
def test_a_prediction_is_answered_with_the_keyboard_in_chinese(lesson) -> None:
    page = lesson(3, "/zh")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    expect(page.locator("#lesson-3 h1")).to_contain_text("先猜再改")
    page.locator("#lesson-3 .predict input").first.focus()
    page.keyboard.press("Space")
    expect(page.locator("#lesson-3 .feedback")).to_contain_text("不对。")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#lesson-3 .feedback b").first).to_have_text("对。")


@pytest.mark.browser
def test_the_rules_of_lesson_three_show_their_exact_law(lesson) -> None:
    page = lesson(3)
    figure = page.locator("#lesson-3 .rule-law")
    expect(figure.locator(".total")).to_contain_text("Total variation 0.00. It accepts 65 %")
    figure.locator(".pick").nth(1).click()
    expect(figure.locator(".total")).to_contain_text("Total variation 0.105. It accepts 30 %")
    numbers = figure.locator(".numbers b").all_text_contents()
    assert numbers == ["0.55", "0.21", "0.205", "0.035"]
    figure.locator(".pick").nth(2).click()
    expect(figure.locator(".total")).to_contain_text("Total variation 0.125. It accepts 65 %")
    figure.locator(".pick").nth(3).click()
    expect(figure.locator(".total")).to_contain_text("Total variation 0.35")


@pytest.mark.browser
def test_one_position_answers_inside_a_lesson(lesson) -> None:
    page = lesson(3)
    figure = page.locator("#lesson-3 .sl-lesson-position")
    expect(figure).to_contain_text("0.65")
    figure.locator("[data-draw='100']").click()
    expect(figure.locator("[data-draws='100']")).to_be_attached()


@pytest.mark.browser
def test_the_player_of_lesson_two_stands_on_its_round_in_sub_steps(lesson) -> None:
    page = lesson(2)
    player = page.locator("#lesson-2 .speclab-player")
    expect(player.locator(".readout")).to_have_text("5 / 24")
    expect(player.locator("[data-stage=draft]")).to_have_attribute("aria-current", "step")
    player.locator("[data-do=next]").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(player.locator("[data-stage=coin]")).to_have_attribute("aria-current", "step")
    expect(player.locator(".card")).to_contain_text("rejected")
    player.locator("[data-k='4:0']").first.click()
    assert "round=" not in page.url


@pytest.mark.browser
def test_lessons_follow_one_another(app: str, open_page) -> None:
    page = open_page(app)
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page.wait_for_selector("#player [data-k]", state="attached")
    page.get_by_role("tab", name="Learn").click()
    cards = page.locator("#lessons .card")
    expect(cards).to_have_count(len(slugs()))
    cards.first.focus()
    page.keyboard.press("Enter")
    for number in (1, 2):
        expect(page.locator(f"#lesson-{number}")).to_be_visible()
        expect(page.locator("#lessons [aria-current=page]")).to_be_focused()
        assert f"lesson={number}" in page.url
        page.locator(f"#lesson-{number} .side.on").click()
    expect(page.locator("#lesson-3 .predict")).to_be_visible()
    expect(page.locator("#lesson-2")).to_have_count(0)
    page.locator("#lesson-3 .side.back").click()
    expect(page.locator("#lesson-2 .speclab-player [data-k]").first).to_be_attached()
    page.locator("#lessons [data-lesson='1']").click()
    expect(page.locator("#lesson-1 .verify-cost")).to_be_visible()
    page.locator("#lessons .all").click()
    expect(page.locator("#lesson-1")).to_have_count(0)
    expect(cards).to_have_count(len(slugs()))


@pytest.mark.browser
@pytest.mark.parametrize("wanted", ["99", "-1", "x", "<img src=x onerror=alert(1)>"])
def test_a_lesson_that_is_not_there_is_said(app: str, open_page, wanted: str) -> None:
    page = open_page(f"{app}/?lesson={wanted}")
    alert = page.locator("#lessons [role=alert]")
    expect(alert).to_contain_text(f"There is no lesson {wanted[:20]} here.", timeout=WAIT_MS)
    expect(page.locator("#lessons .card")).to_have_count(len(slugs()))


@pytest.mark.browser
@pytest.mark.parametrize("path", ["/", "/zh"])
@pytest.mark.parametrize("number", [head.number for head in lessons.heads("en")])
def test_a_phone_never_scrolls_sideways(lesson, path: str, number: int) -> None:
    page = lesson(number, path, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    small = page.evaluate(
        "[...document.querySelectorAll('#lessons a, .sl-lesson .choice, .sl-lesson .pick')]"
        ".filter((node) => node.getBoundingClientRect().height < 44).length"
    )
    assert small == 0


@pytest.mark.browser
def test_large_type_enlarges_a_lesson(lesson) -> None:
    size = "parseFloat(getComputedStyle(document.querySelector('.sl-prose p')).fontSize)"
    assert lesson(3, query="&big=1").evaluate(size) > 1.4 * lesson(3).evaluate(size)


@pytest.mark.browser
@pytest.mark.slow
def test_the_cost_of_a_pass_is_measured_on_this_machine(lesson) -> None:
    page = lesson(1)
    page.locator("#measure").click()
    figure = page.locator("#verify-cost [data-series='3']")
    figure.wait_for(state="attached")
    expect(page.locator("#verify-cost .status")).to_contain_text("one token takes")
    expect(page.locator("#verify-cost .legend")).to_contain_text("measured now")
    values = page.locator("#verify-cost .third .value").all_text_contents()
    assert float(values[0]) == 1.0
    assert all(0.5 < float(value) < 17 for value in values[1:])
