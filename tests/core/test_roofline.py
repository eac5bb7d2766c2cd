"""The roofline at numbers that can be checked by hand, and the shapes that people argue about."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core import roofline
from speclab.core.errors import BadInput
from speclab.core.roofline import LIMITS, ModelShape, Setting, distinct_experts, pass_cost
from speclab.core.roofline_rounds import (
    PLAIN,
    Speculation,
    batch_curve,
    best_chain,
    crossing,
    memory_bytes,
    round_cost,
    verify_costs,
    with_engine,
)
from speclab.core.theory import walltime_speedup
from speclab.lab.hardware import CPU_PASSES, HARDWARE, hardware_named, shape_named, usual_setting
from speclab.lab.model_shapes import SHAPES, eagle1_head, eagle3_head

IDEAL = replace(
    HARDWARE["h100"],
    bandwidth_share=1.0,
    compute_share=1.0,
    pass_overhead_s=0.0,
    layer_overhead_s=0.0,
)
EIGHT = SHAPES["llama-8b"]
IDEAL_8B = Setting(target=EIGHT, hardware=IDEAL)
ANY_SETTING = st.builds(
    usual_setting, st.sampled_from(sorted(SHAPES)), st.sampled_from(sorted(HARDWARE))
)


def test_the_example_at_the_top_is_true() -> None:
    assert doctest.testmod(roofline).failed == 0


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("smollm2-135m", 0.13452),
        ("llama-1b", 1.23581),
        ("llama-3b", 3.21275),
        ("llama-8b", 8.03026),
        ("qwen3-8b", 8.19074),
        ("qwen-32b", 32.7639),
        ("llama-70b", 70.5537),
        ("qwen3-30b-a3b", 30.5321),
        ("mixtral-8x7b", 46.7028),
    ],
)
def test_parameters_are_those_of_the_public_checkpoints(name: str, billions: float) -> None:
    """Norms and biases are left out: at most four in ten thousand."""
    assert SHAPES[name].total_params == pytest.approx(billions * 1e9, rel=4e-4)


def test_active_parameters_of_the_sparse_models() -> None:
    assert SHAPES["qwen3-30b-a3b"].active_params == pytest.approx(3.0e9, rel=0.02)
    assert SHAPES["mixtral-8x7b"].active_params == pytest.approx(12.8e9, rel=0.01)


def test_a_step_by_hand() -> None:
    """8 B at batch 1: bytes of all matrices but the embedding, and of 1,000 cached tokens."""
    step = pass_cost(IDEAL_8B, batch=1, tokens=1, context=1000)
    weights = 2 * EIGHT.active_params / 3.35e12
    cache = 1001 * 2 * 32 * 8 * 128 * 2 / 3.35e12
    assert step.seconds == pytest.approx(weights + cache, rel=1e-12)
    assert step.limit == "weights"
    assert step.num_flops == pytest.approx(
        2 * EIGHT.active_params + 4 * 32 * 32 * 128 * 1001, rel=1e-12
    )


def test_a_wide_pass_by_hand() -> None:
    """Far beyond the ridge the products cost their operations and nothing else."""
    wide = pass_cost(IDEAL_8B, batch=2048, tokens=1, context=0)
    products = 2 * EIGHT.active_params * 2048 / 989.4e12
    kv = next(group for group in wide.groups if group.name == "kv")
    assert wide.seconds - kv.seconds == pytest.approx(products, rel=1e-12)
    assert wide.limit == "compute"


@pytest.mark.parametrize(("device", "percent"), [("a100", 0.65), ("h100", 0.34), ("rtx-3090", 1.3)])
def test_arithmetic_stands_idle_at_batch_one(device: str, percent: float) -> None:
    """One operation per byte: the ceiling of utilisation in bfloat16."""
    hardware = HARDWARE[device]
    ceiling = hardware.bandwidth_bytes_per_s / hardware.flops_per_s["bfloat16"]
    assert 100 * ceiling == pytest.approx(percent, abs=0.05)


def test_a_72b_model_cannot_do_28_tokens_a_second_on_one_a100() -> None:
    """A table that circulates says 28.5: the weights do not fit, and bandwidth allows 14."""
    shape = replace(SHAPES["llama-70b"], vocab=152064, intermediate=29568)
    assert 2 * shape.total_params == pytest.approx(145e9, rel=0.01)
    setting = Setting(target=shape, hardware=HARDWARE["a100"])
    step = round_cost(setting, PLAIN, context=0)
    assert not step.fits
    assert 2039e9 / (2 * shape.total_params) == pytest.approx(14, abs=0.1)
    assert step.plain_tokens_per_s < 14.3


def test_the_cache_of_eight_tokens_of_70b_is_small() -> None:
    assert 8 * SHAPES["llama-70b"].kv_bytes_per_token() == pytest.approx(2.62e6, rel=1e-3)


def test_terms_add_up_and_name_what_limits() -> None:
    for batch, context, limit in ((1, 128, "weights"), (64, 32768, "kv"), (1024, 128, "compute")):
        cost = pass_cost(usual_setting("llama-8b", "h100"), batch=batch, context=context)
        assert sum(cost.terms.values()) == pytest.approx(cost.seconds)
        assert cost.limit == limit
    tiny = pass_cost(usual_setting("smollm2-135m", "h200"), context=0)
    assert tiny.limit == "overhead"


def test_the_ridge_is_where_the_curve_bends() -> None:
    setting = usual_setting("llama-8b", "a100")
    ridge = int(setting.critical_tokens)
    below, above = (pass_cost(setting, batch=n, context=0) for n in (ridge - 1, ridge + 2))
    kinds = [{g.limit for g in cost.groups if g.name != "kv"} for cost in (below, above)]
    assert kinds == [{"weights"}, {"compute"}]


def test_experts_touched() -> None:
    assert distinct_experts(8, 2, 1) == pytest.approx(2.0)
    assert distinct_experts(8, 2, 2) == pytest.approx(3.5)
    assert distinct_experts(128, 8, 1e9) == pytest.approx(128)
    assert distinct_experts(0, 0, 4) == 0.0


def test_with_experts_a_second_token_is_not_free() -> None:
    """A dense pass on four tokens costs one; a sparse one reads three times the experts."""
    dense = verify_costs(usual_setting("llama-8b", "h100"), widths=(4,))[4]
    sparse = verify_costs(usual_setting("mixtral-8x7b", "h100"), widths=(4,))[4]
    assert dense < 1.05
    assert sparse > 1.8


def test_the_laptop_is_near_what_was_measured() -> None:
    """Step, v(9) and v(17) within a third of the numbers that its source names."""
    here = usual_setting("smollm2-135m", "cpu-2")
    step = pass_cost(here, context=128).seconds
    assert step == pytest.approx(CPU_PASSES.step_s, rel=1 / 3)
    modelled = verify_costs(here, widths=tuple(CPU_PASSES.verify_cost), context=128)
    assert set(modelled) == {9, 17}
    for width, measured in CPU_PASSES.verify_cost.items():
        assert modelled[width] == pytest.approx(measured, rel=1 / 3)
    free = replace(here, hardware=replace(here.hardware, compute_share=1.0))
    assert verify_costs(free, widths=(17,), context=128)[17] < CPU_PASSES.verify_cost[17] * 2 / 3


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_laptop_says_what_it_was_set_to_and_where(lang: str) -> None:
    """The numbers stand in the preset: no kept report, measured again elsewhere, moves them."""
    source = getattr(HARDWARE["cpu-2"].shares_source, lang)
    for part in ("AMD EPYC", "2026-11-29", "2.13.0", "23.4", "2.85", "4.55"):
        assert part in source
    assert "assets" not in source


def test_an_ideal_machine_gives_leviathans_formula() -> None:
    """Batch 1, short context, far below the ridge: v = 1, and S is the closed form."""
    draft = replace(EIGHT, name="draft", layers=2)
    found = round_cost(IDEAL_8B, Speculation.chain(0.8, 4, draft), context=0)
    assert found.verify_cost == pytest.approx(1.0, abs=1e-3)
    expected = walltime_speedup(0.8, 4, found.cost_ratio, lambda n: found.verify_cost)
    assert found.speedup == pytest.approx(expected, rel=1e-12)
    assert round_cost(IDEAL_8B, PLAIN).speedup == pytest.approx(1.0)


def test_short_context_loses_with_batch_and_long_context_gains() -> None:
    """MagicDec: with a windowed draft and a long cache, the gain grows with the batch."""
    setting = usual_setting("llama-8b", "h200")
    own = Speculation.chain(0.8, 4, EIGHT, window=512)
    short = batch_curve(setting, own, batches=(1, 32, 256), context=512)
    long = batch_curve(setting, own, batches=(1, 32, 256), context=131_072)
    assert short[0].speedup > short[2].speedup
    assert long[0].speedup < long[1].speedup < long[2].speedup
    assert long[2].speedup > 1.5 * long[0].speedup


def test_the_best_length_shrinks_with_batch() -> None:
    setting = usual_setting("llama-8b", "rtx-3090")
    lengths = [
        best_chain(setting, 0.75, SHAPES["llama-1b"], batch=batch).speculation.drafted
        for batch in (1, 32, 256)
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] >= 3 and lengths[-1] == 0


def test_an_engine_costs_what_it_costs() -> None:
    chain = Speculation.chain(0.8, 3)
    slow = round_cost(IDEAL_8B, with_engine(chain, 2e-3, 1e-4), batch=8)
    fast = round_cost(IDEAL_8B, chain, batch=8)
    assert slow.seconds - fast.seconds == pytest.approx(2e-3 + 8e-4)


def test_heads_are_small() -> None:
    assert eagle1_head(EIGHT).active_params == pytest.approx(0.78e9, rel=0.05)
    assert eagle3_head(EIGHT).active_params == pytest.approx(0.42e9, rel=0.05)
    assert eagle3_head(SHAPES["qwen3-30b-a3b"]).intermediate == 3 * 2048


def test_memory_counts_both_models_and_both_caches() -> None:
    one = memory_bytes(IDEAL_8B, batch=4, context=100)
    two = memory_bytes(IDEAL_8B, batch=4, context=100, draft=SHAPES["llama-1b"])
    assert one == 2 * EIGHT.total_params + 400 * 131072
    assert two - one == 2 * SHAPES["llama-1b"].total_params + 400 * 32768


@pytest.mark.parametrize(
    ("ys", "found"), [([2.0, 1.5, 0.5], 3.0), ([2.0, 1.9, 1.8], None), ([0.9, 0.8, 0.7], 1.0)]
)
def test_crossing(ys: list[float], found: float | None) -> None:
    assert crossing([1, 2, 4], ys) == found


@settings(deadline=None, max_examples=60)
@given(ANY_SETTING, st.integers(1, 300), st.integers(1, 16), st.integers(0, 131_072))
def test_more_work_never_costs_less(
    setting: Setting, batch: int, tokens: int, context: int
) -> None:
    cost = pass_cost(setting, batch=batch, tokens=tokens, context=context)
    assert cost.seconds > 0 and set(cost.terms) == set(LIMITS)
    for more in (
        pass_cost(setting, batch=batch + 1, tokens=tokens, context=context),
        pass_cost(setting, batch=batch, tokens=tokens + 1, context=context),
        pass_cost(setting, batch=batch, tokens=tokens, context=context + 1),
    ):
        assert more.seconds >= cost.seconds
    per_token = cost.seconds / (batch * tokens)
    assert pass_cost(setting, batch=2 * batch, tokens=tokens, context=context).seconds / (
        2 * batch * tokens
    ) <= per_token * (1 + 1e-12)


@pytest.mark.parametrize("field", ["batch", "tokens", "context"])
def test_sizes_out_of_range_are_refused(field: str) -> None:
    with pytest.raises(BadInput, match=field):
        pass_cost(IDEAL_8B, **{field: -1})


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInput, match="no peak for 'int2'"):
        Setting(target=EIGHT, hardware=IDEAL, compute="int2")
    with pytest.raises(BadInput, match="weight_bytes"):
        Setting(target=EIGHT, hardware=IDEAL, weight_bytes=0.0)
    with pytest.raises(BadInput, match="'tpu'"):
        hardware_named("tpu")
    with pytest.raises(BadInput, match="'gpt'"):
        shape_named("gpt")


def test_shapes_have_no_odd_heads() -> None:
    for shape in SHAPES.values():
        assert isinstance(shape, ModelShape)
        assert shape.heads % shape.kv_heads == 0
        assert shape.source
