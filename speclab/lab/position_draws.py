"""One position under one rule: its exact law, many draws, and the verdict beside a control."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import RAW, Law, Row, Sampling, overlap
from speclab.core.protocols import VerifyRule
from speclab.core.rules import RULES, rule_named
from speclab.core.rules.bounds import (
    optimal_acceptance_iid,
    optimal_acceptance_without_replacement,
)
from speclab.engine.compiled import CompiledRound, compile_rule
from speclab.engine.one_position import usual_candidates, usual_sampling
from speclab.stats.cells import tabulate
from speclab.stats.goodness import multinomial_test
from speclab.stats.report import Report, battery, judge, watched
from speclab.stats.sequential import EProcess

MAX_TOKENS = 16
MAX_DRAWS, MAX_TOTAL = 1_000_000, 10**9
USUAL_CONTROL = "broken-redraw-from-p"
MIN_CONTROL_BIAS = 0.05
"""A control that leaves less than this on the laws at hand is exchanged for the mildest one that
leaves as much, or, failing that, for the worst one."""
SNAPSHOTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionLaw:
    """What a rule makes of one position. JSON-ready.

    Attributes:
        rule: its name. target: law it is judged by [tokens]: p, or the filtered p where the rule is
            stated under a filter. law: exact law of the emitted token [tokens].
        acceptance: how often a draft is kept. bias: total variation from the target.
        num_candidates: drafted tokens at this position. filtered: whether top-k was on.
        bound: the most that any rule keeps of several sampled candidates; None for one, or where
            they are not sampled.
    """

    rule: str
    target: tuple[float, ...]
    law: tuple[float, ...]
    acceptance: float
    bias: float
    num_candidates: int
    filtered: bool
    bound: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionDraws:
    """Draws so far, of the rule and of the control, and what they say. JSON-ready.

    Attributes:
        counts, control_counts: [tokens]. snapshots: counts on the way to `counts`, fewest first.
        expected: per token, N times its probability.
        contributions: per token (observed - expected)^2 / expected; 0 where nothing is expected.
        report: verdict; None while there is nothing to compare. After the first draws it is
            decided by `anytime_p`: whoever draws again has looked.
        anytime_p: valid however often it is looked at: 1 / e-value of all draws so far.
    """

    counts: tuple[int, ...]
    control_counts: tuple[int, ...]
    snapshots: tuple[tuple[int, ...], ...]
    expected: tuple[float, ...]
    contributions: tuple[float, ...]
    report: Report | None
    anytime_p: float


def bars(values: Sequence[Any], name: str) -> Law:
    """Return bar heights as a law, divided by their sum [tokens].

    Raises:
        BadInput: for fewer than two or too many bars, what is no number, a negative bar, or bars
            that are all zero.
    """
    if not 2 <= len(values) <= MAX_TOKENS:
        raise BadInput(
            f"{name} has {len(values)} bars; 2 to {MAX_TOKENS} can be shown.",
            code="bars_count",
            values={"name": name, "count": len(values), "limit": MAX_TOKENS},
        )
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or value < 0.0:
            raise BadInput(
                f"{name} holds {value!r}; every bar needs a number that is not negative.",
                "Separate the numbers with spaces or commas, for example 0.5 0.3 0.2.",
                code="bars_number",
                values={"name": name, "value": str(value)},
            )
    law = np.array(values, dtype=np.float64)
    total = float(law.sum())
    if not 0.0 < total < math.inf:
        raise BadInput(
            f"All bars of {name} are zero, so nothing can be drawn.",
            "Raise at least one bar.",
            code="bars_all_zero",
            values={"name": name},
        )
    return law / total


@lru_cache(maxsize=256)
def _compiled(
    rule: str,
    values: tuple[tuple[str, Any], ...],
    p: tuple[float, ...],
    q: tuple[float, ...],
    sampling: Sampling,
) -> CompiledRound:
    return compile_rule(rule_named(rule, dict(values)), p, q, sampling=sampling)


def _compile(
    rule: str, values: Mapping[str, Any] | None, p: Law, q: Law, sampling: Sampling | None = None
) -> CompiledRound:
    bound = rule_named(rule, values)
    given = tuple(sorted(bound.values.items()))
    return _compiled(
        rule, given, tuple(p.tolist()), tuple(q.tolist()), sampling or usual_sampling(bound)
    )


def _described(compiled: CompiledRound, sampling: Sampling) -> PositionLaw:
    return PositionLaw(
        rule=compiled.rule,
        target=tuple(compiled.target.tolist()),
        law=tuple(compiled.law.tolist()),
        acceptance=float(compiled.acceptance),
        bias=max(0.0, 1.0 - overlap(compiled.law, compiled.target)),
        num_candidates=usual_candidates(RULES[compiled.rule]),
        filtered=sampling != RAW,
    )


def position_law(
    p: Sequence[float], q: Sequence[float], rule: str, values: Mapping[str, Any] | None = None
) -> PositionLaw:
    """Return the exact law of one position.

    Args:
        p, q: bar heights of target and draft [tokens]. rule: its name. values: of its parameters.

    Raises:
        BadInput: as `bars`, `rule_named` and `compile_rule`.
    """
    target, draft = bars(p, "p"), bars(q, "q")
    found = _described(_compile(rule, values, target, draft), usual_sampling(RULES[rule]))
    return replace(found, bound=_bound(RULES[rule], target, draft, found.num_candidates))


def _bound(rule: VerifyRule, p: Law, q: Law, count: int) -> float | None:
    """Return the best possible acceptance of `count` candidates as the rule needs them."""
    if count < 2 or "sampled" not in rule.needs:
        return None
    if "siblings_without_replacement" in rule.needs:
        return optimal_acceptance_without_replacement(p, q, count)
    return optimal_acceptance_iid(p, q, count)


def control_for(p: Sequence[float], q: Sequence[float], rule: str) -> PositionLaw:
    """Return the negative control: a broken rule whose exact law on p and q is far from the target.

    The choice looks at p, q and the rule's name only, never at draws. Where the rule is stated
    under a filter, so is its control.
    """
    target, draft = bars(p, "p"), bars(q, "q")
    sampling = usual_sampling(rule_named(rule))
    usual = _described(_compile(USUAL_CONTROL, None, target, draft, sampling), sampling)
    if rule != USUAL_CONTROL and usual.bias >= MIN_CONTROL_BIAS:
        return usual
    others = [
        _described(_compile(name, None, target, draft, sampling), sampling)
        for name, other in RULES.items()
        if other.kind == "broken" and name != rule and "shared_noise" not in other.needs
    ]
    fair = [law for law in others if law.bias >= MIN_CONTROL_BIAS]
    return min(fair, key=lambda law: law.bias) if fair else max(others, key=lambda law: law.bias)


def position_draws(
    p: Sequence[float],
    q: Sequence[float],
    rule: str,
    values: Mapping[str, Any] | None = None,
    *,
    count: int,
    seed: int = 0,
    earlier: Sequence[int] = (),
    control_earlier: Sequence[int] = (),
) -> PositionDraws:
    """Draw `count` more tokens under the rule and under its control, and judge all of them.

    Args:
        p, q, rule, values: as `position_law`. count: verified draws to add. seed: of the draws;
            give another one for every call that adds to `earlier`.
        earlier, control_earlier: counts so far [tokens]; empty for none.

    Raises:
        BadInput: as `position_law`, and for a count outside 1 to `MAX_DRAWS`.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_DRAWS:
        raise BadInput(
            f"{count!r} draws cannot be made; from 1 to {MAX_DRAWS:,} at once are possible.",
            code="draws_range",
            values={"count": str(count), "limit": f"{MAX_DRAWS:,}"},
        )
    target, draft = bars(p, "p"), bars(q, "q")
    compiled = _compile(rule, values, target, draft)
    sampling = usual_sampling(RULES[rule])
    control = _compile(control_for(p, q, rule).rule, None, target, draft, sampling)
    tokens, wrong = compiled.draw(count, seed), control.draw(count, _control_seed(seed))
    law, size = compiled.target, target.size
    before = _counts(earlier, size)
    counts = before + np.bincount(tokens, minlength=size)
    control_counts = _counts(control_earlier, size) + np.bincount(wrong, minlength=size)
    processed = draft if sampling == RAW else Row(np.log(np.maximum(draft, 1e-300))).law(sampling)
    report = _report(counts, law, control_counts, processed, int(counts.sum()) + seed)
    members = law > processed + 1e-12
    evidence = EProcess(law, members=members).update(counts)
    if report is not None and before.any():
        beside = EProcess(law, members=members).update(control_counts)
        report = watched(report, evidence.p_value, beside.p_value)
    expected = law * counts.sum()
    gaps = np.divide((counts - expected) ** 2, expected, where=expected > 0.0, out=np.zeros(size))
    return PositionDraws(
        counts=tuple(counts.tolist()),
        control_counts=tuple(control_counts.tolist()),
        snapshots=_snapshots(tokens, before),
        expected=tuple(expected.tolist()),
        contributions=tuple(gaps.tolist()),
        report=report,
        anytime_p=evidence.p_value,
    )


