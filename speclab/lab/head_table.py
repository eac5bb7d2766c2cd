"""One table per target: every way of drafting for it, in one run, against plain decoding.

Greedy and at temperature 1, EOS ignored, a fixed number of tokens after beginnings of held-out
documents, or after chat requests. Settings are interleaved, so that a change of the machine hits
all alike.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from speclab.core.errors import SpeclabError
from speclab.core.laws import Sampling
from speclab.core.trees import PENDING, TokenTree
from speclab.lab.bench import processor_name, thread_count, time_ours
from speclab.lab.bench_prompts import LOWER, check_fits, unseen_prompts
from speclab.lab.head_files import head_facts
from speclab.lab.head_numbers import Measured, row, tau_ratio
from speclab.lab.head_plan import RULE, HeadPlan, Setting, settings_for
from speclab.lab.pass_costs import measure_costs
from speclab.lab.runs import provenance
from speclab.models.catalogue import PAIRS
from speclab.models.pair import Pair

WARM_TOKENS = 8
Progress = Callable[[str], None]
Key = tuple[str, float]
"""(label, temperature)."""


def run_heads(pair: Pair, plan: HeadPlan, *, progress: Progress = print) -> dict[str, Any]:
    """Measure the table of a pair and return it (JSON types).

    Raises:
        BadInput: if prompt and new tokens do not fit the target.
    """
    begun, load_before = time.perf_counter(), list(os.getloadavg())
    prompts = _prompts(pair, plan)
    settings, skipped = settings_for(pair, plan, 0.0)
    units = _units(pair, plan)
    measured = _interleave(pair, units, prompts, plan, progress)
    progress("cost of a pass on n tokens")
    costs = measure_costs(pair, plan.passes, widths=plan.widths, shape=branching)
    seconds = time.perf_counter() - begun
    target = pair.target
    return {
        "schema_version": 1,
        "kind": "heads",
        "pair": pair.name,
        "dtype": pair.dtype,
        "device": pair.device,
        "target": target.name,
        "target_parameters": getattr(target, "num_parameters", 0),
        "draft": pair.drafts[0].name if pair.drafts else None,
        "sources": list(pair.notes),
        "heads": _heads_used(pair),
        "rule": RULE,
        "plan": asdict(plan),
        "num_prompts": len(prompts),
        "seconds": round(seconds, 1),
        "threads": thread_count(),
        "load_average": load_before,
        "load_average_after": list(os.getloadavg()),
        "processor": processor_name(),
        "costs": costs,
        "rows": [
            row(setting, temperature, measured[key], measured[settings[0].label, temperature])
            for key in measured
            for setting, temperature in [(units[key], key[1])]
        ],
        "dynamic_against_static": dynamic_against_static(units, measured),
        "skipped": {name: _reason(error) for name, error in skipped.items()},
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _prompts(pair: Pair, plan: HeadPlan) -> list[tuple[int, ...]]:
    texts = unseen_prompts(pair.codec.chat_by_default, plan.num_prompts)
    prompts = [pair.codec.encode(text) for _, text in texts]
    check_fits(pair, prompts, plan.max_new_tokens, LOWER)
    return prompts


def _units(pair: Pair, plan: HeadPlan) -> dict[Key, Setting]:
    """Return every setting by label and temperature."""
    return {
        (setting.label, temperature): setting
        for temperature in plan.temperatures()
        for setting in settings_for(pair, plan, temperature)[0]
    }


def _interleave(
    pair: Pair,
    units: dict[Key, Setting],
    prompts: list[tuple[int, ...]],
    plan: HeadPlan,
    progress: Progress,
) -> dict[Key, Measured]:
    """Run every unit on every prompt; the order rotates from prompt to prompt."""
    repeats = plan.temperatures()
    measured = {key: Measured() for key in units}
    for label, temperature in units:
        count = min(WARM_TOKENS, plan.max_new_tokens)
        time_ours(pair, label, prompts[0], count, sampling=Sampling(temperature=temperature))
    most = max(repeats.values())
    for repeat in range(most):
        keys = [key for key in units if repeat < repeats[key[1]]]
        for index, prompt in enumerate(prompts):
            shift = (repeat + index) % len(keys)
            for key in keys[shift:] + keys[:shift]:
                _measure(pair, key, prompt, plan, (repeat, index), measured[key])
            progress(f"repeat {repeat + 1} of {most}, prompt {index + 1} of {len(prompts)}")
    return measured


def _measure(
    pair: Pair,
    key: Key,
    prompt: tuple[int, ...],
    plan: HeadPlan,
    place: tuple[int, int],
    into: Measured,
) -> None:
    (label, temperature), count = key, plan.max_new_tokens
    seed, sampling = place[0] * plan.num_prompts + place[1], Sampling(temperature=temperature)
    seconds, trace = time_ours(pair, label, prompt, count, sampling=sampling, seed=seed)
    into.seconds[place], into.traces[place] = seconds, trace


def branching(nodes: int) -> TokenTree:
    """Return a tree of `nodes` tokens in which every node has two children."""
    parents = [PENDING if node < 2 else node // 2 - 1 for node in range(nodes)]
    return TokenTree(tuple(range(20, 20 + nodes)), tuple(parents))


def dynamic_against_static(
    units: dict[Key, Setting], measured: dict[Key, Measured]
) -> list[dict[str, Any]]:
    """Return tau of EAGLE-2's tree over that of EAGLE-1's, same head, same budget of nodes."""
    trees = {
        (setting.method, setting.budget, key[1]): key
        for key, setting in units.items()
        if setting.shape == "tree"
    }
    return [
        {
            "budget": budget,
            "temperature": temperature,
            **tau_ratio(
                measured[key], measured[trees["eagle-1", budget, temperature]], temperature == 0.0
            ),
        }
        for (method, budget, temperature), key in trees.items()
        if method == "eagle-2" and ("eagle-1", budget, temperature) in trees
    ]


def _heads_used(pair: Pair) -> dict[str, Any]:
    """Return, per head of the pair, its size and the digest of its weights."""
    folder = PAIRS[pair.name].heads if pair.name in PAIRS else ""
    return {
        kind: {"parameters": facts.parameters, "minutes": facts.minutes, "sha256": facts.sha256}
        for kind in pair.heads
        if folder and (facts := head_facts(folder, kind)) is not None
    }


def _reason(error: SpeclabError) -> dict[str, Any]:
    """Return why a method was not run, so that a page can say it in another language."""
    return {"what": error.what, "code": error.code, "values": error.values}
