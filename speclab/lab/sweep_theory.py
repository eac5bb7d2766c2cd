"""Lines of theory over the points of a gamma sweep: modelled from what the same run measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from speclab.core.theory import break_even, ideal_verify_cost, walltime_speedup
from speclab.lab.bench import BASELINE
from speclab.lab.pass_costs import verify_cost_of

Point = Mapping[str, Any]


def theory_lines(points: Sequence[Point], costs: Mapping[str, Any]) -> dict[str, Any]:
    """Return, per method, what the closed forms say about a sweep's own alpha, c and v(n).

    They describe the rounds of the run they were taken from, prefill left out, and rounds that
    find nothing to draft among them: for a prediction of other text see `prediction`.

    Args:
        points: of a gamma sweep. costs: of raw passes.

    Returns:
        By method: `acceptance_rate` (pooled over the points), `cost_ratio` (seconds of drafting
        per drafted token over a plain target pass), `drafting_share` (of rounds), `gammas`,
        `speedup` (S with v(n)), `ideal` (S with v(n) = 1), `perfect` (the perfect draft's),
        `best_gamma`, and `break_even` (alpha at which S is 1, by gamma; None where nothing helps).
        Methods without a chain are left out.
    """
    found = {}
    steps = [point["target_s_per_round"] for point in points if point["method"] == BASELINE]
    if not steps or not costs:
        return {}
    plain_step, verify = sum(steps) / len(steps), verify_cost_of(dict(costs))
    deepest = max(int(point["value"]) for point in points)
    gammas = list(range(deepest + 1))
    for method in dict.fromkeys(point["method"] for point in points):
        own = [point for point in points if point["method"] == method]
        counted = None if method == BASELINE else _alpha_and_share(own)
        if counted is None:
            continue
        alpha, share = counted
        drafted = sum(point["drafted_per_round"] * point["rounds"] for point in own)
        drafting = sum(point["draft_s_per_round"] * point["rounds"] for point in own)
        ratio = drafting / drafted / plain_step
        speeds = [_mixed(alpha, g, ratio, verify, share) for g in gammas]
        found[method] = {
            "acceptance_rate": alpha,
            "cost_ratio": ratio,
            "drafting_share": share,
            "gammas": gammas,
            "speedup": speeds,
            "ideal": [_mixed(alpha, g, ratio, ideal_verify_cost, share) for g in gammas],
            "perfect": [_mixed(1.0, g, ratio, verify, share) for g in gammas],
            "best_gamma": gammas[speeds.index(max(speeds))],
            "break_even": [break_even(g, ratio, verify) for g in gammas],
        }
    return found


def _alpha_and_share(points: Sequence[Point]) -> tuple[float, float] | None:
    """Return accepted / tested over the points, and the share of rounds that drafted."""
    accepted = tested = drafting = rounds = 0.0
    for point in points:
        if point["acceptance_rate"] is None:
            continue
        accepted += point["accepted_positions"]
        tested += point["tested_positions"]
        drafting += point["drafting_rounds"]
        rounds += point["rounds"]
    return (accepted / tested, drafting / rounds) if tested and rounds else None


def _mixed(alpha: float, gamma: int, ratio: float, verify: Any, share: float) -> float:
    """Return S when only a share of the rounds finds something to draft."""
    if gamma == 0:
        return 1.0
    cost = gamma * ratio + verify(gamma + 1)
    tokens = walltime_speedup(alpha, gamma, ratio, verify) * cost
    return (share * tokens + 1.0 - share) / (share * cost + 1.0 - share)
