"""Two prompts of every measured method in the tab Watch: their words, and what they fill in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs

import gradio as gr
import pytest

from speclab.core.laws import Sampling
from speclab.lab.bench_prompts import bench_prompts
from speclab.methods import METHODS
from speclab.models.catalogue import PAIRS
from speclab.ui.backend import Lab, PairCache
from speclab.ui.controls import CUSTOM_CHOICE
from speclab.ui.method_examples import example_settings, example_texts, example_updates
from speclab.ui.permalink import read_query, write_query
from speclab.ui.tab_watch import Watch
from speclab.ui.texts import EN
from tests.ui.examples_app import REPORT

SIDES = ("best", "worst")


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(
        methods=METHODS,
        pairs=PAIRS,
        open_run=lambda *args, **kwargs: None,
        cache=PairCache(lambda name, progress: name),
        summarise=lambda trace: (),
        banner=lambda trace: "",
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for kept tables; empty."""
    monkeypatch.setattr("speclab.lab.head_files.BENCHMARKS", tmp_path)
    return tmp_path


@pytest.fixture
def kept(folder: Path) -> Path:
    """The made-up table of the first pair, kept."""
    path = folder / "families-pocket.json"
    path.write_text(json.dumps(REPORT), encoding="utf-8")
    return path


def first_prompt(family: str) -> str:
    return bench_prompts(False, 1, (family,))[0][1]


# --- words ---------------------------------------------------------------------------------------


def test_both_are_named_with_their_numbers(lab: Lab, kept: Path) -> None:
    best, worst, note = example_texts(lab, "en", "prompt-lookup", "pocket")
    assert best == "Shines: copy · 4.50 tokens per pass, 3.50×"
    assert worst == "Does not: story · 1.75 tokens per pass, 0.75×"
    assert "copy 3.50 (3.40–3.60), story 0.75 (0.65–0.85)" in note
    assert "prompts per family: 6, tokens each: 24" in note
    assert "made up &lt;b&gt;" in note and "2026-01-02" in note


def test_they_speak_chinese(lab: Lab, kept: Path) -> None:
    best, worst, note = example_texts(lab, "zh", "prompt-lookup", "pocket")
    assert best == "擅长：照抄 · 每次前向 4.50 个词元，3.50×"
    assert worst == "不擅长：故事 · 每次前向 1.75 个词元，0.75×"
    assert "照抄 3.50 (3.40–3.60)" in note and "2026-01-02" in note


def test_a_method_that_never_pays_is_said_to(lab: Lab, kept: Path) -> None:
    best, worst, _ = example_texts(lab, "en", "suffix", "pocket")
    assert best == "Never faster here; best on copy · 1.90 tokens per pass, 0.90×"
    assert worst == "Worst: story · 1.50 tokens per pass, 0.50×"
    assert example_texts(lab, "zh", "suffix", "pocket")[0].startswith("在这里从未更快")


def test_one_that_always_pays_gains_least_somewhere_and_few_prompts_claim_less(
    lab: Lab, kept: Path
) -> None:
    best, worst, note = example_texts(lab, "en", "lookahead", "pocket")
    assert best.startswith("Best: copy") and worst.startswith("Gains least: story")
    assert "prompts per family: 1, too few for an interval" in note


@pytest.mark.parametrize(
    ("method", "pair"),
    [
        ("autoregressive", "pocket"),
        ("medusa", "pocket"),
        ("prompt-lookup", "smollm2-135m"),
        ("prompt-lookup", CUSTOM_CHOICE),
        ("prompt-lookup", "custom:../families|x"),
    ],
)
def test_nothing_is_shown_of_what_was_not_measured(
    lab: Lab, kept: Path, method: str, pair: str
) -> None:
    assert example_texts(lab, "en", method, pair) is None
    assert example_updates(lab, "en", method, pair)[0] == gr.update(visible=False)
    assert example_settings(lab, method, pair, "best") is None


# --- what a press does ---------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "family", "seed"), [("best", "copy", 3), ("worst", "story", 0)])
def test_a_press_fills_in_the_measured_run(
    lab: Lab, kept: Path, side: str, family: str, seed: int
) -> None:
    settings = example_settings(lab, "prompt-lookup", "pocket", side)
    assert settings.prompt == first_prompt(family)
    assert (settings.method, settings.rule, settings.pair) == ("prompt-lookup", "token", "pocket")
    assert settings.sampling == Sampling(temperature=0.0) and settings.chat is None
    assert (settings.seed, settings.max_new_tokens, settings.preset) == (seed, 24, "")
    defaults = {param.name: param.default for param in METHODS["prompt-lookup"].card.params}
    assert settings.params == {**defaults, "num_speculative_tokens": 5} != defaults
    query = parse_qs(write_query(settings), keep_blank_values=True)
    back, faults = read_query(lab, {key: values[-1] for key, values in query.items()})
    assert faults == [] and replace(back, preset="") == settings


