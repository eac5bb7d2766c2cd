"""The command `quantspec`: acceptance measured, bytes counted, the speed elsewhere modelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from speclab.core.errors import BadInput
from speclab.lab.options import DeviceOption, JsonOption, with_given
from speclab.lab.terminal import check_ends, deliver, say, whole_between

MOST_PROMPTS, MOST_NEW_TOKENS = 24, 1024
SHOWN_CONTEXTS = (1024, 4096, 16384, 32768, 131072)


def quantspec(
    pair: Annotated[str, typer.Option(help="pocket or smollm2-135m.")] = "pocket",
    prompts: Annotated[int | None, typer.Option(help="Prompts, and as many long texts.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens after each.")] = None,
    long_context: Annotated[
        int | None, typer.Option(help="Tokens of a long text; 0: none.")
    ] = None,
    hardware: Annotated[
        str, typer.Option(help="Modelled speeds of: cpu-2, rtx-3090, a100, h100.")
    ] = "a100",
    device: DeviceOption = "auto",
    dtype: Annotated[str | None, typer.Option(help="Default: the pair's.")] = None,
    json_to: JsonOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Write the report the lab shows.")] = False,
) -> None:
    """Measure QuantSpec's acceptance, count its bytes, model its speed; here it is not faster."""
    from speclab.lab.quantspec import DEVICES, load_both, report_path, run_quantspec, usual_plan

    check_ends(json_to, keep, pair)
    if hardware not in DEVICES:
        raise BadInput(
            f"There is no {hardware!r} in the report.", f"Choose one of {', '.join(DEVICES)}."
        )
    for name, value, low, high in (
        ("prompts", prompts, 1, MOST_PROMPTS),
        ("max_new_tokens", max_new_tokens, 1, MOST_NEW_TOKENS),
        ("long_context", long_context, 0, 4096),
    ):
        if value is not None:
            whole_between(name, value, low, high)
    plan = with_given(
        usual_plan(pair),
        num_prompts=prompts,
        max_new_tokens=max_new_tokens,
        long_context=long_context,
    )
    pairs = load_both(pair, device=device, dtype=dtype, progress=say)
    report = run_quantspec(pairs, plan, progress=say)
    kept_at = report_path(pair) if keep else None
    deliver(report, json_to, kept_at, lambda found: print_quantspec(found, hardware))


def print_quantspec(report: Mapping[str, Any], hardware: str) -> None:
    """Print a report: acceptance, bytes, modelled speeds, and the model beside the paper."""
    from rich.console import Console

    console = Console(highlight=False)
    plan = report["plan"]
    console.print(
        f"{report['pair']} · γ {plan['gamma']} · {plan['num_prompts']} prompts × "
        f"{plan['max_new_tokens']} tokens. Nothing is timed: low-bit arithmetic is emulated here "
        "and not faster."
    )
    for title, names, rows in (
        acceptance_table(report),
        bytes_table(report),
        speed_table(report, hardware),
        published_table(report, hardware),
    ):
        console.print(_table(title, names, rows))
    if report["surprise"]:
        words = {"full": "full precision", "eight_bit_cache": "8-bit cache", "four_bit": "4 bits"}
        shown = ", ".join(
            f"{words[name]} {value:.4f}" for name, value in report["surprise"].items()
        )
        console.print(f"nats per token of written text: {shown}")


Cells = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
"""A table: its title, the names of its columns, its rows."""


def _table(title: str, names: tuple[str, ...], rows: list[tuple[str, ...]]) -> Any:
    from rich.table import Table

    table = Table(box=None, title=title, title_justify="left")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    return table


def acceptance_table(report: Mapping[str, Any]) -> Cells:
    """Return what was accepted (measured)."""
    rows = [
        (
            "8-bit" if row["cache_bits"] == 8 else "full",
            f"{row['temperature']:g}",
            row["context"],
            str(row["group_size"]),
            ranged_text(row, "acceptance_rate", 3),
            ranged_text(row, "tau", 2),
            str(row["drafted_tokens"]),
        )
        for row in report["rows"]
    ]
    names = ("cache", "T", "context", "group", "α", "τ", "drafted")
    return f"Acceptance of {prompts_text(report)} (measured; 95 % over prompts)", names, rows


def prompts_text(report: Mapping[str, Any]) -> str:
    """Return how many prompts every line has: `4 prompts`."""
    count = report["plan"]["num_prompts"]
    return "1 prompt" if count == 1 else f"{count} prompts"


def ranged_text(row: Mapping[str, Any], name: str, digits: int) -> str:
    """Return a number with its interval, where there is one: `0.953 (0.912–0.981)`."""
    value, low, high = (row.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return "–"
    bounds = "" if low is None or high is None else f" ({low:.{digits}f}–{high:.{digits}f})"
    return f"{value:.{digits}f}{bounds}"


def bytes_table(report: Mapping[str, Any]) -> Cells:
    """Return the bytes of one pass of the pair's own target (counted)."""
    own = report["bytes"][0]["shape"]
    rows = [
        (f"{row['context'] // 1024}K {row['pass']}", mega(row["weights"]), mega(row["cache"]))
        for row in report["bytes"]
        if row["shape"] == own and row["context"] in SHOWN_CONTEXTS
    ]
    return f"Bytes read by one pass of {own} (counted)", ("pass", "weights", "cache"), rows


def mega(count: float) -> str:
    """Return bytes in MB."""
    return f"{count / 1e6:.1f} MB"


def speed_table(report: Mapping[str, Any], hardware: str) -> Cells:
    """Return modelled speedups on one device."""
    rows = [
        (
            f"{row['shape']}, {row['context'] // 1024}K",
            "8-bit" if row["cache_bits"] == 8 else "full",
            str(row["gamma"]),
            f"{row['tokens_per_round']:.2f}",
            f"{row['speedup']:.2f}",
            f"{row['own_speedup']:.2f}",
        )
        for row in report["modelled"]
        if row["hardware"] == hardware and row["context"] in SHOWN_CONTEXTS
    ]
    names = ("model, context", "cache", "γ", "E[N]", "against 16 bits", "against the same target")
    title = f"Speedup on {hardware} at the acceptance of {prompts_text(report)} here (modelled)"
    return title, names, rows


def published_table(report: Mapping[str, Any], hardware: str) -> Cells:
    """Return the paper's speedups beside the model's at the paper's acceptance."""
    rows = [
        (
            f"{row['shape']}, {row['context'] // 1024}K",
            f"{row['published']:.2f}",
            f"{row['speedup']:.2f}",
            str(row["gamma"]),
        )
        for row in report["beside_published"]
        if row["hardware"] == hardware
    ]
    names = ("model, context", "published", "modelled", "γ")
    title = (
        f"The paper's numbers beside the model on {hardware}, its acceptance taken per tested token"
    )
    return title, names, rows
