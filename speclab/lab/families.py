"""One table per pair: every method on every family of prompts, against plain decoding.

Greedy and at temperature 1, EOS ignored, a fixed number of tokens, fixed seeds, one run. Methods
are interleaved prompt by prompt, so that a change of the machine hits all alike; a busy machine is
refused. The prompt is the unit of every interval.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speclab.core.errors import BadInput, SpeclabError
from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.core.rules import rule_named
from speclab.lab.bench import (
    BASELINE,
    processor_name,
    prompts_to_warm,
    thread_count,
    time_ours,
)
from speclab.lab.bench_prompts import LOWER, bench_prompts, check_fits
from speclab.lab.calibration import QuietMachine
from speclab.lab.families_numbers import method_row
from speclab.lab.head_numbers import Measured
from speclab.lab.head_plan import RULE
from speclab.lab.labels import gamma_of, parse_label
from speclab.lab.prompt_families import by_turns
from speclab.lab.runs import check_compatible, provenance
from speclab.methods import METHODS, make_method
from speclab.methods.kinds import kind_of
from speclab.models.pair import Pair

SCHEMA_VERSION = 1
CHAT_FAMILIES = ("chat", "code", "json", "copy", "edit", "summarise")
TEXT_FAMILIES = ("story", "code", "json", "copy", "edit", "summary")
"""The same six for a model that continues text: it tells stories instead of chatting."""
WARM_TOKENS = 8
Progress = Callable[[str], None]
Timer = Callable[..., tuple[float, Trace]]
"""As `bench.time_ours`: seconds of one request, and its trace."""
Key = tuple[str, float]
"""(label, temperature)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyPlan:
    """How much of a table is run.

    Attributes:
        methods: labels as `bench` takes them; empty: every method that the pair can run.
        prompts: of each family when greedy. sampled_prompts: at temperature 1; 0 leaves it out.
        max_new_tokens: per prompt. allow_busy: report on a busy machine too, and mark the report.
    """

    methods: tuple[str, ...] = ()
    prompts: int = 6
    sampled_prompts: int = 3
    max_new_tokens: int = 48
    allow_busy: bool = False

    def __post_init__(self) -> None:
        for name, least in (("prompts", 1), ("sampled_prompts", 0), ("max_new_tokens", 1)):
            if getattr(self, name) < least:
                raise BadInput(f"{name} must be {least} or more, not {getattr(self, name)}.")
        for label in self.methods:
            gamma_of(label)

    def temperatures(self) -> dict[float, int]:
        """Return the prompts of each family by temperature."""
        return {0.0: self.prompts} | ({1.0: self.sampled_prompts} if self.sampled_prompts else {})


WITHOUT_HEADS = tuple(name for name, method in METHODS.items() if kind_of(method.card) != "heads")
"""Methods that the table of heads (`head_table`) does not hold already."""

PLANS: dict[str, FamilyPlan] = {
    "smollm2-135m": FamilyPlan(
        methods=WITHOUT_HEADS, prompts=1, sampled_prompts=1, max_new_tokens=16
    ),
}
"""Plans of targets that are slower than the bundled one."""


def usual_plan(pair: str) -> FamilyPlan:
    """Return how much fits into some minutes on two CPU cores."""
    return PLANS.get(pair, FamilyPlan())


