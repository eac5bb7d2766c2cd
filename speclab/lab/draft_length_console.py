"""The command `draft-length`: measure the draft lengths of a pair side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from speclab.lab.options import (
    BusyOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    NewTokensOption,
    PairOption,
    PromptsOption,
    with_given,
)
from speclab.lab.terminal import busy_lines, check_ends, deliver, say


def draft_length(
    pair: PairOption = "pocket",
    prompts: PromptsOption = None,
    max_new_tokens: NewTokensOption = None,
    repeats: Annotated[int | None, typer.Option(help="Interleaved repeats.")] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    allow_busy: BusyOption = False,
    json_to: JsonOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Write the table the lab shows.")] = False,
) -> None:
    """Compare draft lengths in one run: constant, heuristic, confidence, learned, goodput."""
    from speclab.lab.draft_length_table import report_path, run_table, usual_plan
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair, allow_busy=allow_busy)
    plan = with_given(
        usual_plan(pair),
        num_prompts=prompts,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
        allow_busy=allow_busy,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    report = run_table(loaded, plan, progress=say)
    deliver(report, json_to, report_path(pair) if keep else None, print_table)


def print_table(report: Mapping[str, Any]) -> None:
    """Print a table of draft lengths."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    plan = report["plan"]
    console.print(
        f"{report['pair']} · {report['dtype']} · {report['device']} · {report['threads']} threads "
        f"· {plan['num_prompts']} prompts × {plan['max_new_tokens']} tokens × {plan['repeats']}"
    )
    table = Table(box=None)
    counts = ("tau", "drafted", "discarded", "per round", "tokens/s")
    names = ("T", "draft length", *counts, "speedup", "against the best constant")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number == 1 else "right")
    for row in report["rows"]:
        own, low, high = row["speedup"]
        against, least, most = row["speedup_against_constant"]
        table.add_row(
            f"{row['temperature']:g}",
            row["setting"],
            f"{row['tau']:.2f}",
            str(row["drafted_tokens"]),
            str(row["discarded_tokens"]),
            f"{row['drafted_per_round']:.2f}",
            f"{row['tokens_per_s']:.1f}",
            f"{own:.2f} ({low:.2f}–{high:.2f})",
            f"{against:.2f} ({least:.2f}–{most:.2f})",
        )
    console.print(table)
    for line in busy_lines(report):
        console.print(line)
    for row in report["hindsight"]:
        gamma = row["best_constant"]
        console.print(
            f"T {row['temperature']:g}, modelled from overlaps and measured costs: best constant "
            f"γ {gamma} gives {row['constant_speedup'][gamma]:.2f}; an oracle round by round "
            f"{row['oracle_speedup']:.2f} (γ {row['oracle_mean_length']:.1f} on average)"
        )
