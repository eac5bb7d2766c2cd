"""The tab Prove in a browser: bars, draws, exact outcomes, real models, stop, both languages."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from speclab.core.rules import RULES
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.lab.prove import ProveSpec
from speclab.models.catalogue import load_pair
from speclab.ui import (
    measure_advice,
    measure_ladder,
    measure_passes,
    measure_predict,
    measure_reports,
    measure_sweep,
    prove_models,
)
from speclab.ui.backend import default_lab
from speclab.ui.prove_models import proof_work
from speclab.ui.prove_position import draw_reply, law_reply, numbers_reply
from speclab.ui.prove_running import ProofRunner
from speclab.ui.running import Runner, StopFlag
from speclab.ui.texts_prove import PROVE
from speclab.ui.texts_prove_rules import SOURCE_ZH, shipped

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "assets" / "models" / "pocket" / "manifest.json"
SLOW_MS = 90_000
NAMES = {"en": ("Prove", "All outcomes", "Real models"), "zh": ("证明", "所有结果", "真实模型")}
browser_test = pytest.mark.browser
STATE = {"p": STANDARD_P.tolist(), "q": STANDARD_Q.tolist(), "values": {}}


@pytest.fixture(scope="module")
def real(serve) -> str:
    """The app as people start it."""
    if not WEIGHTS.exists():
        pytest.skip("the bundled pair is not there")
    return serve(ROOT / "app.py")


def open_tab(page, name: str) -> None:
    """Open a tab, on a narrow page from the menu of those that have no room."""
    tab = page.get_by_role("tab", name=name, exact=True)
    menu = page.locator("#tabs .overflow-menu > button:visible").first
    tab.or_(menu).first.wait_for()
    if tab.is_visible():
        tab.click()
    else:
        menu.click()
        page.locator(".overflow-dropdown button", has_text=name).first.click()


@pytest.fixture
def visit(open_page) -> Callable:
    """Open the tab and, if named, one of its panels."""

    def open_(url: str, lang: str = "en", panel: int = 0, **options):
        page = open_page(f"{url}/zh" if lang == "zh" else url, **options)
        page.set_default_timeout(SLOW_MS)
        expect.set_options(timeout=SLOW_MS)
        page.wait_for_selector("#run")
        for name in (
            NAMES[lang][: panel + 1] if panel == 0 else (NAMES[lang][0], NAMES[lang][panel])
        ):
            open_tab(page, name)
        return page

    return open_


def position(page):
    """Return the figure of one position, its exact law known."""
    root = page.locator("#prove-position .pv-root[data-law]")
    root.wait_for()
    return root


# --- without a browser ----------------------------------------------------------------------------


def test_every_word_exists_in_both_languages_with_the_same_slots() -> None:
    english, chinese = PROVE["en"], PROVE["zh"]
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        slots = [sorted(re.findall(r"\{(\w+)\}", each)) for each in (text, chinese[key])]
        assert slots[0] == slots[1], key


def test_every_rule_says_in_chinese_where_it_comes_from() -> None:
    assert SOURCE_ZH.keys() == RULES.keys()
    for rule in RULES.values():
        words = re.sub(r"https:\S+", "", shipped(rule, "zh"))
        assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", words), words


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_exact_law_is_told_for_every_rule(lang: str) -> None:
    for name, rule in RULES.items():
        reply = law_reply({**STATE, "rule": name}, lang)
        assert reply["sentence"]["tone"] == ("good" if rule.lossless else "bad"), name
        gap = sum(abs(a - b) for a, b in zip(reply["law"], reply["target"], strict=True)) / 2
        assert gap == pytest.approx(rule.bias, abs=6e-5), name


@pytest.mark.parametrize("name", list(RULES))
def test_draws_agree_with_the_exact_law_and_the_control_is_caught(name: str) -> None:
    drawn = {"count": 100_000, "seed": 7, "counts": [], "control": []}
    reply = draw_reply({**STATE, **drawn, "rule": name}, "en")
    assert reply["sentence"]["tone"] == ("good" if RULES[name].lossless else "bad")
    assert reply["control_sentence"]["tone"] == "good"
    law = law_reply({**STATE, "rule": name}, "en")["law"]
    shares = [count / 100_000 for count in reply["counts"]]
    assert shares == pytest.approx(law, abs=0.01)
    assert sum(reply["counts"]) == sum(reply["control_counts"]) == 100_000


def test_draws_add_up_over_calls() -> None:
    given = {**STATE, "rule": "token", "count": 100, "seed": 1, "counts": [], "control": []}
    first = draw_reply(given, "en")
    more = {**given, "seed": 3, "counts": first["counts"], "control": first["control_counts"]}
    assert sum(draw_reply(more, "en")["counts"]) == 200


@pytest.mark.parametrize(
    ("limit_s", "lang", "said"),
    [
        (120.0, "en", r"The limit of 120 s was reached after \d+ sequences"),
        (120.0, "zh", r"到达 120 秒的上限，抽了 \d+ 条序列"),
        (-1.0, "en", r"The limit of -1 s passed before any sequence"),
        (-1.0, "zh", r"到 -1 秒的上限时一条序列也没有抽出"),
    ],
)
def test_a_proof_ends_at_its_limit_and_judges_what_was_drawn(
    limit_s: float, lang: str, said: str, monkeypatch
) -> None:
    """By a clock that moves one second each time the proof looks at it."""
    clock = itertools.count(0.0, 1.0)
    monkeypatch.setattr(measure_reports, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(prove_models, "LIMIT_S", limit_s)
    spec = ProveSpec(pair="toy", method="prompt-lookup", num_samples=4000, length=3)
    *_, last = proof_work(spec, StopFlag(), lang)(load_pair("toy"))
    assert re.match(said, last["text"]), last["text"]
    if limit_s > 0:
        drawn = int(re.findall(r"\d+", last["text"])[-1])
        assert last["op"] == "report" and 32 <= drawn < limit_s
    else:
        assert last["op"] == "status"


@pytest.mark.parametrize(
    ("enough", "op", "said"),
    [
        (1, "status", "Stopped after 32 sequences: too few for the tests"),
        (200, "report", "Stopped after "),
    ],
)
def test_a_proof_that_the_visitor_stops_says_so(enough: int, op: str, said: str) -> None:
    spec = ProveSpec(pair="toy", method="prompt-lookup", num_samples=100_000, length=3)
    stop, message = StopFlag(), {}
    for message in proof_work(spec, stop, "en")(load_pair("toy")):
        stop.raised = stop.raised or message.get("num_samples", 0) >= enough
    assert message["op"] == op and message["text"].startswith(said), message["text"]


def loaded_again(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a module as a process with this environment would load it."""
    name = f"{module.__name__}_again"
    spec = importlib.util.spec_from_file_location(name, module.__file__)
    assert spec is not None and spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, fresh)
    spec.loader.exec_module(fresh)
    return fresh


