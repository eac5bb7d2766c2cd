"""Jacobi decoding: worked by hand, beside a plain fixed-point iteration, and where it must end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fault_kit import GREEDY, begin, model_of, run

from speclab.core.protocols import DraftKit, Room
from speclab.core.randomness import Seeded
from speclab.core.records import Evidence, Round
from speclab.methods import make_method
from speclab.methods.jacobi import JacobiRun
from speclab.models.toy import ToyModel

SIZE = 20


def says(token: int) -> np.ndarray:
    return 5.0 * np.eye(SIZE)[token % SIZE]


TWO_BACK = model_of(lambda context: says(context[-2] + 1 if len(context) > 1 else 0), SIZE)
"""Every token is the one two places before it, plus one."""


def jacobi(count: int) -> Any:
    return make_method("jacobi", {"num_speculative_tokens": count})


def check_by_hand() -> None:
    """After 0, 10 with m = 3: two tokens per pass, because a token needs the one before last."""
    text, rounds = run(TWO_BACK, (0, 10), method=jacobi(3), sampling=GREEDY, n=7)
    assert text == [1, 11, 2, 12, 3, 13, 4]
    assert [round_.tree.tokens for round_ in rounds] == [
        (0, 10, 0),
        (11, 1, 11),
        (12, 2, 10),
        (13,),
    ]
    assert [round_.emitted for round_ in rounds] == [(1,), (11, 2), (12, 3), (13, 4)]


def test_by_hand() -> None:
    check_by_hand()


def test_guesses_one_row_late_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the worked example; the text stays right: https://github.com/PrismML-Eng/llama.cpp/pull/122"""
    honest = JacobiRun.observe

    def late(self: JacobiRun, feedback) -> None:
        honest(self, feedback)
        self._guesses = [*self._guesses[1:], 0]

    monkeypatch.setattr(JacobiRun, "observe", late)
    text, rounds = run(TWO_BACK, (0, 10), method=jacobi(3), sampling=GREEDY, n=7)
    assert text == [1, 11, 2, 12, 3, 13, 4] and len(rounds) > 4
    with pytest.raises(AssertionError):
        check_by_hand()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_round_is_one_step_of_the_iteration(count: int) -> None:
    """Beside guesses refined by evaluations of whole texts."""
    reused = 0
    for seed in range(6):
        target, prompt = ToyModel.random(seed, vocab_size=5, order=3), (0, 1, 3)
        text, rounds = run(target, prompt, method=jacobi(count), sampling=GREEDY, n=30)
        known: dict[int, int] = {}
        for round_ in rounds:
            context = [*prompt, *text][: round_.context_length]
            place = len(context)
            wanted = [known.get(place + i, prompt[(place + i) % 3]) for i in range(count)]
            drafted = round_.tree.tokens
            assert drafted == tuple(wanted[: len(drafted)])
            assert len(drafted) == min(count, len(prompt) + 29 - place)
            for i in range(round_.num_accepted, len(drafted)):
                row = target.logits([*context, *drafted[: i + 1]])
                known[place + i + 1] = int(row.argmax())
            reused += round_.num_accepted
    assert reused > 0


def test_all_guesses_are_kept_once_they_are_right() -> None:
    sure = ToyModel.constant((0.1, 0.2, 0.7))
    _, rounds = run(sure, (0, 1), method=jacobi(4), sampling=GREEDY, n=16)
    assert [len(round_.emitted) for round_ in rounds] == [1, 5, 1, 5, 1, 3]


def survivors(round_: Round) -> Evidence:
    (fact,) = round_.evidence
    assert fact.kind == "survived" and len(fact.values) == len(round_.tree)
    assert fact.value == sum(age > 0 for age in fact.values)
    return fact


def test_the_evidence_counts_the_passes_that_a_guess_has_stood() -> None:
    """The last token but one decides: guesses further right are wrong at first, then settle."""
    _, rounds = run(TWO_BACK, (0, 10), method=jacobi(5), sampling=GREEDY, n=9)
    assert [round_.tree.tokens for round_ in rounds[:2]] == [(0, 10, 0, 10, 0), (11, 1, 11, 1, 11)]
    assert all(survivors(round_).value == 0 for round_ in rounds[:2])
    still = ToyModel.constant((0.2, 0.8))
    _, rounds = run(still, (0, 1), method=jacobi(3), rng=Seeded(1), n=12)
    ages = [survivors(round_).values for round_ in rounds if round_.tree.tokens]
    assert ages[0] == (0.0,) * len(ages[0]) and max(max(age, default=0) for age in ages) >= 1


def test_a_guess_that_ends_the_text_is_the_last_one() -> None:
    ends = ToyModel.constant((0.1, 0.2, 0.7))
    text, rounds = run(ends, (0, 1), method=jacobi(4), sampling=GREEDY, n=16, eos=[2])
    assert text == [2] and rounds[-1].stop_reason == "eos"
    decoding = begin(ends, (0, 1), method=jacobi(4), rng=Seeded(3), n=40, eos=[2])
    for round_ in decoding:
        assert 2 not in round_.tree.tokens[:-1]


def test_a_prompt_of_nothing_but_ends_still_gives_guesses() -> None:
    kit = DraftKit(prompt=(2, 2), sampling=GREEDY, eos_ids=frozenset({2}), vocab_size=3)
    started = jacobi(3).start(kit)
    for depth, tokens in ((9, (2,)), (0, ())):
        room = Room(context=(2, 2), max_depth=depth, max_nodes=9)
        assert started.propose(room, Seeded(0)).tree.tokens == tokens


def test_the_key_tells_guesses_apart() -> None:
    decoding = begin(TWO_BACK, (0, 10), method=jacobi(3), sampling=GREEDY, n=7)
    keys = [decoding.run.state_key() for _ in decoding]
    assert len(set(keys)) == len(keys)
