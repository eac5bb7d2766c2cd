"""QuantSpec's report: bytes by hand, the model's shape, the paper's points, a small real run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.theory import expected_tokens
from speclab.lab.hardware import HARDWARE
from speclab.lab.quantspec import (
    QuantSpecPlan,
    beside_published,
    eight_bit_name,
    load_both,
    report_path,
    run_quantspec,
)
from speclab.lab.quantspec_console import print_quantspec, published_table, ranged_text
from speclab.lab.quantspec_model import (
    CONTEXTS,
    LLAMA_2_7B,
    PUBLISHED,
    cache_bytes,
    layer_bytes,
    modelled_speed,
    traffic,
)
from speclab.lab.quantspec_numbers import conditional_rates, counted, ranged

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


@pytest.mark.parametrize(
    ("group", "big", "small"),
    [
        (16, 4_857_004_032, 3_207_168),
        (32, 4_047_503_360, 2_672_640),
        (48, 3_781_296_128, 2_500_608),
        (64, 3_642_753_024, 2_405_376),
        (128, 3_440_377_856, 2_310_144),
    ],
)
def test_bytes_of_weights_by_group_size_by_hand(group: int, big: int, small: int) -> None:
    """Groups of 16 take 8 + 4 bytes: 6 bits per weight; of 128 they take 64 + 4: 4.25 bits.

    192 columns in groups of 48: 4 of 28 bytes; 448: 9 of 28 and one of 8 + 4. In groups of 128,
    192: 68 and 36 bytes; 448: 3 of 68 and one of 36.
    """
    assert layer_bytes(LLAMA_2_7B, group) == big
    pocket = replace(
        LLAMA_2_7B, layers=12, hidden=192, intermediate=448, heads=6, kv_heads=2, head_dim=32
    )
    assert layer_bytes(pocket, group) == small


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
    title, *_ = published_table({"beside_published": beside}, "a100")
    assert "acceptance taken per tested token" in title


def test_a_share_of_drafted_tokens_would_be_a_higher_rate_per_tested_token() -> None:
    """Why the model beside the paper is the lower one: .9 per tested token is .77 of 4 drafted."""
    share = sum(0.9**place for place in range(1, 5)) / 4
    assert share == pytest.approx(0.774, abs=1e-3)
    taken, right = (
        modelled_speed(LLAMA_2_7B, A100, (rate,), context=32768, group_size=64, gammas=(4,))
        for rate in (share, 0.9)
    )
    assert taken.speedup < right.speedup


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
        assert row["prompts"] == 1 and row["acceptance_rate_low"] is row["tau_high"] is None
    full, eight, four = (report["surprise"][k] for k in ("full", "eight_bit_cache", "four_bit"))
    assert abs(eight - full) < 1e-3 < abs(four - full) < 0.05
    assert {row["badge"] for row in report["modelled"]} == {"modelled"}
    assert {row["prompts"] for row in report["modelled"]} == {1}
    assert {row["measured_context"] for row in report["modelled"]} == {"long"}
    assert report["targets"]["8"]["name"].endswith("8-bit cache")
    print_quantspec(report, "a100")
    shown = " ".join(capsys.readouterr().out.split())
    assert "not faster" in shown and "modelled" in shown and "128K" in shown
    assert "Acceptance of 1 prompt (" in shown and "at the acceptance of 1 prompt here" in shown


def test_rates_by_position_count_what_was_tested() -> None:
    from speed_kit import chain_trace

    runs = [chain_trace(seed, 400, (0.9, 0.5)).rounds for seed in range(10)]
    (first, tested), (second, after) = conditional_rates(runs)
    assert first[0] == pytest.approx(0.9, abs=0.04) and second[0] == pytest.approx(0.5, abs=0.05)
    assert after <= round(first[0] * tested) < tested  # type: ignore[operator]
    for value, low, high in (first, second):
        assert value - 0.1 < low < value < high < value + 0.1  # type: ignore[operator]


def test_intervals_are_over_prompts_and_need_three() -> None:
    from speed_kit import chain_trace

    runs = [chain_trace(seed, 60, (0.8, 0.8, 0.8)).rounds for seed in range(4)]
    found = counted(runs, 3)
    whole = counted([[round_ for run in runs for round_ in run]], 3)
    assert found["tau_low"] < found["tau"] < found["tau_high"]
    assert whole["tau"] == found["tau"] and whole["tau_low"] is whole["tau_high"] is None
    assert found["prompts"] == 4 and found["rates"] == whole["rates"]
    assert whole["rates_low"] == [None] * 3 and None not in found["rates_low"]
    value, low, high = ranged([9, 8, 5, 7], [10, 10, 10, 10])
    assert value == pytest.approx(0.725) and 0.5 <= low < value < high <= 0.9  # type: ignore[operator]
    assert ranged([1, 2, 0, 0], [2, 2, 0, 0]) == (0.75, None, None)
    assert ranged([0], [0]) == (None, None, None)
    assert ranged_text(found, "tau", 2).endswith(")") and "(" not in ranged_text(whole, "tau", 2)
    assert ranged_text({"tau": None}, "tau", 2) == "–"


def test_the_kept_report_has_intervals_and_says_how_many_prompts(capsys) -> None:
    kept = json.loads(report_path("pocket").read_text(encoding="utf-8"))
    assert kept["plan"]["num_prompts"] >= 3
    for row in kept["rows"]:
        assert row["prompts"] == kept["plan"]["num_prompts"]
        assert row["acceptance_rate_low"] <= row["acceptance_rate"] <= row["acceptance_rate_high"]
        assert row["tau_low"] <= row["tau"] <= row["tau_high"]
    print_quantspec(kept, "a100")
    first, shown = kept["rows"][0], " ".join(capsys.readouterr().out.split())
    assert f"{first['tau']:.2f} ({first['tau_low']:.2f}–" in shown
    assert f"at the acceptance of {kept['plan']['num_prompts']} prompts here" in shown


@pytest.mark.parametrize("name", ["num_prompts", "max_new_tokens", "gamma"])
def test_a_plan_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match=name):
        QuantSpecPlan(**{name: 0})