PANELS = (
    measure_advice,
    measure_ladder,
    measure_passes,
    measure_predict,
    measure_sweep,
    prove_models,
)


@pytest.mark.parametrize("zero", [True, False])
def test_on_zero_gpu_no_click_works_longer_than_it_asks_for(
    zero: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is ended from outside judges nothing: the limit must come before."""
    asked: list[float] = []

    def gpu(duration: float) -> Callable:
        asked.append(duration)
        return lambda function: function

    monkeypatch.setitem(sys.modules, "spaces", SimpleNamespace(GPU=gpu))
    monkeypatch.setenv("SPACES_ZERO_GPU", "1" if zero else "")
    lab = default_lab()
    ProofRunner(lab, "en")._on_pair("toy", lambda pair: iter(()))
    Runner(lab, "en")
    panels = [loaded_again(panel, monkeypatch) for panel in PANELS]
    limits = [panel.LIMIT_S for panel in panels]
    if zero:
        assert asked == [60, 60] and max(limits) == 50.0, "ten seconds to move there and to judge"
    else:
        assert asked == [] and limits == [90.0, 120.0, 60.0, 120.0, 120.0, 120.0]
    for lang in ("en", "zh"):
        said = panels[-1].options(lab, lang)["limit"]
        assert re.findall(r"\d+", said) == [f"{limits[-1]:.0f}"]


@pytest.mark.parametrize("text", ["0 0 0", "1 2 x", "1", "-1 2 3", "nan 1 1", "inf 1 1", ""])
def test_numbers_that_are_no_law_are_named(text: str) -> None:
    from speclab.core.errors import BadInput

    with pytest.raises(BadInput) as caught:
        numbers_reply({"p": text, "q": "1 1 1"})
    assert "p" in str(caught.value)


# --- in a browser ---------------------------------------------------------------------------------


@browser_test
def test_a_drag_changes_the_overlap_at_once_and_the_law_after_it(real: str, visit) -> None:
    page = visit(real)
    root = position(page)
    assert root.get_attribute("data-overlap") == "0.6500"
    law = root.get_attribute("data-law")
    box = page.locator("#prove-position .op-row.target .op-track").nth(1).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"]
    page.mouse.move(x, y - 10)
    page.mouse.down()
    page.mouse.move(x, y - box["height"] * 0.75, steps=3)
    held = float(root.get_attribute("data-overlap"))
    assert held > 0.75
    page.mouse.up()
    page.wait_for_function(
        "law => document.querySelector('#prove-position .pv-root').dataset.law !== law", arg=law
    )
    values = [float(x) for x in root.get_attribute("data-law").split(",")]
    assert sum(values) == pytest.approx(1.0, abs=1e-5)
    assert values[1] > 0.5


@browser_test
def test_bars_move_with_the_keyboard(real: str, visit) -> None:
    page = visit(real)
    position(page)
    bar = page.locator("#prove-position .op-row.draft .op-track").first
    bar.focus()
    page.keyboard.press("PageUp")
    expect(bar).to_have_attribute("aria-valuenow", "0.3000")
    page.keyboard.press("End")
    expect(bar).to_have_attribute("aria-valuenow", "1.0000")
    expect(page.locator("#prove-position .pv-verdict")).to_contain_text("kept")


@browser_test
def test_a_right_rule_passes_and_a_broken_one_is_rejected(real: str, visit) -> None:
    page = visit(real)
    position(page)
    verdict = page.locator("#prove-position .pv-verdict")
    page.locator("[data-draw='100000']").click()
    expect(verdict).to_contain_text("Not rejected.")
    expect(verdict).to_contain_text("rejected (p-value")
    page.locator("#prove-position .op-select").select_option("broken-softmax-residual")
    expect(verdict).to_contain_text("misses p by 0.193")
    expect(page.locator("#prove-position .op-about")).to_contain_text("Hugging Face")
    page.locator("[data-draw='100000']").click()
    expect(verdict).to_contain_text("Rejected.")
    page.locator("#prove-position summary").click()
    expect(page.locator("#prove-position .pv-table tbody tr")).to_have_count(4)


@browser_test
def test_bad_numbers_are_named_and_nothing_is_lost(real: str, visit) -> None:
    page = visit(real)
    root = position(page)
    page.locator("#prove-position summary").click()
    page.locator("[data-numbers=p]").fill("0, 0, 0, 0")
    page.locator("[data-apply]").click()
    expect(page.locator("#prove-position [role=alert]")).to_contain_text("All bars of p are zero")
    assert root.get_attribute("data-overlap") == "0.6500"
    page.locator("[data-numbers=p]").fill("2 1 1")
    page.locator("[data-numbers=q]").fill("1 1 2")
    page.locator("[data-apply]").click()
    page.wait_for_selector("#prove-position .pv-root[data-overlap='0.7500']")


@browser_test
def test_the_token_pinned_in_watch_can_be_taken(real: str, visit) -> None:
    page = visit(real)
    position(page)
    page.locator("[data-preset=pinned]").click()
    bars = page.locator("#prove-position .op-row.target .op-track")
    expect(bars).not_to_have_count(4)
    assert 4 < bars.count() <= 16


@browser_test
def test_all_outcomes_equal_the_target_and_a_broken_rule_leaves_a_gap(real: str, visit) -> None:
    page = visit(real, panel=1)
    root = page.locator("#prove-outcomes .pv-root")
    page.locator("#prove-outcomes .op-btn").click()
    page.wait_for_selector("#prove-outcomes .pv-root[data-difference]")
    assert float(root.get_attribute("data-difference")) < 1e-12
    expect(page.locator("#prove-outcomes .op-col")).to_have_count(16)
    page.locator("#prove-outcomes summary").click()
    leaves = page.locator("#prove-outcomes .pv-leaf").all_text_contents()
    assert sum(float(leaf.split()[-1]) for leaf in leaves) == pytest.approx(1.0, abs=0.01)
    page.locator("#prove-outcomes [data-field=rule]").select_option("broken-redraw-from-p")
    page.locator("#prove-outcomes .op-btn").click()
    expect(page.locator("#prove-outcomes .pv-verdict")).to_contain_text("the total variation is")
    assert float(root.get_attribute("data-difference")) > 1e-3


@browser_test
def test_real_models_end_with_a_verdict_and_a_control(real: str, visit) -> None:
    page = visit(real, panel=2)
    page.locator("#prove-models [data-field=num_samples]").fill("3000")
    page.locator("#prove-models .op-btn").first.click()
    page.wait_for_selector("#prove-models .js-plotly-plot")
    page.wait_for_selector("#prove-models .pv-root[data-verdict=not_rejected]")
    verdict = page.locator("#prove-models .pv-verdict")
    expect(verdict).to_contain_text("3,000 sequences")
    expect(verdict).to_contain_text("90% of such runs")
    expect(verdict).to_contain_text("rejected (p-value")
    page.locator("#prove-models summary").click()
    page.wait_for_selector("#prove-models .pv-results .js-plotly-plot")


@browser_test
def test_stop_judges_what_was_drawn_and_bad_numbers_are_named(real: str, visit) -> None:
    page = visit(real, panel=2)
    samples = page.locator("#prove-models [data-field=num_samples]")
    run, status = (
        page.locator("#prove-models .op-btn").first,
        page.locator("#prove-models .pv-status"),
    )
    samples.fill("0")
    run.click()
    expect(status).to_contain_text("from 1 to 1,000,000 is possible, not 0")
    expect(run).to_be_enabled()
    samples.fill("1000000")
    page.locator("#prove-models [data-field=rule]").select_option("broken-redraw-from-p")
    run.click()
    page.wait_for_function(
        "+(document.querySelector('#prove-models .pv-root').dataset.samples ?? 0) > 2000"
    )
    page.locator("#prove-models .op-btn").nth(1).click()
    page.wait_for_selector("#prove-models .pv-root[data-verdict=rejected]")
    expect(status).to_contain_text("Stopped after")
    expect(run).to_be_enabled()


@browser_test
def test_two_visitors_get_their_own_numbers(real: str, visit) -> None:
    pages = {count: visit(real, panel=2) for count in ("900", "1100")}
    for count, page in pages.items():
        page.locator("#prove-models [data-field=num_samples]").fill(count)
        page.locator("#prove-models [data-field=length]").fill("2")
        page.locator("#prove-models .op-btn").first.click()
    for count, page in pages.items():
        page.wait_for_selector("#prove-models .pv-root[data-verdict]")
        verdict = page.locator("#prove-models .pv-verdict .pv-say").first
        expect(verdict).to_contain_text(f"{int(count):,} sequences")


@browser_test
def test_word_for_word_equal_with_noise_tied_to_the_position(real: str, visit) -> None:
    page = visit(real)
    page.get_by_role("tab", name="Meanings", exact=True).click()
    card = page.locator("[data-meaning=noise]")
    card.locator(".op-btn").click()
    expect(card.locator(".pv-text")).to_have_count(3)
    plain, tied, free = (node.locator("p").inner_text() for node in card.locator(".pv-text").all())
    assert plain == tied != free
    bits = page.locator("[data-meaning=bits]")
    bits.locator(".op-btn").click()
    expect(bits.locator(".pv-verdict")).to_contain_text("float32")
    expect(page.locator("[data-meaning=law] .pv-verdict")).to_contain_text("9 lossless rules")


@browser_test
def test_the_chinese_page_has_no_english_sentence(real: str, visit) -> None:
    page = visit(real, "zh", locale="zh-CN")
    position(page)
    page.locator("[data-draw='100']").click()
    expect(page.locator("#prove-position .pv-verdict")).to_contain_text("对照")
    shown = [page.locator("#prove-position").inner_text()]
    for name in NAMES["zh"][1:]:
        page.get_by_role("tab", name=name, exact=True).click()
    page.get_by_role("tab", name="三种含义", exact=True).click()
    page.wait_for_selector("#prove-meanings .pv-table", state="attached")
    for panel in ("outcomes", "models", "meanings"):
        shown.append(page.locator(f"#prove-{panel}").text_content())
        shown += page.locator(f"#prove-{panel} option").all_text_contents()
    for text in shown:
        prose = re.sub(r"(https?:|github\.com)\S+", "", text)
        for found in re.findall(r"[A-Za-z']+(?: [a-z']+){3,}", prose):
            pytest.fail(f"English on the Chinese page: {found!r}")


@browser_test
def test_it_fits_a_phone(real: str, visit) -> None:
    page = visit(real, viewport={"width": 390, "height": 844}, has_touch=True)
    position(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.get_by_role("tab", name="Meanings", exact=True)).to_be_visible()


@browser_test
def test_plotly_comes_from_this_server_and_only_when_needed(real: str, open_page) -> None:
    page = open_page(real)
    page.wait_for_selector("#run")
    loaded = (
        "performance.getEntriesByType('resource').filter(e => e.name.includes('plotly')).length"
    )
    assert page.evaluate(loaded) == 0
    page.get_by_role("tab", name="Prove", exact=True).click()
    position(page)
    assert page.evaluate(loaded) == 0
