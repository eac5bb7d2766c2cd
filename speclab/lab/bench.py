"""Honest timing: plain decoding and methods by the same loop, interleaved, on the same prompts.

Greedy and sampled, EOS ignored, a fixed number of tokens, fixed seeds. Seconds are whole requests,
prefill included. Speedups are ratios of seconds per emitted token of one run, with a paired
bootstrap over prompts. A busy machine is refused.
"""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speclab.core.errors import BadInput, SpeclabError
from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.bench_prompts import LOWER, bench_prompts, check_fits
from speclab.lab.bench_rows import BASELINE, Key, Table, Timed, by_arrival
from speclab.lab.calibration import QuietMachine
from speclab.lab.labels import gamma_of, parse_label
from speclab.lab.ledger import FORMULAS
from speclab.lab.pass_costs import measure_costs, verify_cost_of, widths_of
from speclab.lab.runs import open_run, provenance
from speclab.lab.session_texts import COLD, copies_from_session
from speclab.models.pair import Pair

__all__ = ["BASELINE", "GREEDY", "BenchPlan", "measure_costs", "run_bench", "time_ours"]

SCHEMA_VERSION = 2
GREEDY = Sampling(temperature=0.0)
PEERS = ("transformers", "llama.cpp")
Progress = Callable[[str], None]
Runner = Callable[[tuple[int, ...], int], tuple[float, Trace, Trace]]
"""(prompt, seed) -> seconds of the request, its trace, and the trace by arrival of its tokens."""
Reference = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What to time.

    Attributes:
        methods: labels such as "draft-model" or "draft-model:num_speculative_tokens=6".
        peer: other programs to time as well, by comma: "transformers", "llama.cpp".
        repeats, num_prompts, max_new_tokens: how much. temperatures: 0 is greedy.
        families: of prompts, see `bench_prompts`.
        memo: also time the warm memo session.
        allow_busy: report on a busy machine too, and mark the report.
    """

    methods: tuple[str, ...]
    peer: str | None = None
    repeats: int = 5
    num_prompts: int = 20
    max_new_tokens: int = 128
    temperatures: tuple[float, ...] = (0.0,)
    families: tuple[str, ...] = ()
    memo: bool = False
    allow_busy: bool = False

    def __post_init__(self) -> None:
        for name in ("repeats", "num_prompts", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be at least 1, not {getattr(self, name)}.")
        for label in self.methods:
            gamma_of(label)
        for peer in self.peers:
            if peer not in PEERS:
                raise BadInput(f"There is no peer {peer!r}.", f"Use {' or '.join(PEERS)}.")
        if not self.temperatures or len(set(self.temperatures)) < len(self.temperatures):
            raise BadInput(f"Give each temperature once, not {list(self.temperatures)}.")
        for temperature in self.temperatures:
            Sampling(temperature=temperature)

    @property
    def peers(self) -> tuple[str, ...]:
        """The other programs by name."""
        return tuple(name.strip() for name in self.peer.split(",")) if self.peer else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Our own lines, plain decoding first."""
        return tuple(dict.fromkeys((BASELINE, *self.methods)))


def time_ours(
    pair: Pair,
    label: str,
    prompt: tuple[int, ...],
    count: int,
    *,
    sampling: Sampling = GREEDY,
    seed: int = 0,
) -> tuple[float, Trace]:
    """Return the seconds of one request and its trace (without laws)."""
    return time_arrivals(pair, label, prompt, count, sampling=sampling, seed=seed)[:2]


def time_arrivals(
    pair: Pair,
    label: str,
    prompt: tuple[int, ...],
    count: int,
    *,
    sampling: Sampling = GREEDY,
    seed: int = 0,
) -> tuple[float, Trace, tuple[float, ...]]:
    """Return the seconds of one request, its trace, and when each round came, from the call on."""
    method, params = parse_label(label)
    begun = time.perf_counter()
    run = open_run(
        pair,
        prompt,
        method=method,
        params=params,
        sampling=sampling,
        seed=seed,
        max_new_tokens=count,
        record_laws=False,
        ignore_eos=True,
    )
    arrivals = tuple(time.perf_counter() - begun for _ in run)
    return time.perf_counter() - begun, run.trace(), arrivals


