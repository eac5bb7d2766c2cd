"""The round player in a browser: what it shows of a trace, and that nothing leaves the page."""

from __future__ import annotations

import base64
import random
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from speclab.core.records import Round, Trace, Verdict
from speclab.ui.player import player_script
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import load_message, written
from tests.ui.player_traces import chain_trace, first_rejection, spec, split_trace

SCRIPTS = Path(__file__).parents[2] / "assets" / "js" / "player"
PLACEHOLDER = re.compile(r"\{(\w+)\}")


# --- words and files -----------------------------------------------------------------------


def test_both_languages_have_the_same_keys_and_placeholders() -> None:
    assert EN.keys() == ZH.keys()
    for key in EN:
        assert set(PLACEHOLDER.findall(EN[key])) == set(PLACEHOLDER.findall(ZH[key])), key


def test_every_label_named_in_the_scripts_exists() -> None:
    used = set(re.findall(r"label\('(\w+)'", player_script()))
    assert len(used) > 60
    assert not used - EN.keys()


def test_scripts_are_short_and_all_joined() -> None:
    joined = player_script()
    for file in SCRIPTS.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") < 400, file.name
        assert text in joined, f"{file.name} is not listed in player.py"
        assert "innerHTML" not in text, f"{file.name}: text enters by textContent only"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_script_parses(tmp_path: Path) -> None:
    file = tmp_path / "player.js"
    file.write_text(f"function start(element, props, watch) {{\n{player_script()}\n}}")
    subprocess.run(["node", "--check", str(file)], check=True, timeout=60)


# --- the strip -----------------------------------------------------------------------------


def state_counts(trace: Trace) -> Counter[str]:
    """Count what a chain trace should show, from the records alone."""
    counts: Counter[str] = Counter()
    names = {"correction": "corrected", "bonus": "bonus", "plain": "plain"}
    for round_ in trace.rounds:
        counts["accepted"] += round_.num_accepted
        counts["rejected"] += round_.num_tested - round_.num_accepted
        counts["untested"] += round_.num_drafted - round_.num_tested
        counts[names[round_.verdict.outcome]] += 1
    return +counts


def tokens(page, state: str) -> int:
    return page.locator(f".rounds-slot .tok.{state}").count()


@pytest.mark.browser
def test_strip_shows_every_state_and_tokens_literally(player) -> None:
    trace = chain_trace(80)
    page = player(load_message(trace))
    expected = state_counts(trace)
    assert len(expected) == 6
    assert {state: tokens(page, state) for state in expected} == dict(expected)
    shown = page.locator(".strip").inner_text()
    for literal in ("<b>", "${1+1}", "\\x5c\\n", "{{value}}", "&amp;", "<|im_start|>"):
        assert literal in shown
    assert page.locator(".output").text_content() == trace.text


@pytest.mark.browser
def test_characters_split_over_tokens_are_never_broken(player) -> None:
    page = player(load_message(split_trace()))
    shown = page.locator(".rounds-slot .tok")
    texts = [shown.nth(i).text_content() for i in range(4)]
    assert texts == ["⟨F0 9F⟩", "🐱", "⟨E4⟩", "你"]
    assert page.locator(".output").text_content().startswith("🐱你<b>${1+1}")
    assert "⟨FF⟩" in page.locator(".output").text_content()
    assert "\ufffd" not in page.locator("body").inner_text()
    assert page.locator(".note").first.text_content() == EN["evidence_no_match"]


def bytes_trace(text: str, seed: int) -> Trace:
    """Return a plain run that emits `text` cut into random runs of bytes."""
    raw, cutter, rounds, pieces = text.encode(), random.Random(seed), [], {}
    at = 0
    while at < len(raw):
        size = cutter.randint(1, 5)
        index = len(rounds)
        pieces[str(index)] = base64.b64encode(raw[at : at + size]).decode()
        verdict = Verdict(accepted=(), next_token=index, outcome="plain")
        rounds.append(Round(index=index, context_length=index, verdict=verdict, emitted=(index,)))
        at += size
    return Trace(spec=spec("plain"), prompt_tokens=(), rounds=tuple(rounds), pieces=pieces)


