"""Live runs in the player: what is added, followed, lost, mended and cut at the end."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from speclab.core.records import Round, Trace, Verdict
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import FRAME, append_message, load_message
from tests.ui.player_traces import (
    chain_trace,
    spec,
)


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
