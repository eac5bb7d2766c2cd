"""Reads the text format of Prometheus, as much of it as engines write."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from speclab.core.errors import BadInput

MOST_LINES = 200_000
MOST_LINE_CHARS = 8_000
MOST_LABEL_CHARS = 1_000
_LINE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?[ \t]+(?P<value>\S+)"
    r"(?:[ \t]+-?[0-9.]+)?[ \t]*"
)
_LABEL = re.compile(r'[ \t]*([a-zA-Z_]\w*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line: a name, its labels, a value (which may be NaN or infinite)."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_samples(text: str, wanted: Callable[[str], bool]) -> list[Sample]:
    """Return the samples whose name is wanted; lines that are none are passed over.

    Args:
        text: a page in the text format, or in OpenMetrics.
        wanted: whether a name is of interest.

    Raises:
        BadInput: for more lines than any engine writes.
    """
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise BadInput(
            f"The page has {len(lines):,} lines; at most {MOST_LINES:,} are read.",
            "Check the address.",
            code="metrics_lines",
            values={"lines": f"{len(lines):,}", "limit": f"{MOST_LINES:,}"},
        )
    found = []
    for line in lines:
        if not line or line.startswith("#") or len(line) > MOST_LINE_CHARS:
            continue
        plain = line.partition(" # {")[0]
        match = _LINE.fullmatch(plain.strip())
        if match is None or not wanted(match["name"]):
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        found.append(Sample(name=match["name"], labels=_labels(match["labels"]), value=value))
    return found


def _labels(text: str | None) -> dict[str, str]:
    """Return the labels from the first on, up to whatever is none; the text is read once."""
    found: dict[str, str] = {}
    plain, at = (text or "")[:MOST_LABEL_CHARS], 0
    while match := _LABEL.match(plain, at):
        found[match[1]] = _unescaped(match[2])
        at = match.end()
    return found


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), value)
