"""Jacobi and Lookahead on the bundled pair: greedy text, and passes beside plain evaluations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from greedy_kit import GREEDY, NEAR_TIE, greedy

from speclab.core.protocols import Feedback, Room
from speclab.core.records import Trace
from speclab.core.trees import PENDING
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.runs import open_run
from speclab.methods import METHODS
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair

PROMPTS, TOKENS = 20, 16


@pytest.fixture(scope="module")
def pocket64() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def plain(pocket: Pair) -> dict[str, Trace]:
    """The target's own greedy text of every prompt."""
    texts = [text for _, text in bench_prompts(False, PROMPTS)]
    return {text: greedy(pocket, text, "autoregressive", TOKENS) for text in texts}


@pytest.mark.parametrize(
    ("name", "least"), [("jacobi", 10), ("lookahead", 20), ("lookahead-draft", 100)]
)
def test_greedy_text_is_the_targets_own(
    pocket: Pair, pocket64: Pair, plain: dict[str, Trace], name: str, least: int
) -> None:
    """On twenty prompts, but where float64 sees a near tie."""
    ties = accepted = 0
    for text, want in plain.items():
        fast = greedy(pocket, text, name, TOKENS)
        accepted += sum(round_.num_accepted for round_ in fast.rounds)
        if fast.emitted == want.emitted:
            continue
        ties += 1
        both = zip(want.emitted, fast.emitted, strict=False)
        parting = next(place for place, (a, b) in enumerate(both) if a != b)
        context = [*want.prompt_tokens, *want.emitted[:parting]]
        ((row,),) = pocket64.target.evaluate([context], [1])
        assert row.top_gap() < NEAR_TIE
    assert len(plain) == PROMPTS and ties <= 2 and accepted > least


@pytest.mark.parametrize("name", ["lookahead", "lookahead-draft"])
def test_passes_of_the_pair_say_what_plain_texts_say(pocket64: Pair, name: str) -> None:
    """Guesses, window and drawn tokens in one pass, float64, within 1e-9."""
    prompt = pocket64.codec.encode("Once upon a time, there was a cat. Once upon a")
    params = {"pool_from_prompt": True, "window": 3, "ngram": 3}
    run = open_run(pocket64, prompt, method=name, params=params, sampling=GREEDY, max_new_tokens=8)
    drafting, seen = run._decoding.run, 0
    propose, observe = drafting.propose, drafting.observe
    contexts: list[list[int]] = []

    def watched(room: Room, rng: Any) -> Any:
        contexts.append(list(room.context))
        return propose(room, rng)

    def compared(feedback: Feedback) -> None:
        nonlocal seen
        proposal, context = feedback.proposal, contexts[-1]
        found, texts = [feedback.row(PENDING)], [context]
        for tree, row in (
            (proposal.tree, feedback.row),
            (proposal.passengers, feedback.passenger_row),
        ):
            found += [row(node) for node in range(len(tree))]
            texts += [[*context, *tree.path_tokens(node)] for node in range(len(tree))]
        wanted = pocket64.target.evaluate(texts, [1] * len(texts))
        for row, (plain,) in zip(found, wanted, strict=True):
            assert np.abs(row.logits - plain.logits).max() <= 1e-9
        seen += bool(proposal.tree.tokens and proposal.passengers.tokens)
        observe(feedback)

    drafting.propose, drafting.observe = watched, compared
    assert sum(len(round_.emitted) for round_ in run) == 8
    assert seen >= 2


def test_a_pair_without_a_draft_still_runs_what_needs_none(pocket: Pair) -> None:
    alone = replace(pocket, drafts=())
    for name in ("jacobi", "lookahead"):
        assert "draft_model" not in METHODS[name].card.needs
        run = open_run(alone, "Once upon a time", method=name, max_new_tokens=4)
        assert sum(len(round_.emitted) for round_ in run) == 4
