"""The command `heads`: measure the table of a pair, or make the README's tables anew."""

from __future__ import annotations

from typing import Annotated

import typer

from speclab.core.errors import BadInput
from speclab.lab.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    NewTokensOption,
    PairOption,
    PromptsOption,
    ReadmeOption,
    with_given,
)
from speclab.lab.terminal import check_ends, deliver, say, show


def heads(
    pair: PairOption = "pocket",
    prompts: PromptsOption = None,
    max_new_tokens: NewTokensOption = None,
    repeats: Annotated[int | None, typer.Option(help="Greedy repeats.")] = None,
    sampled_repeats: Annotated[
        int | None, typer.Option(help="Repeats at temperature 1; 0: none.")
    ] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Write the table that page and README show; quiet machine."),
    ] = False,
    readme: ReadmeOption = False,
) -> None:
    """Measure every drafting method of a target in one run: chains, trees, trained heads."""
    from speclab.lab.calibration import QuietMachine
    from speclab.lab.head_files import report_path
    from speclab.lab.head_report import print_heads, write_readme

    if readme:
        show(f"{write_readme()} is up to date.")
        return
    from speclab.lab.head_plan import usual_plan
    from speclab.lab.head_table import run_heads
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair)
    plan = with_given(
        usual_plan(pair),
        num_prompts=prompts,
        max_new_tokens=max_new_tokens,
        repeats=repeats,
        sampled_repeats=sampled_repeats,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    quiet = QuietMachine(loaded, allow_busy=not keep)
    quiet.before()
    report = run_heads(loaded, plan, progress=say)
    try:
        calibration = quiet.after()
    except BadInput:  # not kept, but shown
        deliver(report, json_to, None, print_heads)
        raise
    report |= {"busy": calibration["busy"], "calibration": calibration}
    deliver(report, json_to, report_path(pair) if keep else None, print_heads)
