"""The command `families`: every method on every family of prompts, or the README's tables anew."""

from __future__ import annotations

from typing import Annotated

import typer

from speclab.lab.options import (
    BusyOption,
    DeviceOption,
    DtypeOption,
    JsonOption,
    KeepFileOption,
    PairOption,
    ReadmeOption,
    with_given,
)
from speclab.lab.terminal import check_ends, deliver, listed, say, show, whole_between

MOST_PROMPTS, MOST_NEW_TOKENS = 6, 4096


def families(
    pair: PairOption = "pocket",
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
    allow_busy: BusyOption = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: KeepFileOption = False,
    readme: ReadmeOption = False,
) -> None:
    """Measure every method on six families of prompts, against plain decoding."""
    from speclab.lab.families_report import families_path, print_families, write_readme

    if readme:
        show(f"{write_readme()} is up to date.")
        return
    from speclab.lab.families import run_families, usual_plan
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair, allow_busy=allow_busy, usual=not methods)
    for name, value, least, most in (
        ("prompts", prompts, 1, MOST_PROMPTS),
        ("sampled_prompts", sampled_prompts, 0, MOST_PROMPTS),
        ("max_new_tokens", max_new_tokens, 1, MOST_NEW_TOKENS),
    ):
        if value is not None:
            whole_between(name, value, least, most)
    plan = with_given(
        usual_plan(pair),
        methods=listed(methods) or None,
        prompts=prompts,
        sampled_prompts=sampled_prompts,
        max_new_tokens=max_new_tokens,
        allow_busy=allow_busy,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    report = run_families(loaded, plan, progress=say)
    deliver(report, json_to, families_path(pair) if keep else None, print_families)
