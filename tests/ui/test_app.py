"""The app in a browser: first paint, runs, stop, links, import, languages, bad input."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "assets" / "models" / "pocket" / "manifest.json"
SLOW_MS = int(os.environ.get("SLOW_MS", "120000"))
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def fake(serve) -> str:
    """The pages over a made-up model that takes 0.15 s per round."""
    return serve(ROOT / "tests" / "ui" / "fake_lab.py")


@pytest.fixture(scope="module")
def real(serve) -> str:
    """The app as people start it."""
    if not WEIGHTS.exists():
        pytest.skip("the bundled pair is not there")
    return serve(ROOT / "app.py")


@pytest.fixture
def visit(open_page) -> Callable:
    """Open an address and wait until the player has drawn."""

    def open_(url: str, **options):
        page = open_page(url, **options)
        page.set_default_timeout(SLOW_MS)
        expect.set_options(timeout=SLOW_MS)
        page.wait_for_selector("#run")
        page.wait_for_selector("#player [data-k]", state="attached")
        return page

    return open_


def field(page, name: str):
    """Return the input of a component."""
    return page.locator(f"#{name} :is(textarea, input)").first


def status(page):
    """Return the status line."""
    return page.locator("#status .sl-status")


def emitted(page) -> str:
    """Return the text of the run on show."""
    return "".join(page.locator("#player [data-k]").all_text_contents())


def run(page, prompt: str | None = None, tokens: int | None = None) -> None:
    """Fill in and press Run."""
    if prompt is not None:
        field(page, "prompt").fill(prompt)
    if tokens is not None:
        field(page, "max-new-tokens").fill(str(tokens))
        field(page, "max-new-tokens").blur()
    page.locator("#run").click()


def test_nothing_heavy_is_imported_before_the_first_run() -> None:
    code = (
        "import sys\n"
        "from speclab.ui.backend import default_lab\n"
        "from speclab.ui.pages import build\n"
        "build(default_lab())\n"
        "print([m for m in ('torch', 'transformers', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_first_paint_is_a_recorded_run(real: str, visit) -> None:
    page = visit(real)
    expect(page.locator("#player")).to_contain_text("recorded run")
    expect(status(page)).to_contain_text("Press Run")
    assert page.locator("#player [data-k]").count() > 20


def test_examples_show_their_lesson_and_their_recording(real: str, visit) -> None:
    page = visit(real)
    page.locator("#preset label", has_text="Copy task").click()
    expect(page.locator("#lesson")).to_contain_text("looking it up")
    expect(field(page, "prompt")).to_have_value(re.compile("Copy the text"))
    expect(page.locator("#player")).to_contain_text("prompt-lookup")
    expect(page.locator("#method input:checked")).to_have_value("prompt-lookup")
    expect(page.locator("#p-prompt-lookup-num-speculative-tokens")).to_be_visible()
    expect(page.locator("#p-draft-model-num-speculative-tokens")).to_be_hidden()


def test_a_real_run_streams_and_ends(real: str, visit) -> None:
    page = visit(real)
    run(page, "Once there was a fox.", 12)
    expect(status(page)).to_contain_text("Done")
    expect(page.locator("#player")).to_contain_text("live run")
    expect(page).to_have_url(re.compile(r"max_new_tokens=12"))


@pytest.mark.parametrize(
    "prompt", ["🐱🐶 and 🦊", "从前，小明住在河边。", "<b>${1+1}</b> {{x}} \\x"]
)
def test_any_text_can_be_a_prompt(real: str, visit, prompt: str) -> None:
    page = visit(real)
    run(page, prompt, 8)
    expect(status(page)).to_contain_text("Done")
    shown = page.locator("#player").inner_text()
    assert "\ufffd" not in shown
    assert "Error rendering" not in shown


def test_a_prompt_longer_than_the_context_is_refused_and_the_next_run_works(
    real: str, visit
) -> None:
    page = visit(real)
    long = "a long story " * 3_000
    run(page, long, 8)
    expect(status(page)).to_have_attribute("role", "alert")
    expect(status(page)).to_contain_text("1024")
    assert field(page, "prompt").input_value() == long
    run(page, "A short one.", 8)
    expect(status(page)).to_contain_text("Done")


def test_an_empty_prompt_is_refused(fake: str, visit) -> None:
    for path, words in (("/", "The prompt is empty"), ("/zh", "提示是空的")):
        page = visit(fake + path)
        run(page, "   ")
        expect(status(page)).to_have_attribute("role", "alert")
        expect(status(page)).to_contain_text(words)


def test_stop_ends_the_run_and_frees_the_line(fake: str, visit) -> None:
    page = visit(fake)
    run(page, "alpha beta", 900)
    expect(status(page)).to_contain_text("Round")
    page.locator("#stop").click()
    expect(status(page)).to_contain_text("Stopped")
    said = status(page).inner_text()
    page.wait_for_timeout(1_000)
    assert status(page).inner_text() == said
    run(page, "gamma delta", 3)
    expect(status(page)).to_contain_text("Done")


def test_a_stopped_run_says_so_in_the_player_and_a_second_one_is_followed(fake: str, visit) -> None:
    page = visit(fake)
    run(page, "alpha beta", 900)
    expect(status(page)).to_contain_text(re.compile(r"Round ([6-9]|\d\d)"))
    page.locator("#stop").click()
    expect(status(page)).to_contain_text("Stopped")
    expect(page.locator("#player .strip-end")).to_have_text("■ stopped by hand")
    run(page, "gamma delta", 60)
    expect(page.locator("#player .strip-end")).to_be_hidden()
    for n in (5, 9):
        page.wait_for_function(
            f"Number(document.querySelector('#player .readout').textContent.split('/')[1]) >= {n}"
        )
        now, total = page.locator("#player .readout").text_content().split(" / ")
        assert now == total
    expect(status(page)).to_contain_text("Done")
    expect(page.locator("#player .strip-end")).to_have_text("■ length limit")
    assert page.locator("#player .speclab-player [data-incomplete]").count() == 0


def test_two_visitors_wait_in_line_and_never_see_each_others_text(fake: str, visit) -> None:
    one, two = visit(fake), visit(fake)
    run(one, "marker-one-7f3a", 60)
    expect(status(one)).to_contain_text("Round")
    run(two, "marker-two-c91d", 60)
    expect(status(two)).to_contain_text("1 ahead")
    expect(status(one)).to_contain_text("Done")
    expect(status(two)).to_contain_text("Done")
    assert "marker-one-7f3a" in emitted(one)
    assert "marker-two-c91d" in emitted(two)
    assert "marker-two-c91d" not in one.content()
    assert "marker-one-7f3a" not in two.content()
    three = visit(fake)
    assert "marker-" not in three.content()


def test_closing_the_tab_ends_the_run(fake: str, visit) -> None:
    first, second = visit(fake), visit(fake)
    run(first, "left alone", 900)
    expect(status(first)).to_contain_text("Round")
    first.context.close()
    run(second, "next please", 3)
    expect(status(second)).to_contain_text("Done")


def test_the_language_switch_keeps_the_query(fake: str, visit) -> None:
    page = visit(fake + "/?seed=42&big=1")
    page.locator("#switch-lang").click()
    page.wait_for_url(re.compile(r"/zh/?\?"))
    page.wait_for_selector("#player [data-k]", state="attached")
    expect(page.locator("#run")).to_have_text("运行")
    expect(field(page, "seed")).to_have_value("42")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert "big=1" in page.url


def test_a_language_in_the_query_redirects(fake: str, visit) -> None:
    page = visit(fake + "/?lang=zh&seed=7")
    page.wait_for_url(re.compile(r"/zh/?\?seed=7$"))
    expect(page.locator("#run")).to_have_text("运行")


def test_a_permalink_comes_back(fake: str, visit) -> None:
    page = visit(fake)
    page.locator("#kind label", has_text="Nothing added").click()
    expect(page.locator("#method input:checked")).to_have_value("prompt-lookup")
    page.locator("#method label", has_text="Prompt lookup").click()
    field(page, "p-prompt-lookup-num-speculative-tokens").fill("5")
    field(page, "p-prompt-lookup-num-speculative-tokens").blur()
    field(page, "seed").fill("77")
    field(page, "seed").blur()
    field(page, "prompt").fill("汉字 & 🐱 = 100 %")
    page.locator("#copy-link").click()
    expect(page).to_have_url(re.compile("seed=77"))
    again = visit(page.url)
    expect(field(again, "prompt")).to_have_value("汉字 & 🐱 = 100 %")
    expect(field(again, "seed")).to_have_value("77")
    expect(again.locator("#method input:checked")).to_have_value("prompt-lookup")
    expect(field(again, "p-prompt-lookup-num-speculative-tokens")).to_have_value("5")


def test_a_link_to_a_token_of_another_preset_opens_on_it(real: str, visit) -> None:
    page = visit(real + "/?preset=json&round=4&node=next")
    card = page.locator("#player .card[data-k='4:next']")
    expect(card).to_be_visible()
    expect(field(page, "prompt")).to_have_value(re.compile("JSON"))
    page.wait_for_timeout(500)
    expect(card).to_be_visible()


def test_junk_in_a_permalink_is_named(fake: str, visit) -> None:
    page = visit(fake + "/?seed=-5&method=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(status(page)).to_have_attribute("role", "alert")
    expect(status(page)).to_contain_text("seed=-5")
    expect(status(page)).to_contain_text("<img src=x onerror=alert(1)>")
    expect(field(page, "seed")).to_have_value("1")
    assert page.locator("#status img").count() == 0


def upload(page, name: str, content: bytes) -> None:
    """Give the import button a file."""
    page.locator(".sl-share input[type=file]").set_input_files(
        {"name": name, "mimeType": "application/json", "buffer": content}
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{not json", "not JSON"),
        (b"\xff\xfe\x00binary", "UTF-8"),
        (b'{"schema_version": 99}', "schema_version"),
        (b'{"schema_version": 1, "spec": 3}', "trace"),
        (b"[" * 50_000, "trace"),
    ],
    ids=["text", "binary", "version", "shape", "deep"],
)
def test_a_broken_file_changes_nothing(fake: str, visit, content: bytes, words: str) -> None:
    page = visit(fake)
    before = emitted(page)
    upload(page, "broken.json", content)
    expect(status(page)).to_have_attribute("role", "alert")
    expect(status(page)).to_contain_text(words)
    assert emitted(page) == before


def test_a_recorded_file_can_be_imported(fake: str, visit) -> None:
    from tests.ui.player_traces import chain_trace

    trace = chain_trace(20)
    token = str(trace.emitted[0])
    data = json.loads(trace.to_json())
    data["pieces"][token] = base64.b64encode(b" imported-marker").decode()
    page = visit(fake)
    upload(page, "trace.json", json.dumps(data).encode())
    expect(status(page)).to_contain_text("Imported")
    expect(page.locator("#player")).to_contain_text("imported-marker")


def test_an_imported_file_is_deleted(fake: str, visit, tmp_path_factory) -> None:
    from tests.ui.player_traces import chain_trace

    page = visit(fake)
    upload(page, "gone-after-reading.json", chain_trace(8).to_json().encode())
    expect(status(page)).to_contain_text("Imported")
    assert not list(tmp_path_factory.getbasetemp().rglob("gone-after-reading.json"))
    upload(page, "gone-after-reading.json", b"{broken")
    expect(status(page)).to_have_attribute("role", "alert")
    assert not list(tmp_path_factory.getbasetemp().rglob("gone-after-reading.json"))


def own_pair(target: str, draft: str) -> str:
    """Return the query of a page with two models of one's own."""
    return "?" + urlencode({"pair": f"custom:{target}|{draft}"})


