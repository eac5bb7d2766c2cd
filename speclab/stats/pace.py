"""The pace of runs: when each token came out, the waits between them, what the seconds went into.

Two clocks are kept apart. *Decoding* is the sum of the rounds' own seconds; what a page or a
recorder does between rounds is not in it. A *request* adds `Trace.prefill_s` in front: the
seconds in which the target read the prompt and the method started, which is where a draft model,
or a head, reads the prompt too. So the time to the first token contains both prefills, and the
first round.

All tokens of one round come out together, at the end of the round: they are one *burst*. Of the
N - 1 gaps between tokens those inside a burst are 0, and their mean is the time per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.records import Trace
from speclab.stats.counters import (
    acceptance_rate,
    block_efficiency,
    decode_s,
    ratio,
    token_times_s,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """The tokens of one round.

    Attributes:
        at_s: when they came out, from the start of the request. count: how many, >= 1.
    """

    at_s: float
    count: int


def bursts(trace: Trace) -> tuple[Burst, ...]:
    """Return every arrival of tokens, in order; a round that emitted nothing makes none."""
    ends = accumulate((r.timing.total_s for r in trace.rounds), initial=trace.prefill_s)
    next(ends)
    both = zip(ends, trace.rounds, strict=True)
    return tuple(Burst(at_s=end, count=len(r.emitted)) for end, r in both if r.emitted)


def emission_times_s(trace: Trace) -> tuple[float, ...]:
    """Return when each token came out [N], from the start of the request, prefill included."""
    return tuple(burst.at_s for burst in bursts(trace) for _ in range(burst.count))


def token_gaps_s(trace: Trace) -> tuple[float, ...]:
    """Return the gaps between tokens [N - 1]; 0 inside a burst. Their mean is `tpot_s`."""
    return tuple(later - earlier for earlier, later in pairwise(token_times_s(trace)))


def burst_gaps_s(trace: Trace) -> tuple[float, ...]:
    """Return the waits from one burst to the next: what a reader sees as a pause."""
    moments = [burst.at_s for burst in bursts(trace)]
    return tuple(later - earlier for earlier, later in pairwise(moments))


def ttft_s(trace: Trace) -> float | None:
    """Return the seconds to the first token, both prefills included; None without a token."""
    arrived = bursts(trace)
    return arrived[0].at_s if arrived else None


def request_s(trace: Trace) -> float:
    """Return the seconds of the whole request: prefill and all rounds."""
    return trace.prefill_s + decode_s(trace)


def quantile(values: Sequence[float], level: float) -> float | None:
    """Return the value below which the share `level` lies, linear between neighbours.

    None without values.

    Raises:
        BadInput: for a level outside 0 to 1.
    """
    if not 0.0 <= level <= 1.0:
        raise BadInput(f"A quantile's level lies between 0 and 1, not at {level:g}.")
    return float(np.quantile(values, level)) if len(values) else None


# --- gaps as a histogram --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GapHistogram:
    """How often gaps of each length occurred.

    Attributes:
        edges_s: bounds of the bins [b + 1], rising. counts: gaps per bin [b].
        below, above: gaps outside all bins.
    """

    edges_s: tuple[float, ...]
    counts: tuple[int, ...]
    below: int = 0
    above: int = 0

    @property
    def total(self) -> int:
        """All gaps counted."""
        return sum(self.counts) + self.below + self.above


def gap_edges_s(gaps_s: Sequence[float], bins: int = 24) -> tuple[float, ...]:
    """Return edges [bins + 1] of equal width on a logarithmic axis that hold every gap > 0.

    Make them once from all the runs that one figure compares. Empty without a gap > 0.
    """
    if bins < 1:
        raise BadInput(f"A histogram needs at least 1 bin, not {bins}.")
    above_zero = [gap for gap in gaps_s if gap > 0.0]
    if not above_zero:
        return ()
    low, high = min(above_zero) * (1.0 - 1e-9), max(above_zero) * (1.0 + 1e-9)
    return tuple(np.geomspace(low, high, bins + 1).tolist())


def gap_histogram(gaps_s: Sequence[float], edges_s: Sequence[float]) -> GapHistogram:
    """Count gaps between edges [b + 1]; a bin holds its lower edge, the last one both."""
    edges = tuple(edges_s)
    if len(edges) < 2:
        return GapHistogram(edges_s=edges, counts=(), below=len(gaps_s))
    gaps = np.asarray(gaps_s, dtype=np.float64)
    counts, _ = np.histogram(gaps, bins=edges)
    return GapHistogram(
        edges_s=edges,
        counts=tuple(int(count) for count in counts),
        below=int((gaps < edges[0]).sum()),
        above=int((gaps > edges[-1]).sum()),
    )


# --- one or many runs -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The speed of one or several runs of one way of drafting. Ratios are ratios of totals.

    Attributes:
        num_runs, num_rounds, emitted_tokens: how much was run.
        drafted_tokens, accepted_tokens, discarded_tokens: drafts; discarded = drafted - accepted.
        block_efficiency: tau. acceptance_rate: alpha; None where it is undefined.
        discarded_share: discarded / drafted; None without drafts.
        prefill_s, decode_s, draft_s, target_s: seconds of all runs together.
        draft_share: draft_s / decode_s.
        tokens_per_s: emitted / decode_s. request_s_per_token: prefill included.
        ttft_s, ttft_p99_s: median and 99th percentile over the runs.
        tpot_s: total (t_last - t_first) / total (N - 1).
        tpot_p50_s, tpot_p99_s: over the runs' own TPOT.
        burst_gap_p50_s, burst_gap_p99_s: of the waits between bursts, all runs pooled.
        num_burst_gaps: how many waits those are.
        tokens_per_burst: emitted tokens / bursts.
    """

    num_runs: int
    num_rounds: int
    emitted_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    discarded_tokens: int
    block_efficiency: float | None
    acceptance_rate: float | None
    discarded_share: float | None
    prefill_s: float
    decode_s: float
    draft_s: float
    target_s: float
    draft_share: float | None
    tokens_per_s: float | None
    request_s_per_token: float | None
    ttft_s: float | None
    ttft_p99_s: float | None
    tpot_s: float | None
    tpot_p50_s: float | None
    tpot_p99_s: float | None
    burst_gap_p50_s: float | None
    burst_gap_p99_s: float | None
    num_burst_gaps: int
    tokens_per_burst: float | None


