"""Evidence in the player: every kind has words or a figure, and it stands at the right tokens."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from speclab.core.records import Evidence, Trace
from speclab.core.trees import TokenTree
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_harness import load_message
from tests.ui.player_traces import CHAT, chain_trace, tree_trace

SCRIPT = Path(__file__).parents[2] / "assets" / "js" / "player" / "evidence.js"
KINDS = get_args(get_type_hints(Evidence)["kind"])


def drawn_kinds() -> set[str]:
    """Return the kinds that have a figure of their own."""
    line = next(line for line in SCRIPT.read_text().splitlines() if "DRAWN_KINDS = " in line)
    return set(re.findall(r"'(\w+)'", line))


def test_every_kind_of_evidence_has_words_or_a_figure() -> None:
    named = set(re.findall(r"^  (\w+): \(", SCRIPT.read_text(), re.MULTILINE))
    assert set(KINDS) - drawn_kinds() <= named
    for kind in named:
        keys = [key for key in EN if key.startswith(f"evidence_{kind}")]
        assert keys, kind
        assert all(ZH[key] != EN[key] for key in keys)


def with_evidence(trace: Trace, *evidence: Evidence) -> Trace:
    """Return a run of one round, with evidence."""
    first = replace(trace.rounds[0], evidence=evidence, stop_reason="max_new_tokens")
    return replace(trace, rounds=(first,))


@pytest.fixture
def player(player):
    """Open players with one trace."""
    return lambda trace: player(load_message(trace))


def choose(page, node: int) -> list[str]:
    """Choose a token and return the notes of its card."""
    page.locator(f".rounds-slot [data-k='0:{node}']").first.click()
    return page.locator(".card .note").all_text_contents()


@pytest.mark.browser
def test_notes_of_a_copied_chain(player) -> None:
    trace = with_evidence(
        chain_trace(4, one_hot=True),
        Evidence(kind="copied_from", start=2, stop=6),
        Evidence(kind="from_earlier_text", value=3.0),
        Evidence(kind="pool_hit", value=5.0),
        Evidence(kind="retokenised", value=7.0, values=(0.5, 0.9, 0.8, 0.7)),
    )
    page = player(trace)
    assert choose(page, 0) == [
        EN["evidence_copied_from"].format(start=2, stop=6),
        EN["evidence_from_earlier_text"].format(value=3),
        EN["evidence_pool_hits"].format(value=5),
        f"{EN['evidence_retokenised'].format(value=7)}; "
        + EN["evidence_retokenised_share"].format(value="50 %"),
    ]
    assert page.locator(".prompt .tok.source").count() == 4


@pytest.mark.browser
def test_what_was_drawn_from_a_law_is_not_called_a_copy(player) -> None:
    page = player(with_evidence(chain_trace(4), Evidence(kind="copied_from", start=2, stop=6)))
    assert choose(page, 0) == [] and page.locator(".tok.source").count() == 0


@pytest.mark.browser
def test_a_branch_says_where_it_was_copied_from(player) -> None:
    """Evidence about a leaf covers its path; the shortest path through a node wins."""
    made = tree_trace()
    tree = made.rounds[0].tree
    assert tree.path(11) == (0, 3, 8, 11) and tree.path(4) == (0, 4)
    trace = with_evidence(
        made,
        Evidence(kind="copied_from", node=11, start=1, stop=5),
        Evidence(kind="copied_from", node=4, start=7, stop=9),
    )
    round_ = replace(trace.rounds[0], sampled=(False,) * len(tree))
    page = player(replace(trace, rounds=(round_,)))
    shown = {flip.node for flip in round_.verdict.flips}
    wanted = {0: (7, 9), 3: (1, 5), 4: (7, 9), 8: (1, 5), 11: (1, 5)}
    assert shown & set(range(len(tree)))
    for node in shown:
        span = wanted.get(node)
        text = [EN["evidence_copied_from"].format(start=span[0], stop=span[1])] if span else []
        assert choose(page, node) == text, node


@pytest.mark.browser
def test_levels_mark_the_drafter_of_each_token(player) -> None:
    trace = with_evidence(chain_trace(4), Evidence(kind="level", values=(1.0, 1.0, 0.0, 1.0)))
    page = player(trace)
    marks = [
        page.locator(f".rounds-slot [data-k='0:{node}']").get_attribute("data-drafter")
        for node in range(4)
    ]
    assert marks == ["2", "2", "1", "2"]
    assert choose(page, 2) == [EN["evidence_level"].format(value=1)]
    assert choose(page, 0) == [EN["evidence_level"].format(value=2)]
    bare = player(with_evidence(chain_trace(4)))
    assert bare.locator(".rounds-slot [data-drafter]").count() == 0


def test_the_traces_of_these_tests_are_valid() -> None:
    trace = with_evidence(
        chain_trace(4),
        Evidence(kind="level", values=(1.0, 1.0, 0.0, 1.0)),
        Evidence(kind="copied_from", start=2, stop=6),
    )
    assert Trace.from_json(trace.to_json()) == trace
    assert len(CHAT) > 6 and isinstance(trace.rounds[0].tree, TokenTree)
