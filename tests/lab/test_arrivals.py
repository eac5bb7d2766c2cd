"""A server under random arrivals, against queueing theory and the roofline it stands on."""

from __future__ import annotations

import doctest
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.core.roofline_rounds import PLAIN, Speculation, round_cost
from speclab.lab import arrivals
from speclab.lab.arrivals import POLICIES, Load, LoadSweep, Traffic, simulate, sweep
from speclab.lab.hardware import usual_setting
from speclab.lab.model_shapes import SHAPES, dflash_head, eagle3_head
from speclab.lab.step_times import StepTimes

EIGHT = SHAPES["llama-8b"]
HERE = usual_setting("llama-8b", "rtx-3090")
CHAIN = Speculation.chain(0.7, 4, eagle3_head(EIGHT))


@pytest.fixture(scope="module")
def found() -> LoadSweep:
    return sweep(HERE, CHAIN, qps=(0.25, 2.0, 4.0, 8.0), traffic=Traffic(num_requests=200))


def test_the_example_at_the_top_is_true() -> None:
    assert doctest.testmod(arrivals).failed == 0


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize(
    "speculation",
    [
        CHAIN,
        Speculation.chain(0.6, 3),
        Speculation.chain(0.8, 4, EIGHT, window=256),
        Speculation.block(5.0, 15, dflash_head(EIGHT)),
        Speculation.tree(4.5, 60, 7, 10, eagle3_head(EIGHT)),
    ],
)
def test_a_step_costs_what_the_roofline_says(speculation: Speculation, batch: int) -> None:
    times = StepTimes(HERE, speculation, 512)
    gamma = times.length("fixed", batch)
    for context in (0, 700, 20_000):
        cost = round_cost(HERE, speculation, batch=batch, context=context)
        step = times.step_s(gamma, batch, np.array([batch * context]))[0]
        assert step == pytest.approx(cost.seconds, rel=1e-9)
        plain = times.step_s(0, batch, np.array([batch * context]))[0]
        assert plain == pytest.approx(cost.plain.seconds, rel=1e-9)


def test_one_at_a_time_waits_as_queueing_theory_says() -> None:
    """Batch 1 and equal requests make an M/D/1 queue: Pollaczek and Khinchine's mean wait."""
    traffic = Traffic(num_requests=2500, new_tokens=16, spread=0.0, max_batch=1)
    alone = simulate(
        HERE,
        CHAIN,
        qps=1e-3,
        traffic=Traffic(num_requests=1, new_tokens=16, spread=0.0, max_batch=1),
        policy="plain",
    )
    service = alone.latency_s[50]
    rate = 0.5 / service
    times = StepTimes(HERE, PLAIN, traffic.prompt_tokens)
    server = arrivals._Server(times, traffic, rate, "plain")
    server.run()
    wait = float(np.mean(server._end - server._arrivals)) - service
    assert wait == pytest.approx(0.5 * service / (2 * (1 - 0.5)), rel=0.1)


def test_alone_a_request_takes_its_steps() -> None:
    traffic = Traffic(num_requests=20, new_tokens=64, spread=0.0)
    plain = simulate(HERE, CHAIN, qps=1e-4, traffic=traffic, policy="plain")
    step = round_cost(HERE, CHAIN, context=512 + 32).plain.seconds
    assert plain.tpot_ms[50] == pytest.approx(1000 * step, rel=1e-3)
    assert plain.mean_batch == 1.0
    assert plain.tokens_per_pass == 1.0 and plain.mean_drafted == 0.0


def test_plain_decoding_pays_for_no_draft() -> None:
    """Neither its prefill nor its memory: the same loads beside no draft, 1 B and 3 B."""
    here = usual_setting("llama-8b", "h100")
    traffic = Traffic(num_requests=80)
    without = sweep(here, Speculation.chain(0.7, 4), qps=(32.0,), traffic=traffic)
    for name in ("llama-1b", "llama-3b"):
        chain = Speculation.chain(0.7, 4, SHAPES[name])
        beside = sweep(here, chain, qps=(32.0,), traffic=traffic)
        assert beside.plain == without.plain
        alone = simulate(here, chain, qps=32.0, traffic=traffic, policy="plain")
        assert alone == without.plain[0]
        assert beside.fixed[0].tpot_ms[50] > without.fixed[0].tpot_ms[50]


def test_a_draft_takes_room_only_where_it_may_draft() -> None:
    eight, one = SHAPES["llama-8b"], SHAPES["llama-1b"]
    rooms = [StepTimes(HERE, held, 512).room for held in (PLAIN, Speculation.chain(0.7, 2, one))]
    free = HERE.hardware.memory_bytes - 2 * eight.total_params
    assert rooms[0] == int(free / eight.kv_bytes_per_token())
    assert rooms[1] < rooms[0]


@settings(deadline=None, max_examples=20)
@given(alpha=st.floats(0.0, 1.0), gamma=st.integers(1, 16), tokens=st.integers(1, 8))
@example(alpha=0.95, gamma=12, tokens=8)
@example(alpha=1.0, gamma=16, tokens=1)
def test_short_requests_end_in_their_first_round(alpha: float, gamma: int, tokens: int) -> None:
    traffic = Traffic(num_requests=5, new_tokens=tokens)
    chain = Speculation.chain(alpha, gamma, eagle3_head(EIGHT))
    found = sweep(HERE, chain, qps=(0.5, 50.0), traffic=traffic)
    assert found.crossing_qps is None or 0.5 <= found.crossing_qps <= 50.0
    for load in (*found.plain, *found.fixed, *found.adaptive):
        assert load.tpot_ms[50] >= 0.0 and load.latency_s[50] > 0.0


