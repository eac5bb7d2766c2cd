"""A run on the terminal: one line per round, then the counters."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from speclab.core.records import Round
from speclab.lab.live_run import LiveRun
from speclab.stats.counters import summarise

STYLES = {
    "accepted": "underline blue",
    "rejected": "strike red",
    "untested": "dim",
    "correction": "bold green",
    "bonus": "italic magenta",
    "plain": "",
}
MARKS = {"\n": "⏎", "\t": "⇥"}


def show_piece(piece: bytes) -> str:
    """Return a token's bytes as visible text; half characters in hexadecimal."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return "⟨" + piece.hex(" ").upper() + "⟩"
    return "".join(MARKS.get(character, character) for character in text) or "∅"


def round_line(round_: Round, live: LiveRun) -> Text:
    """Return one round as coloured text: drafted tokens, then the one that followed."""
    line = Text(f"{round_.index:4} ", style="dim")
    tested = {flip.node for flip in round_.verdict.flips}
    piece = live.piece
    for node, token in enumerate(round_.tree.tokens):
        state = (
            "accepted"
            if node in round_.verdict.accepted
            else "rejected"
            if node in tested
            else "untested"
        )
        line.append(show_piece(piece(token)), style=STYLES[state])
        line.append("│", style="dim")
    if len(round_.emitted) > round_.num_accepted:
        outcome = round_.verdict.outcome
        line.append(show_piece(piece(round_.verdict.next_token)), style=STYLES[outcome])
        line.append(f"  {outcome}", style="dim")
    if round_.stop_reason:
        line.append(f"  [{round_.stop_reason}]", style="dim")
    return line


def print_run(live: LiveRun) -> None:
    """Decode `live` to its end, printing as it goes."""
    console = Console(highlight=False)
    legend = Text("     ")
    for state, style in STYLES.items():
        legend.append(state, style=style)
        legend.append("  ")
    console.print(legend)
    for round_ in live:
        console.print(round_line(round_, live))
    trace = live.trace()
    console.print()
    console.print(Text(trace.text))
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for counter in summarise(trace):
        value = "n/a" if counter.value is None else f"{counter.value:.4g}"
        table.add_row(counter.name, counter.symbol, value, counter.unit, counter.badge)
    console.print()
    console.print(table)
    for warning in trace.warnings:
        console.print(Text(warning, style="yellow"))
