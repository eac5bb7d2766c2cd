"""A log of specspecs: its rows and its Parquet files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from speclab.core.errors import BadInput
from speclab.deploy.specspecs import counts_of_rows, read_log


def row(sequence: str, step: int, draft: list[int], accepted: int, emitted: int) -> dict:
    flags = [i < accepted for i in range(len(draft))]
    return {
        "sequence_id": sequence,
        "step": step,
        "draft_tokens": draft,
        "acceptances": flags,
        "emitted_token": emitted,
    }


def test_rows_of_specspecs_become_counts() -> None:
    rows = [row("b", 0, [5, 6], 2, 9), row("a", 1, [7, 8, 9], 1, 3), row("a", 0, [1, 2], 0, 4)]
    counts = counts_of_rows(rows)
    assert (counts.drafting_rounds, counts.drafted, counts.accepted) == (3, 7, 3)
    assert counts.tested == 2 + 2 + 1 and counts.per_position == (2, 1, 0)


def test_a_pending_token_at_the_head_of_a_draft_is_no_draft() -> None:
    rows = [row("a", 0, [1, 2], 1, 4), row("a", 1, [4, 5, 6], 2, 7), row("a", 2, [7, 8], 1, 9)]
    counts = counts_of_rows(rows)
    assert (counts.drafted, counts.accepted) == (2 + 2 + 1, 1 + 1 + 0)
    rows[2]["draft_tokens"][0] = 99
    assert counts_of_rows(rows).drafted == 7, "not in every round, so it was a draft"


def test_damaged_logs_and_a_missing_package_are_told(tmp_path: Path, monkeypatch) -> None:
    bad = row("a", 0, [1, 2], 1, 4) | {"acceptances": [True]}
    with pytest.raises(BadInput, match="different lengths"):
        counts_of_rows([bad])
    with pytest.raises(BadInput, match="no file drafts"):
        read_log(tmp_path)
    (tmp_path / "drafts-1-00000.parquet").write_bytes(b"PAR1 not really")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadInput, match="pip install pyarrow"):
        read_log(tmp_path)


def test_a_real_parquet_log(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [row("a", 0, [1, 2], 1, 4), row("a", 1, [5, 6], 2, 7)]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "drafts-7-00000.parquet")
    assert read_log(tmp_path).accepted == 3
    parquet.write_table(arrow.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadInput, match="column sequence_id is missing"):
        read_log(tmp_path / "other.parquet")
    (tmp_path / "broken.parquet").write_bytes(os.urandom(99))
    with pytest.raises(BadInput, match="no log of specspecs"):
        read_log(tmp_path / "broken.parquet")
