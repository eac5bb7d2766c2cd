"""Draft lengths of one pair side by side: constant ones, the dynamic ones, and plain decoding.

One run, interleaved, greedy and at temperature 1, EOS ignored, a fixed number of tokens after the
built-in prompts that `bench` uses. Beside it what the text would have allowed: the best constant
length and an oracle's, from traces with long drafts and the measured costs.
"""

from __future__ import annotations

import datetime
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import gcd
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.bench import processor_name, prompts_to_warm, thread_count
from speclab.lab.bench_prompts import LOWER, bench_prompts, check_fits
from speclab.lab.calibration import QuietMachine
from speclab.lab.pass_costs import measure_costs, verify_cost_of
from speclab.lab.race import warm_tokens
from speclab.lab.runs import ParamValue, open_run, provenance
from speclab.models.pair import Pair
from speclab.models.stops import bundled_stops
from speclab.stats.best_length import LONGEST, best_gamma_along
from speclab.stats.counters import acceptance_rate, block_efficiency
from speclab.stats.intervals import paired_ratio_interval

METHOD, RULE = "draft-model", "token"
PLAIN = "plain"
BENCHMARKS = Path(__file__).resolve().parents[2] / "assets" / "benchmarks"
Progress = Callable[[str], None]
Key = tuple[str, float]
"""(name of the setting, temperature)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthPlan:
    """How much is run.

    Attributes:
        constants: gammas that are always drafted. most: gamma of the dynamic lengths.
        start: where the heuristic begins.
        thresholds: of the confidence and the learned stop.
        max_new_tokens: per prompt, EOS ignored. num_prompts: of the built-in ones.
        repeats: per temperature, each with new seeds. temperatures: of target and draft.
        along: prompts whose texts are also looked at in hindsight. passes: timed per width.
        allow_busy: report on a busy machine, and mark it.

    Raises:
        BadInput: for a number out of range.
    """

    constants: tuple[int, ...] = (2, 4, 8)
    most: int = 12
    start: int = 4
    thresholds: tuple[float, ...] = (0.4, 0.6, 0.8)
    max_new_tokens: int = 96
    num_prompts: int = 12
    repeats: int = 1
    temperatures: tuple[float, ...] = (0.0, 1.0)
    along: int = 6
    passes: int = 15
    allow_busy: bool = False

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "num_prompts", "repeats", "passes", "most", "start"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be at least 1, not {getattr(self, name)}.")
        if not self.constants:
            raise BadInput("At least one constant draft length is needed, to compare with.")


PLANS: dict[str, LengthPlan] = {
    "smollm2-135m": LengthPlan(
        constants=(1, 2, 4),
        most=8,
        thresholds=(0.4, 0.6),
        max_new_tokens=32,
        num_prompts=6,
        along=3,
        passes=10,
    )
}
"""Plans of targets that are slower than the bundled one: some three minutes on two CPU cores."""


def usual_plan(pair: str) -> LengthPlan:
    """Return how much of a pair is run unless asked otherwise."""
    return PLANS.get(pair, LengthPlan())


def settings_of(pair: str, plan: LengthPlan) -> dict[str, dict[str, ParamValue] | None]:
    """Return the parameters of every setting by its name; None: plain decoding.

    A learned stop is left out where none was trained for the pair.
    """
    found: dict[str, dict[str, ParamValue] | None] = {PLAIN: None}
    for gamma in plan.constants:
        found[f"constant {gamma}"] = {"num_speculative_tokens": gamma}
    found["heuristic"] = {"num_speculative_tokens": plan.start, "draft_length": "heuristic"}
    for kind in ("confidence", "learned"):
        if kind == "learned" and METHOD not in bundled_stops(pair):
            continue
        for threshold in plan.thresholds:
            found[f"{kind} {threshold:g}"] = {
                "num_speculative_tokens": plan.most,
                "draft_length": kind,
                "stop_threshold": threshold,
            }
    found["goodput"] = {"num_speculative_tokens": plan.most, "draft_length": "goodput"}
    return found


@dataclass(slots=True)
class Measured:
    """One setting at one temperature: seconds and traces by (repeat, prompt)."""

    seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    traces: dict[tuple[int, int], Trace] = field(default_factory=dict)

    def per_prompt(self) -> list[float]:
        """Return the seconds of each prompt over all repeats."""
        totals: dict[int, float] = defaultdict(float)
        for (_, prompt), value in self.seconds.items():
            totals[prompt] += value
        return [totals[prompt] for prompt in sorted(totals)]


def run_table(pair: Pair, plan: LengthPlan, *, progress: Progress = print) -> dict[str, Any]:
    """Measure the table of a pair and return it (JSON types).

    Raises:
        BadInput: if the pair has no draft model, prompt and new tokens do not fit the target, or
            the machine is busy.
    """
    if not pair.drafts:
        raise BadInput(f"The pair {pair.name} has no draft model.", "Choose another pair.")
    begun, quiet = time.perf_counter(), QuietMachine(pair, plan.allow_busy)
    prompts = _prompts(pair, plan)
    settings = settings_of(pair.name, plan)
    quiet.before()
    measured = _interleave(pair, settings, prompts, plan, quiet, progress)
    progress("cost of a pass on n tokens")
    widths = tuple(sorted({1, 2, 3, 5, 9, plan.most + 1, LONGEST + 1}))
    costs = measure_costs(pair, plan.passes, widths=widths)
    calibration = quiet.after()
    progress("texts in hindsight")
    hindsight = [
        row
        for temperature in plan.temperatures
        for row in [_hindsight(pair, prompts[: plan.along], temperature, costs, plan)]
        if row is not None
    ]
    return {
        "schema_version": 1,
        "kind": "draft-length",
        "pair": pair.name,
        "dtype": pair.dtype,
        "device": pair.device,
        "target": pair.target.name,
        "draft": pair.drafts[0].name,
        "sources": list(pair.notes),
        "method": METHOD,
        "rule": RULE,
        "plan": asdict(plan),
        "threads": thread_count(),
        "calibration": calibration,
        "processor": processor_name(),
        "costs": costs,
        "rows": [
            _row(name, temperature, settings[name], measured, plan)
            for name, temperature in measured
        ],
        "hindsight": hindsight,
        "seconds": round(time.perf_counter() - begun, 1),
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _prompts(pair: Pair, plan: LengthPlan) -> list[tuple[int, ...]]:
    texts = bench_prompts(pair.codec.chat_by_default, plan.num_prompts)
    prompts = [pair.codec.encode(text) for _, text in texts]
    check_fits(pair, prompts, plan.max_new_tokens, LOWER)
    return prompts


def timed_run(
    pair: Pair,
    prompt: tuple[int, ...],
    params: Mapping[str, ParamValue] | None,
    *,
    temperature: float,
    seed: int,
    count: int,
    record_laws: bool = False,
) -> tuple[float, Trace]:
    """Return the seconds of one request, prefill included, and its trace."""
    begun = time.perf_counter()
    live = open_run(
        pair,
        prompt,
        method="autoregressive" if params is None else METHOD,
        params=params,
        rule=RULE,
        sampling=Sampling(temperature=temperature),
        seed=seed,
        max_new_tokens=count,
        record_laws=record_laws,
        ignore_eos=True,
    )
    for _ in live:
        pass
    return time.perf_counter() - begun, live.trace()


def _interleave(
    pair: Pair,
    settings: Mapping[str, Mapping[str, ParamValue] | None],
    prompts: Sequence[tuple[int, ...]],
    plan: LengthPlan,
    quiet: QuietMachine,
    progress: Progress,
) -> dict[Key, Measured]:
    """Run every setting on every prompt; the order rotates from prompt to prompt."""
    keys = [(name, temperature) for temperature in plan.temperatures for name in settings]
    measured = {key: Measured() for key in keys}
    count = warm_tokens(pair, plan.max_new_tokens)
    for prompt in prompts_to_warm(pair.device, prompts):
        for name, temperature in keys:
            timed_run(pair, prompt, settings[name], temperature=temperature, seed=0, count=count)
    for repeat in range(plan.repeats):
        for index, prompt in enumerate(prompts):
            shift = (turn_of(len(keys)) * (repeat * len(prompts) + index)) % len(keys)
            for name, temperature in keys[shift:] + keys[:shift]:
                seconds, trace = timed_run(
                    pair,
                    prompt,
                    settings[name],
                    temperature=temperature,
                    seed=repeat * len(prompts) + index,
                    count=plan.max_new_tokens,
                )
                into = measured[name, temperature]
                into.seconds[repeat, index], into.traces[repeat, index] = seconds, trace
            quiet.during()
            progress(f"repeat {repeat + 1} of {plan.repeats}, prompt {index + 1} of {len(prompts)}")
    return measured


def turn_of(count: int) -> int:
    """Return by how much the order of `count` settings turns: each gets to be first in its time."""
    return next(step for step in range(7, 7 + count) if gcd(step, count) == 1)


def _row(
    name: str,
    temperature: float,
    params: Mapping[str, ParamValue] | None,
    measured: Mapping[Key, Measured],
    plan: LengthPlan,
) -> dict[str, Any]:
    mine, plain = measured[name, temperature], measured[PLAIN, temperature]
    rounds = [round_ for trace in mine.traces.values() for round_ in trace.rounds]
    emitted = sum(len(trace.emitted) for trace in mine.traces.values())
    drafted = sum(round_.num_drafted for round_ in rounds)
    accepted = sum(round_.num_accepted for round_ in rounds)
    lengths: dict[int, int] = defaultdict(int)
    for round_ in rounds:
        lengths[round_.num_drafted] += 1
    against = best_constant(measured, temperature, plan)
    constant = measured[against, temperature]
    same = [trace.emitted == plain.traces[place].emitted for place, trace in mine.traces.items()]
    return {
        "setting": name,
        "temperature": temperature,
        "draft_length": None if params is None else str(params.get("draft_length", "constant")),
        "params": None if params is None else dict(params),
        "emitted_tokens": emitted,
        "rounds": len(rounds),
        "tau": block_efficiency(rounds),
        "acceptance_rate": acceptance_rate(rounds),
        "drafted_tokens": drafted,
        "discarded_tokens": drafted - accepted,
        "drafted_per_round": round(drafted / len(rounds), 4),
        "lengths": {str(length): lengths[length] for length in sorted(lengths)},
        "tokens_per_s": round(emitted / sum(mine.seconds.values()), 2),
        "speedup": _interval(plain, mine),
        "against_constant": against,
        "speedup_against_constant": _interval(constant, mine),
        "greedy_agreement": sum(same) / len(same) if temperature == 0.0 else None,
    }


def _interval(base: Measured, mine: Measured) -> list[float]:
    """Return seconds of `base` over those of `mine` and the bounds of its 95 % interval."""
    return [
        round(value, 4) for value in paired_ratio_interval(base.per_prompt(), mine.per_prompt())
    ]


def best_constant(measured: Mapping[Key, Measured], temperature: float, plan: LengthPlan) -> str:
    """Return the constant setting with the least total seconds: the one to beat."""
    names = [f"constant {gamma}" for gamma in plan.constants]
    return min(names, key=lambda name: sum(measured[name, temperature].seconds.values()))


def _hindsight(
    pair: Pair,
    prompts: Sequence[tuple[int, ...]],
    temperature: float,
    costs: Mapping[str, Any],
    plan: LengthPlan,
) -> dict[str, Any] | None:
    """Return what the best constant length and an oracle would have cost along these texts."""
    if not prompts:
        return None
    longest = {"num_speculative_tokens": LONGEST}
    found = [
        best_gamma_along(trace, costs["cost_ratio"], verify_cost_of(dict(costs)))
        for seed, prompt in enumerate(prompts)
        for _, trace in [
            timed_run(
                pair,
                prompt,
                longest,
                temperature=temperature,
                seed=seed,
                count=plan.max_new_tokens,
                record_laws=True,
            )
        ]
    ]
    total = [sum(best.constant_cost[gamma] for best in found) for gamma in range(LONGEST + 1)]
    oracle = sum(best.oracle_cost for best in found)
    chosen = [length for best in found for length in best.oracle_lengths]
    gamma = min(range(LONGEST + 1), key=lambda length: (total[length], length))
    return {
        "temperature": temperature,
        "num_texts": len(found),
        "num_tokens": sum(best.num_tokens for best in found),
        "num_unmeasured": sum(best.num_unmeasured for best in found),
        "best_constant": gamma,
        "best_constant_per_text": [best.best_constant for best in found],
        "constant_speedup": [round(total[0] / value, 4) for value in total],
        "oracle_speedup": round(total[0] / oracle, 4),
        "oracle_over_constant": round(total[gamma] / oracle, 4),
        "oracle_mean_length": round(sum(chosen) / len(chosen), 4),
        "badge": "modelled",
    }


def report_path(pair: str) -> Path:
    """Return where the measured table of a pair is kept."""
    return BENCHMARKS / f"draft-length-{pair}.json"
