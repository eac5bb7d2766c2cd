"""The benchmark harness: equal terms, labels, modelled speed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from tiny_pairs import tiny_handle

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.lab.bench import BenchPlan, measure_costs, run_bench, verify_cost_of
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.labels import gamma_of, parse_label, peer_of
from speclab.lab.memo_bench import time_memo
from speclab.lab.peers import generation_config, transformers_runners
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


@pytest.fixture(scope="module")
def report(pair: Pair) -> dict[str, Any]:
    """One run of everything: two families, greedy and sampled, with Transformers beside it."""
    plan = BenchPlan(
        methods=("draft-model:num_speculative_tokens=3", "prompt-lookup"),
        peer="transformers",
        repeats=2,
        num_prompts=3,
        max_new_tokens=10,
        temperatures=(0.0, 1.0),
        allow_busy=True,
    )
    return run_bench(pair, plan, progress=lambda text: None)


def rows_at(report: dict[str, Any], temperature: float) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in report["rows"] if row["temperature"] == temperature}


def test_peers_do_the_same_work(report: dict[str, Any]) -> None:
    for temperature in (0.0, 1.0):
        rows = rows_at(report, temperature)
        assert set(rows) == {
            "autoregressive",
            "draft-model:num_speculative_tokens=3",
            "prompt-lookup",
            "transformers",
            "transformers:assistant_model:3",
            "transformers:prompt_lookup:8",
        }
        repeats = 1 if temperature == 0.0 else 2
        for row in rows.values():
            assert row["emitted_tokens"] == 30 * repeats, row
            assert row.get("greedy_agreement", 1.0) == 1.0, row
            assert ("greedy_agreement" in row) == (temperature == 0.0)
        ours = rows["draft-model:num_speculative_tokens=3"]
        assert ours["peer"] == "transformers:assistant_model:3"
        assert ours["vs_peer_low"] <= ours["vs_peer"] <= ours["vs_peer_high"]
        assert rows["autoregressive"]["peer"] == "transformers"
        assert rows["autoregressive"]["speedup"] == rows["autoregressive"]["tau"] == 1.0
        assert ours["speedup_modelled"] > 0
    assert [row["temperature"] for row in report["rows"]] == [0.0] * 6 + [1.0] * 6


def test_every_line_says_when_tokens_came_and_what_they_took(report: dict[str, Any]) -> None:
    for row in report["rows"]:
        assert 0.0 < row["tpot_p50_s"] <= row["tpot_p99_s"], row
        assert row["ttft_s"] > 0.0
        assert sum(row["gaps"]["counts"]) == row["gaps"]["num"] > 0
        assert row["gaps"]["p50_s"] <= row["gaps"]["p99_s"]
        assert row["tau"] == pytest.approx(row["gaps"]["tokens_per_burst"], abs=1e-4) or (
            row["temperature"] == 0.0
        )
    assert len(report["gap_edges_s"]) == 25
    ours = rows_at(report, 0.0)["draft-model:num_speculative_tokens=3"]
    assert ours["drafted_tokens"] == ours["accepted_tokens"] + ours["discarded_tokens"]
    assert 0.0 < ours["draft_share"] < 1.0
    assert ours["flops_per_token"] > ours["draft_flops_per_token"] > 0.0
    assert ours["memory"]["percent_of_target"] == 100.0
    plain = rows_at(report, 0.0)["autoregressive"]
    assert plain["draft_flops_per_token"] == 0.0 and plain["memory"]["parameters"] == 0
    assert plain["bytes_per_token"] < plain["flops_per_token"] * 4
    assert rows_at(report, 0.0)["transformers"].get("draft_share") is None


def test_the_report_says_how_it_was_made(report: dict[str, Any]) -> None:
    json.dumps(report, allow_nan=False)
    assert report["schema_version"] == 2 and report["kind"] == "bench"
    assert report["plan"]["temperatures"] == (0.0, 1.0)
    assert len(report["families"]) == len(report["prompt_tokens"]) == 3
    state = report["calibration"]
    assert state["busy"] == report["busy"] == bool(state["complaints"])
    assert state["before"]["kernel"]["spread"] >= 1.0
    assert set(report["formulas"]) >= {"flops", "bytes", "passes"}


def test_seeds_are_those_of_the_plan(pair: Pair) -> None:
    prompt = (3, 9, 4)
    hot = Sampling(temperature=1.0)
    runners, _ = transformers_runners(pair, (), 12, hot)
    state = torch.random.get_rng_state()
    first, again, other = (runners["transformers"](prompt, seed)[1].emitted for seed in (1, 1, 2))
    assert first == again != other
    assert torch.equal(state, torch.random.get_rng_state())


def test_transformers_samples_from_the_whole_law(pair: Pair) -> None:
    """Its default top-k of 50 would cut a vocabulary of 60: the config must switch it off."""
    config = generation_config(Sampling(temperature=2.0), 4)
    assert config.do_sample and config.top_k == 0 and config.temperature == 2.0
    assert not generation_config(Sampling(temperature=0.0), 4).do_sample


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
    for wrong in ({"peer": "other"}, {"temperatures": ()}, {"temperatures": (1.0, 1.0)}):
        with pytest.raises(BadInput):
            BenchPlan(methods=(), **wrong)
