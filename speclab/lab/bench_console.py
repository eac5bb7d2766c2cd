"""The command `bench`: time methods and other programs, or make the README's tables anew."""

from __future__ import annotations

from typing import Annotated

import typer

from speclab.core.errors import BadInput
from speclab.lab.terminal import check_place, say, show, whole_between, write_json

MOST_NEW_TOKENS, MOST_REPEATS, MOST_PROMPTS, MOST_TEMPERATURES = 1_000_000, 10_000, 10_000, 8


def bench(
    pair: Annotated[str, typer.Option(help="Which pair.")] = "pocket",
    methods: Annotated[
        str, typer.Option(help="Comma list; parameters as draft-model:num_speculative_tokens=6.")
    ] = "autoregressive,draft-model",
    peer: Annotated[
        str | None,
        typer.Option(help="Other programs, comma list: transformers, llama.cpp."),
    ] = None,
    temperature: Annotated[str, typer.Option(help="Comma list; 0 is greedy.")] = "0",
    families: Annotated[
        str, typer.Option(help="Families of prompts: all, or a comma list; empty: the usual ones.")
    ] = "",
    repeats: Annotated[int, typer.Option(help="Interleaved repeats.")] = 5,
    prompts: Annotated[int, typer.Option(help="How many built-in prompts.")] = 20,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens per prompt; EOS is ignored.")] = 128,
    memo: Annotated[bool, typer.Option(help="Also time the warm memo session.")] = False,
    allow_busy: Annotated[
        bool, typer.Option("--allow-busy", help="Report on a busy machine, and mark it.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, float64, bfloat16 or float16; default: the pair's."),
    ] = None,
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
    """Time methods against plain decoding and other programs, interleaved, on the same prompts."""
    from speclab.lab.bench_report import bench_path, print_report, write_readme

    if readme:
        show(f"{write_readme()} is up to date.")
        return
    from speclab.lab.bench import BenchPlan, run_bench
    from speclab.models.catalogue import load_pair

    if keep and allow_busy:
        raise BadInput("--keep and --allow-busy exclude each other.", "Keep quiet machines' only.")
    check_place(json_to)
    for name, value, most in (
        ("repeats", repeats, MOST_REPEATS),
        ("prompts", prompts, MOST_PROMPTS),
        ("max_new_tokens", max_new_tokens, MOST_NEW_TOKENS),
    ):
        whole_between(name, value, 1, most)
    plan = BenchPlan(
        methods=tuple(name.strip() for name in methods.split(",") if name.strip()),
        peer=peer,
        repeats=repeats,
        num_prompts=prompts,
        max_new_tokens=max_new_tokens,
        temperatures=parse_temperatures(temperature),
        families=tuple(name.strip() for name in families.split(",") if name.strip()),
        memo=memo,
        allow_busy=allow_busy,
    )
    report = run_bench(
        load_pair(pair, device=device, dtype=dtype, progress=say), plan, progress=say
    )
    for place in (json_to, str(bench_path(report)) if keep else None):
        if place is not None:
            write_json(report, place)
    if json_to != "-":
        print_report(report)


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Return the temperatures of a comma list.

    Raises:
        BadInput: if one is no number, or there are too many.
    """
    try:
        found = tuple(float(item) for item in text.split(","))
    except ValueError:
        raise BadInput(f"--temperature takes numbers, not {text!r}.", "Try 0 or 0,1.") from None
    if len(found) > MOST_TEMPERATURES:
        raise BadInput(f"{len(found)} temperatures are too many; {MOST_TEMPERATURES} at most.")
    return found