def test_one_round_requests_are_compared_by_their_whole_time() -> None:
    """A sure draft saves seven passes of eight; one that is always refused only costs."""
    traffic = Traffic(num_requests=20, new_tokens=8, spread=0.0)
    sure = sweep(HERE, Speculation.chain(1.0, 12), qps=(0.5, 1.0), traffic=traffic)
    assert sure.fixed[0].tpot_ms[50] == 0.0 and sure.crossing_qps is None
    one = Traffic(num_requests=20, new_tokens=1, spread=0.0)
    idle = Speculation.chain(0.0, 12, SHAPES["llama-1b"])
    assert sweep(HERE, idle, qps=(0.5, 1.0), traffic=one).crossing_qps == 0.5


def test_rounds_emit_what_the_rates_say() -> None:
    """2.77 tokens per pass, less what the ends of the texts cut off."""
    load = simulate(
        HERE, CHAIN, qps=0.1, traffic=Traffic(num_requests=200, new_tokens=400), policy="fixed"
    )
    assert CHAIN.tokens_per_pass == pytest.approx(2.7731)
    assert load.tokens_per_pass == pytest.approx(2.7731, rel=0.01)
    certain = Speculation.chain(1.0, 3)
    sure = simulate(HERE, certain, qps=0.1, traffic=Traffic(num_requests=10, spread=0.0))
    assert sure.tokens_per_pass == 4.0
    never = Speculation.chain(0.0, 3)
    assert simulate(HERE, never, qps=0.1, traffic=Traffic(num_requests=10)).tokens_per_pass == 1.0


def test_speculation_wins_while_the_server_is_quiet_and_loses_when_it_is_full(
    found: LoadSweep,
) -> None:
    ratios = [p.tpot_ms[50] / f.tpot_ms[50] for p, f in zip(found.plain, found.fixed, strict=True)]
    assert ratios[0] > 2.0
    assert ratios[-1] < 1.0
    assert found.crossing_qps is not None and 2.0 < found.crossing_qps < 8.0
    full_plain, full_fixed = found.plain[-1], found.fixed[-1]
    assert full_plain.saturated and full_fixed.saturated
    assert full_fixed.tokens_per_s < 0.95 * full_plain.tokens_per_s
    assert not found.plain[0].saturated


def test_the_goodput_rule_is_never_much_worse_than_either(found: LoadSweep) -> None:
    for plain, fixed, adaptive in zip(found.plain, found.fixed, found.adaptive, strict=True):
        best = min(plain.latency_s[50], fixed.latency_s[50])
        assert adaptive.latency_s[50] <= 1.05 * best
        assert 0.0 <= adaptive.mean_drafted <= 4.0
    drafted = [load.mean_drafted for load in found.adaptive]
    assert drafted[0] == 4.0 and drafted[-1] < 1.0


def test_latency_never_falls_with_load(found: LoadSweep) -> None:
    for policy in POLICIES:
        loads = found.of(policy)
        medians = [load.latency_s[50] for load in loads]
        assert medians == sorted(medians)
        for load in loads:
            assert load.ttft_s[50] <= load.latency_s[50] <= load.latency_s[99]
            assert 0.0 < load.busy <= 1.0
            assert load.tokens_per_s <= 1.1 * load.offered_tokens_per_s


def test_the_same_seed_is_the_same_day() -> None:
    def at(seed: int) -> Load:
        return simulate(HERE, CHAIN, qps=2.0, traffic=Traffic(num_requests=60, seed=seed))

    assert at(1) == at(1)
    assert at(1) != at(2)


def test_a_full_cache_makes_requests_wait() -> None:
    """70 B in 4 bits leaves an H100 room for 45 GB of cache: twelve such requests, not 256."""
    from speclab.core.roofline import Setting
    from speclab.lab.hardware import HARDWARE

    here = Setting(target=SHAPES["llama-70b"], hardware=HARDWARE["h100"], weight_bytes=0.5)
    traffic = Traffic(num_requests=40, prompt_tokens=10_000, new_tokens=64, spread=0.0)
    room = StepTimes(here, Speculation.chain(0.7, 2), 10_000).room
    load = simulate(here, Speculation.chain(0.7, 2), qps=100.0, traffic=traffic, policy="plain")
    assert load.mean_batch <= room // 10_064
    alone = simulate(here, Speculation.chain(0.7, 2), qps=1e-4, traffic=traffic, policy="plain")
    assert load.ttft_s[50] > 3 * alone.ttft_s[50]


def test_a_stopped_sweep_keeps_what_it_has() -> None:
    asked = iter([False, True, True])
    part = sweep(
        HERE,
        CHAIN,
        qps=(0.5, 1.0, 2.0),
        traffic=Traffic(num_requests=20),
        stopped=lambda: next(asked),
    )
    assert [load.qps for load in part.plain] == [0.5]


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(BadInput, match="weights take 141 GB"):
        simulate(usual_setting("llama-70b", "h100"), Speculation.chain(0.7, 2), qps=1.0)
    with pytest.raises(BadInput, match="does not fit"):
        simulate(HERE, CHAIN, qps=1.0, traffic=Traffic(prompt_tokens=131_072))
    with pytest.raises(BadInput, match="must rise"):
        sweep(HERE, CHAIN, qps=(2.0, 1.0))
    with pytest.raises(BadInput, match="qps"):
        simulate(HERE, CHAIN, qps=0.0)
    with pytest.raises(BadInput, match="num_requests"):
        Traffic(num_requests=0)
    with pytest.raises(BadInput, match="seed"):
        Traffic(seed=-1)


def test_a_thousand_requests_take_less_than_a_second() -> None:
    start = time.process_time()
    simulate(HERE, CHAIN, qps=2.0, traffic=Traffic(num_requests=1000))
    assert time.process_time() - start < 1.0
