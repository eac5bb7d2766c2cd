"""Reads the Parquet log of specspecs 0.1.0; needs the package pyarrow.

The columns are those of its schema `DRAFT_SCHEMA`: one row per round with `sequence_id`, `step`,
`draft_tokens`, `acceptances`, `emitted_token`. p and q are not in its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput
from speclab.deploy.counts import Counts, counts_of_steps

COLUMNS = ("sequence_id", "step", "draft_tokens", "acceptances", "emitted_token")
MOST_BYTES = 256 * 1024**2
MOST_ROWS = 2_000_000


def read_log(place: Path) -> Counts:
    """Return the counts of a log.

    Args:
        place: a file `drafts-*.parquet`, or the folder that holds them.

    Raises:
        BadInput: if pyarrow is missing, or there is no such log, or it has other columns.
    """
    parts = sorted(place.glob("drafts-*.parquet")) if place.is_dir() else [place]
    if not parts or not all(part.is_file() for part in parts):
        raise _no_log(place, "there is no file drafts-*.parquet")
    if sum(part.stat().st_size for part in parts) > MOST_BYTES:
        raise _no_log(place, f"it is larger than {MOST_BYTES // 1024**2} MiB")
    return counts_of_rows(row for part in parts for row in _rows(part))


def _rows(part: Path) -> Iterable[Mapping[str, Any]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise BadInput(
            "Parquet files are read with the package pyarrow, which is not installed.",
            "Install it with `pip install pyarrow`.",
        ) from None
    try:
        file = ParquetFile(part)
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise _no_log(part, f"the column {missing[0]} is missing")
        if file.metadata.num_rows > MOST_ROWS:
            raise _no_log(part, f"it has more than {MOST_ROWS:,} rows")
        for batch in file.iter_batches(columns=list(COLUMNS)):
            yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise _no_log(part, " ".join(str(error).split())[:120]) from None


def counts_of_rows(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Return the counts of rows, in any order.

    Some writers log the pending token as the first of the next draft. Where every later round of
    every sequence begins with the token emitted before, that token is no draft and is left out.

    Raises:
        BadInput: for a row that cannot be one.
    """
    ordered = sorted(rows, key=lambda row: (str(row["sequence_id"]), row["step"]))
    sequences = [
        [_checked(row) for row in group]
        for _, group in groupby(ordered, key=lambda row: str(row["sequence_id"]))
    ]
    later = [(earlier, row) for rows_ in sequences for earlier, row in pairwise(rows_)]
    overlap = bool(later) and all(
        row["draft_tokens"][:1] == [earlier["emitted_token"]] and row["acceptances"][:1] == [True]
        for earlier, row in later
    )
    accepted: list[int] = []
    drafted: list[int] = []
    for sequence in sequences:
        for index, row in enumerate(sequence):
            skipped = int(overlap and index > 0)
            accepted.append(_leading(row["acceptances"]) - skipped)
            drafted.append(len(row["draft_tokens"]) - skipped)
    return counts_of_steps(accepted, drafted)


def _checked(row: Mapping[str, Any]) -> Mapping[str, Any]:
    tokens, flags = row["draft_tokens"], row["acceptances"]
    if not isinstance(tokens, list) or not isinstance(flags, list) or len(tokens) != len(flags):
        raise BadInput(
            f"Step {row['step']} of {str(row['sequence_id'])[:40]} has draft_tokens and "
            "acceptances of different lengths.",
            "The log is damaged or of another version.",
        )
    return row


def _leading(flags: list[bool]) -> int:
    return next((index for index, kept in enumerate(flags) if not kept), len(flags))


def _no_log(place: Path, reason: str) -> BadInput:
    return BadInput(
        f"{str(place)[:120]} is no log of specspecs: {reason}.",
        "Give the folder that specspecs wrote, or one drafts-*.parquet of it.",
    )
