"""The public pair: greedy speculation gives the target's own text; the draft's ids are mapped."""

from __future__ import annotations

import pytest

from speclab.core.laws import Sampling
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.runs import generate
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair

GREEDY = Sampling(temperature=0.0)
NEAR_TIE = 1e-4

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair("smollm2-135m", device="cpu", dtype="float32")


@pytest.mark.timeout(1500)
def test_greedy_speculation_is_the_targets_own_text(pair: Pair) -> None:
    for index, (_, text) in enumerate(bench_prompts(True, 20)):
        request = {"sampling": GREEDY, "max_new_tokens": 24, "record_laws": False}
        plain = generate(pair, text, method="autoregressive", **request)
        fast = generate(
            pair, text, method="draft-model", num_speculative_tokens=1 + index % 8, **request
        )
        if fast.emitted == plain.emitted:
            continue
        both = zip(plain.emitted, fast.emitted, strict=False)
        parting = next(place for place, (a, b) in enumerate(both) if a != b)
        context = [*plain.prompt_tokens, *plain.emitted[:parting]]
        ((row,),) = pair.target.evaluate([context], [1])
        assert row.top_gap() < 10 * NEAR_TIE, (text, parting, row.top_gap())


def test_the_draft_speaks_the_targets_ids(pair: Pair) -> None:
    trace = generate(pair, "Why is the sky blue? 你好 😀", method="draft-model", max_new_tokens=16)
    assert trace.spec.chat and trace.spec.drafts[0].num_parameters < 5_000_000
    assert "<|im_start|>" in b"".join(trace.piece(t) for t in trace.prompt_tokens).decode()
    drafted = [token for round_ in trace.rounds for token in round_.tree.tokens]
    assert drafted and max(drafted) < pair.target.vocab_size
    accepted = sum(round_.num_accepted for round_ in trace.rounds)
    assert accepted > 0
