"""The command `bench`: time methods and other programs, or make the README's tables anew."""

from __future__ import annotations

from typing import Annotated

import typer

from speclab.core.errors import BadInput
from speclab.lab.options import (
    BusyOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    KeepFileOption,
    PairOption,
    ReadmeOption,
)
from speclab.lab.terminal import check_ends, deliver, listed, say, show, whole_between

MOST_NEW_TOKENS, MOST_REPEATS, MOST_PROMPTS, MOST_TEMPERATURES = 1_000_000, 10_000, 10_000, 8


def bench(
    pair: PairOption = "pocket",
    methods: Annotated[
        str, typer.Option(help="Comma list; parameters as draft-model:num_speculative_tokens=6.")
    ] = "autoregressive,draft-model",
    peer: Annotated[
        str | None, typer.Option(help="Other programs, comma list: transformers, llama.cpp.")
    ] = None,
    temperature: Annotated[str, typer.Option(help="Comma list; 0 is greedy.")] = "0",
    families: Annotated[
        str, typer.Option(help="Families of prompts: all, or a comma list; empty: the usual ones.")
    ] = "",
    repeats: Annotated[int, typer.Option(help="Interleaved repeats.")] = 5,
    prompts: Annotated[int, typer.Option(help="How many built-in prompts.")] = 20,
    max_new_tokens: Annotated[int, typer.Option(help="Tokens per prompt; EOS is ignored.")] = 128,
    memo: Annotated[bool, typer.Option(help="Also time the warm memo session.")] = False,
    allow_busy: BusyOption = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: KeepFileOption = False,
    readme: ReadmeOption = False,
) -> None:
    """Time methods against plain decoding and other programs, interleaved, on the same prompts."""
    from speclab.lab.bench_report import bench_path, print_report, write_readme

    if readme:
        show(f"{write_readme()} is up to date.")
        return
    from speclab.lab.bench import BenchPlan, run_bench
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair, allow_busy=allow_busy)
    for name, value, most in (
        ("repeats", repeats, MOST_REPEATS),
        ("prompts", prompts, MOST_PROMPTS),
        ("max_new_tokens", max_new_tokens, MOST_NEW_TOKENS),
    ):
        whole_between(name, value, 1, most)
    plan = BenchPlan(
        methods=listed(methods),
        peer=peer,
        repeats=repeats,
        num_prompts=prompts,
        max_new_tokens=max_new_tokens,
        temperatures=parse_temperatures(temperature),
        families=listed(families),
        memo=memo,
        allow_busy=allow_busy,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    report = run_bench(loaded, plan, progress=say)
    deliver(report, json_to, bench_path(report) if keep else None, print_report)


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
