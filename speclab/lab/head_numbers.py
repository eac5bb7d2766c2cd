"""The numbers of one line of a table of heads, each with its interval over prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.records import Round, Trace
from speclab.lab.head_plan import Setting
from speclab.stats.intervals import paired_ratio_interval

DIGITS = 4


@dataclass(slots=True)
class Measured:
    """What one setting did at one temperature.

    Attributes:
        seconds: of whole requests, prefill included, by (repeat, prompt).
        decode_s: of their rounds. traces: by (repeat, prompt).
    """

    seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    traces: dict[tuple[int, int], Trace] = field(default_factory=dict)

    @property
    def decode_s(self) -> dict[tuple[int, int], float]:
        """Seconds of all rounds by (repeat, prompt)."""
        return {
            key: sum(round_.timing.total_s for round_ in trace.rounds)
            for key, trace in self.traces.items()
        }

    def of_prompts(self, values: dict[tuple[int, int], float]) -> list[float]:
        """Return the sum over repeats per prompt [prompts]."""
        prompts = sorted({prompt for _, prompt in values})
        return [sum(v for (_, p), v in values.items() if p == prompt) for prompt in prompts]

    def counted(self, greedy: bool) -> dict[tuple[int, int], Trace]:
        """Return the traces to count in: greedy repeats give the same text, and count once."""
        return {key: trace for key, trace in self.traces.items() if key[0] == 0 or not greedy}


def row(setting: Setting, temperature: float, mine: Measured, base: Measured) -> dict[str, Any]:
    """Return one line of the table (JSON types).

    Args:
        mine: of the setting. base: of plain decoding at the same temperature.
    """
    greedy = temperature == 0.0
    traces = mine.counted(greedy)
    rounds = [round_ for trace in traces.values() for round_ in trace.rounds]
    found = {
        "method": setting.method,
        "label": setting.label,
        "shape": setting.shape,
        "budget": setting.budget,
        "temperature": temperature,
        "emitted_tokens": sum(len(round_.emitted) for round_ in rounds),
        "rounds": len(rounds),
        **_named("tau", tau(traces)),
        **_rates(mine),
        **_named("speedup", _ratio(base, mine, "seconds")),
        **_named("decode_speedup", _ratio(base, mine, "decode_s")),
        "drafted_per_round": _mean([round_.num_drafted for round_ in rounds]),
        "passes_per_round": _mean([round_.num_draft_forwards for round_ in rounds]),
        **_shares(list(mine.traces.values())),
        "acceptance": by_depth(traces),
    }
    if greedy:
        found["greedy_agreement"] = _agreement(mine, base)
    return found


def tau(traces: dict[tuple[int, int], Trace]) -> tuple[float, float, float]:
    """Return tokens per target pass with its interval."""
    emitted = _per_prompt(traces, lambda trace: sum(len(each.emitted) for each in trace.rounds))
    return paired_ratio_interval(emitted, _per_prompt(traces, lambda trace: len(trace.rounds)))


def by_depth(traces: dict[tuple[int, int], Trace]) -> dict[str, Any]:
    """Return how many rounds accepted depth 1, 2, ..., with conditional rates and intervals.

    Rounds that the limit on new tokens left too little room for are not counted.

    Returns:
        `drafting`: rounds that drafted. `reached`: of them, those that accepted each depth.
        `cumulative`: reached / drafting. `conditional`: [rate, low, high] per depth, of the
        rounds that accepted the depth before; None where there are none.
    """
    rounds = [round_ for trace in traces.values() for round_ in trace.rounds]
    deepest = max((round_.tree.max_depth for round_ in rounds), default=0)
    counts = _reached(traces, deepest)
    totals = counts.sum(0)
    conditional: list[list[float] | None] = []
    for depth in range(deepest):
        above, here = counts[:, depth], counts[:, depth + 1]
        rates = _safe_ratio(here, above)
        conditional.append(None if rates is None else [round(x, DIGITS) for x in rates])
    return {
        "drafting": int(totals[0]),
        "reached": [int(count) for count in totals[1:]],
        "cumulative": [round(float(count / totals[0]), DIGITS) for count in totals[1:]]
        if totals[0]
        else [],
        "conditional": conditional if totals[0] else [],
    }


def _reached(traces: dict[tuple[int, int], Trace], deepest: int) -> NDArray[np.float64]:
    """Return, per prompt, the drafting rounds and those that accepted each depth [prompts, 1+d]."""
    prompts = sorted({prompt for _, prompt in traces})
    counts = np.zeros((len(prompts), 1 + deepest))
    for (_, prompt), trace in traces.items():
        for round_ in _uncut(trace, deepest):
            counts[prompts.index(prompt), : 1 + round_.num_accepted] += 1
    return counts


def _uncut(trace: Trace, deepest: int) -> list[Round]:
    """Return the drafting rounds that had room for the deepest tree."""
    kept, emitted = [], 0
    for round_ in trace.rounds:
        room = trace.spec.max_new_tokens - emitted - 1
        if round_.num_drafted and room >= deepest:
            kept.append(round_)
        emitted += len(round_.emitted)
    return kept


def _safe_ratio(top: NDArray, bottom: NDArray) -> tuple[float, float, float] | None:
    """Return the ratio of totals with its interval over the prompts that have a denominator."""
    there = bottom > 0
    if not there.any():
        return None
    return paired_ratio_interval(top[there], bottom[there])


def _ratio(base: Measured, mine: Measured, what: str) -> tuple[float, float, float]:
    top, bottom = (each.of_prompts(getattr(each, what)) for each in (base, mine))
    return paired_ratio_interval(top, bottom)


def _rates(mine: Measured) -> dict[str, float]:
    """Return tokens per second: the median of the repeats with the lowest and the highest."""
    repeats = sorted({repeat for repeat, _ in mine.seconds})
    rates = []
    for repeat in repeats:
        keys = [key for key in mine.seconds if key[0] == repeat]
        emitted = sum(len(mine.traces[key].emitted) for key in keys)
        rates.append(emitted / sum(mine.seconds[key] for key in keys))
    emitted = sum(len(trace.emitted) for trace in mine.traces.values())
    return {
        "tokens_per_s": round(median(rates), 2),
        "tokens_per_s_low": round(min(rates), 2),
        "tokens_per_s_high": round(max(rates), 2),
        "decode_tokens_per_s": round(emitted / sum(mine.decode_s.values()), 2),
    }


def _shares(traces: Sequence[Trace]) -> dict[str, float]:
    """Return where the seconds of a round go, over all repeats."""
    timings = [round_.timing for trace in traces for round_ in trace.rounds]
    total = sum(timing.total_s for timing in timings)
    draft, target = (sum(getattr(t, name) for t in timings) for name in ("draft_s", "target_s"))
    return {
        "draft_share": round(draft / total, DIGITS),
        "draft_s_per_round": draft / len(timings),
        "target_s_per_round": target / len(timings),
        "other_s_per_round": (total - draft - target) / len(timings),
    }


def _agreement(mine: Measured, base: Measured) -> float:
    first = [key for key in mine.traces if key[0] == 0]
    same = sum(mine.traces[key].emitted == base.traces[key].emitted for key in first)
    return same / len(first)


def _per_prompt(traces: dict[tuple[int, int], Trace], count: Any) -> list[float]:
    totals: dict[int, float] = {}
    for (_, prompt), trace in traces.items():
        totals[prompt] = totals.get(prompt, 0.0) + count(trace)
    return [totals[prompt] for prompt in sorted(totals)]


def _named(name: str, found: tuple[float, float, float]) -> dict[str, float]:
    keys = (name, f"{name}_low", f"{name}_high")
    return {key: round(value, DIGITS) for key, value in zip(keys, found, strict=True)}


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), DIGITS) if values else 0.0


def tau_ratio(first: Measured, second: Measured, greedy: bool) -> dict[str, float]:
    """Return tau of the first over tau of the second, paired by prompt.

    Both emit the same number of tokens per prompt, so the ratio is one of rounds.
    """
    rounds = [
        _per_prompt(each.counted(greedy), lambda trace: len(trace.rounds))
        for each in (second, first)
    ]
    return _named("ratio", paired_ratio_interval(*rounds))
