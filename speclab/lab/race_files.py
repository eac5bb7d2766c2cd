"""Recorded races: written small, read back as they were run.

Repeats of a lane share prompt and seed, so they differ in their seconds only: after the first one
the file keeps just those. A repeat that did differ is kept whole. Evidence and the coins of trees,
which no race shows, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from speclab.core.codec import decode_record, encode_record
from speclab.core.errors import TraceFormatError
from speclab.core.records import Timing, Trace
from speclab.lab.race import SCHEMA_VERSION, RaceResult

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "traces"
PARTS = ("start_s", "draft_s", "target_s", "verify_s", "commit_s")
DIGITS = 7


def _trimmed(trace: Trace) -> Trace:
    """Return a run without what no race shows: evidence, the coins of trees, nanoseconds."""
    rounds = tuple(
        replace(
            r,
            evidence=(),
            verdict=r.verdict if r.tree.is_chain else replace(r.verdict, flips=()),
            timing=Timing(**{k: round(v, DIGITS) for k, v in asdict(r.timing).items()}),
        )
        for r in trace.rounds
    )
    return replace(trace, rounds=rounds, prefill_s=round(trace.prefill_s, DIGITS))


def _timeless(trace: Trace) -> Trace:
    rounds = tuple(replace(round_, timing=Timing()) for round_ in trace.rounds)
    return replace(trace, rounds=rounds, prefill_s=0.0, spec=replace(trace.spec, created=""))


def _seconds(trace: Trace) -> dict[str, Any]:
    rows = [[getattr(r.timing, part) for part in PARTS] for r in trace.rounds]
    return {"prefill_s": trace.prefill_s, "created": trace.spec.created, "timing": rows}


def race_to_json(result: RaceResult) -> str:
    """Return a race as one line of JSON."""
    data = encode_record(result)
    for runs, line in zip(result.runs, data["runs"], strict=True):
        kept = [_trimmed(trace) for trace in runs.traces]
        if kept:
            line["traces"] = [
                _seconds(trace)
                if place and _timeless(trace) == _timeless(kept[0])
                else encode_record(trace)
                for place, trace in enumerate(kept)
            ]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _repeat(first: Trace, seconds: dict[str, Any]) -> Trace:
    """Return a repeat that was kept as seconds only."""
    rows, prefill_s = seconds["timing"], seconds["prefill_s"]
    if len(rows) != len(first.rounds):
        raise TraceFormatError("A repeat of the race has other rounds than the first one.")
    if not all(isinstance(x, float | int) and isfinite(x) for x in (prefill_s, *chain(*rows))):
        raise TraceFormatError("A repeat of the race has seconds that are no finite numbers.")
    timings = [Timing(**dict(zip(PARTS, map(float, row), strict=True))) for row in rows]
    return replace(
        first,
        rounds=tuple(replace(r, timing=t) for r, t in zip(first.rounds, timings, strict=True)),
        prefill_s=float(prefill_s),
        spec=replace(first.spec, created=str(seconds["created"])),
    )


def race_from_json(text: str) -> RaceResult:
    """Read a race back.

    Raises:
        TraceFormatError: if the text is not a race of a known schema version.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise TraceFormatError(
            f"This file is not JSON ({error}).", code="trace_not_json"
        ) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise TraceFormatError(
            f"The file's schema_version is {version!r:.40}; this lab reads {SCHEMA_VERSION}.",
            "Export the trace again with this version.",
            code="trace_version",
            values={"found": repr(version), "known": SCHEMA_VERSION},
        )
    try:
        lines = [line.pop("traces", []) for line in data["runs"]]
        result = decode_record(RaceResult, data, "race")
        runs = [
            replace(runs, traces=_traces(line))
            for runs, line in zip(result.runs, lines, strict=True)
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TraceFormatError(f"The race is broken: {error!r:.80}.") from error
    return replace(result, runs=tuple(runs))


def _traces(lines: Sequence[dict[str, Any]]) -> tuple[Trace, ...]:
    """Return the runs of a lane; what is not repeated is decoded once."""
    found: list[Trace] = []
    for line in lines:
        whole = "timing" not in line
        if not (whole or found):
            raise TraceFormatError(
                "A lane of the race begins with a repeat: its first run is gone."
            )
        found.append(decode_record(Trace, line) if whole else _repeat(found[0], line))
    return tuple(found)


def race_file(pair: str, preset: str, folder: Path = FOLDER) -> Path:
    """Return where the recorded race of a pair on a preset is kept."""
    return folder / f"race-{pair}-{preset}.json"


def recorded_races(pair: str, folder: Path = FOLDER) -> list[str]:
    """Return the presets on which a race of the pair was recorded, sorted."""
    start = f"race-{pair}-"
    names = (path.stem.removeprefix(start) for path in folder.glob(f"{start}*.json"))
    return sorted(name for name in names if race_file(pair, name, folder).exists())
