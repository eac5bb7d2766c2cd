"""What a run of QuantSpec accepted, with intervals. The prompt is their unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from speclab.core.records import Round
from speclab.lab.families_numbers import LEAST_PROMPTS
from speclab.stats.intervals import paired_ratio_interval

Runs = Sequence[Sequence[Round]]
"""The rounds of each prompt."""
Range = tuple[float | None, float | None, float | None]
"""A number and its interval of 95 %; no bounds where too few prompts had it."""


def counted(runs: Runs, gamma: int) -> dict[str, Any]:
    """Return what the rounds of some prompts accepted (JSON types).

    Args:
        runs: rounds by prompt. gamma: tokens drafted per round at most.

    Returns:
        prompts, rounds, drafted_tokens, accepted_tokens; acceptance_rate (of tested tokens) and
        tau with `_low` and `_high`; rates, conditional by position, with rates_low, rates_high and
        tested_by_position; drafted_by_position.
    """
    rounds = [round_ for run in runs for round_ in run]
    tested = [sum(round_.num_tested for round_ in run) for run in runs]
    accepted = [sum(round_.num_accepted for round_ in run) for run in runs]
    emitted = [sum(len(round_.emitted) for round_ in run) for run in runs]
    places = conditional_rates(runs)
    values, lows, highs = zip(*(found for found, _ in places), strict=True) if places else ((),) * 3
    return {
        "prompts": len(runs),
        "rounds": len(rounds),
        "drafted_tokens": sum(round_.num_drafted for round_ in rounds),
        "accepted_tokens": sum(accepted),
        **_named("acceptance_rate", ranged(accepted, tested)),
        "rates": list(values),
        "rates_low": list(lows),
        "rates_high": list(highs),
        "tested_by_position": [count for _, count in places],
        # The last round of a text drafts fewer tokens: rates count those that were drafted.
        "drafted_by_position": [
            sum(r.num_drafted > place for r in rounds) for place in range(gamma)
        ],
        **_named("tau", ranged(emitted, list(map(len, runs)))),
    }


def conditional_rates(runs: Runs) -> list[tuple[Range, int]]:
    """Return per position, as far as any token was tested there, its acceptance given that the
    one before it was accepted, and how many were tested."""
    found = []
    depth = max((round_.num_drafted for run in runs for round_ in run), default=0)
    for place in range(depth):
        tested = [
            [r for r in run if r.num_drafted > place and r.num_accepted >= place] for run in runs
        ]
        count = sum(map(len, tested))
        if not count:
            break
        passed = [sum(r.num_accepted > place for r in run) for run in tested]
        found.append((ranged(passed, list(map(len, tested))), count))
    return found


def ranged(top: Sequence[int], bottom: Sequence[int]) -> Range:
    """Return sum(top) / sum(bottom) with its interval over the prompts whose bottom is not 0."""
    pairs = [(a, b) for a, b in zip(top, bottom, strict=True) if b]
    if not pairs:
        return None, None, None
    value, low, high = paired_ratio_interval([a for a, _ in pairs], [b for _, b in pairs])
    return (value, low, high) if len(pairs) >= LEAST_PROMPTS else (value, None, None)


def _named(name: str, found: Range) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))