@pytest.mark.browser
def test_any_cut_of_utf8_streams_whole_characters(player) -> None:
    text = "naïve 你好，世界 👩‍👩‍👧 e\u0301 🏳️‍🌈\tend\n" * 3
    page = player(None)
    for seed in range(4):
        page.evaluate("(t) => push(t)", load_message(bytes_trace(text, seed), run=f"r{seed}"))
        page.wait_for_function(f"document.querySelector('.output').textContent.length > {50}")
        page.wait_for_timeout(50)
        assert page.locator(".output").text_content() == text
        assert "\ufffd" not in page.locator("body").inner_text()


# --- the card ------------------------------------------------------------------------------


@pytest.mark.browser
def test_click_pins_and_explains_a_rejection(player) -> None:
    trace = chain_trace(60)
    round_, at = first_rejection(trace)
    flip, cut = round_.verdict.flips[at], round_.slices[at]
    page = player(load_message(trace))
    page.locator(f'.rounds-slot [data-k="{round_.index}:{flip.node}"]').click()
    page.wait_for_function("document.querySelector('#host').dataset.paintMs")
    assert f"round={round_.index}&node={flip.node}" in page.url
    sentence = page.locator(".sentence").text_content()
    assert f"u = {flip.u:.3f}".rstrip("0") in sentence
    assert "rejected" in sentence and "residual" in sentence
    ruler = page.locator(".ruler").get_attribute("aria-label")
    assert f"{flip.u:.3f}".rstrip("0") in ruler
    residuals = [
        max(0.0, p - q) / (1.0 - cut.overlap) for p, q in zip(cut.target, cut.draft, strict=True)
    ]
    best = max(range(len(residuals)), key=residuals.__getitem__)
    title = page.locator(f'.chart [data-token="{cut.tokens[best]}"] title').text_content()
    assert re.search(r"residual ([\d.]+)", title).group(1) == written(residuals[best])
    assert re.search(r"target ([\d.]+)", title).group(1) == written(cut.target[best])
    page.keyboard.press("Escape")
    assert "round=" not in page.url


@pytest.mark.browser
def test_hover_previews_and_leaves_no_trace(player) -> None:
    page = player(load_message(chain_trace(60)))
    before = page.locator(".card").get_attribute("data-k")
    page.locator(".rounds-slot .tok.corrected").nth(3).hover()
    assert page.locator(".card.preview").get_attribute("data-k") != before
    page.mouse.move(5, 5)
    assert page.locator(".card").get_attribute("data-k") == before
    assert "round=" not in page.url


@pytest.mark.browser
def test_link_restores_the_pin_and_junk_is_ignored(player) -> None:
    trace = chain_trace(60)
    page = player(load_message(trace), query="?round=2&node=next")
    assert page.locator(".card").get_attribute("data-k") == "2:next"
    assert page.locator(".pinned").count() == 1
    page = player(load_message(trace), query="?guess=1")
    assert page.locator("#host").get_attribute("data-step") == "0"
    assert page.locator(".rounds-slot .tok:visible:not(.drafted)").count() == 0
    page = player(load_message(trace), query="?round=99999&node=%3Cb%3E")
    assert page.locator(".pinned").count() == 0


@pytest.mark.browser
def test_match_rule_shows_both_draws_and_no_residual(player) -> None:
    trace = chain_trace(40, rule="match")
    page = player(load_message(trace))
    page.locator(".rounds-slot .tok.rejected").first.click()
    assert page.locator(".pair .name").count() == 2
    assert page.locator(".ruler").count() == 0
    assert page.locator(".chart .residual").count() == 0


@pytest.mark.browser
def test_one_hot_draft_is_said_to_be_one_hot(player) -> None:
    page = player(load_message(chain_trace(40, one_hot=True)))
    page.locator(".rounds-slot .tok.rejected").first.click()
    assert EN["deterministic"] in page.locator(".verdict").inner_text()


# --- moving ----------------------------------------------------------------------------------


