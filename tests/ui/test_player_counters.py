"""The counters of a run in the player: how much was copied, where a method looks something up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from speclab.core.records import Evidence, Trace
from speclab.ui.backend import default_lab
from speclab.ui.messages import LiveMessages, summary
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import load_message, open_player
from tests.ui.player_traces import chain_trace

COPY = (Evidence(kind="copied_from", start=0, stop=4),)
NO_MATCH = (Evidence(kind="no_match"),)
TITLES = {"en": "share copied", "zh": "抄来的比例"}


def with_evidence(evidence: tuple[Evidence, ...], tokens: int = 20) -> Trace:
    """Return a run whose every draft was chosen, not drawn, with this evidence."""
    trace = chain_trace(tokens, one_hot=True)
    rounds = tuple(replace(one, evidence=evidence) for one in trace.rounds)
    return replace(trace, rounds=rounds)


def counters(trace: Trace, lang: str = "en") -> dict[str, dict]:
    """Return the counters by title."""
    return {row["title"]: row for row in summary(default_lab(), trace, lang)}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_was_copied_is_counted_and_explained(lang: str) -> None:
    trace = with_evidence(COPY)
    row = counters(trace, lang)[TITLES[lang]]
    accepted = sum(round_.num_accepted for round_ in trace.rounds)
    assert 0 < row["value"] == accepted / len(trace.emitted) < 1
    assert row["definition"] and row["badge"] == "counted"


def test_a_method_that_looks_up_in_vain_has_copied_nothing_and_others_say_nothing() -> None:
    assert counters(with_evidence(NO_MATCH))[TITLES["en"]]["value"] == 0.0
    assert TITLES["en"] not in counters(with_evidence(()))


def test_a_live_run_counts_its_copies_as_they_come() -> None:
    trace, live = with_evidence(COPY), LiveMessages(default_lab(), "zh")
    live.begin(replace(trace, rounds=(), pieces={}), "")
    live.add(trace.rounds, trace.pieces)
    titles = [row["title"] for row in json.loads(live.flush())["summary"]]
    assert TITLES["zh"] in titles


@pytest.mark.browser
@pytest.mark.parametrize(("lang", "labels"), [("en", EN), ("zh", ZH)])
def test_the_player_shows_it_among_its_counters(browser, lang: str, labels: dict) -> None:
    trace = with_evidence(COPY)
    rows = summary(default_lab(), trace, lang)
    page = open_player(browser, load_message(trace, summary=rows), labels=labels)
    page.evaluate("document.querySelector('[data-fold=counters]').open = true")
    entry = page.locator(".counter", has_text=TITLES[lang])
    entry.wait_for()
    share = next(row["value"] for row in rows if row["name"] == "copied_share")
    assert float(entry.locator(".counter-value").inner_text()) == pytest.approx(share, abs=1e-3)
    assert not page.problems
    page.context.close()