@pytest.fixture(scope="module")
def built(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[gr.Blocks, Watch]:
    """The tab, built where no table was kept yet."""
    with pytest.MonkeyPatch.context() as patch, gr.Blocks() as blocks:
        patch.setattr("speclab.lab.head_files.BENCHMARKS", tmp_path_factory.mktemp("empty"))
        watch = Watch(lab, "en")
        watch.connect(blocks)
    return blocks, watch


def outputs_of(blocks: gr.Blocks, component: gr.components.Component, event: str) -> int:
    """Return how many components an event of a component fills."""
    found = [
        len(each.outputs) for each in blocks.fns.values() if (component._id, event) in each.targets
    ]
    return found[0]


def test_every_event_fills_what_it_promises(lab: Lab, built, kept: Path) -> None:
    blocks, watch = built
    controls = watch.controls
    given = {
        (controls.method, "input"): watch._on_method("suffix", "token", "pocket"),
        (controls.kind, "input"): watch._on_kind("text", "token", "pocket"),
        (controls.pair, "input"): watch._on_pair("pocket", "suffix"),
        (controls.preset, "input"): watch._on_preset("story", "pocket"),
        (controls.examples.best, "click"): watch._on_example("best", "suffix", "pocket"),
        (controls.examples.worst, "click"): watch._on_example("worst", "medusa", "pocket"),
        (watch.reset, "click"): watch._on_reset(SimpleNamespace(raised=False)),
    }
    for (component, event), values in given.items():
        assert len(values) == outputs_of(blocks, component, event), component.elem_id
    assert watch._on_method("suffix", "token", "pocket")[-4:] == example_updates(
        lab, "en", "suffix", "pocket"
    )
    assert watch._on_method("medusa", "token", "pocket")[-4] == gr.update(visible=False)
    assert watch._on_pair(CUSTOM_CHOICE, "suffix")[-4] == gr.update(visible=False)


def test_a_press_keeps_the_models_and_empties_the_player(built, kept: Path) -> None:
    _, watch = built
    *updates, shown, status = watch._on_example("best", "prompt-lookup", "pocket")
    names = [component.elem_id for component in watch.controls.components()]
    filled = dict(zip(names, updates, strict=False))
    assert filled["prompt"] == first_prompt("copy") and filled["temperature"] == 0.0
    assert filled["preset"] is None and filled["chat"] == "auto"
    for name in ("pair", "custom-target", "custom-draft"):
        assert filled[name] == gr.skip()
    assert json.loads(shown) == {"op": "clear"} and EN["status_no_recording"] in status
    untouched = watch._on_example("best", "medusa", "pocket")
    assert all(update == gr.skip() for update in untouched)


def test_a_preset_keeps_the_examples_of_the_chosen_pair(built, kept: Path) -> None:
    (kept.parent / "families-smollm2-135m.json").write_text("{}", encoding="utf-8")
    _, watch = built
    groups = {pair: watch._on_preset("copy", pair)[-6] for pair in ("pocket", "smollm2-135m")}
    assert groups == {"pocket": gr.update(visible=True), "smollm2-135m": gr.update(visible=False)}


def test_without_a_table_the_page_is_as_it_was(built, folder: Path) -> None:
    _, watch = built
    assert not watch.controls.examples.group.visible
    assert watch._on_method("prompt-lookup", "token", "pocket")[-4] == gr.update(visible=False)


# --- in a browser --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url(serve) -> str:
    return serve(Path(__file__).parent / "examples_app.py")


def field(page, name: str):
    """Return the input of a component."""
    return page.locator(f"#{name} :is(textarea, input)").first


@pytest.mark.browser
def test_a_click_fills_the_prompt_in_and_waits_for_run(url: str, open_page) -> None:
    from playwright.sync_api import expect

    page = open_page(url)
    page.wait_for_selector("#player [data-k]", state="attached")
    expect(page.locator("#example-best")).to_contain_text("Shines: JSON · 2.50 tokens per pass")
    page.locator("#kind label", has_text="Nothing added").click()
    page.locator("#method label", has_text="Prompt lookup").click()
    for side, family in zip(SIDES, ("copy", "story"), strict=True):
        expect(page.locator(f"#example-{side}")).to_contain_text(f": {family} · ")
        page.locator(f"#example-{side}").click()
        expect(field(page, "prompt")).to_have_value(first_prompt(family))
        expect(field(page, "temperature")).to_have_value("0")
        expect(page.locator("#status")).to_contain_text("Press Run")
    expect(page.locator("#method input:checked")).to_have_value("prompt-lookup")
    expect(field(page, "p-prompt-lookup-num-speculative-tokens")).to_have_value("5")
    assert page.locator("#preset input:checked").count() == 0
    page.locator("#run").click()
    expect(page.locator("#status")).to_contain_text("Done")
    page.locator("#kind label", has_text="Trained heads").click()
    expect(page.locator("#example-best")).to_be_hidden()


@pytest.mark.browser
def test_both_fit_a_phone_in_chinese_and_in_the_dark(url: str, open_page) -> None:
    page = open_page(url + "/zh", viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.wait_for_selector("#player [data-k]", state="attached")
    page.locator("[data-sl=settings]").click()
    for side, words in zip(SIDES, ("擅长：JSON", "不擅长：故事"), strict=True):
        button = page.locator(f"#example-{side}")
        assert button.inner_text().startswith(words)
        box = button.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390 and box["height"] >= 44
        assert button.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "2026-01-02" in page.locator("#example-note").inner_text()
