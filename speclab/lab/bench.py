"""Honest timing: plain decoding and methods by the same loop, interleaved, on the same prompts.

Greedy, EOS ignored, a fixed number of tokens. Seconds are whole requests, prefill included.
Speedups are ratios of total seconds in one run, with a paired bootstrap over prompts.
"""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.core.theory import walltime_speedup
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.labels import gamma_of, parse_label, peer_of
from speclab.lab.runs import open_run, provenance
from speclab.models.pair import Pair
from speclab.stats.counters import acceptance_rate, block_efficiency
from speclab.stats.intervals import paired_ratio_interval

BASELINE = "autoregressive"
GREEDY = Sampling(temperature=0.0)
VERIFY_WIDTHS = (1, 2, 3, 5, 9, 17)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """What to time.

    Attributes:
        methods: labels such as "draft-model" or "draft-model:num_speculative_tokens=6".
        peer: "transformers" to time its generate() as well.
        repeats, num_prompts, max_new_tokens: how much.
        memo: also time the warm memo session.
    """

    methods: tuple[str, ...]
    peer: str | None = None
    repeats: int = 5
    num_prompts: int = 20
    max_new_tokens: int = 128
    memo: bool = False

    def __post_init__(self) -> None:
        for name in ("repeats", "num_prompts", "max_new_tokens"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be at least 1, not {getattr(self, name)}.")
        for label in self.methods:
            gamma_of(label)
        if self.peer not in (None, "transformers"):
            raise BadInput(f"There is no peer {self.peer!r}.", "Use transformers.")


@dataclass(slots=True)
class Timed:
    """One label's measurements.

    Attributes:
        seconds: per (repeat, prompt). tokens: emitted per prompt. traces: of the first repeat.
    """

    seconds: dict[tuple[int, int], float] = field(default_factory=dict)
    tokens: dict[int, tuple[int, ...]] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)

    def per_prompt(self) -> list[float]:
        """Return total seconds per prompt over the repeats."""
        totals: dict[int, float] = defaultdict(float)
        for (_, prompt), seconds in self.seconds.items():
            totals[prompt] += seconds
        return [totals[prompt] for prompt in sorted(totals)]

    def per_repeat_rate(self) -> list[float]:
        """Return tokens per second of each repeat."""
        seconds: dict[int, float] = defaultdict(float)
        for (repeat, _), value in self.seconds.items():
            seconds[repeat] += value
        count = sum(len(tokens) for tokens in self.tokens.values())
        return [count / seconds[repeat] for repeat in sorted(seconds)]


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
    for _ in run:
        pass
    return time.perf_counter() - begun, run.trace()


def chain_of(nodes: int) -> TokenTree:
    """Return a chain of `nodes` tokens."""
    return TokenTree.chain(range(20, 20 + nodes))


