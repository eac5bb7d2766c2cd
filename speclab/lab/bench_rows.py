"""The lines of a benchmark report: one per way of decoding and temperature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from speclab.core.protocols import needed
from speclab.core.records import Timing, Trace
from speclab.core.theory import walltime_speedup
from speclab.lab.head_numbers import DIGITS, Measured, tau
from speclab.lab.labels import gamma_of, parse_label, peer_of
from speclab.lab.ledger import LoadedShape, memory_of, passes_recorded, shape_of, work_of
from speclab.methods import METHODS, make_method
from speclab.models.pair import Pair
from speclab.stats.intervals import paired_rate_interval
from speclab.stats.pace import Pace, burst_gaps_s, gap_edges_s, gap_histogram, pace_of

BASELINE = "autoregressive"
HISTOGRAM_BINS = 24
Key = tuple[str, float]
"""(label, temperature)."""


@dataclass(slots=True)
class Timed(Measured):
    """What one line did, and when its tokens came by the wall clock.

    Attributes:
        arrived: by (repeat, prompt) the trace with the wall clock's seconds only, from the call on:
            the same clock for us and for other programs. The traces keep our stages' own.
    """

    arrived: dict[tuple[int, int], Trace] = field(default_factory=dict)


def by_arrival(trace: Trace, arrivals: Sequence[float]) -> Trace:
    """Return a trace whose rounds end when they arrived, in seconds from the start of the request.

    The first round holds the prefill and all else before it; stages are not told apart.
    """
    before = (0.0, *arrivals[:-1])
    rounds = tuple(
        replace(round_, timing=Timing(start_s=start, target_s=end - start))
        for round_, start, end in zip(trace.rounds, before, arrivals, strict=True)
    )
    return replace(trace, rounds=rounds, prefill_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Everything that was timed, and what turns it into lines.

    Attributes:
        pair: the loaded pair. measured: by label and temperature.
        families: of the prompts, in their order.
        costs: c and v(n). verify_cost: v(n) as a function.
        shapes: of the target and of the draft model.
        notes: remarks on labels.
    """

    pair: Pair
    measured: Mapping[Key, Timed]
    families: Sequence[str]
    costs: Mapping[str, Any]
    verify_cost: Callable[[int], float]
    shapes: tuple[LoadedShape | None, LoadedShape | None]
    notes: Mapping[str, str]

    @classmethod
    def of(
        cls,
        pair: Pair,
        measured: Mapping[Key, Timed],
        families: Sequence[str],
        costs: Mapping[str, Any],
        verify_cost: Callable[[int], float],
        notes: Mapping[str, str],
    ) -> Table:
        """Return the table of a run."""
        draft = shape_of(pair.drafts[0]) if pair.drafts else None
        return cls(
            pair=pair,
            measured=measured,
            families=families,
            costs=costs,
            verify_cost=verify_cost,
            shapes=(shape_of(pair.target), draft),
            notes=notes,
        )

    def gap_edges(self) -> tuple[float, ...]:
        """Return the bins of all histograms, so that they can be laid over each other."""
        traces = (trace for each in self.measured.values() for trace in each.arrived.values())
        return gap_edges_s([gap for trace in traces for gap in burst_gaps_s(trace)], HISTOGRAM_BINS)

    def rows(self) -> list[dict[str, Any]]:
        """Return every line, greedy ones first if they were asked for first (JSON types)."""
        edges = self.gap_edges()
        return [self.row(key, edges) for key in self.measured]

    def row(self, key: Key, edges: Sequence[float]) -> dict[str, Any]:
        """Return one line."""
        (label, temperature), mine = key, self.measured[key]
        ours = label.partition(":")[0] in METHODS
        counted = list(mine.counted(temperature == 0.0).values())
        pace = pace_of(list(mine.traces.values()))
        found = {
            "method": label,
            "temperature": temperature,
            **_rates(mine),
            **_named("tau", tau(mine.counted(temperature == 0.0))),
            **self._against("speedup", (BASELINE, temperature), mine),
            "emitted_tokens": sum(len(trace.emitted) for trace in counted),
            "rounds": sum(len(trace.rounds) for trace in counted),
            **_pace_numbers(pace_of(list(mine.arrived.values()))),
            "gaps": _gaps(mine, edges),
            "families": self._by_family(key),
        }
        if temperature == 0.0:
            found["greedy_agreement"] = _agreement(mine, self.measured[BASELINE, temperature])
        if label in self.notes:
            found["note"] = self.notes[label]
        return found | (self._own(key, counted, pace) if ours else {"acceptance_rate": None})

    def _own(self, key: Key, counted: Sequence[Trace], pace: Pace) -> dict[str, Any]:
        """Return what is known of our own runs only."""
        label, temperature = key
        once, peer = pace_of(counted), (peer_of(label), temperature)
        found: dict[str, Any] = {
            "acceptance_rate": once.acceptance_rate,
            "decode_tokens_per_s": pace.tokens_per_s,
            "draft_share": pace.draft_share,
            "drafted_tokens": once.drafted_tokens,
            "accepted_tokens": once.accepted_tokens,
            "discarded_tokens": once.discarded_tokens,
            "discarded_share": once.discarded_share,
            **self._work(label, counted),
        }
        if peer in self.measured:
            found |= {"peer": peer[0], **self._against("vs_peer", peer, self.measured[key])}
        gamma, alpha = gamma_of(label), once.acceptance_rate
        known = gamma is not None and gamma < max(map(int, self.costs["verify_cost"]))
        if known and alpha is not None and "cost_ratio" in self.costs and self._drafts(label):
            modelled = walltime_speedup(alpha, gamma, self.costs["cost_ratio"], self.verify_cost)
            found["speedup_modelled"] = round(modelled, DIGITS)
        return found

    def _drafts(self, label: str) -> bool:
        card = METHODS[parse_label(label)[0]].card
        return "draft_model" in card.needs and "nested" not in card.provides

    def _work(self, label: str, counted: Sequence[Trace]) -> dict[str, Any]:
        method = make_method(*parse_label(label))
        needs, nested = needed(method), "nested" in method.card.provides
        target, draft = self.shapes
        memory = memory_of(self.pair, needs, group_size=getattr(method, "group_size", None))
        if target is None:
            return {"memory": memory}
        used = draft if "draft_model" in needs else None
        second = shape_of(self.pair.drafts[1]) if "second_draft" in needs else None
        chains = all(round_.tree.is_chain for trace in counted for round_ in trace.rounds)
        plain = chains and used is not None and (not nested or passes_recorded(counted))
        own = _has_head(needs) or needs & OWN_NETWORK
        known = plain if needs & {"draft_model"} else not own
        work = work_of(counted, target, used, counted=known, second=second)
        emitted = sum(len(trace.emitted) for trace in counted)
        return {**work.per_token(emitted), "memory": memory}

    def _against(self, name: str, base: Key, mine: Measured) -> dict[str, float]:
        """Return seconds per emitted token of another line over mine, with an interval."""
        return _named(name, _rate_ratio(self.measured[base], mine))

    def _by_family(self, key: Key) -> dict[str, dict[str, float]]:
        """Return tau and speedup of each family of prompts, without intervals: few prompts each."""
        mine, base = self.measured[key], self.measured[BASELINE, key[1]]
        found = {}
        for family in dict.fromkeys(self.families):
            own, plain = (_of_family(each, self.families, family) for each in (mine, base))
            if not own.seconds:
                continue
            traces = own.counted(key[1] == 0.0).values()
            emitted = sum(len(trace.emitted) for trace in traces)
            found[family] = {
                "tau": round(emitted / sum(len(trace.rounds) for trace in traces), DIGITS),
                "speedup": round(_rate_ratio(plain, own)[0], DIGITS),
                "prompts": len({prompt for _, prompt in own.seconds}),
            }
        return found


