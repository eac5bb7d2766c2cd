"""A measured table of heads as text: for the terminal, and for the README between two marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from speclab.lab.head_files import measured_pairs, read_report
from speclab.lab.readme_part import Part, markdown_table

PART = Part(name="heads", command="python -m speclab heads --readme")
BEGIN, END = PART.begin, PART.end
Row = Mapping[str, Any]


def ranged(row: Row, name: str, digits: int = 2) -> str:
    """Return a number with its interval: `1.83 (1.72–1.95)`."""
    values = (row[name], row[f"{name}_low"], row[f"{name}_high"])
    value, low, high = (f"{each:.{digits}f}" for each in values)
    return f"{value} ({low}–{high})"


def shape_of(row: Row) -> str:
    """Return the shape of a line's drafts and how many tokens they have: `tree 16`."""
    name = {"plain": "", "drawn": "drawn chain"}.get(row["shape"], row["shape"])
    return f"{name} {row['budget']}" if name else ""


def rows_at(report: Mapping[str, Any], temperature: float) -> list[Row]:
    """Return the lines of one temperature."""
    return [row for row in report["rows"] if row["temperature"] == temperature]


def depth_rates(row: Row, kind: str) -> list[float | None]:
    """Return the acceptance rates by depth; `kind` is "cumulative" or "conditional"."""
    rates = row["acceptance"][kind]
    return [rate[0] if isinstance(rate, list) else rate for rate in rates]


def chains(report: Mapping[str, Any], temperature: float = 0.0) -> list[Row]:
    """Return the lines of chains."""
    return [row for row in rows_at(report, temperature) if row["shape"] == "chain"]


def _main_table(report: Mapping[str, Any]) -> str:
    greedy, sampled = ({row["label"]: row for row in rows_at(report, t)} for t in (0.0, 1.0))
    head = ["method", "drafts", "drafted / round", "τ greedy (95 %)", "draft share", "tokens/s"]
    head += ["speedup (95 %)", "τ at T = 1 (95 %)", "speedup at T = 1 (95 %)"]
    body = []
    for label, row in _by_method(greedy | {k: v for k, v in sampled.items() if k not in greedy}):
        cells = [f"`{row['method']}`", shape_of(row), f"{row['drafted_per_round']:.1f}"]
        if label in greedy:
            cells += [ranged(row, "tau"), f"{row['draft_share']:.0%}", f"{row['tokens_per_s']:.0f}"]
            cells += [ranged(row, "speedup")]
        else:
            cells += [""] * 4
        other = sampled.get(label)
        cells += [ranged(other, "tau"), ranged(other, "speedup")] if other else ["", ""]
        body.append(cells)
    return markdown_table(head, body)


def _by_method(rows: Mapping[str, Row]) -> list[tuple[str, Row]]:
    """Return rows by label, those of a method together."""
    methods = list(dict.fromkeys(row["method"] for row in rows.values()))
    return sorted(rows.items(), key=lambda item: methods.index(item[1]["method"]))


def _depth_table(report: Mapping[str, Any]) -> str:
    deepest = max((len(row["acceptance"]["conditional"]) for row in chains(report)), default=0)
    body = []
    for row in chains(report):
        rates = depth_rates(row, "conditional")
        cells = ["" if rate is None else f"{rate:.0%}" for rate in rates]
        body.append([f"`{row['method']}`", *cells, *[""] * (deepest - len(cells))])
    return markdown_table(["chain", *(f"depth {depth + 1}" for depth in range(deepest))], body)


def markdown(report: Mapping[str, Any]) -> str:
    """Return a report as Markdown."""
    costs = report["costs"]["verify_cost"]
    widths = ", ".join(f"v({n}) = {costs[n]:.2f}" for n in ("5", "9", "17", "25") if n in costs)
    plan = report["plan"]
    parts = [
        f"`{report['pair']}`, {report['dtype']}, {report['num_prompts']} prompts × "
        f"{plan['max_new_tokens']} tokens, {plan['repeats']} greedy and "
        f"{plan['sampled_repeats']} sampled repeats in {report['seconds'] / 60:.1f} min, threads: "
        f"{report['threads']} of {report['processor']}, {report['created'][:10]}; target step "
        f"{1e3 * report['costs']['target_step_s']:.1f} ms, {widths}:",
        _main_table(report),
        "Accepted, given that the depth before was (greedy, chains):",
        _depth_table(report),
    ]
    against = report["dynamic_against_static"]
    if against:
        found = "; ".join(
            f"{item['budget']} nodes at T = {item['temperature']:g}: {ranged(item, 'ratio')}"
            for item in against
        )
        parts.append(
            f"τ of EAGLE-2's dynamic tree over that of EAGLE-1's static one, same head: {found}."
        )
    for name, reason in report["skipped"].items():
        parts.append(f"`{name}` was not run: {reason['what']}")
    return "\n\n".join(parts)


def readme_tables() -> list[str]:
    """Return what stands between the marks of the README, made from the measured tables."""
    reports = [report for name in measured_pairs() if (report := read_report(name))]
    return [markdown(report) for report in reports]


def with_part(text: str) -> str:
    """Return a README with its tables of heads made anew.

    Raises:
        BadInput: if the marks are not there.
    """
    return PART.put_into(text, readme_tables())


def write_readme() -> Path:
    """Make the README's tables of heads anew and return its path."""
    return PART.write(readme_tables())


def print_heads(report: Mapping[str, Any]) -> None:
    """Print a report as tables."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(markdown(report).partition("\n\n")[0].replace("`", ""))
    table = Table(box=None)
    for name in ("method", "", "T", "tau", "draft", "tokens/s", "speedup"):
        table.add_column(name, justify="left" if name in ("method", "") else "right")
    for row in report["rows"]:
        table.add_row(
            row["method"],
            shape_of(row),
            f"{row['temperature']:g}",
            ranged(row, "tau"),
            f"{row['draft_share']:.0%}",
            f"{row['tokens_per_s']:.1f}",
            ranged(row, "speedup"),
        )
    console.print(table)
    for name, reason in report["skipped"].items():
        console.print(f"{name}: not run, {reason['what']}")
    console.print(f"{report['seconds']:.0f} s")