def test_size_and_licence_of_own_models_are_shown_before_a_run(fake: str, visit) -> None:
    page = visit(fake + "/" + own_pair("owner/target", "owner/draft"))
    page.locator("#models button").first.click()
    page.locator("#custom-check").click()
    expect(page.locator("#pair-facts")).to_contain_text("owner/draft · 1.2 GB · apache-2.0")
    expect(page.locator("#pair-facts")).to_contain_text("about 2.4 GB for both")
    field(page, "custom-draft").fill("nobody/offline")
    page.locator("#custom-check").click()
    expect(page.locator("#pair-facts")).to_contain_text("The hub could not be reached")


@pytest.mark.parametrize(
    ("path", "words"),
    [("/", "this server also answers other machines"), ("/zh", "没有开放本地文件夹")],
)
def test_local_folders_are_refused_with_the_reason(fake: str, visit, path: str, words: str) -> None:
    page = visit(fake + path + own_pair("/etc", "owner/draft"))
    page.locator("#models button").first.click()
    page.locator("#custom-check").click()
    expect(page.locator("#pair-facts")).to_contain_text(words)
    page.locator("#run").click()
    expect(status(page)).to_have_attribute("role", "alert")
    expect(status(page)).to_contain_text(words)


def test_the_rule_says_what_it_does(fake: str, visit) -> None:
    page = visit(fake)
    page.locator("#more-sampling button").first.click()
    expect(page.locator("#rule-about")).to_contain_text("min(1, p/q)")
    expect(page.locator("#rule-about")).to_contain_text("Lossless")
    page.locator("#rule input").click()
    page.get_by_role("option", name="Draw and compare").click()
    expect(page.locator("#rule-about")).to_contain_text("Draw the target's own token")