def run_families(
    pair: Pair, plan: FamilyPlan, *, progress: Progress = print, timed: Timer = time_ours
) -> dict[str, Any]:
    """Measure the table of a pair and return it (JSON types).

    Args:
        timed: what times one request; another clock in tests.

    Raises:
        BadInput: if prompt and new tokens do not fit, there are too few prompts, or the machine is
            busy.
    """
    prompts = _prompts(pair, plan)
    begun = time.perf_counter()
    labels, skipped = _labels(pair, plan)
    labels, refused = _warm(pair, labels, [tokens for _, tokens in prompts], plan, timed)
    quiet = QuietMachine(pair, plan.allow_busy)
    quiet.before()
    measured = _interleave(pair, labels, prompts, plan, quiet, progress, timed)
    calibration = quiet.after()
    families = [family for family, _ in prompts]
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "families",
        "pair": pair.name,
        "dtype": pair.dtype,
        "device": pair.device,
        "target": pair.target.name,
        "drafts": [draft.name for draft in pair.drafts],
        "sources": list(pair.notes),
        "rule": RULE,
        "plan": asdict(plan),
        "families": list(dict.fromkeys(families)),
        "prompt_tokens": {
            family: [len(tokens) for name, tokens in prompts if name == family]
            for family in dict.fromkeys(families)
        },
        "seconds": round(time.perf_counter() - begun, 1),
        "threads": thread_count(),
        "load_average": calibration["before"]["load_average"],
        "processor": processor_name(),
        "busy": calibration["busy"],
        "calibration": calibration,
        "rows": [
            method_row(pair, key, mine, measured[BASELINE, key[1]], families)
            for key, mine in measured.items()
        ],
        "skipped": {name: _reason(error) for name, error in (skipped | refused).items()},
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _prompts(pair: Pair, plan: FamilyPlan) -> list[tuple[str, tuple[int, ...]]]:
    """Return (family, token ids), the families in turn."""
    chat = pair.codec.chat_by_default
    count = max(plan.temperatures().values())
    texts = {
        family: [text for _, text in bench_prompts(chat, count, (family,))]
        for family in (CHAT_FAMILIES if chat else TEXT_FAMILIES)
    }
    prompts = [(family, tuple(pair.codec.encode(text))) for family, text in by_turns(texts)]
    check_fits(pair, [tokens for _, tokens in prompts], plan.max_new_tokens, LOWER)
    return prompts


def _labels(pair: Pair, plan: FamilyPlan) -> tuple[list[str], dict[str, SpeclabError]]:
    """Return what is run, plain decoding first, and by name why the others are not."""
    labels, skipped = [BASELINE], {}
    for label in plan.methods or tuple(METHODS):
        reason = _reason_against(pair, label)
        if reason is None:
            labels.append(label)
        else:
            skipped[label] = reason
    return list(dict.fromkeys(labels)), skipped


def _reason_against(pair: Pair, label: str) -> SpeclabError | None:
    method = make_method(*parse_label(label))
    try:
        check_compatible(method, rule_named(RULE), pair, Sampling(temperature=0.0))
    except SpeclabError as error:
        return error
    return None


def _interleave(
    pair: Pair,
    labels: Sequence[str],
    prompts: Sequence[tuple[str, tuple[int, ...]]],
    plan: FamilyPlan,
    quiet: QuietMachine,
    progress: Progress,
    timed: Timer,
) -> dict[Key, Measured]:
    """Run every label on every prompt; the order rotates from prompt to prompt.

    Every label gets the same seed for the same prompt.
    """
    shares = plan.temperatures()
    measured = {(label, temperature): Measured() for temperature in shares for label in labels}
    number_of_families = len(dict.fromkeys(family for family, _ in prompts))
    for index, (family, prompt) in enumerate(prompts):
        turn = index // number_of_families
        keys = [key for key in measured if turn < shares[key[1]]]
        shift = index % len(keys)
        for key in keys[shift:] + keys[:shift]:
            label, temperature = key
            found = timed(
                pair,
                label,
                prompt,
                plan.max_new_tokens,
                sampling=Sampling(temperature=temperature),
                seed=index,
            )
            measured[key].seconds[0, index], measured[key].traces[0, index] = found
        progress(f"prompt {index + 1} of {len(prompts)} ({family}), {len(keys)} runs")
        quiet.during()
    return measured


def _warm(
    pair: Pair,
    labels: Sequence[str],
    prompts: Sequence[tuple[int, ...]],
    plan: FamilyPlan,
    timed: Timer,
) -> tuple[list[str], dict[str, SpeclabError]]:
    """Run everything once, so that nothing is loaded or made while it is timed.

    Returns:
        The labels that ran, and why the others could not.
    """
    warm = prompts_to_warm(pair.device, prompts)
    count = plan.max_new_tokens if len(warm) > 1 else min(WARM_TOKENS, plan.max_new_tokens)
    ran, refused = [], {}
    for label in labels:
        try:
            for temperature in plan.temperatures():
                sampling = Sampling(temperature=temperature)
                for prompt in warm:
                    timed(pair, label, prompt, count, sampling=sampling, seed=0)
        except SpeclabError as error:
            refused[label] = error
        else:
            ran.append(label)
    return ran, refused


def _reason(error: SpeclabError) -> Mapping[str, Any]:
    """Return why a method was not run, so that a page can say it in another language."""
    return {"what": error.what, "code": error.code, "values": error.values}
