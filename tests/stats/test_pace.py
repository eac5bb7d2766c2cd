"""The pace of runs: exact numbers by hand, and identities for any run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.core.records import ModelId, Round, RunSpec, Timing, Trace, Verdict
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.stats.counters import summarise, token_times_s
from speclab.stats.counters import tpot_s as tpot_of_counters
from speclab.stats.pace import (
    Burst,
    burst_gaps_s,
    bursts,
    emission_times_s,
    gap_edges_s,
    gap_histogram,
    pace_of,
    quantile,
    request_s,
    token_gaps_s,
    ttft_s,
)

SPEC = RunSpec(method="draft-model", rule="token", pair="toy", target=ModelId(name="toy"))


def run(
    *rounds: tuple[int, int, float, float], prefill_s: float = 0.0, idle_s: float = 0.0
) -> Trace:
    """Return a run whose rounds are (drafted, accepted, draft_s, target_s).

    Each emits accepted + 1 tokens; between rounds somebody else works for `idle_s`.
    """
    made, clock = [], 0.0
    for index, (drafted, accepted, draft_s, target_s) in enumerate(rounds):
        made.append(
            Round(
                index=index,
                context_length=1,
                tree=TokenTree.chain(range(drafted)) if drafted else EMPTY_TREE,
                verdict=Verdict(
                    accepted=tuple(range(accepted)),
                    next_token=9,
                    outcome="bonus" if accepted == drafted else "correction",
                ),
                emitted=tuple(range(accepted + 1)),
                timing=Timing(start_s=clock, draft_s=draft_s, target_s=target_s),
            )
        )
        clock += draft_s + target_s + idle_s
    return Trace(spec=SPEC, prompt_tokens=(1,), rounds=tuple(made), prefill_s=prefill_s)


seconds = st.floats(0.0, 10.0, allow_subnormal=False)
rounds_of = st.integers(0, 6).flatmap(
    lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted), seconds, seconds)
)
runs = st.builds(
    lambda rounds, prefill, idle: run(*rounds, prefill_s=prefill, idle_s=idle),
    st.lists(rounds_of, max_size=12),
    seconds,
    seconds,
)

few = settings(max_examples=20)

BY_HAND = run((4, 2, 0.1, 0.3), (4, 0, 0.2, 0.3), (4, 4, 0.1, 0.5), prefill_s=2.0, idle_s=7.0)


def test_a_run_by_hand() -> None:
    """3 tokens at 2.4 s, 1 at 2.9 s, 5 at 3.5 s: N = 9, and what idles between is not counted."""
    assert [(round(b.at_s, 9), b.count) for b in bursts(BY_HAND)] == [(2.4, 3), (2.9, 1), (3.5, 5)]
    assert emission_times_s(BY_HAND) == pytest.approx([2.4] * 3 + [2.9] + [3.5] * 5)
    assert token_gaps_s(BY_HAND) == pytest.approx([0, 0, 0.5, 0.6, 0, 0, 0, 0])
    assert burst_gaps_s(BY_HAND) == pytest.approx([0.5, 0.6])
    pace = pace_of([BY_HAND])
    assert pace.ttft_s == pytest.approx(2.4), "prefill of target and draft, and the first round"
    assert pace.tpot_s == pytest.approx((3.5 - 2.4) / (9 - 1))
    assert pace.tokens_per_s == pytest.approx(9 / 1.5)
    assert pace.request_s_per_token == pytest.approx(3.5 / 9)
    assert pace.draft_share == pytest.approx(0.4 / 1.5)
    assert (pace.drafted_tokens, pace.accepted_tokens, pace.discarded_tokens) == (12, 6, 6)
    assert pace.discarded_share == 0.5 and pace.block_efficiency == 3.0
    assert pace.burst_gap_p50_s == pytest.approx(0.55)
    assert pace.burst_gap_p99_s == pytest.approx(0.599)
    assert (pace.num_burst_gaps, pace.tokens_per_burst) == (2, 3.0)


def test_runs_are_pooled_as_totals_not_as_means_of_ratios() -> None:
    long = run(*[(0, 0, 0.0, 0.1)] * 100)
    short = run((0, 0, 0.0, 1.0), (0, 0, 0.0, 1.0))
    pace = pace_of([long, short])
    assert pace.tokens_per_s == pytest.approx(102 / 12.0)
    assert pace.tokens_per_s != pytest.approx((10.0 + 1.0) / 2)
    assert pace.tpot_s == pytest.approx((9.9 + 1.0) / (99 + 1))
    assert pace.tpot_p50_s == pytest.approx((0.1 + 1.0) / 2)
    assert pace.tpot_p99_s == pytest.approx(0.1 + 0.99 * 0.9)
    assert pace.num_runs == 2 and pace.num_burst_gaps == 100


def test_nothing_emitted_and_nothing_drafted_is_said_to_be_nothing() -> None:
    for traces in ([], [run()]):
        pace = pace_of(traces)
        assert pace.emitted_tokens == pace.num_rounds == 0
        for value in (pace.ttft_s, pace.tpot_s, pace.tokens_per_s, pace.burst_gap_p99_s):
            assert value is None
    plain = pace_of([run((0, 0, 0.0, 0.1))])
    assert plain.discarded_share is None and plain.acceptance_rate is None
    assert plain.tpot_s is None, "one token has no gap"
    assert plain.ttft_s == pytest.approx(0.1)


@few
@given(runs)
def test_the_mean_gap_between_tokens_is_the_time_per_token(trace: Trace) -> None:
    gaps, pace = token_gaps_s(trace), pace_of([trace])
    assert len(gaps) == max(len(trace.emitted) - 1, 0) and all(gap >= 0.0 for gap in gaps)
    wanted = tpot_of_counters(trace)
    if wanted is None:
        assert pace.tpot_s is None
    else:
        assert sum(gaps) / len(gaps) == pytest.approx(wanted, abs=1e-9)
        assert pace.tpot_s == pytest.approx(wanted, abs=1e-9)
        assert pace.tpot_p50_s == pytest.approx(wanted, abs=1e-9)


@few
@given(runs)
def test_times_rise_and_end_with_the_request(trace: Trace) -> None:
    times = emission_times_s(trace)
    assert len(times) == len(trace.emitted) and list(times) == sorted(times)
    if times:
        assert times[0] == ttft_s(trace) >= trace.prefill_s
        assert times[-1] == pytest.approx(request_s(trace), abs=1e-9)
        decoding = [trace.prefill_s + time for time in token_times_s(trace)]
        assert times == pytest.approx(decoding, abs=1e-9)


@few
@given(runs)
def test_bursts_hold_every_token_and_their_waits_add_up_to_the_gaps(trace: Trace) -> None:
    found = bursts(trace)
    assert sum(burst.count for burst in found) == len(trace.emitted)
    assert all(isinstance(burst, Burst) and burst.count >= 1 for burst in found)
    assert sum(burst_gaps_s(trace)) == pytest.approx(sum(token_gaps_s(trace)), abs=1e-9)


@few
@given(runs)
def test_one_number_is_defined_once(trace: Trace) -> None:
    """What the player's counters say of a run and what its pace says are the same."""
    counters = {counter.name: counter.value for counter in summarise(trace)}
    pace = pace_of([trace])
    for name, mine in (
        ("emitted_tokens", pace.emitted_tokens),
        ("num_rounds", pace.num_rounds),
        ("block_efficiency", pace.block_efficiency),
        ("acceptance_rate", pace.acceptance_rate),
        ("drafted_tokens", pace.drafted_tokens),
        ("accepted_tokens", pace.accepted_tokens),
        ("discarded_tokens", pace.discarded_tokens),
        ("ttft_s", pace.ttft_s),
        ("tpot_s", pace.tpot_s),
        ("decode_tokens_per_s", pace.tokens_per_s),
        ("draft_share", pace.draft_share),
    ):
        value = counters[name]
        assert mine == (value if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)), name


