"""The round player in a browser: what it shows of a trace, and that nothing leaves the page."""

from __future__ import annotations

import base64
import json
import random
import re
import shutil
import statistics
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from speclab.core.records import Round, Trace, Verdict
from speclab.ui.player import player_script
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import append_message, load_message, open_player
from tests.ui.player_traces import chain_trace, large_trace, spec, split_trace, tree_trace

SCRIPTS = Path(__file__).parents[2] / "assets" / "js" / "player"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
CPU_CLICK_MS = 100.0
CPU_SCRUB_MS = 100.0
PAINT_MS = 50.0
IDLE_PERCENT = 25.0


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


@pytest.fixture
def player(browser):
    """Open players; the test fails if the page reported an error or lost the network's silence."""
    pages = []

    def open_(message: str | None, **options):
        page = open_player(browser, message, **options)
        pages.append(page)
        return page

    yield open_
    problems = [problem for page in pages for problem in page.problems]
    for page in pages:
        page.context.close()
    assert not problems


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


def first_rejection(trace: Trace) -> tuple[Round, int]:
    for round_ in trace.rounds:
        for at, flip in enumerate(round_.verdict.flips):
            if not flip.accepted:
                return round_, at
    raise AssertionError("no rejection in this trace")


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
    assert re.search(r"residual ([\d.]+)", title).group(1) == _three(residuals[best])
    assert re.search(r"target ([\d.]+)", title).group(1) == _three(cut.target[best])
    page.keyboard.press("Escape")
    assert "round=" not in page.url


def _three(value: float) -> str:
    text = f"{value:.3f}"
    return text[:-1] if text.endswith("0") else text


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


# --- live runs -------------------------------------------------------------------------------


@pytest.mark.browser
def test_clear_takes_the_run_away_until_the_next(player) -> None:
    page = player(load_message(chain_trace(40), badge="a badge", banner="a banner"))
    assert page.locator(".rnd").count() > 3
    page.evaluate("(t) => push(t)", json.dumps({"op": "clear"}))
    page.wait_for_selector("#host[data-ready='0']")
    assert page.locator(".rnd, .rounds-slot .tok, .tok.prompt").count() == 0
    assert EN["nothing_yet"] in page.locator(".card").inner_text()
    for gone in ("a banner", "a badge", "toy-target"):
        assert gone not in page.locator("#host").inner_text()
    assert page.evaluate("document.getElementById('host').wholeTrace()") is None
    page.keyboard.press("End")
    page.evaluate("(t) => push(t)", load_message(chain_trace(20), run="two"))
    page.wait_for_selector(".rnd")
    assert not page.problems


@pytest.mark.browser
def test_append_grows_without_rebuilding(player) -> None:
    trace = chain_trace(60)
    start = Trace(spec=trace.spec, prompt_tokens=trace.prompt_tokens, pieces={})
    page = player(load_message(start, live=True))
    assert EN["nothing_yet"] in page.locator(".card").inner_text()
    page.evaluate("(t) => push(t)", append_message(trace, 0, 5))
    page.evaluate("document.querySelector('.rounds-slot .tok').dataset.kept = 'yes'")
    page.evaluate("(t) => push(t)", append_message(trace, 0, 3, run="another"))
    page.evaluate("(t) => push(t)", append_message(trace, 5, len(trace.rounds), done=True))
    assert page.locator(".rnd").count() == len(trace.rounds)
    assert page.locator("[data-kept]").count() == 1
    assert page.locator("#host").get_attribute("data-round") == str(len(trace.rounds) - 1)
    assert page.locator(".output").text_content() == trace.text
    page.locator(".rnd .tok.rejected").first.click()
    pinned = page.locator(".card").get_attribute("data-k")
    page.evaluate("(t) => push(t)", load_message(trace))
    assert page.locator("[data-kept]").count() == 1
    assert page.locator(".card").get_attribute("data-k") == pinned


@pytest.mark.browser
def test_live_run_does_not_pull_away_a_reader(player) -> None:
    trace = chain_trace(60)
    start = Trace(spec=trace.spec, prompt_tokens=trace.prompt_tokens, pieces={})
    page = player(load_message(start, live=True))
    page.evaluate("(t) => push(t)", append_message(trace, 0, 8))
    page.get_by_label(EN["first"], exact=True).click()
    page.evaluate("(t) => push(t)", append_message(trace, 8, 12))
    assert page.locator("#host").get_attribute("data-round") == "0"
    assert page.locator(".readout").text_content() == "1 / 12"


