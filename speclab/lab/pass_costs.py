"""What passes cost: c and v(n) measured on raw passes, all widths in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.lab.labels import gamma_of
from speclab.models.pair import Pair

VERIFY_WIDTHS = (1, 2, 3, 5, 9, 17)
COST_PROMPT = tuple(range(10, 74))
WARM_TURNS = 3


def chain_of(nodes: int) -> TokenTree:
    """Return a chain of `nodes` tokens."""
    return TokenTree.chain(range(20, 20 + nodes))


def measure_costs(
    pair: Pair,
    repeats: int = 30,
    *,
    widths: Sequence[int] = VERIFY_WIDTHS,
    shape: Callable[[int], TokenTree] = chain_of,
) -> dict[str, Any]:
    """Measure c and v(n) on raw passes after a 64-token context, all widths in turns.

    Args:
        repeats: passes per width. widths: n, the pending token included; the first is 1.
        shape: makes the tree of n - 1 drafted tokens.

    Returns:
        target_step_s and draft_step_s (medians), cost_ratio, verify_cost by n.
    """
    target = pair.target.open(COST_PROMPT)
    jobs: dict[Any, Callable[[], float]] = {
        n: partial(pass_s, target, shape(n - 1) if n > 1 else EMPTY_TREE) for n in widths
    }
    if pair.drafts:
        jobs["draft"] = partial(pass_s, pair.drafts[0].open(COST_PROMPT), EMPTY_TREE)
    seconds = by_turns(jobs, repeats)
    medians = {n: statistics.median(seconds[n]) for n in widths}
    out: dict[str, Any] = {
        "target_step_s": medians[1],
        "verify_cost": {str(n): round(value / medians[1], 4) for n, value in medians.items()},
    }
    if pair.drafts:
        out["draft_step_s"] = statistics.median(seconds["draft"])
        out["cost_ratio"] = out["draft_step_s"] / medians[1]
    return out


def pass_s(session: Any, tree: TokenTree) -> float:
    """Return the seconds of one pass after the context of `COST_PROMPT`."""
    session.rollback(len(COST_PROMPT))
    begun = time.perf_counter()
    session.score(tree).row(0)
    return time.perf_counter() - begun


def by_turns(jobs: Mapping[Any, Callable[[], float]], repeats: int) -> dict[Any, list[float]]:
    """Return the seconds of `repeats` turns of every job, first turns left out.

    Each turn runs all of them, so that a machine that becomes slower or faster does so for all.
    """
    seconds: dict[Any, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + WARM_TURNS):
        for name, job in jobs.items():
            spent = job()
            if turn >= WARM_TURNS:
                seconds[name].append(spent)
    return seconds


def widths_of(labels: Sequence[str]) -> tuple[int, ...]:
    """Return n of the passes to time: the usual ones, and gamma + 1 of every label."""
    own = {gamma + 1 for label in labels if (gamma := gamma_of(label)) is not None}
    return tuple(sorted({*VERIFY_WIDTHS, *own}))


def verify_cost_of(costs: dict[str, Any]) -> Callable[[int], float]:
    """Return v(n), linear between the widths measured."""
    widths = [int(n) for n in costs["verify_cost"]]
    values = list(costs["verify_cost"].values())
    return lambda tokens: float(np.interp(tokens, widths, values))
