"""A table of prompt families as text: for the terminal, and for the README between two marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput
from speclab.lab import head_files
from speclab.lab.families import SCHEMA_VERSION
from speclab.lab.readme_part import Part, markdown_table
from speclab.lab.terminal import complaint_lines

PART = Part(name="families", command="python -m speclab families --readme")
BASELINE = "autoregressive"
Report = Mapping[str, Any]
Row = Mapping[str, Any]


# --- kept files -----------------------------------------------------------------------------------


def families_path(pair: str) -> Path:
    """Return where the table of a pair is kept."""
    return head_files.BENCHMARKS / f"families-{pair}.json"


def read_families(path: Path) -> dict[str, Any]:
    """Read a kept table.

    Raises:
        BadInput: if it is none, or of another version.
    """
    data = head_files.read_kept(path)
    found = (data.get("kind"), data.get("schema_version"))
    if found != ("families", SCHEMA_VERSION):
        raise BadInput(
            f"{path.name} is no table of families of schema_version {SCHEMA_VERSION}.",
            "Measure it again: python -m speclab families --keep.",
        )
    return data


def kept_families() -> list[dict[str, Any]]:
    """Return every kept table, by file name."""
    return [read_families(path) for path in sorted(head_files.BENCHMARKS.glob("families-*.json"))]


# --- cells ----------------------------------------------------------------------------------------


def speed_text(numbers: Row) -> str:
    """Return the speedup with its interval, `1.45 (1.30–1.61)`, or `1.45 (1 prompt)` without."""
    text = f"{numbers['speedup']:.2f}"
    if numbers["speedup_low"] is None:
        return f"{text} ({_prompts(numbers)})"
    return f"{text} ({numbers['speedup_low']:.2f}–{numbers['speedup_high']:.2f})"


def _prompts(numbers: Row) -> str:
    return "1 prompt" if numbers["prompts"] == 1 else f"{numbers['prompts']} prompts"


def is_faster(numbers: Row) -> bool:
    """Whether the whole interval of the speedup is above 1; too few prompts show nothing."""
    return numbers["speedup_low"] is not None and numbers["speedup_low"] > 1.0


def is_slower(numbers: Row) -> bool:
    """Whether the whole interval of the speedup is below 1; too few prompts show nothing."""
    return numbers["speedup_high"] is not None and numbers["speedup_high"] < 1.0


def count_text(numbers: Row) -> str:
    """Return tau, alpha and the copied share: `τ 2.31 · α .64 · 87 % copied`; alpha for chains."""
    alpha = numbers["acceptance_rate"]
    parts = [f"τ {numbers['tau']:.2f}"]
    if alpha is not None:
        parts.append(f"α {alpha:.2f}")
    if numbers["copied_share"]:
        parts.append(f"{numbers['copied_share']:.0%} copied")
    return " · ".join(parts)


def _cell(numbers: Row) -> str:
    speed = speed_text(numbers)
    shown = f"**{speed}**" if is_faster(numbers) else speed
    return f"{shown}<br>{count_text(numbers)}"


def rows_at(report: Report, temperature: float) -> list[Row]:
    """Return the lines of one temperature, plain decoding left out."""
    return [
        row
        for row in report["rows"]
        if row["temperature"] == temperature and row["method"] != BASELINE
    ]


def cells_of(report: Report, row: Row) -> list[Row]:
    """Return the numbers of a line by family, and last over all of them."""
    return [*(row["families"][name] for name in report["families"]), row]


# --- sentences ------------------------------------------------------------------------------------


def heading(report: Report) -> str:
    """Return what was run, in one sentence."""
    plan = report["plan"]
    busy = " On a BUSY machine: not for the record." if report["busy"] else ""
    sampled = f" and {plan['sampled_prompts']} sampled" if plan["sampled_prompts"] else ""
    return (
        f"`{report['pair']}`, {report['dtype']} on {report['device']}, {plan['prompts']} greedy"
        f"{sampled} prompts per family × {plan['max_new_tokens']} tokens in "
        f"{report['seconds'] / 60:.1f} min, threads: {report['threads']} of "
        f"{report['processor']}, {report['created'][:10]}.{busy}"
    )


def law_text(temperature: float) -> str:
    """Return the name of a temperature."""
    return "Greedy" if temperature == 0.0 else f"T = {temperature:g}"


def fastest(report: Report, temperature: float) -> str:
    """Return the fastest method of each family among those whose interval is above 1."""
    parts = []
    for family in report["families"]:
        rows = rows_at(report, temperature)
        faster = [row for row in rows if is_faster(row["families"][family])]
        if faster:
            best = max(faster, key=lambda row: row["families"][family]["speedup"])
            parts.append(f"{family} `{best['method']}` {speed_text(best['families'][family])}")
        elif rows and all(row["families"][family]["speedup_low"] is None for row in rows):
            parts.append(f"{family} not to be told from {_prompts(rows[0]['families'][family])}")
        else:
            parts.append(f"{family} none")
    return f"{law_text(temperature)}, fastest: {', '.join(parts)}."


def losing(report: Report, temperature: float) -> str:
    """Return which methods' intervals are below 1 in every family; empty if none's are."""
    slow = [
        f"`{row['method']}`"
        for row in rows_at(report, temperature)
        if all(map(is_slower, row["families"].values()))
    ]
    return (
        f"{law_text(temperature)}, slower than plain everywhere: {', '.join(slow)}." if slow else ""
    )


def skipped_lines(report: Report) -> list[str]:
    """Return which methods were not run, and why."""
    return [f"`{name}` was not run: {why['what']}" for name, why in report["skipped"].items()]


# --- the report -----------------------------------------------------------------------------------


def temperatures(report: Report) -> list[float]:
    """Return the temperatures that were run."""
    return list(dict.fromkeys(row["temperature"] for row in report["rows"]))


def table_at(report: Report, temperature: float) -> str:
    """Return the table of one temperature: a line per method, a column per family."""
    head = [f"method, {law_text(temperature).lower()}", *report["families"], "all"]
    body = [
        [f"`{row['method']}`", *map(_cell, cells_of(report, row))]
        for row in rows_at(report, temperature)
    ]
    return markdown_table(head, body)


def markdown(report: Report) -> list[str]:
    """Return a report as paragraphs of Markdown."""
    parts: list[str] = [heading(report)]
    for temperature in temperatures(report):
        parts += [
            table_at(report, temperature),
            fastest(report, temperature),
            losing(report, temperature),
        ]
    return [part for part in (*parts, *skipped_lines(report)) if part]


def readme_tables() -> list[str]:
    """Return what stands between the marks of the README, made from the kept tables."""
    return [part for report in kept_families() for part in markdown(report)]


def with_part(text: str) -> str:
    """Return a README with its tables of families made anew.

    Raises:
        BadInput: if the marks are not there.
    """
    return PART.put_into(text, readme_tables())


def write_readme() -> Path:
    """Make the README's tables of families anew and return its path."""
    return PART.write(readme_tables())


def print_families(report: Report) -> None:
    """Print a report as one table per temperature."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    width = max(console.width, 64 + 24 * len(report["families"]))
    console = Console(highlight=False, width=width)
    console.print(heading(report).replace("`", ""))
    for temperature in temperatures(report):
        table = Table(box=None, padding=(0, 1))
        for name in (f"method, {law_text(temperature).lower()}", *report["families"], "all"):
            table.add_column(name, no_wrap=True)
        for row in rows_at(report, temperature):
            cells = cells_of(report, row)
            table.add_row(row["method"], *map(speed_text, cells))
            table.add_row("", *map(_short_counts, cells), style="dim")
        console.print()
        console.print(table)
        for line in (fastest(report, temperature), losing(report, temperature)):
            console.print(line.replace("`", ""))
    for line in (*skipped_lines(report), *complaint_lines(report)):
        console.print(line.replace("`", ""))


def _short_counts(numbers: Row) -> str:
    return count_text(numbers).replace(" copied", "").replace("τ ", "τ").replace("α ", "α")