def pace_of(traces: Sequence[Trace]) -> Pace:
    """Return the pace of runs pooled: totals over totals, quantiles over what is pooled."""
    rounds = [round_ for trace in traces for round_ in trace.rounds]
    emitted = sum(len(round_.emitted) for round_ in rounds)
    drafted = sum(round_.num_drafted for round_ in rounds)
    accepted = sum(round_.num_accepted for round_ in rounds)
    prefill, decoding = sum(trace.prefill_s for trace in traces), sum(map(decode_s, traces))
    drafting = sum(round_.timing.draft_s for round_ in rounds)
    gaps = [gap for trace in traces for gap in burst_gaps_s(trace)]
    firsts = [first for trace in traces if (first := ttft_s(trace)) is not None]
    tokens = [token_gaps_s(trace) for trace in traces]
    own = [sum(each) / len(each) for each in tokens if each]
    return Pace(
        num_runs=len(traces),
        num_rounds=len(rounds),
        emitted_tokens=emitted,
        drafted_tokens=drafted,
        accepted_tokens=accepted,
        discarded_tokens=drafted - accepted,
        block_efficiency=block_efficiency(rounds),
        acceptance_rate=acceptance_rate(rounds),
        discarded_share=ratio(drafted - accepted, drafted),
        prefill_s=prefill,
        decode_s=decoding,
        draft_s=drafting,
        target_s=sum(round_.timing.target_s for round_ in rounds),
        draft_share=ratio(drafting, decoding),
        tokens_per_s=ratio(emitted, decoding),
        request_s_per_token=ratio(prefill + decoding, emitted),
        ttft_s=quantile(firsts, 0.5),
        ttft_p99_s=quantile(firsts, 0.99),
        tpot_s=ratio(sum(map(sum, tokens)), sum(map(len, tokens))),
        tpot_p50_s=quantile(own, 0.5),
        tpot_p99_s=quantile(own, 0.99),
        burst_gap_p50_s=quantile(gaps, 0.5),
        burst_gap_p99_s=quantile(gaps, 0.99),
        num_burst_gaps=len(gaps),
        tokens_per_burst=ratio(emitted, sum(len(bursts(trace)) for trace in traces)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """How much faster one way of drafting was than another, request by request.

    Attributes:
        ratio: seconds per emitted token, theirs over mine, totals over all pairs.
        low, high: the lowest and the highest of the pairs' own ratios; no confidence is claimed.
        num_pairs: how many pairs of runs.
    """

    ratio: float
    low: float
    high: float
    num_pairs: int


def speedup_over(base: Sequence[Trace], mine: Sequence[Trace]) -> Speedup | None:
    """Return the speedup of `mine` over `base`, run i against run i, prefill included.

    Runs beyond the shorter of the two are left out. None without a pair that emitted tokens.
    """
    pairs = [(b, m) for b, m in zip(base, mine, strict=False) if b.emitted and m.emitted]
    if not pairs:
        return None

    def seconds_per_token(traces: Sequence[Trace]) -> float:
        return sum(map(request_s, traces)) / sum(len(trace.emitted) for trace in traces)

    def ratio_of(some: Sequence[tuple[Trace, Trace]]) -> float:
        theirs, own = ([pair[i] for pair in some] for i in (0, 1))
        return seconds_per_token(theirs) / seconds_per_token(own)

    each = [ratio_of([pair]) for pair in pairs]
    return Speedup(ratio=ratio_of(pairs), low=min(each), high=max(each), num_pairs=len(pairs))
