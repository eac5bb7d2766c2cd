"""The memo session: the same rows as the model, each evaluated once, within a budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_pairs import tiny_handle

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit
from speclab.core.randomness import Seeded
from speclab.core.rules import RULES
from speclab.engine.loop import Decoding, Limits
from speclab.engine.memo import MemoHandle, run_repeats
from speclab.methods import make_method
from speclab.models.toy import ToyModel
from speclab.testing import check_model

PROMPT = (1, 2, 3, 4)
SAMPLING = Sampling(top_k=3)


def emit(target, draft, seed: int) -> tuple[int, ...]:
    session = target.open(PROMPT)
    kit = DraftKit(prompt=PROMPT, sampling=SAMPLING, vocab_size=50, drafts=(draft,))
    decoding = Decoding(
        session=session,
        run=make_method("draft-model", {"num_speculative_tokens": 3}).start(kit),
        rule=RULES["token"],
        rng=Seeded(seed),
        sampling=SAMPLING,
        limits=Limits(max_new_tokens=8, max_context=100),
    )
    for _ in decoding:
        pass
    return tuple(decoding.emitted)


def test_rows_and_state_are_the_models() -> None:
    check_model(MemoHandle(tiny_handle(0)), PROMPT, tolerance=1e-9)


def test_same_tokens_as_the_real_session() -> None:
    target, draft = tiny_handle(0), tiny_handle(1)
    memo_target, memo_draft = MemoHandle(target), MemoHandle(draft)
    for seed in range(5):
        assert emit(memo_target, memo_draft, seed) == emit(target, draft, seed)


def test_each_prefix_is_evaluated_once() -> None:
    target, draft = MemoHandle(tiny_handle(0)), MemoHandle(tiny_handle(1))
    first = [emit(target, draft, seed) for seed in range(6)]
    evaluated, misses = target.counts.evaluated, target.counts.misses
    assert [emit(target, draft, seed) for seed in range(6)] == first
    assert (target.counts.evaluated, target.counts.misses) == (evaluated, misses)
    assert target.counts.hit_rate is not None and target.counts.hit_rate > 0.5


def test_budget_is_kept_and_text_unchanged() -> None:
    target, draft = tiny_handle(0), tiny_handle(1)
    row_bytes = 50 * (8 + 2 * 8)
    small = MemoHandle(target, budget_bytes=4 * row_bytes)
    assert [emit(small, draft, s) for s in range(4)] == [emit(target, draft, s) for s in range(4)]
    assert small.counts.evicted > 0
    assert small.counts.held_bytes <= 4 * row_bytes


@pytest.mark.parametrize("workers", [1, 5])
def test_repeats_are_batched_and_unchanged(workers: int) -> None:
    target, draft = MemoHandle(tiny_handle(0)), MemoHandle(tiny_handle(1))
    want = [emit(tiny_handle(0), tiny_handle(1), seed) for seed in range(12)]
    got = run_repeats(lambda i: emit(target, draft, i), 12, [target, draft], workers=workers)
    assert got == want
    if workers > 1:
        assert target.counts.batches < target.counts.misses


def test_an_error_in_a_batch_reaches_every_repeat() -> None:
    class Broken(ToyModel):
        def evaluate(self, sequences, keep):
            raise RuntimeError("no weights")

    memo = MemoHandle(Broken.random(1, vocab_size=50, order=1))
    with pytest.raises(RuntimeError, match="no weights"):
        run_repeats(lambda i: emit(memo, memo, i), 4, [memo], workers=4)
    assert memo.gate is None


def test_threads_without_a_gate() -> None:
    target, draft = MemoHandle(tiny_handle(0)), MemoHandle(tiny_handle(1))
    want = [emit(tiny_handle(0), tiny_handle(1), seed) for seed in range(8)]
    with ThreadPoolExecutor(max_workers=8) as pool:
        assert list(pool.map(lambda seed: emit(target, draft, seed), range(8))) == want


def test_nothing_is_held_beyond_the_rows() -> None:
    row_bytes = 50 * (8 + 2 * 8)
    target = MemoHandle(tiny_handle(0), budget_bytes=20 * row_bytes)
    draft = MemoHandle(tiny_handle(1), budget_bytes=20 * row_bytes)
    for seed in range(30):
        emit(target, draft, seed)
    for memo in (target, draft):
        assert len(memo) <= 20 and memo.counts.held_bytes <= 20 * row_bytes
        for row in memo._rows.values():
            assert len(row._laws) <= 2


def test_many_samplings_keep_two_laws() -> None:
    row = MemoHandle(tiny_handle(0)).open(PROMPT).score().row(0)
    raw = row.raw()
    for step in range(1, 20):
        row.law(Sampling(temperature=step / 10))
    assert len(row._laws) == 2 and row.raw() is raw


def test_one_failing_repeat_leaves_the_others_running() -> None:
    target, draft = MemoHandle(tiny_handle(0)), MemoHandle(tiny_handle(1))

    def repeat(index: int) -> tuple[int, ...]:
        if index == 1:
            raise ValueError("repeat 1")
        return emit(target, draft, index)

    with pytest.raises(ValueError, match="repeat 1"):
        run_repeats(repeat, 9, [target, draft], workers=3)
    assert emit(target, draft, 0) == emit(tiny_handle(0), tiny_handle(1), 0)


def test_refusals() -> None:
    with pytest.raises(BadInput, match="one row"):
        MemoHandle(tiny_handle(0), budget_bytes=10)
    with pytest.raises(UnsupportedModel, match="hidden states"):
        MemoHandle(tiny_handle(0)).open(PROMPT, ("hidden[-1]",))
    with pytest.raises(BadInput):
        MemoHandle(tiny_handle(0)).open(())


def test_float32_rows_are_kept_as_they_are() -> None:
    import torch

    memo = MemoHandle(tiny_handle(0, dtype=torch.float32))
    row = memo.open(PROMPT).score().row(0)
    assert row.logits.dtype == np.float32
