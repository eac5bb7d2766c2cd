"""What the command line reads and writes, and the status it ends with when something goes wrong."""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from speclab.core.errors import BadInput, SpeclabError

BAD_INPUT, OWN_FAULT, STOPPED, READER_GONE = 2, 70, 130, 141
"""Exit statuses that say nothing about a law: of input, of SpecLab, of Ctrl-C, of a closed pipe."""
DEBUG = "SPECLAB_DEBUG"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def show(text: str) -> None:
    """Print to standard output. A reader that has gone away is no error: nobody wants the rest.

    Raises:
        BadInput: if the output cannot be written, for example because a disk is full.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _give_up(sys.stdout)
    except OSError as error:
        _give_up(sys.stdout)
        raise BadInput(
            f"Cannot write to standard output: {error.strerror}.", "Write to another place."
        ) from error


def say(text: str) -> None:
    """Print to standard error, if it takes anything."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _give_up(sys.stderr)


def _give_up(stream: TextIO) -> None:
    """Lead a stream nowhere, so that its buffer does not fail again at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def write_json(data: Any, place: str) -> None:
    """Write `data` (JSON types, or a JSON string) to a file or to standard output.

    Raises:
        BadInput: if it cannot be written, or holds a number that JSON does not have.
    """
    text = data if isinstance(data, str) else _strict_json(data)
    if place == "-":
        show(text)
        return
    try:
        Path(place).write_text(text + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _no_file("write", place, error) from error


def _strict_json(data: Any) -> str:
    try:
        return json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError as error:
        raise BadInput(
            f"The report cannot be written as JSON: {error}.", "Leave out what was not measured."
        ) from error


def check_place(place: str | None) -> None:
    """Refuse a JSON file that cannot be written, before any work is done.

    Raises:
        BadInput: naming the file.
    """
    if place in (None, "-"):
        return
    try:
        path = Path(place).resolve()
        there = path.exists()
        fine = os.access(path if there else path.parent, os.W_OK) and not path.is_dir()
    except (OSError, ValueError, RuntimeError) as error:
        raise _no_file("write", place, error) from error
    if not fine:
        raise BadInput(
            f"Cannot write {place!r}.", "Choose a file in a folder that you may write to."
        )


def check_ends(
    json_to: str | None, keep: bool, pair: str, *, allow_busy: bool = False, usual: bool = True
) -> None:
    """Refuse, before any work is done, what could not be written or should not be kept.

    Args:
        json_to, keep, pair, allow_busy: the options. usual: whether the report will be the whole
            one that pages show under that name.

    Raises:
        BadInput: naming the file or the options.
    """
    from speclab.models.catalogue import PAIRS

    check_place(json_to)
    if not keep:
        return
    if allow_busy:
        raise BadInput("--keep and --allow-busy exclude each other.", "Keep quiet machines' only.")
    if pair not in PAIRS:
        raise BadInput(f"{pair} is no pair of the catalogue.", "Leave --keep out and use --json.")
    if not usual:
        raise BadInput("--keep goes with the usual methods.", "Leave --keep out and use --json.")


def deliver(
    report: Mapping[str, Any],
    json_to: str | None,
    kept_at: Path | None,
    print_report: Callable[[Any], None],
) -> None:
    """Write a report where it is wanted; print its tables unless standard output has the JSON.

    The file of the pages comes last and whole or not at all.

    Args:
        report: JSON types. json_to: a file, "-" for standard output, or None.
        kept_at: the file that the pages read; None: not kept. print_report: prints the tables.

    Raises:
        BadInput: if it cannot be written.
    """
    if json_to is not None:
        write_json(report, json_to)
    if json_to != "-":
        print_report(report)
    if kept_at is not None:
        unfinished = kept_at.with_suffix(".part")
        write_json(report, str(unfinished))
        unfinished.replace(kept_at)


def busy_lines(report: Mapping[str, Any]) -> list[str]:
    """Return what to print below a report of a busy machine; nothing for a quiet one's."""
    if not report.get("busy"):
        return []
    return ["On a BUSY machine: not for the record.", *complaint_lines(report)]


def complaint_lines(report: Mapping[str, Any]) -> list[str]:
    """Return what the calibration of a report found wrong with the machine, a line each."""
    complaints = report.get("calibration", {}).get("complaints", ())
    return [f"busy: {complaint}" for complaint in complaints]


def read_prompt(place: Path) -> str:
    """Return the text of a file.

    Raises:
        BadInput: if it cannot be read or is not UTF-8.
    """
    try:
        return place.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _no_file("read", str(place), error) from error


def _no_file(verb: str, place: str, error: Exception) -> BadInput:
    if isinstance(error, UnicodeDecodeError):
        reason = "it is not UTF-8 text"
    else:
        reason = getattr(error, "strerror", None) or str(error)
    name = place if len(place) <= 80 else f"{place[:60]}... ({len(place)} characters)"
    return BadInput(f"Cannot {verb} {name!r}: {reason}.", "Check the path of the file.")


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse arguments that are no text.

    Raises:
        BadInput: naming the argument.
    """
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise BadInput(
                f"The argument {argument!r} is not UTF-8 text.", "Type it in UTF-8."
            ) from error


def listed(text: str | None) -> tuple[str, ...]:
    """Return the parts of a comma list; none of nothing."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def parse_params(items: list[str]) -> dict[str, Any]:
    """Parse `name=value` items; values are numbers, true, false, none or words.

    Raises:
        BadInput: for an item without "=".
    """
    words = {"true": True, "false": False, "none": None}
    out: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals:
            raise BadInput(f"-p takes name=value, not {item!r}.")
        value: Any = words.get(text.lower(), text)
        if isinstance(value, str):
            for number in (int, float):
                try:
                    value = number(text)
                    break
                except ValueError:
                    continue
        out[name.strip()] = value
    return out


def whole_between(name: str, value: int, low: int, high: int) -> None:
    """Check a number given on the command line.

    Raises:
        BadInput: naming the option, the value and the range.
    """
    if not low <= value <= high:
        raise BadInput(f"{name} must be a whole number between {low} and {high:,}, not {value}.")


def run_guarded(command: Callable[[], None]) -> None:
    """Run the whole command line; nothing that goes wrong looks like a verdict.

    Errors for people end with status 2, a fault of this program with 70 and one line (its traceback
    only with SPECLAB_DEBUG=1), Ctrl-C with 130, a closed pipe with 141.
    """
    try:
        check_arguments(sys.argv[1:])
        command()
    except SpeclabError as error:
        say(f"Error: {error.what}" + (f"\nTry: {error.hint}" if error.hint else ""))
        status = BAD_INPUT
    except KeyboardInterrupt:
        say("Stopped.")
        status = STOPPED
    except BrokenPipeError:
        _give_up(sys.stdout)
        status = READER_GONE
    except Exception as error:
        if os.environ.get(DEBUG) == "1":
            say(traceback.format_exc())
        if isinstance(error, OSError) and error.errno in _FULL:
            _give_up(sys.stdout)
            say(f"Error: Cannot write: {error.strerror}.\nTry: Write to another place.")
            status = BAD_INPUT
        else:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            say(
                f"This is a fault of SpecLab, not of your input: {what[:300]}. Please report it "
                f"with this line and your command; {DEBUG}=1 shows where it happened."
            )
            status = OWN_FAULT
    else:
        return
    raise SystemExit(status) from None
