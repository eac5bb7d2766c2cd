"""Predicted against measured: what one half of the prompts says about the other half.

On the fitting half alpha, the acceptance by position, the shapes of the drafts and every cost are
fitted; v(n) comes from raw passes. `predict` sees a fit, a label, lengths of prompts and how many
tokens are wanted: no run of the predicted half, so neither its tau nor its timings can leak in, and
`compare` refuses a fit that saw one of the prompts it is compared on.

Three predictions of the same speedup (seconds per token of plain decoding / of the method, whole
requests):

- `positions`: E[N] from the rates by position, all costs;
- `iid`: E[N] from alpha alone, all costs;
- `formula`: Leviathan's S = E[N] / (gamma c + 1) from alpha and c alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speclab.core.errors import BadInput
from speclab.lab.head_numbers import Measured
from speclab.lab.labels import parse_label
from speclab.lab.measuring import BASELINE, Prompt, shape_of
from speclab.lab.round_costs import RoundCosts, Verify, fit_costs
from speclab.lab.round_law import RoundCounts, RoundLaw, Shape, count_rounds

Key = tuple[str, float]
"""(label, temperature)."""

RESAMPLES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFit:
    """What was counted of one label at one temperature.

    Attributes:
        counts: per prompt of the fitting half. shape: "chain" or "tree".
    """

    method: str
    counts: tuple[RoundCounts, ...]
    shape: str

    @property
    def law(self) -> RoundLaw:
        """Law of a round over all prompts."""
        return RoundLaw.of(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Everything fitted on one half of the prompts.

    Attributes:
        labels: by (label, temperature). costs: by temperature. prompts: that were seen.
    """

    labels: Mapping[Key, LabelFit]
    costs: Mapping[float, RoundCosts]
    prompts: frozenset[Prompt]


