"""QuantSpec's report: bytes by hand, the model's shape, the paper's points, a small real run."""

from __future__ import annotations

import json

import pytest

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.theory import expected_tokens
from speclab.lab.hardware import HARDWARE
from speclab.lab.quantspec import (
    QuantSpecPlan,
    beside_published,
    conditional_rates,
    eight_bit_name,
    load_both,
    report_path,
    run_quantspec,
)
from speclab.lab.quantspec_console import print_quantspec
from speclab.lab.quantspec_model import (
    CONTEXTS,
    LLAMA_2_7B,
    PUBLISHED,
    cache_bytes,
    layer_bytes,
    modelled_speed,
    traffic,
)

A100 = HARDWARE["a100"]


def test_bytes_of_llama_2_7b_by_hand() -> None:
    params = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert layer_bytes(LLAMA_2_7B, None) == 2 * params
    assert layer_bytes(LLAMA_2_7B, 64) == params / 2 + 4 * params / 64
    assert layer_bytes(LLAMA_2_7B, 128) == params / 2 + 4 * params / 128
    numbers = 2 * 32 * 32 * 128
    assert cache_bytes(LLAMA_2_7B, 4096, 16) == 4096 * numbers * 2
    quantised, late = 4096 - 128, 128
    for bits in (4, 8):
        code = bits / 8 + 4 / 128
        assert cache_bytes(LLAMA_2_7B, 4096, bits) == numbers * (quantised * code + late * 2)
    assert cache_bytes(LLAMA_2_7B, 255, 4) == cache_bytes(LLAMA_2_7B, 255, 16)


def test_a_draft_pass_reads_about_a_quarter_at_long_contexts() -> None:
    for context in CONTEXTS[2:]:
        plain = traffic(LLAMA_2_7B, context, group_size=None, cache_bits=16)
        target = traffic(LLAMA_2_7B, context, group_size=None, cache_bits=8)
        draft = traffic(LLAMA_2_7B, context, group_size=64, cache_bits=4)
        assert 0.25 < draft.total / plain.total < 0.32
        assert target.weights == plain.weights and 0.5 < target.cache / plain.cache < 0.54


def test_modelled_speed_against_a_sum_by_hand() -> None:
    """At 32K and acceptance .9: bytes over bandwidth, and what launches cost."""
    speed = modelled_speed(
        LLAMA_2_7B, A100, (0.9,), context=32768, group_size=64, gammas=(4,), cache_bits=8
    )
    bandwidth = A100.bandwidth_bytes_per_s * A100.bandwidth_share
    launches = A100.pass_overhead_s + 32 * A100.layer_overhead_s
    for group, bits, seconds in ((None, 16, speed.plain_s), (64, 4, speed.draft_s)):
        read = traffic(LLAMA_2_7B, 32768, group_size=group, cache_bits=bits).total
        assert seconds == pytest.approx(read / bandwidth + launches, rel=1e-3)
    tokens = expected_tokens(0.9, 4)
    assert speed.tokens_per_round == pytest.approx(tokens)
    whole = 4 * speed.draft_s + speed.verify_s
    assert speed.speedup == pytest.approx(tokens * speed.plain_s / whole)
    assert speed.own_speedup < speed.speedup and speed.badge == "modelled"


def test_the_gain_grows_with_the_context_and_needs_acceptance() -> None:
    speeds = [
        modelled_speed(LLAMA_2_7B, A100, (0.9,), context=context, group_size=64)
        for context in CONTEXTS
    ]
    gains = [speed.speedup for speed in speeds]
    assert gains == sorted(gains) and gains[-1] > 1.5
    hopeless = modelled_speed(LLAMA_2_7B, A100, (0.0,), context=4096, group_size=64)
    assert hopeless.own_speedup < 1.0
    with pytest.raises(BadInput):
        modelled_speed(LLAMA_2_7B, A100, (), context=4096, group_size=64)


def test_published_points_are_the_papers_and_stand_beside_the_model() -> None:
    own = [point for point in PUBLISHED if point.method == "QuantSpec"]
    assert [(p.context // 1024, p.acceptance, p.speedup) for p in own] == [
        (4, 0.925, 1.35),
        (32, 0.912, 2.08),
        (128, 0.943, 2.49),
    ]
    assert all(point.badge == "published" for point in PUBLISHED)
    beside = [row for row in beside_published(64) if row["hardware"] == "a100"]
    assert [row["published"] for row in beside] == [1.35, 2.08, 2.49]
    assert all(row["badge"] == "modelled" for row in beside)


def test_only_pairs_with_an_eight_bit_twin() -> None:
    assert eight_bit_name("pocket") == eight_bit_name("pocket-int8kv") == "pocket-int8kv"
    assert report_path("pocket-int8kv").name == "quantspec-pocket.json"
    with pytest.raises(UnsupportedModel) as caught:
        eight_bit_name("qwen3-4b")
    assert caught.value.code == "no_eight_bit_pair"


def test_a_small_run_reports_both_targets(capsys) -> None:
    plan = QuantSpecPlan(
        num_prompts=1, max_new_tokens=10, gamma=3, group_sizes=(64,), long_context=100
    )
    pairs = load_both("pocket", device="cpu", progress=lambda text: None)
    assert pairs[8].target.model is pairs[16].target.model  # type: ignore[attr-defined]
    report = run_quantspec(pairs, plan, progress=lambda text: None)
    json.dumps(report, allow_nan=False)
    kinds = {(row["cache_bits"], row["temperature"], row["context"]) for row in report["rows"]}
    assert kinds == {(b, t, c) for b in (8, 16) for t in (0.0, 1.0) for c in ("short", "long")}
    for row in report["rows"]:
        assert row["accepted_tokens"] <= row["drafted_tokens"] and row["tau"] >= 1.0
        assert len(row["rates"]) <= 3 and all(0.0 <= rate <= 1.0 for rate in row["rates"])
    full, eight, four = (report["surprise"][k] for k in ("full", "eight_bit_cache", "four_bit"))
    assert abs(eight - full) < 0.02 < four
    assert {row["badge"] for row in report["modelled"]} == {"modelled"}
    assert report["targets"]["8"]["name"].endswith("8-bit cache")
    print_quantspec(report, "a100")
    shown = capsys.readouterr().out
    assert "not faster" in shown.replace("\n", " ") and "modelled" in shown and "128K" in shown


def test_rates_by_position_count_what_was_tested() -> None:
    from speed_kit import chain_trace

    rounds = chain_trace(0, 4000, (0.9, 0.5)).rounds
    first, second = conditional_rates(rounds)
    assert first == pytest.approx(0.9, abs=0.04) and second == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("name", ["num_prompts", "max_new_tokens", "gamma"])
def test_a_plan_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        QuantSpecPlan(**{name: 0})