def _control_seed(seed: int) -> int:
    """Return a seed whose uniforms no neighbouring seed of the rule's own draws uses."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0])


def _counts(given: Sequence[int], size: int) -> NDArray[np.int64]:
    counts = np.array(given or [0] * size, dtype=np.int64)
    if counts.shape != (size,) or (counts < 0).any() or (counts > MAX_TOTAL).any():
        raise BadInput(
            "The earlier draws do not fit the bars.",
            "Clear the draws and start again.",
            code="draws_do_not_fit",
        )
    return counts


def _snapshots(tokens: NDArray[np.int64], before: NDArray[np.int64]) -> tuple[Any, ...]:
    """Return counts after a few of the draws, evenly spaced on a logarithmic scale."""
    if tokens.size < 1_000:
        return ()
    ends = np.unique(np.geomspace(20, tokens.size, SNAPSHOTS).astype(int))[:-1]
    size = before.size
    return tuple(
        tuple((before + np.bincount(tokens[:end], minlength=size)).tolist()) for end in ends
    )


def _report(
    counts: NDArray[np.int64],
    law: Law,
    control: NDArray[np.int64],
    draft: Law,
    seed: int,
) -> Report | None:
    """Return the battery; with few draws the exact test of small tables; None if p is certain."""
    if np.count_nonzero(law) < 2 and not counts[law == 0.0].any():
        return None
    try:
        return battery(counts, law, control=control, draft_probs=draft, seed=seed)
    except BadInput as error:
        if error.code != "one_cell":
            raise
    tables = (tabulate(each, law, min_expected=0.0) for each in (counts, control))
    main, other = (multinomial_test(table, seed=seed) for table in tables)
    return judge(main, other if other.test == main.test else None)
