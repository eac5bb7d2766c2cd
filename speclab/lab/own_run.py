"""One run on this machine beside the formula with its own alpha, c and v(n); for a lesson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from speclab.core.theory import walltime_speedup
from speclab.lab.bench import BASELINE, time_ours
from speclab.lab.pass_costs import measure_costs, verify_cost_of, widths_of
from speclab.models.pair import Pair
from speclab.stats.counters import acceptance_rate, block_efficiency
from speclab.stats.intervals import paired_ratio_interval

NEW_TOKENS = 64
REPEATS = 5
PASSES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """A measured speedup and the formula's.

    Attributes:
        gamma: drafted tokens per round. acceptance_rate: alpha, counted; None if nothing was
            tested. tokens_per_pass: tau, counted.
        costs: c and v(n), measured in the same minute.
        speedup: seconds of plain decoding / of speculation, whole requests, greedy.
        low, high: 95 % interval over the repeats of one prompt: of this prompt, not of others.
        by_formula: S with this run's own alpha, c and v(n): no prediction, it saw the run.
    """

    gamma: int
    acceptance_rate: float | None
    tokens_per_pass: float
    costs: dict[str, Any]
    speedup: float
    low: float
    high: float
    by_formula: float | None


def measure_own_run(
    pair: Pair,
    prompt: tuple[int, ...],
    gamma: int,
    *,
    new_tokens: int = NEW_TOKENS,
    repeats: int = REPEATS,
) -> OwnRun:
    """Time plain decoding and the draft model on one prompt, then c and v(n).

    Who goes first changes from repeat to repeat.

    Args:
        pair: with a draft model. prompt: token ids. gamma: drafted tokens per round.
        new_tokens: of each request. repeats: requests of each kind; one more warms up.
    """
    label = f"draft-model:num_speculative_tokens={gamma}"
    seconds: dict[str, list[float]] = {BASELINE: [], label: []}
    for repeat in range(repeats + 1):
        for name in (BASELINE, label) if repeat % 2 else (label, BASELINE):
            taken, found = time_ours(pair, name, prompt, new_tokens)
            if name == label:
                trace = found
            if repeat:
                seconds[name].append(taken)
    costs = measure_costs(pair, repeats=PASSES, widths=widths_of((label,)))
    alpha = acceptance_rate(trace.rounds)
    speedup, low, high = paired_ratio_interval(seconds[BASELINE], seconds[label])
    by_formula = None
    if alpha is not None:
        by_formula = walltime_speedup(alpha, gamma, costs["cost_ratio"], verify_cost_of(costs))
    return OwnRun(
        gamma=gamma,
        acceptance_rate=alpha,
        tokens_per_pass=block_efficiency(trace.rounds) or 1.0,
        costs=costs,
        speedup=speedup,
        low=low,
        high=high,
        by_formula=by_formula,
    )
