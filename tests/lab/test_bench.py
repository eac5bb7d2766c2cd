"""The benchmark harness: equal terms, labels, modelled speed."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_pairs import tiny_handle

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.lab import bench, measuring, peer_llama_cpp
from speclab.lab.bench import BenchPlan, prompts_to_warm, run_bench, time_arrivals
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.bench_report import reference_lines
from speclab.lab.bench_rows import Timed, _rates, by_arrival
from speclab.lab.calibration import QuietMachine
from speclab.lab.labels import gamma_of, parse_label, peer_of
from speclab.lab.memo_bench import time_memo
from speclab.lab.pass_costs import by_turns, measure_costs, verify_cost_of, widths_of
from speclab.lab.peers import generation_config, transformers_runners
from speclab.models.pair import Pair
from speclab.stats.pace import pace_of


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


def test_our_tokens_are_stamped_by_the_wall_clock_as_others_are(pair: Pair, monkeypatch) -> None:
    """What goes by outside the stages of a round, before it or between two, is waited for too."""
    right = bench.open_run

    def slow(*args: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return right(*args, **options)

    monkeypatch.setattr(bench, "open_run", slow)
    seconds, trace, arrivals = time_arrivals(pair, "autoregressive", (3, 9, 4), 5)
    clocked = by_arrival(trace, arrivals)
    assert len(arrivals) == 5 and clocked.emitted == trace.emitted
    pace = pace_of([clocked])
    assert pace.ttft_s == pytest.approx(arrivals[0]) and 0.05 <= pace.ttft_s < seconds
    assert pace_of([trace]).ttft_s < arrivals[0] - 0.04, "the stages alone do not know of it"
    assert pace.tpot_s == pytest.approx((arrivals[-1] - arrivals[0]) / 4)
    assert seconds - arrivals[-1] >= 0.0


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [((1.0,), (12.0, 12.0, 12.0)), ((1.0, 2.0), (9.0, 6.0, 12.0)), ((3.0, 1.0, 2.0), (6, 4, 12))],
)
def test_tokens_per_second_are_the_median_of_the_repeats(
    seconds: tuple[float, ...], wanted: tuple[float, float, float]
) -> None:
    keys = [(repeat, 0) for repeat in range(len(seconds))]
    trace: Any = SimpleNamespace(emitted=(1,) * 12)
    mine = Timed(seconds=dict(zip(keys, seconds, strict=True)), traces=dict.fromkeys(keys, trace))
    names = ("tokens_per_s", "tokens_per_s_low", "tokens_per_s_high")
    assert _rates(mine) == dict(zip(names, wanted, strict=True))


def test_lines_hold_the_wall_clock(report: dict[str, Any]) -> None:
    assert report["clock"] == "wall"


class Broken:
    """A llama.cpp that decodes and then cannot be measured; it notes whether the watch was on."""

    note = "made for this test"
    watched: bool | None = None

    def runner(self, count: int, sampling: Sampling) -> Any:
        def run(prompt: tuple[int, ...], seed: int) -> Any:
            return time_arrivals(PAIRS[0], "autoregressive", prompt, count)[:2]

        return run

    def measure(self) -> dict[str, Any]:
        Broken.watched = not AFTER
        raise RuntimeError("llama_decode returned -3")


PAIRS: list[Pair] = []
AFTER: list[bool] = []


def test_a_reference_that_fails_is_a_note_and_is_run_under_the_watch(pair, monkeypatch) -> None:
    PAIRS[:], AFTER[:] = [pair], []
    right = QuietMachine.after
    monkeypatch.setattr(QuietMachine, "after", lambda self: (AFTER.append(True), right(self))[1])
    monkeypatch.setattr(peer_llama_cpp, "open_llama_cpp", lambda *args: Broken())
    label = "draft-model:num_speculative_tokens=12"
    plan = BenchPlan(
        methods=(label,),
        peer="llama.cpp",
        repeats=1,
        num_prompts=1,
        max_new_tokens=4,
        allow_busy=True,
    )
    report = run_bench(pair, plan, progress=lambda text: None)
    assert Broken.watched is True and report["references"] == {}
    assert report["reference_faults"] == {"llama.cpp": "llama_decode returned -3"}
    assert reference_lines(report) == [
        "llama.cpp: passes were not measured (llama_decode returned -3)."
    ]
    assert "13" in report["costs"]["verify_cost"], "v(gamma + 1) is measured, not guessed"
    narrow = {**report["costs"], "verify_cost": {"1": 1.0, "9": 2.0}}
    monkeypatch.setattr(bench, "measure_costs", lambda pair, widths: narrow)
    rows = rows_at(run_bench(pair, plan, progress=lambda text: None), 0.0)
    assert "speedup_modelled" not in rows[label]


def test_on_a_gpu_everything_is_run_once_before_it_is_timed() -> None:
    prompts = [(1,), (2, 3), (4,)]
    assert prompts_to_warm("cpu", prompts) == [(1,)]
    assert prompts_to_warm("cuda:0", prompts) == prompts
    assert widths_of(("autoregressive", "prompt-lookup:num_speculative_tokens=32"))[-1] == 33


@pytest.mark.parametrize(
    "device, warm", [("cpu", [((1,), 6)]), ("cuda:0", [((1,), 20), ((2, 3), 20)])]
)
def test_units_that_take_turns_are_warmed_likewise(monkeypatch, device, warm) -> None:
    runs: list[tuple[tuple[int, ...], int]] = []

    def note(pair: Any, label: str, prompt: Any, count: int, **more: Any) -> tuple[float, None]:
        runs.append((prompt, count))
        return 1.0, None

    monkeypatch.setattr(measuring, "time_ours", note)
    unit = measuring.Unit(
        pair=SimpleNamespace(device=device), label="autoregressive", max_new_tokens=20
    )
    assert list(measuring.measure({"plain": unit}, [(1,), (2, 3)], {})) == [1, 2]
    assert runs == [*warm, ((1,), 20), ((2, 3), 20)]


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


def test_costs_are_ratios_of_passes_that_took_turns() -> None:
    """A machine that becomes twice as fast meanwhile moves no ratio by more than a few percent."""
    turns = count()

    def job(seconds: float) -> Callable[[], float]:
        return lambda: seconds * (2.0 - next(turns) / 66)

    seconds = by_turns({1: job(1.0), 5: job(1.5)}, 30)
    assert [len(times) for times in seconds.values()] == [30, 30]
    assert statistics.median(seconds[5]) / statistics.median(seconds[1]) == pytest.approx(
        1.5, rel=0.03
    )
