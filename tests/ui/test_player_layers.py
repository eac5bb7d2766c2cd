"""The strip of layers in a browser: one cell per part, what drafts, and only where there is one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speclab.core.records import Evidence, Trace
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import load_message, open_player
from tests.ui.player_traces import chain_trace

EXIT = Evidence(kind="layers", value=3.0, values=(1.0,) * 3 + (0.0,) * 9)
SKIP = Evidence(kind="layers", values=(1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0))
"""Of four layers, attention before MLP: layers 1 and 3 lack attention, 2 and 3 lack the MLP."""


def with_layers(fact: Evidence) -> Trace:
    trace = chain_trace(12)
    rounds = tuple(replace(one, evidence=(fact,)) for one in trace.rounds)
    return Trace.from_json(replace(trace, rounds=rounds).to_json())


def open_fold(browser, trace: Trace, **options):
    page = open_player(browser, load_message(trace), **options)
    page.evaluate("document.querySelector('[data-fold=layers]').open = true")
    page.wait_for_selector(".fold-body.layers > *", state="attached")
    return page


@pytest.mark.browser
@pytest.mark.parametrize("labels", [EN, ZH], ids=["en", "zh"])
def test_every_part_is_a_cell_of_its_kind(browser, labels: dict[str, str]) -> None:
    wanted = {
        EXIT: ({"drafts": 3, "resumes": 9}, 1, labels["layers_exit"], (3, 12, 9)),
        SKIP: ({"drafts": 4, "skipped": 4}, 0, labels["layers_skip"], (2, 2, 4)),
    }
    names = {EXIT: ("exit", "layers", "rest"), SKIP: ("attention", "mlp", "layers")}
    for fact, (kinds, exits, words, numbers) in wanted.items():
        page = open_fold(browser, with_layers(fact), labels=labels)
        for kind, count in kinds.items():
            assert page.locator(f".layers-svg .layer.{kind}").count() == count, kind
        assert page.locator(".layers-svg .layer-exit").count() == exits
        sentence = words.format(**dict(zip(names[fact], numbers, strict=True)))
        assert page.locator(".fold-body.layers > .hint").first.inner_text() == sentence
        assert page.locator(".layers-svg").get_attribute("aria-label") == sentence
        assert page.locator("[data-fold=layers]").is_visible() and not page.problems
        page.context.close()


@pytest.mark.browser
def test_layers_are_numbered_from_0_as_everywhere_else(browser) -> None:
    page = open_fold(browser, with_layers(SKIP))
    assert page.locator(".layers-svg .axis").all_text_contents() == ["0", "1", "2", "3"]
    skipped = page.locator(".layers-svg .layer.skipped title").all_text_contents()
    parts = [("attention", 1), ("attention", 3), ("MLP", 2), ("MLP", 3)]
    assert skipped == [EN["layers_skipped_title"].format(part=part, n=n) for part, n in parts]
    assert "numbered from 0" in page.locator(".fold-body.layers").inner_text()
    page.context.close()


@pytest.mark.browser
def test_a_strip_that_comes_late_is_shown_too(browser) -> None:
    trace = chain_trace(60)
    assert len(trace.rounds) > 10
    last = replace(trace.rounds[-1], evidence=(EXIT,))
    page = open_player(browser, load_message(replace(trace, rounds=(*trace.rounds[:-1], last))))
    assert page.locator("[data-fold=layers]").is_visible() and not page.problems
    page.context.close()


@pytest.mark.browser
def test_a_run_without_such_drafts_has_no_strip(browser) -> None:
    page = open_player(browser, load_message(chain_trace(12)))
    assert not page.locator("[data-fold=layers]").is_visible()
    assert page.locator("[data-fold=cache]").is_visible()
    page.evaluate("(text) => window.push(text)", load_message(with_layers(EXIT), run="two"))
    page.wait_for_function("!document.querySelector('[data-fold=layers]').hidden")
    assert not page.problems
    page.context.close()
