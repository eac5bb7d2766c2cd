"""Text that heads are trained on: the corpus of `pocket`, or chats that SmolLM2 has answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from speclab.core.errors import BadInput
from speclab.models.weight_files import ASSETS
from speclab.training import loop
from speclab.training.head_states import (
    ROW_LENGTH,
    SHARD_ROWS,
    StoredStates,
    packed_rows,
    stored_in,
    write_states,
)
from speclab.training.smollm2_samples import read_samples
from speclab.training.written_text import written_rows

SMOLLM2_LAYERS = (2, 15, 27, 30)
HELD_OUT_STATES = 16

HELD_OUT_ROWS = 2
LONG_ROWS = 0.8
"""Progress at which the corpus of `pocket` comes in rows of 512 tokens."""
WRITTEN_ROWS, WRITTEN_LENGTH = 1280, 256
"""Rows of `WRITTEN_LENGTH` tokens that `pocket` writes itself."""
MOST_ROWS = 1600
"""Rows of 512 tokens whose states are kept for one target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadText:
    """What a head reads.

    Attributes:
        batch_at: batches `{"ids": int64 [rows, length]}` by step; with stored states also `states`
            bfloat16 [rows, length, layers, h] and `best` int64 [rows, length].
        held_out: batches that are not trained on.
        counts: occurrences of each target id in the text [vocab].
        facts: for the manifest.
        stored_layers: the layers in `states`, or None if there are none.
    """

    batch_at: loop.BatchSource
    held_out: list[dict[str, Tensor]]
    counts: np.ndarray
    facts: dict[str, Any]
    stored_layers: tuple[int, ...] | None = None


def pocket_text(work: Path, tokens_per_step: int, seed: int) -> HeadText:
    """Return the corpus of `pocket` on odd steps, and what `pocket` itself writes on even ones.

    Both are made at the first time (a minute or two) and kept in `work`; other weights write anew.
    """
    from transformers import PreTrainedTokenizerFast

    from speclab.models.catalogue import load_pair
    from speclab.training.pocket_data import VOCABULARY, CorpusSize, batch_source, prepare_data

    work.mkdir(parents=True, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ASSETS / "pocket")
    size = CorpusSize(tokens_per_step=tokens_per_step, echo_share=0.0)
    data = prepare_data(work, size, tokenizer)
    source = batch_source(data, size)
    target = load_pair("pocket", device="cpu", dtype="float32").target
    path = work / f"written-{target.source.rpartition('@')[2]}.npy"
    written = written_rows(
        target.model, data.stream, data.starts, WRITTEN_ROWS, WRITTEN_LENGTH, path
    )
    rows = max(1, tokens_per_step // WRITTEN_LENGTH)

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        if step % 2:
            return {"ids": source(step + 10_000 * seed, LONG_ROWS)["ids"]}
        chosen = np.random.default_rng((seed, step)).integers(0, len(written), rows)
        return {"ids": written[chosen]}

    return HeadText(
        batch_at=batch_at,
        held_out=[{"ids": rows[:HELD_OUT_ROWS]} for rows in data.held_out.values()],
        counts=np.bincount(data.stream.numpy(), minlength=VOCABULARY),
        facts={"corpus": "pocket", **data.facts, "rows_written_by_target": WRITTEN_ROWS},
    )


def smollm2_text(work: Path, tokens_per_step: int, seed: int) -> HeadText:
    """Return chats whose answers SmolLM2 has written, with its states over them.

    The states are computed at the first time (some half an hour) and kept in `work`.

    Raises:
        BadInput: if there are no chats yet.
    """
    stored, held_out = smollm2_states(work)
    rows = max(1, tokens_per_step // ROW_LENGTH)
    per_epoch = len(stored) // rows

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        epoch, place = divmod(step, per_epoch)
        order = np.random.default_rng((seed, epoch)).permutation(len(stored))
        return stored.rows(order[place * rows : (place + 1) * rows])

    return HeadText(
        batch_at=batch_at,
        held_out=[held_out.rows([row]) for row in range(HELD_OUT_STATES)],
        counts=stored.counts(),
        facts={"text": "chats whose answers the target has written", "rows": len(stored)},
        stored_layers=SMOLLM2_LAYERS,
    )


def smollm2_states(work: Path) -> tuple[StoredStates, StoredStates]:
    """Return the stored states to train on and the held-out ones; make them if there are none.

    Where making them was stopped, what is there is used: `rows` of the text's facts says how much.

    Args:
        work: holds `samples*.jsonl[.gz]`, or the folder of the draft's recipe does.

    Raises:
        BadInput: if there are no chats yet.
    """
    from speclab.models.catalogue import load_pair
    from speclab.training.attention import use_chunked_attention
    from speclab.training.smollm2_prompts import EVALUATION_PROMPTS

    parts = [stored_in(work / "states" / name) for name in ("train", "held_out")]
    if all(parts):
        return parts[0], parts[1]
    found = [*sorted(work.glob("samples*.jsonl*")), Path("runs/smollm2-draft/samples.jsonl")]
    files = [path for path in found if path.is_file()]
    if not files:
        raise BadInput(
            "There is no text written by SmolLM2 yet.",
            "Run `python -m speclab train smollm2-draft` first.",
        )
    pair = load_pair("smollm2-135m", device="cpu", dtype="float32")
    tokenizer, model = pair.codec.tokenizer, pair.target.model
    use_chunked_attention(model)
    samples = [sample for path in files for sample in read_samples(path, tokenizer)]
    samples = [sample for sample in samples if sample.prompt not in EVALUATION_PROMPTS]
    train, unseen = packed_rows(tokenizer, samples, MOST_ROWS, seed=0)
    for rows, name in ((unseen[:SHARD_ROWS], "held_out"), (train, "train")):
        write_states(model, SMOLLM2_LAYERS, rows, work / "states" / name)
    return stored_in(work / "states" / "train"), stored_in(work / "states" / "held_out")


TEXTS: dict[str, Callable[[Path, int, int], HeadText]] = {
    "pocket": pocket_text,
    "smollm2-135m": smollm2_text,
}
