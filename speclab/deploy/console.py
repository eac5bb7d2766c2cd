"""The commands `deploy` and `metrics`: configurations, a linter, folders, readers of engines."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from speclab.core.errors import BadInput
from speclab.deploy.counts import Value, numbers_of
from speclab.deploy.engines import ENGINES, engine_named
from speclab.deploy.fetching import fetch_page
from speclab.deploy.lint import MOST_CHARS, lint
from speclab.deploy.plans import Configuration, Refusal, make_wish
from speclab.deploy.request_details import read_details
from speclab.deploy.server_pages import Between, between, read_page
from speclab.lab.options import JsonOption, MethodOption, ParamOption
from speclab.lab.terminal import check_place, parse_params, read_prompt, show, write_json

deploy = typer.Typer(
    help="Take a method to an engine: configurations, checks of commands, folders.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
MARKS = {"fine": "ok", "note": "note", "warning": "warning", "error": "ERROR"}
MOST_WAIT_S = 3_600.0


@deploy.command("config")
def config(
    method: MethodOption = "draft-model",
    engine: Annotated[str, typer.Option(help="An engine, or all.")] = "all",
    target: Annotated[str, typer.Option(help="Hub id, folder or file of the target.")] = "",
    draft: Annotated[str, typer.Option(help="Hub id, folder or file of the draft.")] = "",
    head: Annotated[str, typer.Option(help="Hub id, folder or file of the head.")] = "",
    param: ParamOption = None,
    length: Annotated[
        str, typer.Option(help="Draft length: method, load or acceptance.")
    ] = "method",
    rule: Annotated[str, typer.Option(help="usual, or block verification.")] = "usual",
    json_to: JsonOption = None,
) -> None:
    """Print how an engine runs a method, or why it cannot."""
    check_place(json_to)
    wish = make_wish(
        method,
        parse_params(param or []),
        target=target,
        draft=draft,
        head=head,
        length=length,
        rule=rule,
    )
    chosen = list(ENGINES.values()) if engine == "all" else [engine_named(engine)]
    found = [one.configure(wish) for one in chosen]
    if json_to is not None:
        write_json([_data(one) for one in found], json_to)
    if json_to != "-":
        show("\n\n".join(_told(one) for one in found))


def _data(found: Configuration | Refusal) -> dict[str, Any]:
    kind = "configuration" if isinstance(found, Configuration) else "refusal"
    return {"kind": kind, **dataclasses.asdict(found)}


def _told(found: Configuration | Refusal) -> str:
    title = f"== {ENGINES[found.engine].title} {found.version}"
    if isinstance(found, Refusal):
        return f"{title}: no\n{found.reason.en}\n{found.instead.en}"
    lines = [f"{title} ({ENGINES[found.engine].checked.en})"]
    for block in found.blocks:
        lines += [f"-- {block.title.en}", block.text.rstrip()]
    rule = found.verification
    exact = {True: "lossless", False: "not lossless", None: "not stated"}[rule.lossless]
    lines.append(f"-- Verification: {rule.title.en}, accepts {rule.accepts}, {exact}")
    lines += [
        f"   {row.ours} -> {row.theirs} = {row.value}  {row.note.en}".rstrip()
        for row in found.names
    ]
    lines += [f" * {note.en}" for note in found.notes]
    return "\n".join(lines)


@deploy.command("lint")
def lint_command(
    command: Annotated[
        str | None, typer.Argument(help="The command, in quotes; left out: standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Read the command from a file.")] = None,
    engine: Annotated[str, typer.Option(help="An engine; default: found out.")] = "",
    json_to: JsonOption = None,
) -> None:
    """Say which options of a pasted command exist; runs nothing. Status 1: some do not."""
    check_place(json_to)
    text = command
    if file is not None:
        text = read_prompt(file)
    elif text is None:
        text = _standard_input()
    report = lint(text or "", engine)
    if json_to is not None:
        write_json(dataclasses.asdict(report), json_to)
    if json_to != "-":
        how = "found out" if report.detected else "chosen"
        show(f"{ENGINES[report.engine].title} {report.version} ({how})")
        for finding in report.findings:
            show(f"{MARKS[finding.state]:8} {finding.subject}: {finding.text.en}")
        show(f"{report.unchecked} other options are not about speculation and were not checked.")
    raise SystemExit(1 if report.num_errors else 0)


def _standard_input() -> str:
    try:
        return sys.stdin.read(MOST_CHARS + 1)
    except UnicodeDecodeError as error:
        raise BadInput("Standard input is not UTF-8 text.", "Paste the command as text.") from error


@deploy.command("export")
def export(
    kind: Annotated[str, typer.Argument(help="draft, target, eagle3 or medusa.")],
    output: Annotated[Path, typer.Option(help="A folder that is not there yet, or empty.")],
    pair: Annotated[str, typer.Option(help="Whose.")] = "pocket",
    target_at: Annotated[
        str, typer.Option("--at", help="Hub id or folder by which engines know the target.")
    ] = "",
) -> None:
    """Write a folder that engines load, with a README.md that tells the commands."""
    from speclab.deploy.folders import export_folder
    from speclab.lab.terminal import say

    for path in export_folder(kind, pair, output, target_at=target_at, say=say):
        show(f"{path}  {path.stat().st_size:,} bytes")


def metrics(
    address: Annotated[
        str | None, typer.Argument(help="Of the server, like http://127.0.0.1:8000/metrics.")
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", help="Read twice, this many seconds apart; 0: once.")
    ] = 0.0,
    details: Annotated[
        Path | None, typer.Option(help="Instead: a response of vLLM with details of a request.")
    ] = None,
    specspecs: Annotated[
        Path | None, typer.Option(help="Instead: a Parquet log of specspecs; needs pyarrow.")
    ] = None,
    json_to: JsonOption = None,
) -> None:
    """Show the counters of a running vLLM, SGLang or llama.cpp under our names."""
    check_place(json_to)
    given = [one for one in (address, details, specspecs) if one is not None]
    if len(given) != 1:
        raise BadInput("Give an address, or --details FILE, or --specspecs PLACE.")
    if not 0 <= wait_s <= MOST_WAIT_S:
        raise BadInput(f"--wait takes seconds between 0 and {MOST_WAIT_S:,.0f}, not {wait_s}.")
    if address is not None:
        found = _watched(address, wait_s)
    elif details is not None:
        counts = read_details(read_prompt(details))
        found = Between(engine="vllm", values=tuple(numbers_of(counts)), notes=())
    else:
        from speclab.deploy.specspecs import read_log

        assert specspecs is not None
        counts = read_log(specspecs)
        found = Between(engine="specspecs", values=tuple(numbers_of(counts)), notes=())
    if json_to is not None:
        write_json(dataclasses.asdict(found), json_to)
    if json_to != "-":
        show("\n".join([found.engine, *map(_line, found.values)]))
        for note in found.notes:
            show(f"* {note.en}")


def _watched(address: str, wait_s: float) -> Between:
    first = read_page(fetch_page(address))
    if not wait_s:
        return between(None, first)
    time.sleep(wait_s)
    return between(first, read_page(fetch_page(address)))


def _line(value: Value) -> str:
    number = "–" if value.value is None else f"{value.value:.6g}"
    note = f"  {value.note.en}" if value.note.en else ""
    return f"{value.name:34} {number:>10}  {value.badge}  {value.source}{note}"