def measure_costs(
    pair: Pair,
    repeats: int = 30,
    *,
    widths: Sequence[int] = VERIFY_WIDTHS,
    shape: Callable[[int], TokenTree] = chain_of,
) -> dict[str, Any]:
    """Measure c and v(n) on raw passes after a 64-token context.

    Args:
        repeats: passes per width. widths: n, the pending token included; the first is 1.
        shape: makes the tree of n - 1 drafted tokens.

    Returns:
        target_step_s and draft_step_s (medians), cost_ratio, verify_cost by n.
    """
    prompt = tuple(range(10, 74))
    steps: dict[str, float] = {}
    passes: dict[int, list[float]] = {n: [] for n in widths}
    for name, handle in (
        ("target", pair.target),
        *((("draft", pair.drafts[0]),) if pair.drafts else ()),
    ):
        session = handle.open(prompt)
        for n in widths if name == "target" else (1,):
            tree = shape(n - 1) if n > 1 else EMPTY_TREE
            times = passes[n] if name == "target" else []
            session.rollback(len(prompt))
            for attempt in range(repeats + 3):
                session.rollback(len(prompt))
                begun = time.perf_counter()
                session.score(tree).row(0)
                if attempt >= 3:
                    times.append(time.perf_counter() - begun)
            if name == "draft":
                steps["draft"] = sorted(times)[len(times) // 2]
    medians = {n: sorted(times)[len(times) // 2] for n, times in passes.items()}
    out: dict[str, Any] = {
        "target_step_s": medians[1],
        "verify_cost": {str(n): round(value / medians[1], 4) for n, value in medians.items()},
    }
    if "draft" in steps:
        out["draft_step_s"] = steps["draft"]
        out["cost_ratio"] = steps["draft"] / medians[1]
    return out


def run_bench(pair: Pair, plan: BenchPlan, *, progress: Progress = print) -> dict[str, Any]:
    """Time the plan and return a report (JSON types; see README for the fields)."""
    labels = list(dict.fromkeys((BASELINE, *plan.methods)))
    load_before = list(os.getloadavg())
    prompts = [
        (family, pair.codec.encode(text))
        for family, text in bench_prompts(pair.codec.chat_by_default, plan.num_prompts)
    ]
    longest = max(len(tokens) for _, tokens in prompts) + plan.max_new_tokens
    if longest > pair.target.max_context:
        raise BadInput(
            f"Prompt and {plan.max_new_tokens} new tokens make {longest}; {pair.target.name} "
            f"holds {pair.target.max_context}.",
            "Lower --max-new-tokens.",
        )
    runners: dict[str, Callable[[tuple[int, ...]], tuple[float, Any]]] = {
        label: (lambda prompt, label=label: time_ours(pair, label, prompt, plan.max_new_tokens))
        for label in labels
    }
    skipped: dict[str, str] = {}
    if plan.peer:
        from speclab.lab.peers import transformers_runners

        peers, skipped = transformers_runners(pair, labels, plan.max_new_tokens)
        runners |= peers
    timed = _interleave(runners, prompts, plan, progress)
    costs = measure_costs(pair)
    report = {
        "schema_version": 1,
        "pair": pair.name,
        "dtype": pair.dtype,
        "device": pair.device,
        "target": pair.target.name,
        "draft": pair.drafts[0].name if pair.drafts else None,
        "sources": list(pair.notes),
        "temperature": 0.0,
        "max_new_tokens": plan.max_new_tokens,
        "num_prompts": len(prompts),
        "repeats": plan.repeats,
        "threads": thread_count(),
        "load_average": load_before,
        "processor": processor_name(),
        "costs": costs,
        "rows": [_row(label, timed, costs) for label in runners],
        "skipped": skipped,
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    if plan.memo:
        from speclab.lab.memo_bench import time_memo

        report["memo"] = time_memo(pair)
    return report


def thread_count() -> int:
    """Return how many threads torch computes with."""
    import torch

    return torch.get_num_threads()


def _interleave(
    runners: dict[str, Callable],
    prompts: list[tuple[str, tuple[int, ...]]],
    plan: BenchPlan,
    progress: Progress,
) -> dict[str, Timed]:
    """Time every runner on every prompt; the order rotates, so drift hits all alike."""
    labels = list(runners)
    timed = {label: Timed() for label in labels}
    for label in labels:
        runners[label](prompts[0][1])
    for repeat in range(plan.repeats):
        for index, (_, prompt) in enumerate(prompts):
            shift = (repeat + index) % len(labels)
            for label in labels[shift:] + labels[:shift]:
                seconds, result = runners[label](prompt)
                timed[label].seconds[repeat, index] = seconds
                if repeat == 0:
                    emitted = result.emitted if isinstance(result, Trace) else tuple(result)
                    timed[label].tokens[index] = emitted
                    if isinstance(result, Trace):
                        timed[label].traces.append(result)
        progress(f"repeat {repeat + 1} of {plan.repeats} done")
    return timed


def _row(label: str, timed: dict[str, Timed], costs: dict[str, Any]) -> dict[str, Any]:
    mine, base = timed[label], timed[BASELINE]
    speedup, low, high = paired_ratio_interval(base.per_prompt(), mine.per_prompt())
    rates = sorted(mine.per_repeat_rate())
    rounds = [round_ for trace in mine.traces for round_ in trace.rounds]
    agree = [mine.tokens[i] == base.tokens[i] for i in base.tokens]
    alpha = acceptance_rate(rounds) if rounds else None
    row = {
        "method": label,
        "tokens_per_s": round(rates[len(rates) // 2], 2),
        "tokens_per_s_low": round(rates[0], 2),
        "tokens_per_s_high": round(rates[-1], 2),
        "tau": block_efficiency(rounds) if rounds else None,
        "acceptance_rate": alpha,
        "speedup": round(speedup, 4),
        "speedup_low": round(low, 4),
        "speedup_high": round(high, 4),
        "greedy_agreement": sum(agree) / len(agree),
        "emitted_tokens": sum(map(len, mine.tokens.values())),
    }
    peer = peer_of(label) if rounds else label
    if rounds and peer in timed:
        ratio, low, high = paired_ratio_interval(timed[peer].per_prompt(), mine.per_prompt())
        row |= {
            "peer": peer,
            "vs_peer": round(ratio, 4),
            "vs_peer_low": round(low, 4),
            "vs_peer_high": round(high, 4),
        }
    gamma = gamma_of(label) if rounds else None
    if gamma and alpha is not None and label.startswith("draft-model") and "cost_ratio" in costs:
        modelled = walltime_speedup(alpha, gamma, costs["cost_ratio"], verify_cost_of(costs))
        row["speedup_modelled"] = round(modelled, 4)
    return row


def verify_cost_of(costs: dict[str, Any]) -> Callable[[int], float]:
    """Return v(n), linear between the widths measured."""
    widths = [int(n) for n in costs["verify_cost"]]
    values = list(costs["verify_cost"].values())
    return lambda tokens: float(np.interp(tokens, widths, values))


def processor_name() -> str:
    """Return the processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def print_report(report: dict[str, Any]) -> None:
    """Print a report as tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    costs = report["costs"]
    console.print(
        f"{report['pair']} · {report['dtype']} · {report['device']} · "
        f"{report['threads']} threads · "
        f"{report['num_prompts']} prompts × {report['max_new_tokens']} tokens × "
        f"{report['repeats']} repeats"
    )
    if "cost_ratio" in costs:
        console.print(
            f"target step {costs['target_step_s'] * 1e3:.2f} ms, draft step "
            f"{costs['draft_step_s'] * 1e3:.2f} ms, c = {costs['cost_ratio']:.3f}"
        )
    widths = ", ".join(f"v({n}) = {value:.2f}" for n, value in costs["verify_cost"].items())
    console.print(widths)
    table = Table(box=None)
    for name in (
        "method",
        "tokens/s",
        "spread",
        "tau",
        "speedup",
        "95 % interval",
        "agreement",
        "× peer",
    ):
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in report["rows"]:
        table.add_row(
            row["method"],
            f"{row['tokens_per_s']:.1f}",
            f"{row['tokens_per_s_low']:.1f}–{row['tokens_per_s_high']:.1f}",
            "n/a" if row["tau"] is None else f"{row['tau']:.2f}",
            f"{row['speedup']:.2f}",
            f"{row['speedup_low']:.2f}–{row['speedup_high']:.2f}",
            f"{row['greedy_agreement']:.0%}",
            f"{row['vs_peer']:.2f} ({row['vs_peer_low']:.2f}–{row['vs_peer_high']:.2f})"
            if "vs_peer" in row
            else "",
        )
    console.print(table)
    for label, reason in report["skipped"].items():
        console.print(f"{label}: not run, {reason}")
    if "memo" in report:
        console.print(f"memo session: {report['memo']}")