def run_bench(pair: Pair, plan: BenchPlan, *, progress: Progress = print) -> dict[str, Any]:
    """Time the plan and return a report (JSON types; see README for the fields).

    Raises:
        BadInput: if prompt and new tokens do not fit, or the machine is busy.
    """
    prompts = _prompts(pair, plan)
    begun = time.perf_counter()
    runners, notes, references = _runners(pair, plan, progress)
    quiet = QuietMachine(pair, plan.allow_busy)
    quiet.before()
    texts = [tokens for _, tokens in prompts]
    measured = _interleave(runners, texts, plan, quiet, progress, pair.device)
    costs = measure_costs(pair, widths=widths_of(plan.labels))
    others, faults = _measured_besides(references)
    calibration = quiet.after()
    families = [family for family, _ in prompts]
    table = Table.of(pair, measured, families, costs, verify_cost_of(costs), notes)
    report = {
        "schema_version": SCHEMA_VERSION,
        "kind": "bench",
        "pair": pair.name,
        "dtype": pair.dtype,
        "device": pair.device,
        "target": pair.target.name,
        "draft": pair.drafts[0].name if pair.drafts else None,
        "sources": list(pair.notes),
        "plan": {**asdict(plan), "methods": list(plan.labels)},
        "temperatures": list(plan.temperatures),
        "max_new_tokens": plan.max_new_tokens,
        "num_prompts": len(prompts),
        "prompt_tokens": [len(tokens) for _, tokens in prompts],
        "families": families,
        "repeats": plan.repeats,
        "seconds": round(time.perf_counter() - begun, 1),
        "threads": thread_count(),
        "load_average": calibration["before"]["load_average"],
        "processor": processor_name(),
        "busy": calibration["busy"],
        "calibration": calibration,
        "costs": costs,
        "gap_edges_s": list(table.gap_edges()),
        "rows": table.rows(),
        "clock": "wall",
        "references": others,
        "reference_faults": faults,
        "formulas": FORMULAS,
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    if plan.memo:
        from speclab.lab.memo_bench import time_memo

        report["memo"] = time_memo(pair)
    return report


def _prompts(pair: Pair, plan: BenchPlan) -> list[tuple[str, tuple[int, ...]]]:
    texts = bench_prompts(pair.codec.chat_by_default, plan.num_prompts, plan.families)
    prompts = [(family, pair.codec.encode(text)) for family, text in texts]
    check_fits(pair, [tokens for _, tokens in prompts], plan.max_new_tokens, LOWER)
    return prompts


def _runners(
    pair: Pair, plan: BenchPlan, progress: Progress
) -> tuple[dict[Key, Runner], dict[str, str], dict[str, Reference]]:
    """Return what is timed, by label and temperature.

    Returns:
        Runners, remarks by label, and what is measured of other programs besides.
    """
    runners: dict[Key, Runner] = {}
    notes = {label: COLD for label in plan.labels if copies_from_session(label)}
    references: dict[str, Reference] = {}
    count = plan.max_new_tokens
    llama = None
    if "llama.cpp" in plan.peers:
        from speclab.lab.peer_llama_cpp import open_llama_cpp

        llama = open_llama_cpp(pair, thread_count(), progress)
        notes["llama.cpp"], references["llama.cpp"] = llama.note, llama.measure
    for temperature in plan.temperatures:
        sampling = Sampling(temperature=temperature)
        for label in plan.labels:
            runners[label, temperature] = _ours(pair, label, count, sampling)
        if "transformers" in plan.peers:
            from speclab.lab.peers import transformers_runners

            peers, remarks = transformers_runners(pair, plan.labels, count, sampling)
            runners |= {(name, temperature): _others(runner) for name, runner in peers.items()}
            notes |= remarks
        if llama is not None:
            runners["llama.cpp", temperature] = _others(llama.runner(count, sampling))
    return runners, notes, references


def _ours(pair: Pair, label: str, count: int, sampling: Sampling) -> Runner:
    def run(prompt: tuple[int, ...], seed: int) -> tuple[float, Trace, Trace]:
        seconds, trace, arrivals = time_arrivals(
            pair, label, prompt, count, sampling=sampling, seed=seed
        )
        return seconds, trace, by_arrival(trace, arrivals)

    return run


def _others(runner: Callable[[tuple[int, ...], int], tuple[float, Trace]]) -> Runner:
    """Return another program's runner: its trace is one by arrival already."""

    def run(prompt: tuple[int, ...], seed: int) -> tuple[float, Trace, Trace]:
        seconds, trace = runner(prompt, seed)
        return seconds, trace, trace

    return run


def _measured_besides(
    references: dict[str, Reference],
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return what other programs measure besides their lines, and by name why one did not."""
    found, faults = {}, {}
    for name, measure in references.items():
        try:
            found[name] = measure()
        except (SpeclabError, RuntimeError, ValueError, OSError) as error:
            faults[name] = str(error)
    return found, faults


def prompts_to_warm(device: str, prompts: Sequence[tuple[int, ...]]) -> Sequence[tuple[int, ...]]:
    """Return what to run once before anything is timed: on a GPU everything, in full length.

    Passes are captured there when a width or a size of the cache is first met.
    """
    return prompts if device.startswith("cuda") else prompts[:1]


def thread_count() -> int:
    """Return how many threads torch computes with."""
    import torch

    return torch.get_num_threads()


def _interleave(
    runners: dict[Key, Runner],
    prompts: list[tuple[int, ...]],
    plan: BenchPlan,
    quiet: QuietMachine,
    progress: Progress,
    device: str,
) -> dict[Key, Timed]:
    """Time every runner on every prompt; the order rotates, so drift hits all alike.

    Every line gets the same seed for the same prompt and repeat.
    """
    keys = list(runners)
    measured = {key: Timed() for key in keys}
    for prompt in prompts_to_warm(device, prompts):
        for key in keys:
            runners[key](prompt, 0)
    for repeat in range(plan.repeats):
        for index, prompt in enumerate(prompts):
            shift = (repeat + index) % len(keys)
            seed = repeat * len(prompts) + index
            for key in keys[shift:] + keys[:shift]:
                into = measured[key]
                place = (repeat, index)
                into.seconds[place], into.traces[place], into.arrived[place] = runners[key](
                    prompt, seed
                )
        progress(f"repeat {repeat + 1} of {plan.repeats} done")
        quiet.during()
    return measured


def processor_name() -> str:
    """Return the processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor()
