"""Drafts that are copied: odd prompts and EOS (A17), and whose text they come from (A28)."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fault_kit import GREEDY, begin, model_of, run, scripted_model

from speclab.core.earlier_texts import TextStore
from speclab.core.protocols import DraftKit, Method, Proposal, Room
from speclab.core.randomness import Seeded
from speclab.core.records import ModelId, RunSpec, Trace
from speclab.lab.live_run import LiveRun
from speclab.lab.runs import open_run
from speclab.methods import make_method
from speclab.methods.prompt_lookup import NgramIndex
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel
from speclab.stats import counters

COPYING = [
    make_method("prompt-lookup"),
    make_method("prompt-lookup", {"match": "frequent"}),
    make_method("prompt-lookup", {"branches": 3}),
    make_method("suffix"),
    make_method("suffix", {"mode": "tree", "factor": 4.0, "min_probability": 0.0}),
]
every_copying_method = pytest.mark.parametrize("method", COPYING, ids=repr)


def propose(method: Method, text: tuple[int, ...], eos: tuple[int, ...] = ()) -> Proposal:
    kit = DraftKit(prompt=text, sampling=GREEDY, eos_ids=frozenset(eos), vocab_size=20)
    room = Room(context=text, max_depth=50, max_nodes=256)
    return method.start(kit).propose(room, Seeded(0))


# --- A17 -------------------------------------------------------------------------------------


def test_the_reported_example_with_and_without_eos() -> None:
    """https://github.com/huggingface/transformers/pull/27775"""
    text = (5, 6, 7, 8, 9, 10, 11, 7, 8)
    lookup = {"max_ngram": 2, "min_ngram": 2, "num_speculative_tokens": 3}
    for match in ("recent", "frequent", "first"):
        for branches in (1, 2):
            wish = {**lookup, "match": match, "branches": branches}
            for eos in ((), (19,)):
                drafted = propose(make_method("prompt-lookup", wish), text, eos)
                assert drafted.tree.tokens == (9, 10, 11) and drafted.tree.is_chain
    for mode in ("path", "tree"):
        wish = {"mode": mode, "factor": 1.5}
        for eos in ((), (19,)):
            drafted = propose(make_method("suffix", wish), text, eos)
            assert drafted.tree.tokens == (9, 10, 11), "floor(1.5 * 2) tokens after 7, 8"


@every_copying_method
def test_no_match_drafts_nothing_and_counts_nothing(method: Method) -> None:
    """https://github.com/huggingface/transformers/pull/46790"""
    for text in ((1, 2, 3, 4), (3,), (1, 2)):
        proposal = propose(method, text)
        assert proposal.tree.tokens == () == proposal.draft_probs
        assert proposal.evidence[0].kind == "no_match"
    _, rounds = run(scripted_model((1, 2, 3, 4), 9, 1), (0,), method=method, n=4)
    spec = RunSpec(method=method.card.name, rule="token", pair="toy", target=ModelId(name="toy"))
    numbers = {
        counter.name: counter.value
        for counter in counters.summarise(
            Trace(spec=spec, prompt_tokens=(0,), rounds=tuple(rounds))
        )
    }
    assert numbers["drafted_tokens"] == 0 and numbers["drafted_acceptance_rate"] is None
    assert [round_.verdict.outcome for round_ in rounds] == ["plain"] * 4


@every_copying_method
@pytest.mark.parametrize("prompt", [(0,), (1, 1), (0, 1, 0)], ids=str)
def test_a_tiny_prompt_without_eos_is_plain_decoding(
    method: Method, prompt: tuple[int, ...]
) -> None:
    """https://github.com/huggingface/transformers/pull/46790"""
    target = ToyModel.random(5)
    plain, _ = run(target, prompt, sampling=GREEDY, n=20)
    assert run(target, prompt, method=method, sampling=GREEDY, n=20)[0] == plain


@every_copying_method
def test_the_tail_is_no_match_of_itself(method: Method) -> None:
    """https://github.com/huggingface/transformers/pull/27775"""
    assert propose(method, (1, 2, 7)).tree.tokens == ()
    again = propose(method, (7, 7))
    assert set(again.tree.tokens) == {7}, "an earlier, overlapping place is a match"
    for item in again.evidence:
        if item.kind == "copied_from":
            assert item.stop <= 2


def test_an_index_that_matched_its_own_tail_would_be_seen() -> None:
    """The fault put back in: places that end where the text ends are kept."""

    class Itself(NgramIndex):
        def ranked(self, text: Sequence[int], span: int, match: Any = "recent") -> Any:
            return iter(self.ends.get((text[-1],), ())[::-1])

    index = Itself(1, 1)
    index.update((1, 2, 7))
    assert index.find((1, 2, 7), 3) == 3, "it begins behind the text: nothing is there to copy"
    right = NgramIndex(1, 1)
    right.update((1, 2, 7))
    assert right.find((1, 2, 7), 3) is None


@every_copying_method
def test_a_copied_eos_ends_every_branch(method: Method) -> None:
    """https://github.com/huggingface/transformers/pull/46790"""
    text = (1, 2, 9, 4, 1, 2, 3, 9, 5, 1, 2, 9, 4, 6, 1, 2)
    tree = propose(method, text, eos=(9,)).tree
    ended = [node for node, token in enumerate(tree.tokens) if token == 9]
    assert ended and not any(tree.children(node) for node in ended)
    going_on = propose(method, text).tree
    assert any(going_on.tokens[parent] == 9 for parent in going_on.parents if parent >= 0)


