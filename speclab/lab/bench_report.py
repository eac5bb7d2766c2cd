"""A benchmark report as text: for the terminal, and for the README between two marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput
from speclab.lab import head_files
from speclab.lab.head_report import ranged
from speclab.lab.readme_part import Part, markdown_table
from speclab.lab.terminal import complaint_lines

PART = Part(name="bench", command="python -m speclab bench --readme")
VERSIONS = (1, 2)
SHOWN_WIDTHS = ("3", "5", "17")
LINE_WIDTH = 136
"""Columns of text that a table on a terminal may take, even where none says how wide it is."""
PEER_LINES = ("transformers", "llama.cpp")
STAGE_CLOCK = (
    "TTFT, TPOT and waits of this lab's lines are the sums of its loop's stages here, those of "
    "other programs the wall clock: compare them within each only."
)
"""Said of reports that were made before all lines had one clock."""
Row = Mapping[str, Any]
Report = Mapping[str, Any]


# --- kept files -----------------------------------------------------------------------------------


def bench_path(report: Report) -> Path:
    """Return where a report is kept: by pair, device and dtype."""
    device = report["device"].partition(":")[0]
    return head_files.BENCHMARKS / f"{report['pair']}-{device}-{report['dtype']}.json"


def read_bench(path: Path) -> dict[str, Any]:
    """Read a kept report of any schema version; what an old one lacks is left out of the lines.

    Raises:
        BadInput: if it is not a benchmark report, or of a later version.
    """
    data = head_files.read_kept(path)
    if data.get("schema_version") not in VERSIONS or "repeats" not in data:
        raise BadInput(
            f"{path.name} is no benchmark report of a known schema_version "
            f"({data.get('schema_version')!r}).",
            f"This version reads {', '.join(map(str, VERSIONS))}.",
        )
    if data["schema_version"] == 1:
        temperature = data["temperature"]
        data["temperatures"], data["busy"] = [temperature], False
        for row in data["rows"]:
            row["temperature"] = temperature
    return data


def kept_reports() -> list[dict[str, Any]]:
    """Return every kept report of `bench`, by file name."""
    paths = sorted(head_files.BENCHMARKS.glob("*.json"))
    return [read_bench(path) for path in paths if _is_bench(path)]


def _is_bench(path: Path) -> bool:
    data = head_files.read_kept(path, object)
    return isinstance(data, dict) and data.get("kind", "bench") == "bench" and "rows" in data


# --- cells ----------------------------------------------------------------------------------------


def _optional(text: Callable[[Any], str], value: Any) -> str:
    return "" if value is None else text(value)


def _rate(row: Row) -> str:
    digits = 0 if row["tokens_per_s"] >= 100.0 else 1
    return ranged(row, "tokens_per_s", digits)


def _milliseconds(value: float) -> str:
    return f"{1e3 * value:.1f}"


def _tpot(row: Row) -> str:
    if row.get("tpot_p50_s") is None:
        return ""
    return f"{1e3 * row['tpot_p50_s']:.1f} / {1e3 * row['tpot_p99_s']:.1f}"


def _gaps(row: Row) -> str:
    gaps = row.get("gaps") or {}
    if gaps.get("p50_s") is None:
        return ""
    return f"{1e3 * gaps['p50_s']:.1f} / {1e3 * gaps['p99_s']:.1f}"


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _count(value: float) -> str:
    """Return a large number in short: 1.2 k, 3.4 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "method": lambda row: f"`{row['method']}`",
    "T": lambda row: f"{row['temperature']:g}",
    "tokens/s (spread of repeats)": _rate,
    "τ": lambda row: _optional("{:.2f}".format, row["tau"]),
    "α": lambda row: _optional("{:.2f}".format, row["acceptance_rate"]),
    "speedup (95 %)": lambda row: ranged(row, "speedup"),
    "same greedy text": lambda row: _optional(_percent, row.get("greedy_agreement")),
    "TTFT ms": lambda row: _optional(_milliseconds, row.get("ttft_s")),
    "TPOT p50 / p99 ms": _tpot,
    "wait p50 / p99 ms": _gaps,
    "draft share": lambda row: _optional(_percent, row.get("draft_share")),
    "thrown away": lambda row: _optional(_percent, row.get("discarded_share")),
    "× counterpart (95 %)": lambda row: ranged(row, "vs_peer") if "vs_peer" in row else "",
}
"""Columns of the main table by their heading."""

_WORK: dict[str, Callable[[Row], str]] = {
    "method": COLUMNS["method"],
    "T": COLUMNS["T"],
    "parameters added": lambda row: _memory(row, "parameters"),
    "% of target": lambda row: _memory(row, "percent_of_target"),
    "draft KV bytes / token": lambda row: _memory(row, "kv_bytes_per_token"),
    "FLOP / token": lambda row: _optional(_count, row.get("flops_per_token")),
    "of these drafting": lambda row: _optional(_count, row.get("draft_flops_per_token")),
    "bytes / token": lambda row: _optional(_count, row.get("bytes_per_token")),
}


def _memory(row: Row, name: str) -> str:
    return _optional(_count, row["memory"][name])


def table_of(
    rows: Sequence[Row], columns: Mapping[str, Callable[[Row], str]]
) -> tuple[list[str], list[list[str]]]:
    """Return heading and cells; columns that are empty everywhere are left out."""
    cells = {name: [cell(row) for row in rows] for name, cell in columns.items()}
    there = [name for name, column in cells.items() if any(column)]
    return there, [[cells[name][index] for name in there] for index in range(len(rows))]


# --- the report -----------------------------------------------------------------------------------


