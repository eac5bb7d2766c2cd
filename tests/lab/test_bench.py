"""The benchmark harness: equal terms, labels, modelled speed."""

from __future__ import annotations

import pytest
import torch
from tiny_pairs import tiny_handle

from speclab.core.errors import BadInput
from speclab.lab.bench import BenchPlan, measure_costs, run_bench, verify_cost_of
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.labels import gamma_of, parse_label, peer_of
from speclab.lab.memo_bench import time_memo
from speclab.models.pair import Pair


class WordCodec:
    """Words to ids by length: enough for a tiny model."""

    chat_by_default = False

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        return tuple(1 + len(word) % 40 for word in text.split())

    def piece(self, token: int) -> bytes:
        return b"x"


@pytest.fixture(scope="module")
def pair() -> Pair:
    target, draft = (tiny_handle(seed, vocab_size=60, dtype=torch.float32) for seed in (0, 1))
    return Pair(
        name="tiny", target=target, drafts=(draft,), codec=WordCodec(), eos_ids=frozenset({5})
    )


def test_peers_do_the_same_work(pair: Pair) -> None:
    plan = BenchPlan(
        methods=("draft-model:num_speculative_tokens=3", "prompt-lookup"),
        peer="transformers",
        repeats=1,
        num_prompts=3,
        max_new_tokens=10,
    )
    report = run_bench(pair, plan, progress=lambda text: None)
    rows = {row["method"]: row for row in report["rows"]}
    assert set(rows) == {
        "autoregressive",
        "draft-model:num_speculative_tokens=3",
        "prompt-lookup",
        "transformers",
        "transformers:assistant_model:3",
        "transformers:prompt_lookup:8",
    }
    for row in rows.values():
        assert row["emitted_tokens"] == 30, row
        assert row["greedy_agreement"] == 1.0, row
    ours = rows["draft-model:num_speculative_tokens=3"]
    assert ours["peer"] == "transformers:assistant_model:3"
    assert ours["vs_peer_low"] <= ours["vs_peer"] <= ours["vs_peer_high"]
    assert rows["autoregressive"]["peer"] == "transformers"
    assert ours["speedup_modelled"] > 0


def test_costs(pair: Pair) -> None:
    costs = measure_costs(pair, repeats=3)
    assert costs["verify_cost"]["1"] == 1.0 and costs["cost_ratio"] > 0
    middle = verify_cost_of({"verify_cost": {"1": 1.0, "3": 2.0}})
    assert middle(1) == 1.0 and middle(2) == 1.5 and middle(9) == 2.0


def test_memo_bench_is_warm(pair: Pair) -> None:
    result = time_memo(pair, prompt="one two three", length=6, seeds=3, passes=1)
    assert result["tokens_per_s"] > 0 and result["hit_rate"] > 0.5


def test_labels() -> None:
    assert parse_label("draft-model:num_speculative_tokens=6") == (
        "draft-model",
        {"num_speculative_tokens": 6},
    )
    assert gamma_of("autoregressive") is None and gamma_of("prompt-lookup") == 8
    assert peer_of("autoregressive") == "transformers"
    drawn = "eagle-3:draft_sampling=drawn:top_k=1:adaptive=true"
    assert parse_label(drawn)[1] == {"draft_sampling": "drawn", "top_k": 1, "adaptive": True}
    junks = ("nope", "draft-model:x", "draft-model:num_speculative_tokens=900")
    for junk in (*junks, "draft-model:num_speculative_tokens=six"):
        with pytest.raises(BadInput):
            gamma_of(junk)


def test_prompts_do_not_repeat() -> None:
    for chat in (True, False):
        prompts = bench_prompts(chat, 20)
        assert len(set(prompts)) == 20
    with pytest.raises(BadInput, match="built-in"):
        bench_prompts(True, 500)
    with pytest.raises(BadInput):
        BenchPlan(methods=(), repeats=0)
    with pytest.raises(BadInput):
        BenchPlan(methods=(), peer="other")