@every_copying_method
def test_a_run_over_eos_ends_there(method: Method) -> None:
    """https://github.com/huggingface/transformers/pull/46790"""
    target = scripted_model((1, 2, 9, 4), 12, 0)
    text, rounds = run(target, (1, 2, 9, 4, 1, 2, 9, 4, 1), method=method, n=30, eos=(9,))
    assert text == [2, 9] and rounds[-1].stop_reason == "eos"
    assert rounds[0].num_drafted > 0


# --- A28 -------------------------------------------------------------------------------------

MARKERS = {"ada": 17, "bob": 23}
WIDTH = 32


class Numbers:
    """A codec of numbers with spaces between."""

    chat_by_default = False

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        """Return the numbers."""
        return tuple(map(int, text.split()))

    def piece(self, token: int) -> bytes:
        """Return the number and a space."""
        return f"{token} ".encode()


def echo(context: Sequence[int]) -> np.ndarray:
    """Say what followed the last two tokens of the context first, else the token 0."""
    row = np.full(WIDTH, -40.0)
    found = [context[at] for at in range(2, len(context)) if context[at - 2 : at] == context[-2:]]
    row[found[0] if found else 0] = 0.0
    return row


def pair() -> Pair:
    return Pair(
        name="echo",
        target=model_of(echo, WIDTH),
        drafts=(),
        codec=Numbers(),
        eos_ids=frozenset(),
        dtype="float64",
    )


def prompt_of(user: str) -> str:
    """Both say "1 2" before their own marker, so that the other's text would match."""
    return f"5 1 2 {MARKERS[user]} 6 1 2"


def begin_run(on: Pair, user: str, store: TextStore, mode: str = "path") -> LiveRun:
    params = {"mode": mode, "factor": 4.0, "min_probability": 0.0}
    return open_run(
        on,
        prompt_of(user),
        method="suffix",
        params=params,
        sampling=GREEDY,
        max_new_tokens=12,
        store=store,
    )


def strangers(trace: Trace, user: str) -> list[str]:
    """Return the other users' markers that a record mentions anywhere."""
    others = {str(marker) for name, marker in MARKERS.items() if name != user}
    drafted = {str(token) for round_ in trace.rounds for token in round_.tree.tokens}
    return sorted(others & (drafted | set(trace.pieces) | set(trace.text.split())))


@pytest.mark.parametrize("mode", ["path", "tree"])
def test_interleaved_users_never_see_each_others_tokens(mode: str) -> None:
    """https://github.com/ggml-org/llama.cpp/issues/28286 : round by round, several runs each."""
    on, order = pair(), random.Random(1)
    stores = {user: TextStore("echo") for user in MARKERS}
    for _ in range(3):
        live = {user: begin_run(on, user, stores[user], mode) for user in MARKERS}
        waiting = dict(live)
        while waiting:
            user = order.choice(sorted(waiting))
            if next(waiting[user], None) is None:
                del waiting[user]
        for user, run_ in live.items():
            assert MARKERS[user] in run_.emitted and strangers(run_.trace(), user) == []
    for user, store in stores.items():
        texts = store.snapshot().texts
        assert len(texts) == 3 and all(MARKERS[user] in text for text in texts)


def test_users_in_threads_never_see_each_others_tokens() -> None:
    """https://github.com/gradio-app/gradio/issues/8561"""
    on, traces = pair(), {user: [] for user in MARKERS}
    stores = {user: TextStore("echo") for user in MARKERS}

    def use(user: str) -> None:
        for _ in range(6):
            live = begin_run(on, user, stores[user], "tree")
            list(live)
            traces[user].append(live.trace())

    threads = [threading.Thread(target=use, args=(user,)) for user in MARKERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for user, found in traces.items():
        assert len(found) == 6 and not any(strangers(trace, user) for trace in found)


def test_one_store_for_all_would_be_seen() -> None:
    """The fault put back in: a store that both users share."""
    on, shared = pair(), TextStore("echo")
    list(begin_run(on, "ada", shared, "tree"))
    bob = begin_run(on, "bob", shared, "tree")
    list(bob)
    assert strangers(bob.trace(), "bob") == ["17"]


def test_a_record_holds_no_text_that_was_only_there_to_copy_from() -> None:
    """https://github.com/sgl-project/sglang/issues/23392"""
    on, store = pair(), TextStore("echo")
    store.add((29, 29, 30, 29))
    live = begin_run(on, "ada", store)
    list(live)
    trace = live.trace()
    assert len(trace.warnings) == 1 and "1 texts, 4 tokens" in trace.warnings[0]
    assert not {"29", "30"} & set(trace.pieces)
    assert Trace.from_json(trace.to_json()) == trace
    assert set(trace.spec.params) == {param.name for param in make_method("suffix").card.params}


def test_a_change_by_one_user_does_not_change_the_others_run() -> None:
    """https://github.com/gradio-app/gradio/issues/4558 : ada's texts do not reach bob's view."""
    on = pair()
    alone = begin_run(on, "bob", TextStore("echo"), "tree")
    list(alone)
    stores = {user: TextStore("echo") for user in MARKERS}
    bob = begin_run(on, "bob", stores["bob"], "tree")
    next(bob)
    for _ in range(3):
        list(begin_run(on, "ada", stores["ada"], "tree"))
    list(bob)
    assert bob.trace().rounds[1:] and [r.tree for r in bob.rounds] == [r.tree for r in alone.rounds]


def test_plain_sessions_are_told_apart_too() -> None:
    """Without a store nothing is kept: the second run of a user drafts as the first."""
    texts = []
    for _ in range(2):
        decoding = begin(model_of(echo, WIDTH), (5, 1, 2, 17, 6, 1, 2), method=COPYING[3], n=12)
        texts.append([round_.tree for round_ in decoding])
    assert texts[0] == texts[1]
