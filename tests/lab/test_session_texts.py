"""A run and the store of its session: what is copied, what is kept, and when nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fault_kit import GREEDY, model_of

from speclab.core.earlier_texts import TextStore
from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.records import Trace
from speclab.lab.bench import BenchPlan
from speclab.lab.prove import ProveSpec
from speclab.lab.runs import generate, open_run
from speclab.lab.session_texts import copies_from_session
from speclab.lab.sweep import SweepPlan
from speclab.methods import METHODS, make_method
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair
from speclab.stats.counters import block_efficiency

STORY = "Once upon a time there was a little fox who lived in a wood."


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


class Codec:
    """Token ids as they are."""

    chat_by_default = False

    def piece(self, token: int) -> bytes:
        """Return nothing."""
        return b""


def toy(fails_at: int = 10**9) -> Pair:
    """A pair whose target counts on, and fails at a given length of the text."""

    def count_on(context: Sequence[int]) -> np.ndarray:
        if len(context) >= fails_at:
            raise ValueError("the device went away")
        row = np.full(50, -40.0)
        row[(context[-1] + 1) % 50] = 0.0
        return row

    return Pair(
        name="toy",
        target=model_of(count_on, 50),
        drafts=(),
        codec=Codec(),
        eos_ids=frozenset(),
        dtype="float64",
    )


def told(pair: Pair, store: TextStore | None, prompt: Any = STORY, **more: Any) -> Trace:
    request = {"method": "suffix", "sampling": GREEDY, "max_new_tokens": 40, "store": store}
    return generate(pair, prompt, **{**request, **more})


def test_a_warm_store_raises_tokens_per_pass_and_a_cold_one_does_not(pocket: Pair) -> None:
    store = TextStore("pocket")
    first, again = told(pocket, store), told(pocket, store)
    cold = told(pocket, None)
    assert first.emitted == again.emitted == cold.emitted, "the same text, found faster"
    taus = [block_efficiency(trace.rounds) for trace in (first, again, cold)]
    assert taus[0] == taus[2], "the first run of a session is as cold as one without a store"
    assert taus[1] > 2 * taus[0] and taus[1] > 4
    assert any(
        item.kind == "from_earlier_text" for round_ in again.rounds for item in round_.evidence
    )
    assert not first.warnings and not cold.warnings and len(again.warnings) == 1


def test_a_finished_run_leaves_its_prompt_and_its_text() -> None:
    store, pair = TextStore("toy"), toy()
    trace = told(pair, store, (7,), max_new_tokens=3)
    assert store.snapshot().texts == ((7, *trace.emitted),) == ((7, 8, 9, 10),)
    told(pair, store, (7,), max_new_tokens=3, method="prompt-lookup")
    assert len(store) == 2, "whatever drafted it"


def test_a_stopped_run_leaves_what_it_had_once() -> None:
    store = TextStore("toy")
    live = open_run(toy(), (7,), method="suffix", sampling=GREEDY, max_new_tokens=9, store=store)
    next(live)
    next(live)
    live.close()
    live.close()
    assert store.snapshot().texts == ((7, 8, 9),)
    live = open_run(toy(), (7,), method="suffix", sampling=GREEDY, max_new_tokens=9, store=store)
    live.close()
    assert len(store) == 1, "no round: no text"


def test_a_run_that_failed_before_its_first_token_leaves_nothing() -> None:
    for fails_at, kept in ((1, ()), (3, ((7, 8, 9),))):
        store = TextStore("toy")
        live = open_run(
            toy(fails_at), (7,), method="suffix", sampling=GREEDY, max_new_tokens=9, store=store
        )
        with pytest.raises(ValueError, match="went away"):
            list(live)
        live.close()
        assert store.snapshot().texts == kept


def test_ids_of_another_tokenizer_are_refused() -> None:
    other = TextStore("pocket")
    with pytest.raises(BadInput, match="token ids of pocket, not of toy") as caught:
        told(toy(), other, (7,))
    assert caught.value.code == "store_other_pair"
    wide = TextStore("toy")
    wide.add((7, 50))
    with pytest.raises(BadInput, match="Keep one store per pair"):
        told(toy(), wide, (7,))


def test_what_is_added_during_a_run_is_for_the_next_one() -> None:
    def trees(grow: bool) -> list[Any]:
        store = TextStore("toy")
        store.add((8, 9, 30))
        live = open_run(
            toy(), (7, 8), method="suffix", sampling=GREEDY, max_new_tokens=9, store=store
        )
        found = [next(live).tree]
        if grow:
            store.add((9, 10, 11, 12, 13, 14, 15, 16))
        found += [round_.tree for round_ in live]
        return found

    assert trees(grow=True) == trees(grow=False)


def test_without_a_store_nothing_is_kept_from_run_to_run() -> None:
    traces = [told(toy(), None, (7, 8), max_new_tokens=6) for _ in range(2)]
    assert [r.tree for r in traces[0].rounds] == [r.tree for r in traces[1].rounds]
    assert all(round_.num_drafted == 0 for round_ in traces[1].rounds)


def test_measurements_and_proofs_have_no_place_for_a_store() -> None:
    for plan in (BenchPlan, SweepPlan, ProveSpec):
        assert not {"store", "texts", "earlier"} & set(plan.__dataclass_fields__)
    assert copies_from_session("suffix:mode=tree") and not copies_from_session("prompt-lookup")
    reading = [name for name, kind in METHODS.items() if kind.card.reads_earlier_texts]
    assert reading == ["suffix"]


def test_a_report_says_that_runs_start_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    from speclab.lab import bench

    plan = BenchPlan(methods=("suffix", "prompt-lookup"), temperatures=(0.0,))
    _, notes, _ = bench._runners(toy(), plan, lambda text: None)
    assert notes == {"suffix": "every run starts cold, without earlier texts of a session"}


def test_a_tree_is_refused_on_a_target_that_sees_none_and_a_path_is_not() -> None:
    pair = toy()
    blind = replace(pair, target=Blind(pair.target))
    for method, params in (("suffix", {"mode": "tree"}), ("prompt-lookup", {"branches": 2})):
        assert make_method(method, params)
        with pytest.raises(UnsupportedModel, match="needs tree_mask"):
            open_run(blind, (7,), method=method, params=params)
        open_run(blind, (7,), method=method, max_new_tokens=1).close()


class Blind:
    """A target that can roll back and nothing else."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.provides = frozenset({"rollback"})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)
