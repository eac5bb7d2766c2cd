"""The command `multi-draft`: rules for several drafts against the best possible, on real laws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from speclab.lab.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    NewTokensOption,
    PairOption,
    with_given,
)
from speclab.lab.terminal import check_ends, deliver, say

SHORT = {
    "iid": "i.i.d.",
    "k_seq": "K-SEQ",
    "bound_iid": "bound",
    "without_replacement": "w/o repl.",
    "bound_without_replacement": "bound w/o",
}


def multi_draft(
    pair: PairOption = "pocket",
    families: Annotated[
        list[str] | None, typer.Option("--family", help="A family of prompts; default: six.")
    ] = None,
    prompts: Annotated[int | None, typer.Option(help="Prompts of each family, at most 6.")] = None,
    max_new_tokens: NewTokensOption = None,
    positions: Annotated[int | None, typer.Option(help="Most positions per prompt.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of both models; above 0.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Tokens kept of both laws; 0: all.")] = None,
    device: DeviceOption = "auto",
    dtype: DtypeOption = None,
    json_to: JsonOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Write the report the lab shows.")] = False,
) -> None:
    """Compute how often one of several drafts is accepted, per rule, and the most that can be."""
    from speclab.lab.multi_draft import MultiDraftMeasurement, MultiDraftPlan, report_path
    from speclab.models.catalogue import load_pair

    check_ends(json_to, keep, pair, usual=not families and temperature is None and top_k is None)
    plan = with_given(
        MultiDraftPlan(),
        families=tuple(families) if families else None,
        prompts=prompts,
        max_new_tokens=max_new_tokens,
        positions=positions,
        temperature=temperature,
        top_k=top_k,
    )
    loaded = load_pair(pair, device=device, dtype=dtype, progress=say)
    measurement = MultiDraftMeasurement(loaded, plan)
    for done, total in measurement:
        say(f"prompt {done} of {total}")
    report = measurement.report()
    deliver(report, json_to, report_path(pair) if keep else None, print_report)


def print_report(report: Mapping[str, Any]) -> None:
    """Print a table: families by K."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    plan = report["plan"]
    console.print(
        f"{report['pair']} · {report['dtype']} · T {plan['temperature']:g} · mean chance that one "
        "of K candidates is accepted, computed at the roots of rounds; intervals are in the JSON"
    )
    table = Table(box=None)
    for number, name in enumerate(("family", "n", "K", *SHORT.values(), "K-SEQ or w/o")):
        table.add_column(name, justify="left" if number == 0 else "right")
    for family, numbers in (*report["families"].items(), ("all", report["all"])):
        for count, values in numbers["counts"].items():
            means = (f"{values[name][0]:.4f}" for name in SHORT)
            table.add_row(
                family, str(numbers["positions"]), count, *means, SHORT.get(values["winner"], "–")
            )
    console.print(table)
    console.print(f"largest violation of the inequalities: {report['largest_violation']:.1e}")