@pytest.mark.browser
def test_sub_steps_reveal_in_order(player) -> None:
    trace = chain_trace(40)
    round_, at = first_rejection(trace)
    assert round_.index == 0
    page = player(load_message(trace), reduced_motion="reduce")
    page.locator("label", has_text=EN["substeps"]).click()
    states = []
    for _ in range(20):
        shown = page.locator('.rnd[data-r="0"] .tok:visible')
        stage = page.locator(".stages [aria-current=step]").get_attribute("data-stage")
        states.append((stage, [shown.nth(i).get_attribute("class") for i in range(shown.count())]))
        if stage == "emit":
            break
        page.get_by_label(EN["next"], exact=True).click()
    stages = [stage for stage, _ in states]
    coins = ["coin"] * (round_.num_tested + (round_.num_drafted > round_.num_tested))
    assert stages == ["draft", "verify", *coins, "emit"]
    assert all("drafted" in name for name in states[0][1])
    assert len(states[0][1]) == round_.num_drafted
    assert states[2 + at][1][at] == "tok rejected"
    assert "corrected" in states[-1][1][-1]
    assert page.locator(".output .now").text_content() != ""


@pytest.mark.browser
def test_guess_hides_the_verdict_until_answered(player) -> None:
    trace = chain_trace(40)
    flip = trace.rounds[0].verdict.flips[0]
    page = player(load_message(trace))
    page.locator("label", has_text=EN["guess_first"]).click()
    for _ in range(2):
        page.get_by_label(EN["next"], exact=True).click()
    assert page.locator(".ruler").count() == 0
    assert "u =" not in page.locator(".card").inner_text()
    coin = page.locator('.rounds-slot [data-k="0:0"]')
    assert "drafted" in coin.get_attribute("class")
    page.locator(".guess-range").fill("90")
    page.get_by_role("button", name=EN["guess_reveal"]).click()
    distance = abs(0.9 - flip.accept_prob) * 100
    assert f"{distance:.0f} points apart" in page.locator(".guess-result").text_content()
    assert page.locator(".ruler").count() == 1


@pytest.mark.browser
def test_keys_work_before_anything_has_the_focus_and_leave_scrolling_to_the_page(player) -> None:
    trace = chain_trace(60)
    page = player(load_message(trace))
    last = str(len(trace.rounds) - 1)
    assert page.evaluate("document.activeElement === document.body")
    page.keyboard.press("?")
    assert page.locator(".keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator(".keys").is_visible()
    page.keyboard.press("Home")
    assert page.locator("#host").get_attribute("data-round") == last
    page.keyboard.press("ArrowLeft")
    assert page.locator("#host").get_attribute("data-round") == str(len(trace.rounds) - 2)


@pytest.mark.browser
def test_keyboard_has_one_tab_stop_and_moves(player) -> None:
    trace = chain_trace(60)
    page = player(load_message(trace))
    assert page.locator(".rounds-slot [tabindex='0']").count() == 1
    page.locator(".rounds-slot [tabindex='0']").focus()
    start = page.locator(".card").get_attribute("data-k")
    page.keyboard.press("ArrowRight")
    assert page.locator(".card").get_attribute("data-k") != start
    page.keyboard.press("ArrowLeft")
    assert page.locator(".card").get_attribute("data-k") == start
    page.keyboard.press("Enter")
    assert "node=" in page.url
    page.keyboard.press("Home")
    assert page.locator("#host").get_attribute("data-round") == "0"
    page.keyboard.press("End")
    assert page.locator("#host").get_attribute("data-round") == str(len(trace.rounds) - 1)
    page.keyboard.press("?")
    assert page.locator(".keys").is_visible()
    assert page.locator(".keys dd").all_text_contents() == [
        EN[f"key_{name}"] for name in ("space", "step", "round", "ends", "pin", "unpin", "help")
    ]
    assert page.locator(".rounds-slot [tabindex='0']").count() == 1
    page.keyboard.press(" ")
    assert page.get_by_label(EN["pause"], exact=True).is_visible()
