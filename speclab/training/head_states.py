"""The frozen target's states over text that it has written: computed once, kept on disk.

A target of 100 M parameters costs more per token than the head that learns from it; every head of
the target reads the same shards, as often as it likes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from speclab.models.precision import autocast
from speclab.training.smollm2_samples import Sample, chat_ids, is_held_out

ROW_LENGTH = 512
SHARD_ROWS = 32
COUNTS = "counts.npy"


class PackedRows(NamedTuple):
    """Rows of whole chats, each row beginning with one.

    Attributes:
        ids: int64 [rows, ROW_LENGTH].
        written: whether the next token is the target's own, bool [rows, ROW_LENGTH]; the tokens of
            prompts and of the chat template are not, and no head ever drafts them.
    """

    ids: Tensor
    written: Tensor

    def __getitem__(self, part: Any) -> PackedRows:  # type: ignore[override]
        """Return some of the rows."""
        return PackedRows(self.ids[part], self.written[part])


def packed_rows(
    tokenizer: Any, samples: Sequence[Sample], count: int, seed: int
) -> tuple[PackedRows, PackedRows]:
    """Return rows of whole chats in random order.

    Args:
        tokenizer: of the target. samples: prompts and answers. count: rows at most.
        seed: of the order.

    Returns:
        Rows to train on, and rows of held-out prompts.
    """
    order = np.random.default_rng(seed).permutation(len(samples))
    rows: dict[bool, list[list[int]]] = {False: [], True: []}
    own: dict[bool, list[list[bool]]] = {False: [], True: []}
    open_row: dict[bool, list[int]] = {False: [], True: []}
    open_own: dict[bool, list[bool]] = {False: [], True: []}
    for index in order:
        sample = samples[int(index)]
        side, prompt = is_held_out(sample.prompt), chat_ids(tokenizer, sample.prompt)
        open_row[side] += [*prompt, *sample.answer]
        open_own[side] += [False] * (len(prompt) - 1) + [True] * len(sample.answer) + [False]
        if len(open_row[side]) >= ROW_LENGTH:
            rows[side].append(open_row[side][:ROW_LENGTH])
            own[side].append(open_own[side][:ROW_LENGTH])
            open_row[side], open_own[side] = [], []
        if len(rows[False]) >= count:
            break
    train, held_out = (
        PackedRows(torch.tensor(rows[side]), torch.tensor(own[side])) for side in (False, True)
    )
    return train, held_out


@torch.inference_mode()
def write_states(
    model: Any,
    layers: tuple[int, ...],
    rows: PackedRows,
    folder: Path,
    progress: Callable[[str], None] = print,
) -> None:
    """Write one shard per `SHARD_ROWS` rows; a shard that is there already is kept.

    A shard holds `ids` int32 [rows, length], `states` bfloat16 [rows, length, layers, h] (the
    hidden state after each of `layers` layers, the last one after the final norm), `best` int32
    [rows, length], the target's most likely next token, and `written` uint8 [rows, length].
    `counts.npy` beside them says how often each token occurs.

    Args:
        model: a causal LM. layers: whose states are kept; the last is the number of layers.
        rows: what is read [n, length]. folder: of the shards. progress: called with a line a shard.
    """
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / COUNTS, np.bincount(rows.ids.flatten().numpy()))
    for begin in range(0, len(rows.ids), SHARD_ROWS):
        path = folder / f"states-{begin // SHARD_ROWS:04d}.safetensors"
        if path.exists():
            continue
        states, best, part = [], [], rows[begin : begin + SHARD_ROWS]
        for ids in part.ids.split(2):
            with autocast():
                kept = model.model(
                    input_ids=ids, use_cache=False, output_hidden_states=True
                ).hidden_states
                best.append(model.lm_head(kept[-1]).argmax(-1).int())
            states.append(torch.stack([kept[layer] for layer in layers], 2).bfloat16())
        shard = {
            "ids": part.ids.int(),
            "states": torch.cat(states),
            "best": torch.cat(best),
            "written": part.written.to(torch.uint8),
        }
        partial = path.with_suffix(".partial")
        save_file(shard, partial)
        os.replace(partial, path)
        progress(f"states of {begin + len(part.ids)} of {len(rows.ids)} rows")


@dataclass(frozen=True, slots=True)
class StoredStates:
    """Shards that `write_states` has written, read row by row.

    Args:
        paths: of the shards.
    """

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.paths) * SHARD_ROWS

    def rows(self, numbers: Sequence[int]) -> dict[str, Tensor]:
        """Return `ids`, `states`, `best` and `written` of some rows.

        `states` is bfloat16 [n, length, layers, h], the others int64 [n, length].

        Args:
            numbers: of the rows, 0 <= number < len(self).
        """
        out: dict[str, list[Tensor]] = {"ids": [], "states": [], "best": [], "written": []}
        for number in numbers:
            shard, row = divmod(int(number), SHARD_ROWS)
            with safe_open(self.paths[shard], "pt") as file:
                for name, part in out.items():
                    part.append(file.get_slice(name)[row : row + 1])
        return {
            name: torch.cat(part) if name == "states" else torch.cat(part).long()
            for name, part in out.items()
        }

    def counts(self) -> np.ndarray:
        """Return how often each token occurs in all rows, int64 [highest id + 1].

        Rows whose shards are still to be written count, so that a vocabulary made from this stays
        the same.
        """
        return np.load(self.paths[0].parent / COUNTS)


def stored_in(folder: Path) -> StoredStates:
    """Return the whole shards of a folder, which may still be growing."""
    paths = sorted(folder.glob("states-*.safetensors"))
    return StoredStates(tuple(path for path in paths if _rows_of(path) == SHARD_ROWS))


def _rows_of(path: Path) -> int:
    with safe_open(path, "pt") as file:
        return int(file.get_slice("best").get_shape()[0])