def heading(report: Report) -> str:
    """Return what was run and what a pass costs, in one sentence."""
    costs = report["costs"]
    greedy = report["temperatures"] == [0.0]
    laws = "greedy" if greedy else "T = " + ", ".join(f"{t:g}" for t in report["temperatures"])
    drafting = ""
    if "cost_ratio" in costs:
        drafting = (
            f", draft step {1e3 * costs['draft_step_s']:.2f} ms, c = {costs['cost_ratio']:.2f}"
        )
    widths = "".join(
        f", v({n}) = {costs['verify_cost'][n]:.2f}"
        for n in SHOWN_WIDTHS
        if n in costs["verify_cost"]
    )
    busy = " On a BUSY machine: not for the record." if report["busy"] else ""
    return (
        f"`{report['pair']}`, {report['dtype']} on {report['device']}, {laws}, "
        f"{report['num_prompts']} prompts × {report['max_new_tokens']} tokens × "
        f"{report['repeats']} repeats, threads: {report['threads']} of {report['processor']}, "
        f"{report['created'][:10]}; target step {1e3 * costs['target_step_s']:.1f} ms"
        f"{drafting}{widths}.{busy}"
    )


def work_table(report: Report) -> str:
    """Return what each of our methods adds and computes; empty for old reports."""
    rows = [row for row in report["rows"] if "memory" in row]
    return markdown_table(*table_of(rows, _WORK)) if rows else ""


def family_table(report: Report) -> str:
    """Return speedup and tau of each family of prompts; empty when there is one family only."""
    rows = [row for row in report["rows"] if "families" in row]
    names = list(dict.fromkeys(name for row in rows for name in row["families"]))
    if len(names) < 2:
        return ""

    def cell(row: Row, name: str) -> str:
        found = row["families"].get(name)
        return f"{found['speedup']:.2f} ({found['tau']:.1f})" if found else ""

    body = [
        [f"`{row['method']}`", f"{row['temperature']:g}", *(cell(row, name) for name in names)]
        for row in rows
        if row["method"] != "autoregressive"
    ]
    return markdown_table(["method", "T", *names], body)


def reference_lines(report: Report) -> list[str]:
    """Return what was measured of other programs besides their lines."""
    lines = []
    for name, found in report.get("references", {}).items():
        widths = ", ".join(f"v({n}) = {value:.2f}" for n, value in found["verify_cost"].items())
        step = 1e3 * found["target_step_s"]
        lines.append(f"{name} ({found['note']}): a pass takes {step:.1f} ms, {widths}.")
    for name, fault in report.get("reference_faults", {}).items():
        lines.append(f"{name}: passes were not measured ({fault}).")
    if "clock" not in report and any(row["method"] in PEER_LINES for row in report["rows"]):
        lines.append(STAGE_CLOCK)
    return lines


def fastest(report: Report) -> str:
    """Return the fastest line of each temperature in one sentence."""
    parts = []
    for temperature in report["temperatures"]:
        rows = [row for row in report["rows"] if row["temperature"] == temperature]
        best = max(rows, key=lambda row: row["tokens_per_s"])
        law = "greedy" if temperature == 0.0 else f"T = {temperature:g}"
        parts.append(f"`{best['method']}`, {best['tokens_per_s']:.0f} tokens/s ({law})")
    return f"Fastest: {'; '.join(parts)}."


def paragraphs_of(report: Report) -> list[str]:
    """Return a report as paragraphs of Markdown."""
    notes = {row["method"]: row["note"] for row in report["rows"] if "note" in row}
    work, families = work_table(report), family_table(report)
    memo = report.get("memo")
    parts = [
        heading(report),
        markdown_table(*table_of(report["rows"], COLUMNS)),
        fastest(report),
        *(f"`{name}`: {note}." for name, note in notes.items()),
        *reference_lines(report),
        work and "Counted, without prefill:",
        work,
        families and "Speedup by family of prompts (τ in brackets):",
        families,
        memo
        and f"Memo session, warm, temperature 1, top-k 20, gamma 4: {memo['tokens_per_s']:,} "
        f"emitted tokens/s ({memo['tokens_per_s_low']:,}–{memo['tokens_per_s_high']:,}).",
    ]
    return [part for part in parts if part]


def readme_tables() -> list[str]:
    """Return what stands between the marks of the README, made from the kept reports."""
    return [part for report in kept_reports() for part in paragraphs_of(report)]


def with_part(text: str) -> str:
    """Return a README with its benchmark tables made anew.

    Raises:
        BadInput: if the marks are not there.
    """
    return PART.put_into(text, readme_tables())


def write_readme() -> Path:
    """Make the README's benchmark tables anew and return its path."""
    return PART.write(readme_tables())


SPEED = (
    "method",
    "T",
    "tokens/s (spread of repeats)",
    "τ",
    "speedup (95 %)",
    "× counterpart (95 %)",
)
"""Columns of the first table on a terminal; the rest follow in a second one."""


def print_report(report: Report) -> None:
    """Print a report as two tables: how fast, and when tokens came and what was thrown away."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console = Console(highlight=False, width=max(console.width, LINE_WIDTH))
    console.print(heading(report).replace("`", ""))
    rest = ("method", "T", *(name for name in COLUMNS if name not in SPEED))
    for names in (SPEED, rest):
        head, body = table_of(report["rows"], {name: COLUMNS[name] for name in names})
        table = Table(box=None)
        for name in head:
            table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
        for cells in body:
            table.add_row(*(cell.replace("`", "") for cell in cells))
        console.print()
        console.print(table)
    for line in (fastest(report), *reference_lines(report)):
        console.print(line.replace("`", ""))
    for line in complaint_lines(report):
        console.print(line)
    if "memo" in report:
        console.print(f"memo session: {report['memo']}")
