"""The tab Heads: what it says of a head, and the page in a browser, in both languages."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from speclab.core.errors import BadInput
from speclab.lab import head_files
from speclab.ui.backend import Lab, default_lab
from speclab.ui.heads_tree import percent
from speclab.ui.heads_view import options, tree_only, view_reply
from speclab.ui.prove_panel import answering
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_heads import HEADS
from tests.ui.heads_app import made_report

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

APP = Path(__file__).with_name("heads_app.py")
SLOW_MS = 90_000
browser_test = pytest.mark.browser
GIVEN = {"pair": "pocket", "head": "medusa", "depth": 4, "width": 4, "nodes": 16}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return default_lab()


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Put a made-up table in the place of the measured ones."""
    report = made_report()
    (tmp_path / "heads-pocket.json").write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.setattr(head_files, "BENCHMARKS", tmp_path)
    return report


@pytest.fixture
def unmeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every measured file away."""
    monkeypatch.setattr(head_files, "BENCHMARKS", tmp_path)


@pytest.fixture
def no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the costs of the target's passes, and no table of heads."""
    shutil.copy(head_files.BENCHMARKS / "pocket-cpu-float32.json", tmp_path)
    monkeypatch.setattr(head_files, "BENCHMARKS", tmp_path)


def kinds_of(entry: Any) -> tuple[str, ...]:
    """Return the kinds of heads bundled for a pair's target."""
    return head_files.head_kinds(entry.heads)


# --- without a browser ----------------------------------------------------------------------------


def test_every_word_exists_in_both_languages_with_the_same_slots() -> None:
    english, chinese = HEADS["en"], HEADS["zh"]
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        slots = [sorted(re.findall(r"\{(\w+)\}", each)) for each in (text, chinese[key])]
        assert slots[0] == slots[1], key


def test_every_word_is_used() -> None:
    folder = Path(head_files.ASSETS)
    code = [*Path(options.__code__.co_filename).parent.glob("*heads*.py")]
    code += [*(folder / "js" / "heads").glob("*.js")]
    text = "\n".join(path.read_text("utf-8") for path in code if path.name != "texts_heads.py")
    made = ("hd_fig_", "hd_on_", "hd_shape_", "hd_col_", "hd_key_")
    for key in HEADS["en"]:
        plain = key in text or key.startswith(made)
        chosen = key.removeprefix("hd_") in ("conditional", "cumulative", "eagles", "all")
        assert plain or chosen, key


