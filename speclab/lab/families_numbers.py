"""The numbers of one method in a table of prompt families, each family with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from speclab.core.protocols import needed
from speclab.lab.head_numbers import DIGITS, Measured, tau
from speclab.lab.labels import parse_label
from speclab.lab.ledger import memory_of
from speclab.methods import make_method
from speclab.models.pair import Pair
from speclab.stats.copied import copied_share
from speclab.stats.counters import acceptance_rate, ratio
from speclab.stats.intervals import paired_rate_interval

LEAST_PROMPTS = 3
"""Fewer prompts have no interval: their spread would be the two values themselves."""


def method_row(
    pair: Pair, key: tuple[str, float], mine: Measured, base: Measured, families: Sequence[str]
) -> dict[str, Any]:
    """Return one line: a method at one temperature, over all prompts and per family (JSON types).

    Args:
        key: (label, temperature). mine: its runs. base: plain decoding's, at that temperature.
        families: of the prompts, in their order.
    """
    label, temperature = key
    method = make_method(*parse_label(label))
    found = {
        "method": label,
        "temperature": temperature,
        **numbers_of(mine, base, greedy=temperature == 0.0),
        "memory": memory_of(pair, needed(method), group_size=getattr(method, "group_size", None)),
        "families": {},
    }
    for family in dict.fromkeys(families):
        own, plain = (of_family(each, families, family) for each in (mine, base))
        found["families"][family] = numbers_of(own, plain, greedy=temperature == 0.0)
    return found


def of_family(measured: Measured, families: Sequence[str], family: str) -> Measured:
    """Return the runs on the prompts of one family."""
    keys = [key for key in measured.seconds if families[key[1]] == family]
    return Measured(
        seconds={key: measured.seconds[key] for key in keys},
        traces={key: measured.traces[key] for key in keys},
    )


def numbers_of(mine: Measured, base: Measured, *, greedy: bool) -> dict[str, Any]:
    """Return what some runs of a method did, beside plain decoding on the same prompts.

    Returns:
        prompts, emitted_tokens, rounds, drafted_tokens, accepted_tokens; tau and speedup, each with
        `_low` and `_high` (None for fewer than `LEAST_PROMPTS`); decode_speedup, of the rounds
        alone; acceptance_rate (None for trees); copied_share; draft_passes per drafting round;
        tokens_per_s of whole requests; when greedy, greedy_agreement with plain decoding.
    """
    traces = list(mine.traces.values())
    rounds = [round_ for trace in traces for round_ in trace.rounds]
    drafting = [round_ for round_ in rounds if round_.num_drafted]
    emitted = sum(len(round_.emitted) for round_ in rounds)
    passes = sum(round_.num_draft_forwards for round_ in drafting)
    decode = (each.of_prompts(each.decode_s) for each in (base, mine))
    found: dict[str, Any] = {
        "prompts": len(traces),
        "emitted_tokens": emitted,
        "rounds": len(rounds),
        "drafted_tokens": sum(round_.num_drafted for round_ in rounds),
        "accepted_tokens": sum(round_.num_accepted for round_ in rounds),
        **_ranged("tau", tau(mine.traces), len(traces)),
        **_ranged("speedup", _speedup(base, mine), len(traces)),
        "decode_speedup": round(paired_rate_interval(*decode, *_tokens(base, mine))[0], DIGITS),
        "acceptance_rate": _rounded(acceptance_rate(rounds)),
        "copied_share": _rounded(copied_share(rounds)),
        "draft_passes": _rounded(ratio(passes, len(drafting))),
        "tokens_per_s": round(emitted / sum(mine.seconds.values()), 2),
    }
    if greedy:
        same = sum(mine.traces[key].emitted == base.traces[key].emitted for key in mine.traces)
        found["greedy_agreement"] = _rounded(same / len(traces))
    return found


def _tokens(base: Measured, mine: Measured) -> tuple[list[float], list[float]]:
    first, second = (
        each.of_prompts({key: float(len(trace.emitted)) for key, trace in each.traces.items()})
        for each in (base, mine)
    )
    return first, second


def _speedup(base: Measured, mine: Measured) -> tuple[float, float, float]:
    """Return seconds per emitted token of whole requests, base over mine, paired by prompt."""
    seconds = (each.of_prompts(each.seconds) for each in (base, mine))
    return paired_rate_interval(*seconds, *_tokens(base, mine))


def _ranged(name: str, found: tuple[float, float, float], prompts: int) -> dict[str, float | None]:
    value, low, high = (round(each, DIGITS) for each in found)
    known = prompts >= LEAST_PROMPTS
    return {
        name: value,
        f"{name}_low": low if known else None,
        f"{name}_high": high if known else None,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
