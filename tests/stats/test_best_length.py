"""Which draft length a text asks for in hindsight."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.core.theory import walltime_speedup
from speclab.lab.runs import generate
from speclab.models.catalogue import load_pair
from speclab.stats.best_length import _costs_to_end, best_gamma_along, overlaps_along

COST, LONGEST = 0.15, 6


def verify(tokens: int) -> float:
    return 1.0 + 0.1 * (tokens - 1)


COSTS = [gamma * COST + verify(gamma + 1) for gamma in range(LONGEST + 1)]


def simulated_cost(beta: np.ndarray, gamma: int, runs: int) -> float:
    """Return the mean cost of decoding the text by rounds of gamma, coin by coin."""
    generator, total = np.random.default_rng(0), 0.0
    for _ in range(runs):
        place = 0
        while place < len(beta):
            cut = min(gamma, len(beta) - place - 1)
            coins = generator.random(cut) < beta[place : place + cut]
            total += COSTS[cut]
            place += int(np.cumprod(coins).sum()) + 1
    return total / runs


def test_costs_are_those_of_rounds() -> None:
    beta = np.random.default_rng(1).random(12)
    for gamma in (0, 2, 5):
        to_end, _ = _costs_to_end(beta, COSTS, [gamma])
        assert to_end[0] == pytest.approx(simulated_cost(beta, gamma, 1500), rel=0.03)
    assert _costs_to_end(beta, COSTS, [0])[0][0] == pytest.approx(12.0)


def test_the_oracle_is_the_best_of_all_choices() -> None:
    """Of every way to choose a length at each of four positions, by brute force."""
    beta = np.array([0.9, 0.2, 0.8, 0.5])
    found, chosen = _costs_to_end(beta, COSTS, range(LONGEST + 1))

    def cost(lengths: tuple[int, ...], place: int) -> float:
        if place >= 4:
            return 0.0
        cut = min(lengths[place], 3 - place)
        kept = [1.0, *np.cumprod(beta[place : place + cut]), 0.0]
        chances = [kept[k] - (kept[k + 1] if k < cut else 0.0) for k in range(cut + 1)]
        after = (cost(lengths, place + k + 1) for k in range(cut + 1))
        return COSTS[cut] + sum(c * a for c, a in zip(chances, after, strict=True))

    ways = np.stack(np.meshgrid(*[range(4)] * 4), -1).reshape(-1, 4).tolist()
    best = min(cost(tuple(way), 0) for way in ways)
    assert found[0] == pytest.approx(best) and cost(tuple(chosen), 0) == pytest.approx(best)


@pytest.mark.parametrize("gamma", [1, 4])
def test_a_long_text_of_equal_chances_is_leviathan(gamma: int) -> None:
    alpha, count = 0.8, 3000
    to_end, _ = _costs_to_end(np.full(count, alpha), COSTS, [gamma])
    assert count / to_end[0] == pytest.approx(
        walltime_speedup(alpha, gamma, COST, verify), rel=2e-3
    )


@lru_cache(maxsize=4)
def trace_of(temperature: float, record_laws: bool = True):
    return generate(
        load_pair("toy"),
        "abca",
        method="draft-model",
        num_speculative_tokens=8,
        temperature=temperature,
        seed=3,
        max_new_tokens=40,
        ignore_eos=True,
        record_laws=record_laws,
    )


def test_long_drafts_measure_almost_every_position() -> None:
    trace = trace_of(1.0)
    found = overlaps_along(trace)
    bonus = [
        r.context_length + r.num_accepted for r in trace.rounds if r.verdict.outcome == "bonus"
    ]
    start = len(trace.prompt_tokens)
    assert len(found) == 40
    untested = {place for place, overlap in enumerate(found) if overlap is None}
    assert untested <= {place - start for place in bonus} | {39}
    assert all(0.0 <= overlap <= 1.0 for overlap in found if overlap is not None)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_oracle_beats_the_best_constant_which_beats_plain(temperature: float) -> None:
    best = best_gamma_along(trace_of(temperature), 0.05, longest=8)
    assert best.oracle_cost <= min(best.constant_cost) + 1e-9 <= best.plain_cost + 1e-9
    assert best.plain_cost == pytest.approx(40.0) and len(best.oracle_lengths) == 40
    assert best.oracle_speedup >= best.best_constant_speedup >= 1.0
    dear = best_gamma_along(trace_of(temperature), 3.0, longest=8)
    assert dear.best_constant == 0 and set(dear.oracle_lengths) == {0}


def test_greedy_chances_are_certainties() -> None:
    known = {overlap for overlap in overlaps_along(trace_of(0.0)) if overlap is not None}
    assert known <= {0.0, 1.0}


def test_traces_that_say_nothing_are_refused() -> None:
    with pytest.raises(BadInput, match="no laws"):
        best_gamma_along(trace_of(1.0, False), COST)
    with pytest.raises(BadInput, match="Nothing was tested"):
        best_gamma_along(replace(trace_of(1.0), rounds=()), COST)