def test_shares_read_as_people_write_them() -> None:
    assert [percent(x) for x in (0.574, 0.0995, 0.0394, 1.58)] == ["57 %", "10 %", "3.9 %", "158 %"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_tree_is_modelled_and_says_what_does_not_pay(lab: Lab, measured, lang: str) -> None:
    reply = tree_only(lab, GIVEN, lang)
    assert len(reply["nodes"]) == 16 and reply["chosen"]["nodes"] == 16
    assert sorted(node["order"] for node in reply["nodes"]) == list(range(1, 17))
    paying = [node for node in reply["nodes"] if node["pays"]]
    assert len(paying) == reply["best"] < 16
    assert [node["order"] for node in reply["nodes"] if node["last"]] == [16]
    assert reply["sentences"][0]["mark"] == HEADS[lang]["hd_mark"]
    assert f"{reply['values']['tokens']:.2f}" in reply["sentences"][0]["text"]
    assert reply["sentences"][1]["tone"] == "bad"
    better = tree_only(lab, {**GIVEN, "nodes": reply["best"]}, lang)
    assert better["values"]["speedup"] > reply["values"]["speedup"]
    assert better["sentences"][1]["tone"] == "good" and all(n["pays"] for n in better["nodes"])


def test_measured_points_are_those_of_the_head_and_temperature(lab: Lab, measured) -> None:
    for temperature, tau in ((0, 2.0), (1, 3.0)):
        figure = tree_only(lab, {**GIVEN, "temperature": temperature}, "en")["figure"]
        points = [each for each in figure["data"] if "error_y" in each]
        assert [each["y"] for each in points] == [[tau], [tau]]
        assert points[0]["text"] == ["medusa:16"]


def test_without_a_table_nothing_measured_is_claimed(lab: Lab, unmeasured) -> None:
    view = view_reply(lab, GIVEN, "en")
    assert view["tree"]["best"] is None and view["tree"]["values"]["speedup"] is None
    assert [each["name"] for each in view["tree"]["figure"]["data"]] == [
        HEADS["en"]["hd_fig_tokens"]
    ]
    assert all(node["pays"] for node in view["tree"]["nodes"])
    for part in (view["depth"], view["trees"], view["table"]):
        assert part["missing"]["command"] == "python -m speclab heads --pair pocket --keep"
    assert any("command" in note for note in view["tree"]["notes"])


def test_a_width_that_nobody_measured_is_not_guessed(lab: Lab, measured) -> None:
    reply = tree_only(lab, {**GIVEN, "nodes": 60, "width": 10}, "en")
    assert reply["values"]["cost"] is None and "33" in reply["sentences"][1]["text"]


def test_sliders_stay_within_what_the_head_has(lab: Lab, measured) -> None:
    reply = tree_only(lab, {**GIVEN, "depth": 99, "width": -3, "nodes": 0}, "en")
    assert reply["chosen"] == {"depth": 4, "width": 1, "nodes": 1}
    chain = tree_only(lab, {**GIVEN, "width": 1, "nodes": 64}, "en")
    assert chain["chosen"]["nodes"] == chain["most"]["nodes"] == 4


def test_heads_with_first_guesses_only_draw_a_chain(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "heads" / "pocket" / "parallel"
    folder.mkdir(parents=True)
    manifest = {"parameters": 7, "held_out_top1": [0.5, 0.25], "training": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    monkeypatch.setattr(head_files, "MODELS", tmp_path)
    facts = head_files.head_facts("pocket", "parallel")
    assert facts is not None and facts.accuracies == ((0.5,), (0.25,)) and not facts.same_levels
    reply = tree_only(default_lab(), {**GIVEN, "head": "parallel"}, "en")
    assert reply["chosen"] == {"depth": 2, "width": 1, "nodes": 2}
    assert reply["values"]["tokens"] == pytest.approx(1.0 + 0.5 + 0.125)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_bundled_head_has_its_page(lab: Lab, measured, lang: str) -> None:
    every = [(entry.heads, kind) for entry in lab.pairs.values() for kind in kinds_of(entry)]
    assert ("pocket", "medusa") in every
    for folder, kind in every:
        view = view_reply(lab, {**GIVEN, "pair": folder, "head": kind}, lang)
        facts = head_files.head_facts(folder, kind)
        assert facts is not None and view["kind"] == kind
        assert view["tree"]["nodes"] and view["tree"]["most"]["width"] <= 10
        said = " ".join(line["text"] for line in view["about"])
        assert f"{facts.parameters:,}" in said and "model.safetensors" in said
        assert view["loss"]["data"][0]["y"]
        names = {part["name"] for part in view["ranks"]["data"]}
        assert HEADS[lang]["hd_fig_top1"] in names and len(names) >= 2
        assert json.loads(json.dumps(view)) == view


def test_each_head_says_on_what_text_it_was_measured(lab: Lab, measured) -> None:
    words = HEADS["en"]
    for pair, head, text in (
        ("pocket", "medusa", "prompts"),
        ("pocket", "eagle3", "rows"),
        ("pocket-mtp", "parallel_mtp", "rows"),
        ("smollm2-135m", "eagle3", "chats"),
    ):
        view = view_reply(lab, {**GIVEN, "pair": pair, "head": head}, "en")
        assert view["tree"]["notes"][0]["text"].endswith(f"{words[f'hd_on_{text}']}.")
        assert words[f"hd_on_{text}"] in view["ranks_note"]
        assert ("Diamonds" in view["ranks_note"]) == (head == "medusa")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_the_target_wrote_and_notes_of_the_run_are_told(lab: Lab, lang: str) -> None:
    words = HEADS[lang]
    for pair in ("pocket", "smollm2-135m"):
        facts = head_files.head_facts(pair, "eagle3")
        about = view_reply(lab, {**GIVEN, "pair": pair, "head": "eagle3"}, lang)["about"]
        lines = {line["term"]: line["text"] for line in about}
        assert facts is not None and facts.note
        assert lines[words["hd_about_note"]] == facts.note
        count, key = ("1,280", "hd_text_written") if pair == "pocket" else ("544", "hd_text_chats")
        assert words[key].format(n=count) in lines[words["hd_about_text"]]
    medusa = view_reply(lab, GIVEN, lang)["about"]
    assert words["hd_about_note"] not in [line["term"] for line in medusa]


def test_a_module_trained_with_its_target_tells_both_stages(lab: Lab) -> None:
    words = HEADS["en"]
    about = view_reply(lab, {**GIVEN, "pair": "pocket-mtp", "head": "mtp"}, "en")["about"]
    lines = {line["term"]: line["text"] for line in about}
    assert lines[words["hd_training_frozen"]] == "15 min, 2,000 steps, 512,000 tokens"
    assert lines[words["hd_training_joint"]] == "23 min, 750 steps, 768,000 tokens"


def test_a_bound_is_said_to_be_one_and_chinese_sentences_touch(lab: Lab, no_table) -> None:
    for lang, said in (("en", "at most"), ("zh", "至多")):
        text = tree_only(lab, {**GIVEN, "head": "eagle1"}, lang)["sentences"][0]["text"]
        assert text.count(said) == 2 and (lang == "en" or "。 " not in text)


def test_the_table_speaks_the_page_s_language(lab: Lab, measured) -> None:
    english, chinese = (view_reply(lab, GIVEN, lang)["table"] for lang in ("en", "zh"))
    assert len(english["table"]["rows"]) == len(chinese["table"]["rows"]) == 6
    assert all(len(line) == len(english["table"]["head"]) for line in english["table"]["rows"])
    assert "head:mtp" in english["skipped"][0] and "没有" in chinese["skipped"][0]
    assert "2026-01-02" in english["note"]


def test_eagle_1_and_eagle_3_come_first_by_depth(lab: Lab, measured) -> None:
    depth = view_reply(lab, GIVEN, "en")["depth"]
    there = [name for name in ("eagle-1", "eagle-3") if name in lab.methods]
    assert list(depth["figures"]) == ["eagles", "all"]
    assert len(depth["sentences"]) == len(depth["figures"]["eagles"]["conditional"]["data"])
    assert len(depth["sentences"]) == len(there)
    assert "80 % at depth 1, 50 % at depth 2" in depth["sentences"][0]["text"]


def test_dynamic_against_static_is_said_only_where_it_was_measured(lab: Lab, measured) -> None:
    assert "1.25" in view_reply(lab, GIVEN, "en")["trees"]["sentences"][0]["text"]
    hot = view_reply(lab, {**GIVEN, "temperature": 1}, "en")["trees"]["sentences"]
    assert [each["text"] for each in hot] == [HEADS["en"]["hd_no_trees"]]


def test_a_pair_without_heads_says_which_command_trains_them(lab: Lab) -> None:
    bare = view_reply(lab, {"pair": "smollm2-360m", "head": ""}, "en")
    assert "pocket" in bare["none"]["text"]
    assert bare["none"]["command"].startswith("python -m speclab train eagle3 --target pocket")
    entry = SimpleNamespace(title=lab.pairs["pocket"].title, heads="elsewhere")
    other = SimpleNamespace(pairs={"x": entry}, methods=lab.methods)
    reply = view_reply(other, {"pair": "x", "head": "medusa"}, "zh")
    assert "--target elsewhere --output assets/models/heads/elsewhere" in reply["none"]["command"]


def test_a_fault_names_its_tab(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError

    assert "RuntimeError" in answering(broken, "view", "en", "Heads")("{}")
    assert caplog.messages == ["'view' of the tab Heads failed"]


def test_a_head_that_a_pair_lacks_is_named_with_those_it_has(lab: Lab) -> None:
    for ask in (view_reply, tree_only):
        with pytest.raises(BadInput) as caught:
            ask(lab, {**GIVEN, "head": "mtp"}, "zh")
        assert error_text(caught.value, "zh").startswith("pocket 没有草稿头 mtp。")
        assert "medusa" in error_text(caught.value, "zh")


def test_junk_is_refused(lab: Lab) -> None:
    with pytest.raises(BadInput):
        view_reply(lab, {"pair": "nowhere"}, "en")
    for head in ("../pocket/medusa", "nothing", ""):
        with pytest.raises(BadInput):
            tree_only(lab, {**GIVEN, "head": head}, "en")


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(serve) -> str:
    return serve(APP)


@pytest.fixture
def visit(open_page) -> Callable:
    """Open the tab."""

    def open_(url: str, lang: str = "en", **more):
        page = open_page(f"{url}/zh" if lang == "zh" else url, **more)
        page.set_default_timeout(SLOW_MS)
        expect.set_options(timeout=SLOW_MS)
        page.wait_for_selector("#run")
        page.get_by_role("tab", name="草稿头" if lang == "zh" else "Heads", exact=True).click()
        page.wait_for_selector("#heads .pv-root[data-head]:not([data-head=''])")
        return page

    return open_


@browser_test
def test_the_slider_grows_the_tree_and_the_button_finds_the_best(app: str, visit) -> None:
    page = visit(app)
    root, tree = (
        page.locator("#heads .pv-root"),
        page.locator("#heads .hd-tree .hd-node:not(.root)"),
    )
    expect(tree).to_have_count(16)
    slider = page.locator("#heads [data-field=nodes]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("data-nodes", "17")
    expect(tree).to_have_count(17)
    expect(page.locator("#heads .hd-node.last")).to_have_count(1)
    page.get_by_role("button", name=HEADS["en"]["hd_to_best"]).click()
    best = root.get_attribute("data-best")
    expect(root).to_have_attribute("data-nodes", best)
    expect(page.locator("#heads .hd-node.costs")).to_have_count(0)
    page.wait_for_selector("#heads .hd-chart .main-svg")


@browser_test
def test_choosing_head_and_temperature_changes_what_is_shown(app: str, visit) -> None:
    page = visit(app)
    page.select_option("#heads [data-field=head]", "eagle3")
    page.wait_for_selector("#heads .pv-root[data-head=eagle3]")
    for summary in page.locator("#heads summary").all():
        summary.click()
    cells = page.locator("#heads tbody tr").nth(1).locator("td")
    expect(cells.nth(4)).to_contain_text("2.00")
    page.select_option("#heads [data-field=temperature]", "1")
    expect(cells.nth(4)).to_contain_text("3.00")
    expect(page.locator("#heads .pv-fold .main-svg").first).to_be_visible()
    page.select_option("#heads [data-field=rate]", "cumulative")
    expect(page.locator("#heads")).to_contain_text(HEADS["en"]["hd_fig_cumulative"])


@browser_test
def test_a_pair_without_heads_shows_the_command(app: str, visit) -> None:
    page = visit(app)
    page.select_option("#heads [data-field=pair]", "smollm2-360m")
    expect(page.locator("#heads .hd-command").first).to_contain_text("speclab train eagle3")
    expect(page.locator("#heads .hd-tree")).to_be_hidden()
    page.select_option("#heads [data-field=pair]", "pocket")
    expect(page.locator("#heads .hd-tree")).to_be_visible()


@browser_test
def test_sizes_that_one_head_lacks_come_back_with_another(app: str, visit) -> None:
    page = visit(app)
    root, depth = page.locator("#heads .pv-root"), page.locator("#heads [data-field=depth]")
    expect(depth).to_have_value("4")
    page.select_option("#heads [data-field=head]", "eagle3")
    page.wait_for_selector("#heads .pv-root[data-head=eagle3]")
    expect(depth).to_have_value("5")
    page.locator("#heads [data-field=width]").fill("1")
    expect(root).to_have_attribute("data-nodes", "5")
    page.locator("#heads [data-field=width]").fill("4")
    expect(root).to_have_attribute("data-nodes", "16")


@browser_test
def test_the_page_fits_a_phone_in_chinese_and_in_the_dark(app: str, visit) -> None:
    page = visit(app, lang="zh", viewport={"width": 390, "height": 844}, color_scheme="dark")
    expect(page.locator("#heads .hd-main")).to_contain_text(HEADS["zh"]["hd_chart"])
    for summary in page.locator("#heads summary").all():
        summary.click()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    box = page.locator("#heads [data-field=nodes]").bounding_box()
    assert box["height"] >= 44