@pytest.mark.browser
def test_a_second_live_run_is_followed_too(player) -> None:
    trace = chain_trace(300)
    start = Trace(spec=trace.spec, prompt_tokens=trace.prompt_tokens, pieces={})
    page = player(None)
    for run in ("one", "two"):
        page.evaluate("(t) => push(t)", load_message(start, run, live=True))
        for first in range(0, len(trace.rounds), 6):
            last = min(first + 6, len(trace.rounds))
            page.evaluate("(t) => push(t)", append_message(trace, first, last, run))
            page.evaluate(FRAME)
            assert page.locator("#host").get_attribute("data-round") == str(last - 1), (run, last)
        box = page.evaluate(
            "(({scrollTop, scrollHeight}) => [scrollTop, scrollHeight])"
            "(document.querySelector('.strip'))"
        )
        assert box[0] > 0.4 * box[1]
        page.evaluate("(t) => push(t)", load_message(trace, run))
    assert page.locator(".rnd").count() == len(trace.rounds)


@pytest.mark.browser
def test_a_readers_own_scrolling_ends_the_following(player) -> None:
    trace = chain_trace(300)
    start = Trace(spec=trace.spec, prompt_tokens=trace.prompt_tokens, pieces={})
    page = player(load_message(start, live=True))
    half = len(trace.rounds) // 2
    page.evaluate("(t) => push(t)", append_message(trace, 0, half))
    page.evaluate(FRAME)
    page.locator(".strip").hover()
    page.mouse.wheel(0, -4_000)
    page.wait_for_function("document.querySelector('.strip').scrollTop === 0")
    page.evaluate(FRAME)
    page.evaluate("(t) => push(t)", append_message(trace, half, half + 6))
    assert page.locator("#host").get_attribute("data-round") == str(half - 1)
    assert page.evaluate("document.querySelector('.strip').scrollTop") == 0


@pytest.mark.browser
def test_lost_and_repeated_rounds_are_noticed_and_mended(player) -> None:
    trace = chain_trace(60)
    start = Trace(spec=trace.spec, prompt_tokens=trace.prompt_tokens, pieces={})
    page = player(load_message(start, live=True))
    shown = page.locator(".rnd")
    page.evaluate("(t) => push(t)", append_message(trace, 0, 5))
    page.evaluate("(t) => push(t)", append_message(trace, 3, 8))
    assert shown.count() == 8
    assert page.locator("#host[data-incomplete]").count() == 0
    page.evaluate("(t) => push(t)", append_message(trace, 10, 12))
    assert shown.count() == 8
    assert page.locator("#host[data-incomplete]").count() == 1
    assert EN["incomplete"] in page.locator(".banner").inner_text()
    page.evaluate("(t) => push(t)", append_message(trace, 12, 14))
    assert shown.count() == 8
    page.evaluate("(t) => push(t)", load_message(trace))
    assert shown.count() == len(trace.rounds)
    assert page.locator("#host[data-incomplete]").count() == 0
    assert page.locator(".banner").is_hidden()
    assert page.locator(".output").text_content() == trace.text


@pytest.mark.browser
def test_the_whole_run_replaces_rounds_that_are_not_its_beginning(player) -> None:
    other, trace = chain_trace(60, rule="match"), chain_trace(40)
    assert other.rounds[0].emitted != trace.rounds[0].emitted or other != trace
    page = player(load_message(other, live=True))
    assert page.locator(".rnd").count() == len(other.rounds)
    page.locator(".rounds-slot .tok.rejected").first.click()
    pinned = page.locator(".card").get_attribute("data-k")
    page.evaluate("(t) => push(t)", load_message(trace))
    page.wait_for_function(f"document.querySelectorAll('.rnd').length === {len(trace.rounds)}")
    assert page.locator(".output").text_content() in trace.text
    assert page.locator(".card").get_attribute("data-k") == pinned
    page.get_by_label(EN["last"], exact=True).click()
    assert page.locator(".output").text_content() == trace.text


@pytest.mark.browser
@pytest.mark.parametrize("labels", [EN, ZH], ids=["en", "zh"])
def test_a_stopped_run_says_so(player, labels) -> None:
    trace = chain_trace(40)
    rounds = (*trace.rounds[:-1], replace(trace.rounds[-1], stop_reason=None))
    stopped = replace(trace, rounds=rounds)
    page = player(load_message(stopped, live=True), labels=labels)
    assert page.locator(".strip-end").is_hidden()
    page.evaluate("(t) => push(t)", load_message(stopped, stopped=True))
    assert labels["stop_cancelled"] in page.locator(".strip-end").text_content()
    assert page.locator(".strip-end").is_visible()
    ended = (*trace.rounds[:-1], replace(trace.rounds[-1], stop_reason="eos"))
    page.evaluate("(t) => push(t)", load_message(replace(trace, rounds=ended), "two"))
    assert labels["stop_eos"] in page.locator(".strip-end").text_content()


