"""The command `families`: every method on every family of prompts, or the README's tables anew."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from speclab.core.errors import BadInput
from speclab.lab.terminal import check_place, say, show, whole_between, write_json

MOST_PROMPTS, MOST_NEW_TOKENS = 6, 4096


def families(
    pair: Annotated[str, typer.Option(help="Which pair.")] = "pocket",
    methods: Annotated[
        str, typer.Option(help="Comma list, as for bench; default: the pair's, usually all.")
    ] = "",
    prompts: Annotated[
        int | None, typer.Option(help="Prompts of each family, greedy; default: the pair's.")
    ] = None,
    sampled_prompts: Annotated[
        int | None, typer.Option(help="The same at temperature 1; 0: none.")
    ] = None,
    max_new_tokens: Annotated[
        int | None, typer.Option(help="Tokens per prompt; EOS is ignored.")
    ] = None,
    allow_busy: Annotated[
        bool, typer.Option("--allow-busy", help="Report on a busy machine, and mark it.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str | None, typer.Option(help="Default: the pair's.")] = None,
    json_to: Annotated[
        str | None, typer.Option("--json", help="Write JSON to this file; - for standard output.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Write the file that lessons and README read.")
    ] = False,
    readme: Annotated[
        bool, typer.Option("--readme", help="Make the README's tables from the kept ones; no run.")
    ] = False,
) -> None:
    """Measure every method on six families of prompts, against plain decoding."""
    from speclab.lab.families_report import families_path, print_families, write_readme

    if readme:
        show(f"{write_readme()} is up to date.")
        return
    from speclab.lab.families import run_families, usual_plan
    from speclab.models.catalogue import load_pair

    if keep and allow_busy:
        raise BadInput("--keep and --allow-busy exclude each other.", "Keep quiet machines' only.")
    check_place(json_to)
    for name, value, least, most in (
        ("prompts", prompts, 1, MOST_PROMPTS),
        ("sampled_prompts", sampled_prompts, 0, MOST_PROMPTS),
        ("max_new_tokens", max_new_tokens, 1, MOST_NEW_TOKENS),
    ):
        if value is not None:
            whole_between(name, value, least, most)
    given = {
        "methods": tuple(name.strip() for name in methods.split(",") if name.strip()) or None,
        "prompts": prompts,
        "sampled_prompts": sampled_prompts,
        "max_new_tokens": max_new_tokens,
        "allow_busy": allow_busy,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    plan = dataclasses.replace(usual_plan(pair), **changed)
    report = run_families(
        load_pair(pair, device=device, dtype=dtype, progress=say), plan, progress=say
    )
    for place in (json_to, str(families_path(pair)) if keep else None):
        if place is not None:
            write_json(report, place)
    if json_to != "-":
        print_families(report)
