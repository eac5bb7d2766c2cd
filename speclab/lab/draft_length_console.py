"""The command `draft-length`: measure the draft lengths of a pair side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from speclab.core.errors import BadInput
from speclab.lab.terminal import check_place, say, write_json


def draft_length(
    pair: Annotated[str, typer.Option(help="Which pair.")] = "pocket",
    prompts: Annotated[int | None, typer.Option(help="How many built-in prompts.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens per prompt.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Interleaved repeats.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Default: the pair's.")] = None,
    allow_busy: Annotated[
        bool, typer.Option("--allow-busy", help="Report on a busy machine, and mark it.")
    ] = False,
    json_to: Annotated[
        str | None, typer.Option("--json", help="Write JSON to this file; - for standard output.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Write the table the lab shows.")] = False,
) -> None:
    """Compare draft lengths in one run: constant, heuristic, confidence, learned, goodput."""
    from speclab.lab.draft_length_table import report_path, run_table, usual_plan
    from speclab.models.catalogue import load_pair

    check_place(json_to)
    if keep and allow_busy:
        raise BadInput("--keep and --allow-busy exclude each other.", "Keep quiet machines' only.")
    given = {"num_prompts": prompts, "max_new_tokens": max_new_tokens, "repeats": repeats}
    changed = {name: value for name, value in given.items() if value is not None}
    plan = dataclasses.replace(usual_plan(pair), allow_busy=allow_busy, **changed)
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    report = run_table(loaded, plan, progress=say)
    for place in (json_to, str(report_path(pair)) if keep else None):
        if place is not None:
            write_json(report, place)
    if json_to != "-":
        print_table(report)


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
    for row in report["hindsight"]:
        gamma = row["best_constant"]
        console.print(
            f"T {row['temperature']:g}, modelled from overlaps and measured costs: best constant "
            f"γ {gamma} gives {row['constant_speedup'][gamma]:.2f}; an oracle round by round "
            f"{row['oracle_speedup']:.2f} (γ {row['oracle_mean_length']:.1f} on average)"
        )