STOPS = [
    ("abcdefgh", ("cdef", "de")),
    ("abcdefgh", ("de", "cdef")),
    ("abcabc", ("bc", "c", "ca")),
    ("a🐱b🐱c", ("b🐱c", "🐱b")),
    ("abc", ("", "zz")),
    ("abcdef", ("", "cdef", "f", "ef")),
]


@pytest.mark.browser
@pytest.mark.parametrize(("text", "stops"), STOPS)
def test_a_stop_string_cuts_where_python_cuts(player, text: str, stops: tuple[str, ...]) -> None:
    verdict = Verdict(accepted=(), next_token=0, outcome="plain")
    last = Round(
        index=0, context_length=0, verdict=verdict, emitted=(0,), stop_reason="stop_string"
    )
    trace = Trace(
        spec=replace(spec("plain"), stop_strings=stops),
        prompt_tokens=(),
        rounds=(last,),
        pieces={"0": base64.b64encode(text.encode()).decode()},
    )
    page = player(load_message(trace))
    assert page.locator(".output").text_content() == trace.text


@pytest.mark.browser
def test_warnings_come_in_the_language_of_the_page(player) -> None:
    trace = replace(chain_trace(20), warnings=("The draft is short.",))
    page = player(load_message(trace, warnings=["草稿太短。"]), labels=ZH)
    assert page.locator(".banner").inner_text() == "草稿太短。"


# --- fold-outs -------------------------------------------------------------------------------


def open_folds(page) -> None:
    page.evaluate("document.querySelectorAll('.fold').forEach((fold) => { fold.open = true; })")
    page.wait_for_selector(".fold-body.code > *")


@pytest.mark.browser
def test_the_cache_keeps_the_accepted_path(player) -> None:
    trace = tree_trace()
    page = player(load_message(trace), query="?round=1&node=next")
    open_folds(page)
    round_ = trace.rounds[1]
    assert page.locator(".kv-row").first.locator(".kv.dropped:not(.mini)").count() == (
        round_.num_drafted - round_.num_accepted
    )


@pytest.mark.browser
def test_fold_outs_follow_the_round(player) -> None:
    trace = chain_trace(60)
    summary = [
        {
            "name": "num_rounds",
            "symbol": "R",
            "value": 3,
            "unit": "",
            "definition": "Passes.",
            "badge": "counted",
        }
    ]
    source = ["def rule():", "    p = rows[node + 1]", "    p = residual(p, q)", "    return x"]
    page = player(load_message(trace, summary=summary, rule_source=source))
    open_folds(page)
    assert page.locator(".rounds tbody tr").count() == len(trace.rounds)
    round_, at = first_rejection(trace)
    page.locator(".rounds-slot .tok.rejected").first.click()
    assert page.locator(".rounds tr[aria-current] td").first.text_content() == str(round_.index + 1)
    assert page.locator(".code-line.on").text_content() == source[2]
    coin = page.locator(f'.tape-round.now [data-k="{round_.index}:{at}"].no')
    assert _three(round_.verdict.flips[at].u) in coin.text_content()
    assert "lit" in coin.get_attribute("class")
    page.locator(".rounds tbody tr").nth(3).click()
    assert page.locator("#host").get_attribute("data-round") == "3"
    assert page.locator(".time-row.now").get_attribute("data-go") == "3"
    page.locator(".counter summary").click()
    assert page.locator(".counter p").is_visible()
    assert page.locator(".counter .badge").text_content() == EN["badge_counted"]


