"""Exercises on speed with numbers of one's own: the same number gives everybody the same task.

The answers are recomputed from `core.theory`, never stored.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from speclab.core.errors import BadInput
from speclab.core.theory import best_gamma, expected_tokens, walltime_speedup

MAX_NUMBER = 10**12
CANDIDATES = tuple(range(17))
TOLERANCE = 0.011
"""Answers are asked with two decimals; one that was cut instead of rounded also counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A draft of an exercise.

    Attributes:
        name: "A", "B". acceptance_rate: alpha. cost_ratio: c.
    """

    name: str
    acceptance_rate: float
    cost_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One reader's task.

    Attributes:
        drafts: one, or two to compare. gamma: the draft length to compute with.
        answers: cell name to value; "best_*" are whole numbers of drafted tokens.
    """

    drafts: tuple[Draft, ...]
    gamma: int
    answers: dict[str, float]


def _draft(name: str, alphas: range, costs: range, rng: random.Random) -> Draft:
    """Return a draft with rates in hundredths."""
    return Draft(
        name=name, acceptance_rate=rng.choice(alphas) / 100, cost_ratio=rng.choice(costs) / 100
    )


def _clear_best(draft: Draft) -> bool:
    """Return whether one gamma is best by enough to be found with two decimals."""
    speeds = sorted(
        walltime_speedup(draft.acceptance_rate, gamma, draft.cost_ratio) for gamma in CANDIDATES
    )
    return speeds[-1] - speeds[-2] > 0.005


def _top_speed(draft: Draft) -> float:
    gamma = best_gamma(draft.acceptance_rate, draft.cost_ratio, candidates=CANDIDATES)
    return walltime_speedup(draft.acceptance_rate, gamma, draft.cost_ratio)


def one_draft(number: int) -> Exercise:
    """Return "how fast at best?" for a number, for example one's student number.

    Raises:
        BadInput: if the number is not between 0 and 10^12.
    """
    rng = _random(number, "one draft")
    draft = _draft("A", range(55, 90), range(8, 31), rng)
    while not _clear_best(draft):
        draft = _draft("A", range(55, 90), range(8, 31), rng)
    gamma = rng.randint(6, 10)
    alpha, cost = draft.acceptance_rate, draft.cost_ratio
    return Exercise(
        drafts=(draft,),
        gamma=gamma,
        answers={
            "tokens": expected_tokens(alpha, gamma),
            "speed": walltime_speedup(alpha, gamma, cost),
            "perfect": walltime_speedup(1.0, gamma, cost),
            "best_gamma": best_gamma(alpha, cost, candidates=CANDIDATES),
            "best_speed": _top_speed(draft),
        },
    )


def two_drafts(number: int) -> Exercise:
    """Return "the better draft is the slower one" for a number.

    Draft A accepts more, draft B is cheaper and faster, each at its best gamma.

    Raises:
        BadInput: if the number is not between 0 and 10^12.
    """
    rng = _random(number, "two drafts")
    while True:
        better = _draft("A", range(80, 96), range(25, 56), rng)
        cheaper = _draft("B", range(50, 76), range(4, 11), rng)
        if (
            _clear_best(better)
            and _clear_best(cheaper)
            and _top_speed(cheaper) - _top_speed(better) > 0.1
        ):
            break
    answers: dict[str, float] = {}
    for draft in (better, cheaper):
        gamma = best_gamma(draft.acceptance_rate, draft.cost_ratio, candidates=CANDIDATES)
        answers[f"best_gamma_{draft.name}"] = gamma
        answers[f"best_speed_{draft.name}"] = _top_speed(draft)
    return Exercise(drafts=(better, cheaper), gamma=0, answers=answers)


EXERCISES = {"one-draft": one_draft, "two-drafts": two_drafts}
"""The exercises by the name that lessons give them."""


def _random(number: int, purpose: str) -> random.Random:
    if type(number) is not int or not 0 <= number <= MAX_NUMBER:
        raise BadInput(
            f"Your number must be a whole number from 0 to {MAX_NUMBER}, not {number!r}.",
            code="field_range",
            values={"name": "number", "low": 0, "high": MAX_NUMBER, "value": repr(number)[:40]},
        )
    return random.Random(f"{purpose} {number}")


def marked(exercise: Exercise, given: Mapping[str, float | None]) -> dict[str, bool | None]:
    """Return per cell whether the answer is right; None where none was given.

    Whole numbers must be exact, others within TOLERANCE of the value computed here.

    Raises:
        BadInput: for a cell that the exercise does not have, or a value that is no number.
    """
    for name, value in given.items():
        if name not in exercise.answers:
            raise BadInput(f"The exercise has no cell {name!r}.", code="prove_request", values={})
        if value is not None and not (
            isinstance(value, (int, float)) and math.isfinite(value) and not isinstance(value, bool)
        ):
            raise BadInput(f"{value!r} is not a number.", code="prove_request", values={})
    found: dict[str, bool | None] = {}
    for name, right in exercise.answers.items():
        value = given.get(name)
        limit = 0.0 if name.startswith("best_gamma") else TOLERANCE
        found[name] = None if value is None else abs(value - right) <= limit
    return found
