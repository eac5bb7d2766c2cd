"""The window that rides in a pass, in a browser: grid, guesses, mask of the whole pass, words."""

from __future__ import annotations

import re

import numpy as np
import pytest
from fault_kit import begin, model_of

from speclab.core.records import Evidence, Round, Trace
from speclab.core.trees import TokenTree
from speclab.engine.recording import LawRecorder
from speclab.methods import make_method
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import load_message
from tests.ui.player_traces import CHAT, PLAIN_WORDS, SIZE, chain_trace, encoded_pieces, spec

FOLD = ".fold-body.window"


def logits(context) -> np.ndarray:
    """Mostly the next word of a loop of twelve, at times another one."""
    row = np.full(SIZE, -9.0)
    row[(context[-1] + 1) % 12] = 3.0
    row[(context[-1] * 7 + len(context)) % PLAIN_WORDS] += 10.5
    return row


def window_trace(tokens: int = 36) -> Trace:
    """Return a real run of the method lookahead over made-up laws."""
    target = model_of(logits, SIZE)
    method = make_method("lookahead", {"window": 4, "ngram": 3, "guesses": 3})
    decoding = begin(target, CHAT, method=method, n=tokens, record=LawRecorder())
    rounds = tuple(decoding)
    return Trace(spec=spec("lookahead"), prompt_tokens=CHAT, rounds=rounds, pieces=encoded_pieces())


TRACE = window_trace()


def window_of(round_: Round) -> Evidence:
    return next(fact for fact in round_.evidence if fact.kind == "window")


BUSY = next(
    index
    for index, round_ in enumerate(TRACE.rounds)
    if round_.num_accepted and any(fact.kind == "window" for fact in round_.evidence)
)


@pytest.fixture
def player(player):
    """Open players with the fold unfolded."""

    def open_(trace: Trace, unfold: bool = True, **options):
        page = player(load_message(trace), **options)
        if unfold:
            page.evaluate("document.querySelector('[data-fold=window]').open = true")
            page.wait_for_selector(f"{FOLD} > *")
        return page

    return open_


def wanted_mask(round_: Round) -> np.ndarray:
    """Return which token of the pass sees which: pending, nodes, cells."""
    window = window_of(round_)
    judged = round_.tree.ancestor_mask()
    riding = TokenTree(window.tokens, window.parents).ancestor_mask()
    n, m = len(round_.tree), len(window.tokens)
    mask = np.zeros((1 + n + m, 1 + n + m), dtype=bool)
    mask[: 1 + n, : 1 + n] = judged
    mask[1 + n :, 1 + n :] = riding[1:, 1:]
    mask[:, 0] = True
    return mask


@pytest.mark.browser
def test_grid_and_mask_are_the_records(player) -> None:
    page = player(TRACE, query=f"?round={BUSY}&node=next")
    round_ = TRACE.rounds[BUSY]
    window, size = window_of(round_), len(round_.tree)
    count = 1 + size + len(window.tokens)
    assert page.locator(f"{FOLD} .window-svg .node").count() == count
    assert page.locator(f"{FOLD} .window-svg .node.cell").count() == len(window.tokens)
    assert page.locator(f"{FOLD} .window-svg .node.accepted").count() == round_.num_accepted
    columns = page.evaluate(
        "[...document.querySelectorAll('.mask-row[data-pass]')].map((row) =>"
        " [...row.querySelectorAll('.cell[data-col]')].map((cell) => +cell.dataset.col))"
    )
    drawn = np.zeros((count, count), dtype=bool)
    for row, seen in enumerate(columns):
        drawn[row, seen] = True
    assert (drawn == wanted_mask(round_)).all()
    lefts = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.window-svg .node')].map((node) =>"
        " [node.dataset.pass, +node.querySelector('rect').getAttribute('x')]))"
    )
    riding = TokenTree(window.tokens, window.parents)
    offsets = [0, *round_.tree.position_offsets, *riding.position_offsets]
    steps = {
        offset: {lefts[str(i)] for i in range(count) if offsets[i] == offset} for offset in offsets
    }
    assert all(len(places) == 1 for places in steps.values()), "one place, one column"
    assert len({place for places in steps.values() for place in places}) == len(steps)


@pytest.mark.browser
def test_a_token_says_where_it_stands_and_what_it_sees(player) -> None:
    page = player(TRACE, query=f"?round={BUSY}&node=next")
    round_ = TRACE.rounds[BUSY]
    window = window_of(round_)
    columns, last = int(window.value), len(round_.tree) + len(window.tokens)
    assert page.locator(f"{FOLD} .pass-line").inner_text() == EN["window_help"]
    page.locator(f".window-svg [data-pass='{last}']").hover()
    position = round_.context_length - 1 + columns
    cell = EN["window_cell"].format(level=1, column=columns - 1, position=position)
    assert cell in page.locator(f"{FOLD} .pass-line").inner_text()
    lit = page.locator(".window-svg .node.seen").count()
    assert lit == columns, "level 0 up to its column, the pending token included"
    assert page.locator(".pass-mask .mask-row.self").count() == 1
    page.locator(".window-svg [data-pass='0']").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    cell = EN["window_cell"].format(level=1, column=columns - 2, position=position - 1)
    assert cell in page.locator(f"{FOLD} .pass-line").inner_text()
    text = page.locator(FOLD).inner_text()
    counts = {"rows": last + 1, "nodes": len(round_.tree), "cells": len(window.tokens)}
    assert EN["window_text"].format(**counts, levels=2, columns=columns) in text
    assert EN["window_hits"].split("{")[0] in text


@pytest.mark.browser
def test_runs_without_a_window_have_no_fold_and_late_rounds_say_why(player) -> None:
    page = player(chain_trace(20), unfold=False)
    assert page.locator("[data-fold=window]").is_hidden()
    traces = map(window_trace, range(30, 60))
    late = next(trace for trace in traces if not trace.rounds[-1].num_passengers)
    page = player(late, query=f"?round={len(late.rounds) - 1}&node=next")
    assert page.locator("[data-fold=window]").is_visible()
    assert page.locator(FOLD).inner_text() == EN["window_none"]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_chinese_fits_a_phone_and_a_desk(player, width: int) -> None:
    page = player(
        TRACE,
        labels=ZH,
        body="dark",
        query=f"?round={BUSY}&node=next",
        viewport={"width": width, "height": 844},
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    text = page.locator(FOLD).inner_text()
    assert ZH["window_caption"] in text and not re.search(r"window_\w+", text)
    boxes = page.evaluate(
        "[...document.querySelectorAll('.window-svg .node')].map((node) => {"
        " const box = node.querySelector('rect').getBoundingClientRect();"
        " const name = node.querySelector('text').getBoundingClientRect();"
        " return [box.left, box.right, name.left, name.right]; })"
    )
    assert all(a <= c + 1 and d <= b + 1 for a, b, c, d in boxes), "a name leaves its box"
