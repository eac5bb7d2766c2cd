"""Runs that take turns: every unit on every prompt, so that drift of the machine hits all alike."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.bench import (
    BASELINE,
    GREEDY,
    processor_name,
    prompts_to_warm,
    thread_count,
    time_ours,
)
from speclab.lab.head_numbers import DIGITS, Measured, row
from speclab.lab.head_plan import Setting
from speclab.lab.labels import parse_label
from speclab.lab.runs import provenance
from speclab.models.pair import Pair
from speclab.stats.counters import acceptance_rate
from speclab.stats.intervals import paired_ratio_interval

WARM_TOKENS = 6
Prompt = tuple[int, ...]
Stopped = Callable[[], bool]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What takes its turn.

    Attributes:
        pair: loaded models. label: a method with its parameters.
        sampling: of the target. max_new_tokens: per prompt; EOS is ignored.
    """

    pair: Pair
    label: str
    sampling: Sampling = GREEDY
    max_new_tokens: int = 32


def never() -> bool:
    """Return False: nobody asks to stop."""
    return False


def check_bounds(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number of a plan that is out of bounds.

    Raises:
        BadInput: naming the value and the bounds.
    """
    if not low <= value <= high:
        raise BadInput(
            f"{name} must be between {low} and {high}, not {value}.",
            code="plan_bounds",
            values={"name": name, "low": low, "high": high, "value": value},
        )


def measure(
    units: Mapping[K, Unit],
    prompts: Sequence[Prompt],
    into: dict[K, Measured],
    *,
    repeats: int = 1,
    stopped: Stopped = never,
) -> Iterator[int]:
    """Run every unit on every prompt and yield how many prompts are done, over the repeats.

    The order of the units rotates. A prompt that is not finished, because `stopped` turned true or
    something went wrong, is forgotten for every unit, so that what is kept stays paired.

    Args:
        units: by key. prompts: token ids. into: filled per key.
        repeats: of all prompts; sampled repeats have seeds of their own.
        stopped: asked before every request.
    """
    keys = list(units)
    for key in keys:
        into.setdefault(key, Measured())
        unit = units[key]
        on_gpu = unit.pair.device.startswith("cuda")
        count = unit.max_new_tokens if on_gpu else min(WARM_TOKENS, unit.max_new_tokens)
        for prompt in prompts_to_warm(unit.pair.device, prompts):
            if stopped():
                return
            time_ours(unit.pair, unit.label, prompt, count, sampling=unit.sampling)
    done = 0
    for repeat in range(repeats):
        for index, prompt in enumerate(prompts):
            place = (repeat, index)
            shift = (repeat * len(prompts) + index) % len(keys)
            complete = False
            try:
                for key in keys[shift:] + keys[:shift]:
                    if stopped():
                        return
                    _time(units[key], prompt, place, len(prompts), into[key])
                complete = True
            finally:
                if not complete:
                    _forget(into, place)
            done += 1
            yield done


def _time(unit: Unit, prompt: Prompt, place: tuple[int, int], count: int, into: Measured) -> None:
    seed = place[0] * count + place[1]
    into.seconds[place], into.traces[place] = time_ours(
        unit.pair, unit.label, prompt, unit.max_new_tokens, sampling=unit.sampling, seed=seed
    )


def _forget(into: Mapping[Any, Measured], place: tuple[int, int]) -> None:
    for measured in into.values():
        measured.seconds.pop(place, None)
        measured.traces.pop(place, None)


def point_of(unit: Unit, mine: Measured, base: Measured) -> dict[str, Any]:
    """Return the numbers of one unit beside plain decoding in the same turns (JSON types).

    Returns:
        A line as in a table of heads, and `seconds_per_token` with its interval,
        `plain_seconds_per_token`, `acceptance_rate` (None for trees) and the counts it is of,
        `accepted_positions` and `tested_positions`, `drafting_rounds`, `num_prompts`,
        `max_new_tokens`, `top_p` and `prefill_share`. Greedy repeats count once.
    """
    method, params = parse_label(unit.label)
    traces = list(mine.traces.values())
    setting = Setting(method=method, params=tuple(params.items()), shape=shape_of(traces))
    per_token = _seconds_per_token(mine)
    prefill = sum(trace.prefill_s for trace in traces)
    counted = mine.counted(unit.sampling.temperature == 0.0).values()
    rounds = [round_ for trace in counted for round_ in trace.rounds]
    return {
        **row(setting, unit.sampling.temperature, mine, base),
        "label": unit.label,
        "top_p": unit.sampling.top_p,
        "max_new_tokens": unit.max_new_tokens,
        "num_prompts": len({prompt for _, prompt in mine.seconds}),
        **dict(
            zip(
                ("seconds_per_token", "seconds_per_token_low", "seconds_per_token_high"),
                per_token,
                strict=True,
            )
        ),
        "plain_seconds_per_token": _seconds_per_token(base)[0],
        "acceptance_rate": acceptance_rate(rounds),
        "accepted_positions": sum(round_.num_accepted for round_ in rounds),
        "tested_positions": sum(round_.num_tested for round_ in rounds),
        "drafting_rounds": sum(1 for round_ in rounds if round_.num_drafted),
        "prefill_share": round(prefill / sum(mine.seconds.values()), DIGITS),
    }


def shape_of(traces: Sequence[Trace]) -> Any:
    """Return "plain", "chain" or "tree": what the runs drafted."""
    drafts = [round_.tree for trace in traces for round_ in trace.rounds if round_.num_drafted]
    if all(trace.spec.method == BASELINE for trace in traces):
        return "plain"
    return "chain" if all(tree.is_chain for tree in drafts) else "tree"


def _seconds_per_token(measured: Measured) -> tuple[float, float, float]:
    tokens = {key: float(len(trace.emitted)) for key, trace in measured.traces.items()}
    seconds = measured.of_prompts(measured.seconds)
    return paired_ratio_interval(seconds, measured.of_prompts(tokens))


def plain_types(value: Any) -> Any:
    """Return a value as JSON has it: tuples as lists."""
    return json.loads(json.dumps(value))


def machine_facts(pair: Pair) -> dict[str, Any]:
    """Return what was run and where, for every report (JSON types)."""
    return {
        "pair": pair.name,
        "dtype": pair.dtype,
        "device": pair.device,
        "target": pair.target.name,
        "draft": pair.drafts[0].name if pair.drafts else None,
        "sources": list(pair.notes),
        "threads": thread_count(),
        "processor": processor_name(),
        "load_average": list(os.getloadavg()),
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