def test_errors_speak_chinese_on_the_chinese_page(real: str, visit) -> None:
    page = visit(real + "/zh")
    run(page, "a long story " * 3_000, 8)
    expect(status(page)).to_contain_text("上下文最多容纳 1024 个")
    upload(page, "broken.json", b"{not json")
    expect(status(page)).to_contain_text("这个文件不是 JSON")


def test_the_theme_changes_without_a_reload_and_is_kept(fake: str, visit) -> None:
    page = visit(fake, color_scheme="light")
    dark = "document.body.classList.contains('dark')"
    assert not page.evaluate(dark)
    page.locator("[data-sl=theme]").click()
    assert page.evaluate(dark)
    page.reload(wait_until="domcontentloaded")
    page.wait_for_selector("#player [data-k]", state="attached")
    assert page.evaluate(dark)


def test_large_type_can_be_switched(fake: str, visit) -> None:
    page = visit(fake)
    size = "parseFloat(getComputedStyle(document.querySelector('#lesson p')).fontSize)"
    small = page.evaluate(size)
    page.locator("[data-sl=projector]").click()
    assert page.evaluate(size) > 1.3 * small
    assert "big=1" in page.url


@pytest.mark.parametrize("path", ["/", "/zh"])
def test_a_phone_never_scrolls_sideways(fake: str, visit, path: str) -> None:
    page = visit(fake + path, viewport={"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator("#method")).to_be_hidden()
    page.locator("[data-sl=settings]").click()
    expect(page.locator("#method")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#run").scroll_into_view_if_needed()
    expect(page.locator("#run")).to_be_visible()
