"""Recorded real runs: what the page shows before any model is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from speclab.core.protocols import LocalText
from speclab.core.records import Trace


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One recorded run; its trace is read when it is first looked at.

    Attributes:
        path: the trace's file.
        title: what it shows.
        method: the method that ran.
        preset: the preset it was recorded from.
        date: day of the recording, ISO.
    """

    path: Path
    title: LocalText
    method: str
    preset: str
    date: str

    @property
    def file(self) -> str:
        """Name of the file; permalinks use it."""
        return self.path.name

    @cached_property
    def trace(self) -> Trace:
        """The run itself.

        Raises:
            TraceFormatError: if the file is broken.
        """
        return Trace.from_json(self.path.read_text(encoding="utf-8"))


def read_index(folder: Path) -> dict[str, Recorded]:
    """Return the recorded traces of a folder by file name; empty if there is no index."""
    index = folder / "index.json"
    if not index.exists():
        return {}
    entries = json.loads(index.read_text(encoding="utf-8"))
    recorded = (
        Recorded(
            path=folder / entry["file"],
            title=LocalText(entry["title"]["en"], entry["title"]["zh"]),
            method=entry["method"],
            preset=entry["preset"],
            date=entry["date"],
        )
        for entry in entries
    )
    return {item.file: item for item in recorded if item.path.exists()}


def best_for(recorded: Mapping[str, Recorded], preset: str, method: str = "") -> Recorded | None:
    """Return the recording of a preset, of this method if there is one."""
    of_preset = [item for item in recorded.values() if item.preset == preset]
    same = [item for item in of_preset if item.method == method]
    return next(iter(same or of_preset), None)
