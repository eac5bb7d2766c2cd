"""Text that EAGLE heads are trained on: the corpus of `pocket`, or answers SmolLM2 has written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speclab.core.errors import BadInput
from speclab.models.loading import ASSETS
from speclab.training import loop

HELD_OUT_ROWS = 2
ROW_LENGTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadText:
    """What a head reads.

    Attributes:
        batch_at: batches `{"ids": int64 [rows, length]}` by step.
        held_out: rows that are not trained on, int64 [rows, length] each.
        counts: occurrences of each target id in the text [vocab].
        facts: for the manifest.
    """

    batch_at: loop.BatchSource
    held_out: list[Tensor]
    counts: np.ndarray
    facts: dict[str, Any]


def pocket_text(work: Path, tokens_per_step: int, seed: int) -> HeadText:
    """Return the corpus of `pocket`; it is written to `work` at the first time."""
    from transformers import PreTrainedTokenizerFast

    from speclab.training.pocket_data import VOCABULARY, CorpusSize, batch_source, prepare_data

    work.mkdir(parents=True, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ASSETS / "pocket")
    size = CorpusSize(tokens_per_step=tokens_per_step, echo_share=0.0)
    data = prepare_data(work, size, tokenizer)
    source = batch_source(data, size)
    return HeadText(
        batch_at=lambda step, progress: {"ids": source(step + 10_000 * seed, progress)["ids"]},
        held_out=[rows[:HELD_OUT_ROWS] for rows in data.held_out.values()],
        counts=np.bincount(data.stream.numpy(), minlength=VOCABULARY),
        facts={"corpus": "pocket", **data.facts},
    )


def smollm2_text(work: Path, tokens_per_step: int, seed: int) -> HeadText:
    """Return answers that SmolLM2 has written, as the recipe of its draft sampled them.

    Raises:
        BadInput: if that recipe has not run yet.
    """
    from speclab.training.smollm2_teacher import load_labelled

    folders = (Path("runs/smollm2"), Path("runs/smollm2-draft"))
    shards = [path for folder in folders for path in sorted(folder.glob("labels*/*.safetensors"))]
    if not shards:
        raise BadInput(
            "There is no text written by SmolLM2 yet.",
            "Run `python -m speclab train smollm2-draft` first.",
        )
    data = load_labelled(shards)
    lengths = np.diff(data.starts)
    kept = np.flatnonzero(~data.held_out & (lengths > 32))
    rows = max(1, tokens_per_step // ROW_LENGTH)

    def packed(chosen: np.ndarray, rng: np.random.Generator) -> Tensor:
        """Return one row that begins with each chosen answer; others follow in random order."""
        out = []
        for first in chosen:
            parts = [data.tokens[data.starts[first] : data.starts[first + 1]]]
            while sum(map(len, parts)) < ROW_LENGTH:
                more = int(rng.choice(kept))
                parts.append(data.tokens[data.starts[more] : data.starts[more + 1]])
            out.append(np.concatenate(parts)[:ROW_LENGTH].astype(np.int64))
        return torch.from_numpy(np.stack(out))

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        rng = np.random.default_rng((seed, step))
        return {"ids": packed(rng.choice(kept, rows), rng)}

    whole = np.flatnonzero(data.held_out & (lengths >= ROW_LENGTH))[:16]
    held_out = [
        torch.from_numpy(data.tokens[data.starts[i] :][:ROW_LENGTH].astype(np.int64))[None]
        for i in whole
    ]
    return HeadText(
        batch_at=batch_at,
        held_out=held_out,
        counts=np.bincount(data.tokens),
        facts={"text": "answers of the target", "sequences": len(kept)},
    )


TEXTS: dict[str, Callable[[Path, int, int], HeadText]] = {
    "pocket": pocket_text,
    "smollm2-135m": smollm2_text,
}
