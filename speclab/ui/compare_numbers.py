"""The numbers under a race: one table, the waits between bursts, and what each number means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from speclab.core.glossary import number_named
from speclab.core.records import Trace
from speclab.lab.race import added_memory
from speclab.stats.pace import (
    Pace,
    Speedup,
    burst_gaps_s,
    gap_edges_s,
    gap_histogram,
)
from speclab.ui.heads_tree import percent
from speclab.ui.texts import byte_size
from speclab.ui.texts_compare import COMPARE

Message = dict[str, Any]
GAP_BINS = 28
COLUMNS = (
    *("tokens", "rate", "speedup", "alpha", "tpot", "gaps", "ttft", "memory"),
    *("draft", "waste"),
)
DEFINED = (
    *("block_efficiency", "tpot_s", "decode_tokens_per_s", "walltime_speedup", "acceptance_rate"),
    *("ttft_s", "draft_share", "discarded_tokens"),
)
"""Numbers of the glossary that the tab explains, in the order of its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One lane of the tables: its name, its runs, and what they come to."""

    name: str
    traces: Sequence[Trace]
    pace: Pace
    speedup: Speedup | None


def milliseconds(seconds: float | None, lang: str) -> str:
    """Return seconds as milliseconds for people; n/a for None."""
    if seconds is None:
        return COMPARE[lang]["cp_na"]
    return COMPARE[lang]["cp_ms"].format(n=_number(seconds))


def _number(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 0.9995 else f"{1e3 * seconds:,.0f}"


def table(lines: Sequence[Line], lang: str) -> Message:
    """Return every number of every lane that ran."""
    words = COMPARE[lang]
    head = [words["cp_col_method"], *(words[f"cp_num_{name}"] for name in COLUMNS)]
    return {"head": head, "rows": [_row(line, lang) for line in lines]}


def _row(line: Line, lang: str) -> list[str]:
    pace, words = line.pace, COMPARE[lang]

    def two(low: float | None, high: float | None) -> str:
        if low is None or high is None:
            return words["cp_na"]
        return f"{_number(low)} · {milliseconds(high, lang)}"

    alpha, share = pace.acceptance_rate, pace.draft_share
    return [
        line.name,
        f"{pace.emitted_tokens} / {pace.num_rounds}",
        words["cp_na"] if pace.tokens_per_s is None else f"{pace.tokens_per_s:.3g}",
        _speedup(line.speedup, lang),
        words["cp_na"] if alpha is None else f"{alpha:.2f}",
        two(pace.tpot_p50_s, pace.tpot_p99_s),
        two(pace.burst_gap_p50_s, pace.burst_gap_p99_s),
        milliseconds(pace.ttft_s, lang),
        _memory(line.traces[0], lang),
        words["cp_na"] if share is None else percent(share),
        _waste(pace, lang),
    ]


def _waste(pace: Pace, lang: str) -> str:
    if pace.discarded_share is None:
        return COMPARE[lang]["cp_none"]
    counts = f"{pace.discarded_tokens} / {pace.drafted_tokens}"
    return f"{counts} · {percent(pace.discarded_share)}"


def _speedup(speedup: Speedup | None, lang: str) -> str:
    if speedup is None:
        return COMPARE[lang]["cp_na"]
    return COMPARE[lang]["cp_range_one" if speedup.num_pairs == 1 else "cp_range"].format(
        value=f"{speedup.ratio:.2f}",
        low=f"{speedup.low:.2f}",
        high=f"{speedup.high:.2f}",
        n=speedup.num_pairs,
    )


def _memory(trace: Trace, lang: str) -> str:
    words, memory = COMPARE[lang], added_memory(trace)
    if memory is None:
        return words["cp_na"]
    if not memory.parameters:
        return words["cp_none"]
    share = percent(memory.share) if memory.share is not None else words["cp_na"]
    return words["cp_memory"].format(size=byte_size(memory.num_bytes), share=share)


def gaps(lines: Sequence[Line], lang: str) -> Message:
    """Return the waits between bursts, per lane on shared bins."""
    waits = [[gap for trace in line.traces for gap in burst_gaps_s(trace)] for line in lines]
    edges = gap_edges_s([gap for each in waits for gap in each], GAP_BINS)
    lanes = []
    for line, own in zip(lines, waits, strict=True):
        pace = line.pace
        facts = COMPARE[lang]["cp_gaps_facts"].format(
            p50=milliseconds(pace.burst_gap_p50_s, lang),
            p99=milliseconds(pace.burst_gap_p99_s, lang),
            n=pace.num_burst_gaps,
            tokens=f"{pace.tokens_per_burst or 0.0:.2f}",
        )
        lanes.append(
            {
                "name": line.name,
                "counts": list(gap_histogram(own, edges).counts),
                "p50": pace.burst_gap_p50_s,
                "p99": pace.burst_gap_p99_s,
                "facts": facts if own else COMPARE[lang]["cp_na"],
            }
        )
    return {"edges": list(edges), "lanes": lanes}


def definitions(lang: str) -> list[Message]:
    """Return what the columns mean, as the glossary says it."""
    found = (number_named(name) for name in DEFINED)
    return [
        {
            "term": " ".join(filter(None, (getattr(item.title, lang), item.symbol))),
            "text": f"{getattr(item.definition, lang)} {getattr(item.trap, lang)}".strip(),
        }
        for item in found
        if item is not None
    ]
