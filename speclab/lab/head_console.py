"""The command `heads`: measure the table of a pair, or make the README's tables anew."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from speclab.lab.terminal import check_place, say, show, write_json


def heads(
    pair: Annotated[str, typer.Option(help="Which pair.")] = "pocket",
    prompts: Annotated[int | None, typer.Option(help="How many built-in prompts.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens per prompt.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Greedy repeats.")] = None,
    sampled_repeats: Annotated[
        int | None, typer.Option(help="Repeats at temperature 1; 0: none.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Default: the pair's.")] = None,
    json_to: Annotated[
        str | None, typer.Option("--json", help="Write JSON to this file; - for standard output.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Write the table that page and README show.")
    ] = False,
    readme: Annotated[
        bool, typer.Option("--readme", help="Make the README's tables from the kept ones; no run.")
    ] = False,
) -> None:
    """Measure every drafting method of a target in one run: chains, trees, trained heads."""
    from speclab.lab.head_files import report_path
    from speclab.lab.head_report import print_heads, write_readme

    if readme:
        show(f"{write_readme()} is up to date.")
        return
    from speclab.lab.head_plan import usual_plan
    from speclab.lab.head_table import run_heads
    from speclab.models.catalogue import load_pair

    check_place(json_to)
    given = {
        "num_prompts": prompts,
        "max_new_tokens": max_new_tokens,
        "repeats": repeats,
        "sampled_repeats": sampled_repeats,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    plan = dataclasses.replace(usual_plan(pair), **changed)
    report = run_heads(
        load_pair(pair, device=device, dtype=dtype, progress=say), plan, progress=say
    )
    for place in (json_to, str(report_path(pair)) if keep else None):
        if place is not None:
            write_json(report, place)
    if json_to != "-":
        print_heads(report)
