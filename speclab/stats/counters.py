"""The numbers of a run, each defined once in `core.glossary`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from speclab.core.records import Round, Trace
from speclab.stats.copied import copied_share, looks_up

Badge = Literal["counted", "measured", "modelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter_:
    """One number.

    Attributes:
        name: key in the glossary. symbol: as in formulas. value: None when it does not apply.
        unit: of the value. badge: counted, measured or modelled.
    """

    name: str
    symbol: str
    value: float | None
    unit: str = ""
    badge: Badge = "counted"


def ratio(top: float, bottom: float) -> float | None:
    """Return top / bottom; None when there is nothing to divide by."""
    return top / bottom if bottom else None


def acceptance_rate(rounds: Sequence[Round]) -> float | None:
    """Return positions accepted / positions tested; None for trees or when nothing was tested.

    None also where coins were flipped beyond a failure: block verification judges whole paths.
    """
    if not all(round_.tree.is_chain for round_ in rounds):
        return None
    if any(round_.num_tested > round_.num_accepted + 1 for round_ in rounds):
        return None
    tested = sum(round_.num_tested for round_ in rounds)
    return ratio(sum(round_.num_accepted for round_ in rounds), tested)


def mean_overlap(rounds: Sequence[Round]) -> float | None:
    """Return the mean of sum min(p, q) over tested positions of chains, where laws were kept."""
    if not all(round_.tree.is_chain for round_ in rounds):
        return None
    overlaps = [s.overlap for round_ in rounds for s in round_.slices if s.node is not None]
    return ratio(sum(overlaps), len(overlaps))


def acceptance_rate_per_position(
    rounds: Sequence[Round],
) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
    """Return, per position, the cumulative and the conditional acceptance rate.

    Cumulative: share of drafting rounds that accepted the position. Conditional: the same among
    rounds that accepted the position before it.
    """
    drafting = [round_ for round_ in rounds if round_.num_drafted]
    depth = max((round_.tree.max_depth for round_ in drafting), default=0)
    reached = [sum(round_.num_accepted > i for round_ in drafting) for i in range(depth)]
    cumulative = tuple(count / len(drafting) for count in reached)
    conditional = tuple(
        ratio(count, len(drafting) if i == 0 else reached[i - 1]) for i, count in enumerate(reached)
    )
    return cumulative, conditional


def block_efficiency(rounds: Sequence[Round]) -> float | None:
    """Return tau: tokens emitted / target passes."""
    return ratio(sum(len(round_.emitted) for round_ in rounds), len(rounds))


def token_times_s(trace: Trace) -> list[float]:
    """Return when each token came out, in seconds of decoding.

    Only the rounds count: what a page or a recorder does between them is not decoding.
    """
    ends = accumulate(round_.timing.total_s for round_ in trace.rounds)
    return [end for end, round_ in zip(ends, trace.rounds, strict=True) for _ in round_.emitted]


def tpot_s(trace: Trace) -> float | None:
    """Return (t_last - t_first) / (N - 1); None for fewer than two tokens."""
    times = token_times_s(trace)
    return ratio(times[-1] - times[0], len(times) - 1) if len(times) > 1 else None


def decode_s(trace: Trace) -> float:
    """Return the seconds of all rounds."""
    return sum(round_.timing.total_s for round_ in trace.rounds)


def summarise(trace: Trace) -> tuple[Counter_, ...]:
    """Return the run's numbers, in the order they are shown; what was copied where it can be."""
    rounds = trace.rounds
    emitted = sum(len(round_.emitted) for round_ in rounds)
    drafted = sum(round_.num_drafted for round_ in rounds)
    accepted = sum(round_.num_accepted for round_ in rounds)
    drafting = sum(1 for round_ in rounds if round_.num_drafted)
    seconds = decode_s(trace)
    times = token_times_s(trace)
    draft_s = sum(round_.timing.draft_s for round_ in rounds)
    copied = (Counter_(name="copied_share", symbol="", value=copied_share(rounds)),)
    return (
        Counter_(name="emitted_tokens", symbol="N", value=emitted, unit="tokens"),
        Counter_(name="num_rounds", symbol="R", value=len(rounds), unit="rounds"),
        Counter_(name="block_efficiency", symbol="τ", value=block_efficiency(rounds)),
        Counter_(name="acceptance_rate", symbol="α", value=acceptance_rate(rounds)),
        Counter_(name="mean_overlap", symbol="E[β]", value=mean_overlap(rounds)),
        Counter_(name="num_drafting_rounds", symbol="", value=drafting, unit="rounds"),
        Counter_(name="drafted_tokens", symbol="", value=drafted, unit="tokens"),
        Counter_(name="accepted_tokens", symbol="", value=accepted, unit="tokens"),
        Counter_(name="discarded_tokens", symbol="", value=drafted - accepted, unit="tokens"),
        Counter_(name="drafted_acceptance_rate", symbol="", value=ratio(accepted, drafted)),
        Counter_(name="mean_accepted_tokens", symbol="", value=ratio(accepted, len(rounds))),
        *(copied if looks_up(rounds) else ()),
        Counter_(
            name="ttft_s",
            symbol="TTFT",
            value=trace.prefill_s + times[0] if times else None,
            unit="s",
            badge="measured",
        ),
        Counter_(name="tpot_s", symbol="TPOT", value=tpot_s(trace), unit="s", badge="measured"),
        Counter_(
            name="decode_tokens_per_s",
            symbol="",
            value=ratio(emitted, seconds),
            unit="tokens/s",
            badge="measured",
        ),
        Counter_(name="draft_share", symbol="", value=ratio(draft_s, seconds), badge="measured"),
    )


def banner(trace: Trace) -> str:
    """Return a key that says when speculation did nothing; empty when it did something.

    Keys: "nothing_accepted", "no_match", "nothing_drafted".
    """
    drafted = sum(round_.num_drafted for round_ in trace.rounds)
    accepted = sum(round_.num_accepted for round_ in trace.rounds)
    kinds = {item.kind for round_ in trace.rounds for item in round_.evidence}
    if drafted:
        return "" if accepted else "nothing_accepted"
    if "no_match" in kinds:
        return "no_match"
    return "nothing_drafted" if trace.spec.params and trace.rounds else ""