@pytest.mark.browser
def test_exports_hold_the_whole_run(player) -> None:
    trace = chain_trace(60)
    page = player(load_message(trace))
    with page.expect_download() as saved:
        page.locator("[data-do=save-json]").click()
    again = Trace.from_json(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert again == Trace.from_json(trace.to_json())
    with page.expect_download() as saved:
        page.locator("[data-do=save-csv]").click()
    lines = Path(saved.value.path()).read_text(encoding="utf-8").strip().splitlines()
    assert len(lines) == len(trace.rounds) + 1
    assert lines[1].split(",")[4] == str(trace.rounds[0].num_accepted)


# --- pages -----------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize(("labels", "body"), [(EN, ""), (ZH, "dark")])
def test_phone_has_no_sideways_scroll_and_big_targets(player, labels, body) -> None:
    page = player(
        load_message(tree_trace(), banner="0 of 40 drafts accepted"),
        labels=labels,
        body=body,
        viewport={"width": 390, "height": 844},
    )
    open_folds(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".banner").is_visible()
    sizes = page.evaluate(
        "[...document.querySelectorAll('.btn, .fold > summary, .speed, .switch')]"
        ".map((node) => Math.round(node.getBoundingClientRect().height))"
        ".filter((height) => height > 0)"
    )
    assert min(sizes) >= 44


def cpu_ms(session, action) -> float:
    """Return the main thread's CPU milliseconds of an action: steady on a busy machine."""

    def read() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "TaskDuration") * 1000

    before = read()
    action()
    return read() - before


FRAME = (
    "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r))))"
)


@pytest.mark.browser
def test_a_run_of_5000_tokens_stays_usable(player) -> None:
    page = player(None)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate("(t) => push(t)", load_message(large_trace()))
    page.wait_for_selector("#host[data-ready]:not([data-ready=''])", timeout=120_000)

    def scrub(value: int) -> None:
        page.evaluate(
            "async (v) => { const s = document.querySelector('.scrub'); s.value = v;"
            f" s.dispatchEvent(new Event('input', {{bubbles: true}})); await {FRAME}; }}",
            value,
        )

    def click(at: int) -> None:
        page.evaluate(
            "async (i) => { document.querySelectorAll('.chunk:not(.future) .tok')[i].click();"
            f" await {FRAME}; }}",
            at,
        )

    scrub(0)
    scrubs = sorted(cpu_ms(session, lambda v=v: scrub(v)) for v in (900, 20, 1500, 700, 701))
    clicks = sorted(cpu_ms(session, lambda i=i: click(i)) for i in (3, 9, 12, 20, 31))
    print("scrub", scrubs, "click", clicks)
    assert scrubs[2] < CPU_SCRUB_MS
    assert clicks[2] < CPU_CLICK_MS


@pytest.mark.browser
def test_a_click_paints_within_50_ms(player) -> None:
    """Real clicks: CPU always; wall time too where the machine has nothing else to do."""
    page = player(load_message(chain_trace(200)))
    page.wait_for_timeout(500)
    busy_percent = psutil.cpu_percent(interval=1.0)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    shown = page.locator(".rounds-slot .tok:not(.unseen)")
    wall, cpu = [], []
    for at in range(0, 60, 4):
        shown.nth(at).hover()
        page.evaluate("delete document.querySelector('#host').dataset.paintMs")

        def click() -> None:
            page.mouse.down()
            page.mouse.up()
            page.wait_for_selector("#host[data-paint-ms]", state="attached")

        cpu.append(cpu_ms(session, click))
        wall.append(float(page.locator("#host").get_attribute("data-paint-ms")))
        assert page.locator(".card").get_attribute("data-k") == shown.nth(at).get_attribute(
            "data-k"
        )
    print("busy", busy_percent, "wall", sorted(wall), "cpu", sorted(cpu))
    assert statistics.median(cpu) < CPU_CLICK_MS
    if busy_percent < IDLE_PERCENT:
        assert statistics.median(wall) < PAINT_MS


@pytest.mark.browser
def test_inside_gradio_no_event_reaches_the_server(serve, open_page) -> None:
    app = Path(__file__).parent / "player_app.py"
    page = open_page(serve(app) + "/?trace=chain&round=3&node=next")
    page.wait_for_selector(".speclab-player[data-ready]:not([data-ready=''])", timeout=60_000)
    assert page.locator("#watch .card").get_attribute("data-k") == "3:next"
    assert page.locator("#watch").get_by_text("\\x5c\\n").count() > 0
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator(".tok.rejected").nth(1).click()
    page.locator(".tok.accepted").nth(1).hover()
    page.get_by_label(EN["prev"], exact=True).click()
    page.wait_for_timeout(400)
    assert not [url for url in asked if "heartbeat" not in url]
    trace = chain_trace(60)
    message = json.loads(load_message(trace, run="pushed", banner="pushed from Python"))
    page.evaluate(
        "(text) => { const box = document.querySelector('#message textarea, #message input');"
        " box.value = text; box.dispatchEvent(new Event('input', {bubbles: true})); }",
        json.dumps(message),
    )
    page.evaluate("document.querySelector('#send').click()")
    page.wait_for_function("document.querySelector('.banner').textContent.includes('Python')")
