"""Rows that a target writes for its heads: its own greedy text or draws, kept in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from speclab.training import written_text
from speclab.training.written_text import write_rows, written_rows


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny(dtype=torch.float32).model


def test_greedy_rows_are_what_the_target_says_without_a_cache(model: Any) -> None:
    prompts = torch.randint(0, 40, (3, 5), generator=torch.Generator().manual_seed(0))
    rows = write_rows(model, prompts, 14, 0.0, torch.Generator())
    assert rows.shape == (3, 14) and torch.equal(rows[:, :5], prompts)
    with torch.no_grad():
        logits = model(input_ids=rows, use_cache=False).logits
    assert torch.equal(logits[:, 4:-1].argmax(-1), rows[:, 5:])


def test_drawn_rows_follow_the_law(model: Any) -> None:
    prompts = torch.tensor([[3, 1, 2]]).repeat(4000, 1)
    rows = write_rows(model, prompts, 4, 1.0, torch.Generator().manual_seed(1))
    with torch.no_grad():
        law = model(input_ids=prompts[:1], use_cache=False).logits[0, -1].softmax(-1)
    shares = torch.bincount(rows[:, -1], minlength=len(law)) / len(rows)
    assert (shares - law).abs().sum() < 2 * 0.8 * (len(law) / len(rows)) ** 0.5


def test_the_file_is_read_again_unless_other_rows_are_wanted(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_text, "PROMPT_TOKENS", 4)
    monkeypatch.setattr(written_text, "BATCH_ROWS", 3)
    stream, starts = torch.arange(400) % 40, np.arange(0, 400, 10)
    path = tmp_path / "deep" / "written.npy"
    rows = written_rows(model, stream, starts, 6, 9, path)
    assert set(rows[:, 0].tolist()) <= {0, 10, 20, 30}
    greedy = write_rows(model, rows[:3, :4], 9, 0.0, torch.Generator())
    assert torch.equal(greedy, rows[:3])
    np.save(path, rows.flip(0).numpy().astype(np.uint16))
    assert torch.equal(written_rows(model, stream, starts, 6, 9, path), rows.flip(0))
    assert written_rows(model, stream, starts, 5, 9, path).shape == (5, 9)