def fit(measured: Mapping[Key, Measured], verify: Mapping[str, Verify]) -> Fit:
    """Fit alpha, rates, shapes and costs.

    Args:
        measured: of the fitting half, plain decoding at every temperature among it.
        verify: v(n) by shape, of raw passes.
    """
    temperatures = dict.fromkeys(temperature for _, temperature in measured)
    costs, labels, prompts = {}, {}, set()
    for temperature in temperatures:
        requests = [
            (each.seconds[place], trace)
            for (_, at), each in measured.items()
            for place, trace in each.traces.items()
            if at == temperature
        ]
        costs[temperature] = fit_costs(requests, verify, BASELINE)
        prompts |= {trace.prompt_tokens for _, trace in requests}
    for key, each in measured.items():
        method, shape = parse_label(key[0])[0], shape_of(list(each.traces.values()))
        labels[key] = LabelFit(
            method=method,
            counts=tuple(count_rounds(each.traces)),
            shape="tree" if shape == "tree" else "chain",
        )
    return Fit(labels=labels, costs=costs, prompts=frozenset(prompts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a fit says about requests it has not seen. All numbers are modelled.

    Attributes:
        speedup: from the rates by position; low, high: its interval by a bootstrap over the
            fitting prompts, costs held fixed.
        speedup_iid: from alpha alone. speedup_formula: Leviathan's, from alpha and c alone.
        tau, tau_iid: tokens per target pass, the cut last round included.
        acceptance_rate: alpha. cost_ratio: c. gamma: mean drafted depth of drafting rounds.
        round_cost: a full round over a plain one.
    """

    speedup: float
    low: float
    high: float
    speedup_iid: float
    speedup_formula: float
    tau: float
    tau_iid: float
    acceptance_rate: float
    cost_ratio: float
    gamma: float
    round_cost: float


def predict(
    fitted: Fit, key: Key, *, prompt_lengths: Sequence[int], max_new_tokens: int
) -> Prediction:
    """Predict the speedup of a label on other prompts.

    Args:
        fitted: of other prompts. key: what to predict, one of `fitted.labels`.
        prompt_lengths: tokens of the prompts to come. max_new_tokens: after each.

    Raises:
        BadInput: if the label was not fitted.
    """
    if key not in fitted.labels:
        raise BadInput(f"{key[0]} at temperature {key[1]:g} was not fitted.")
    label, costs = fitted.labels[key], fitted.costs[key[1]]
    return predict_law(
        label.method,
        label.counts,
        costs,
        shape=label.shape,
        prompt_lengths=prompt_lengths,
        max_new_tokens=max_new_tokens,
    )


def predict_law(
    method: str,
    counts: Sequence[RoundCounts],
    costs: RoundCosts,
    *,
    shape: str,
    prompt_lengths: Sequence[int],
    max_new_tokens: int,
    gamma: int | None = None,
) -> Prediction:
    """Predict from counts and costs; `gamma` cuts chains to so many tokens."""
    law = _cut(RoundLaw.of(counts), gamma)
    lengths, seen = list(prompt_lengths), max_new_tokens

    def of_method(each: RoundLaw, iid: bool) -> tuple[float, float]:
        decoding, rounds = text_s(each, costs, method, shape, seen, iid=iid)
        per_request = decoding + costs.outside.of(rounds)
        total = sum(costs.methods[method].prefill.of(n) + per_request for n in lengths)
        return total, rounds

    plain = sum(costs.methods[BASELINE].prefill.of(n) for n in lengths)
    step = costs.round_s(BASELINE, 0, 0, 0, "chain")
    plain += len(lengths) * (seen * step + costs.outside.of(seen))
    (mine, rounds), (iid, rounds_iid) = of_method(law, False), of_method(law, True)
    drawn = _resampled(counts)
    spread = [plain / of_method(_cut(RoundLaw.of(each), gamma), False)[0] for each in drawn]
    low, high = np.quantile(spread, [0.025, 0.975]) if spread else (plain / mine, plain / mine)
    depth, nodes, passes = mean_shape(law)
    ratio = costs.cost_ratio(method, nodes, passes)
    full = sum(share * _round_s(costs, method, each, shape) for each, share in law.shapes)
    return Prediction(
        speedup=plain / mine,
        low=float(low),
        high=float(high),
        speedup_iid=plain / iid,
        speedup_formula=_formula(law, ratio),
        tau=seen / rounds,
        tau_iid=seen / rounds_iid,
        acceptance_rate=law.acceptance_rate,
        cost_ratio=ratio,
        gamma=depth,
        round_cost=full / step,
    )


def text_s(
    law: RoundLaw, costs: RoundCosts, method: str, shape: str, tokens: int, *, iid: bool = False
) -> tuple[float, float]:
    """Return the expected seconds and rounds until `tokens` tokens are out, exactly.

    By recursion over the tokens left: the limit cuts the last drafts, which short texts feel.
    """
    seconds, rounds = [0.0], [0.0]
    chances_of = law.accepted_law_iid if iid else law.accepted_law
    cached: dict[tuple[int, bool], tuple[float, list[float]]] = {}
    for left in range(1, tokens + 1):
        room, last = min(left - 1, law.depth), left == 1
        if (room, last) not in cached:
            cost = sum(
                share * _round_s(costs, method, _within(each, room, last), shape)
                for each, share in law.shapes
            )
            cached[room, last] = cost, chances_of(room)
        cost, chances = cached[room, last]
        ends = [left - 1 - accepted for accepted in range(len(chances))]
        both = list(zip(chances, ends, strict=True))
        seconds.append(cost + sum(chance * seconds[end] for chance, end in both))
        rounds.append(1.0 + sum(chance * rounds[end] for chance, end in both))
    return seconds[-1], rounds[-1]


def mean_shape(law: RoundLaw) -> tuple[float, float, float]:
    """Return mean depth, nodes and passes of the rounds that draft."""
    share = law.drafting_share
    if not share:
        return 0.0, 0.0, 0.0
    drafting = [(each, part / share) for each, part in law.shapes if each[0]]
    depth, nodes, passes = (sum(part * each[i] for each, part in drafting) for i in range(3))
    return depth, nodes, passes


def compare(
    fitted: Fit, measured: Mapping[Key, Measured], points: Mapping[Key, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return, per label, the predictions and what was measured on other prompts (JSON types).

    Args:
        fitted: of one half. measured: of the other; only lengths of its prompts are read.
        points: its measured numbers, `measuring.point_of`.

    Raises:
        BadInput: if the fit saw one of the measured prompts.
    """
    rows = []
    for key, each in measured.items():
        if parse_label(key[0])[0] == BASELINE:
            continue
        prompts = [trace.prompt_tokens for trace in each.traces.values()]
        if not fitted.prompts.isdisjoint(prompts):
            raise BadInput(
                "A prediction may not be compared on prompts that it was fitted on.",
                "Compare it on the other half.",
            )
        point = points[key]
        found = predict(
            fitted,
            key,
            prompt_lengths=[len(prompt) for prompt in prompts],
            max_new_tokens=point["max_new_tokens"],
        )
        rows.append(_compared(key, found, point))
    return rows


def _compared(key: Key, found: Prediction, point: Mapping[str, Any]) -> dict[str, Any]:
    true = point["speedup"]
    names = ("speedup", "speedup_iid", "speedup_formula")
    return {
        "method": parse_label(key[0])[0],
        "label": key[0],
        "temperature": key[1],
        "shape": point["shape"],
        "measured": {
            name: point[name]
            for name in ("speedup", "speedup_low", "speedup_high", "tau", "tau_low", "tau_high")
        },
        "predicted": {
            name: round(float(getattr(found, name)), 4) for name in Prediction.__dataclass_fields__
        },
        "error": {
            kind: round(getattr(found, name) / true - 1.0, 4)
            for kind, name in zip(("positions", "iid", "formula"), names, strict=True)
        },
    }


def median_error(rows: Sequence[Mapping[str, Any]], kind: str) -> float | None:
    """Return the median of |predicted / measured - 1|; `kind`: positions, iid or formula."""
    errors = [abs(row["error"][kind]) for row in rows]
    return round(float(np.median(errors)), 4) if errors else None


def _formula(law: RoundLaw, ratio: float) -> float:
    tokens = law.tokens_per_pass(iid=True)
    depth = sum(share * each[0] for each, share in law.shapes)
    return tokens / (depth * ratio + 1.0)


def _cut(law: RoundLaw, gamma: int | None) -> RoundLaw:
    return law if gamma is None else law.cut(gamma)


def _round_s(costs: RoundCosts, method: str, drafted: Shape, shape: str) -> float:
    """Return the seconds of a round with a draft of that size."""
    depth, nodes, passes, passengers = drafted
    return costs.round_s(method, depth, nodes, passes, shape, passengers)


def _within(drafted: Shape, room: int, last: bool) -> Shape:
    """Return a draft cut to the room there is, its nodes in proportion.

    Args:
        last: one token is left, so that nothing rides along either.
    """
    depth, nodes, passes, passengers = drafted
    passengers = 0 if last else passengers
    if depth <= room:
        return depth, nodes, passes, passengers
    passes = min(passes, room) if passes >= depth else passes
    return room, round(nodes * room / depth), passes, passengers


def _resampled(counts: Sequence[RoundCounts]) -> list[list[RoundCounts]]:
    if len(counts) < 2:
        return []
    picks = np.random.default_rng(0).integers(0, len(counts), size=(RESAMPLES, len(counts)))
    return [[counts[i] for i in row] for row in picks]