@few
@given(st.lists(runs, min_size=1, max_size=3), seconds)
def test_a_longer_prefill_delays_the_first_token_and_nothing_else(
    traces: list[Trace], more: float
) -> None:
    later = [replace(trace, prefill_s=trace.prefill_s + more) for trace in traces]
    before, after = pace_of(traces), pace_of(later)
    if before.ttft_s is not None:
        assert after.ttft_s == pytest.approx(before.ttft_s + more, abs=1e-9)
    assert after.tpot_s == before.tpot_s and after.tokens_per_s == before.tokens_per_s


@few
@given(st.lists(seconds, max_size=40), st.integers(1, 30))
def test_the_bins_of_all_gaps_lose_none(gaps: list[float], bins: int) -> None:
    edges = gap_edges_s(gaps, bins)
    counted = gap_histogram(gaps, edges)
    assert counted.total == len(gaps)
    if any(gap > 0 for gap in gaps):
        assert len(edges) == bins + 1 and list(edges) == sorted(edges)
        assert counted.below == sum(gap == 0.0 for gap in gaps) and counted.above == 0
    else:
        assert edges == () and counted.below == len(gaps)


def test_bins_by_hand() -> None:
    counted = gap_histogram([0.0, 1.0, 1.9, 2.0, 4.0, 5.0], (1.0, 2.0, 4.0))
    assert counted.counts == (2, 2) and (counted.below, counted.above) == (1, 1)


def test_quantiles() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile(list(range(101)), 0.99) == 99.0
    for level in (-0.1, 1.1):
        with pytest.raises(BadInput, match="between 0 and 1"):
            quantile([1.0], level)
    with pytest.raises(BadInput, match="at least 1 bin"):
        gap_edges_s([1.0], 0)