OWN_NETWORK = frozenset({"early_exit", "skip_layers", "quantised_draft"})
"""Needs of methods that draft with part of the target: their passes are not counted."""


def _has_head(needs: frozenset[str]) -> bool:
    return any(need.startswith("head:") for need in needs)


def _of_family(measured: Measured, families: Sequence[str], family: str) -> Measured:
    keys = [key for key in measured.seconds if families[key[1]] == family]
    return Measured(
        seconds={key: measured.seconds[key] for key in keys},
        traces={key: measured.traces[key] for key in keys},
    )


def _rate_ratio(base: Measured, mine: Measured) -> tuple[float, float, float]:
    """Return the ratio of seconds per emitted token, paired by prompt."""
    tokens = (
        each.of_prompts({key: float(len(trace.emitted)) for key, trace in each.traces.items()})
        for each in (base, mine)
    )
    seconds = (each.of_prompts(each.seconds) for each in (base, mine))
    return paired_rate_interval(*seconds, *tokens)


def _rates(mine: Measured) -> dict[str, float]:
    """Return tokens per second of whole requests: median of the repeats, lowest and highest."""
    rates = []
    for repeat in sorted({repeat for repeat, _ in mine.seconds}):
        keys = [key for key in mine.seconds if key[0] == repeat]
        emitted = sum(len(mine.traces[key].emitted) for key in keys)
        rates.append(emitted / sum(mine.seconds[key] for key in keys))
    return {
        "tokens_per_s": round(median(rates), 2),
        "tokens_per_s_low": round(min(rates), 2),
        "tokens_per_s_high": round(max(rates), 2),
    }


def _pace_numbers(pace: Pace) -> dict[str, float | None]:
    """Return the times of a line, in seconds."""
    return {
        "ttft_s": pace.ttft_s,
        "ttft_p99_s": pace.ttft_p99_s,
        "tpot_s": pace.tpot_s,
        "tpot_p50_s": pace.tpot_p50_s,
        "tpot_p99_s": pace.tpot_p99_s,
    }


def _gaps(mine: Timed, edges: Sequence[float]) -> dict[str, Any]:
    """Return the waits between arrivals of tokens: quantiles and a histogram."""
    pace = pace_of(list(mine.arrived.values()))
    waits = [gap for trace in mine.arrived.values() for gap in burst_gaps_s(trace)]
    histogram = gap_histogram(waits, edges)
    return {
        "p50_s": pace.burst_gap_p50_s,
        "p99_s": pace.burst_gap_p99_s,
        "num": pace.num_burst_gaps,
        "counts": list(histogram.counts),
        "tokens_per_burst": pace.tokens_per_burst,
    }


def _agreement(mine: Measured, base: Measured) -> float:
    first = [key for key in mine.traces if key[0] == 0]
    same = sum(mine.traces[key].emitted == base.traces[key].emitted for key in first)
    return same / len(first)


def _named(name: str, found: tuple[float, float, float]) -> dict[str, float]:
    keys = (name, f"{name}_low", f"{name}_high")
    return {key: round(value, DIGITS) for key, value in zip(keys, found, strict=True)}
