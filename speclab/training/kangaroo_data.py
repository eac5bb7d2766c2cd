"""Early states of SmolLM2 beside those that are stored: a few layers, computed once, kept on disk.

The stored states hold the target's final ones; an adapter also reads those after its exit layer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from speclab.models.precision import autocast
from speclab.training.attention import use_chunked_attention
from speclab.training.eagle_data import HELD_OUT_STATES, SMOLLM2_LAYERS, HeadText, smollm2_states
from speclab.training.head_states import ROW_LENGTH, SHARD_ROWS, StoredStates
from speclab.training.skip_model import run_layers


@dataclass(frozen=True, slots=True)
class EarlyStates:
    """Stored states with those after one more layer.

    Args:
        stored: shards with final states. paths: of early states, one per shard, in their order.
    """

    stored: StoredStates
    paths: tuple[Path, ...]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.paths) * SHARD_ROWS

    def rows(self, numbers: Sequence[int]) -> dict[str, Tensor]:
        """Return rows as `StoredStates.rows` does; `states` are the early and the final ones."""
        batch, early = self.stored.rows(numbers), []
        for number in numbers:
            shard, row = divmod(int(number), SHARD_ROWS)
            with safe_open(self.paths[shard], "pt") as file:
                early.append(file.get_slice("early")[row : row + 1])
        batch["states"] = torch.stack((torch.cat(early), batch["states"][:, :, -1]), 2)
        return batch


@torch.inference_mode()
def write_early(
    model: Any,
    exit_layer: int,
    stored: StoredStates,
    folder: Path,
    most_rows: int | None = None,
    progress: Callable[[str], None] = print,
) -> EarlyStates:
    """Write the states after `exit_layer` layers, a shard per shard; those already there are kept.

    Args:
        model: the target. exit_layer: how many of its layers are run.
        stored: what is read.
        folder: of the early states.
        most_rows: how many rows are wanted; None: all. progress: called with a line a shard.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = stored.paths[: None if most_rows is None else -(-most_rows // SHARD_ROWS)]
    paths = tuple(folder / path.name for path in wanted)
    for number, path in enumerate(paths):
        if path.exists():
            continue
        first = number * SHARD_ROWS
        ids = stored.rows(range(first, first + SHARD_ROWS))["ids"]
        with autocast():
            parts = [run_layers(model, part, exit_layer)[-1].bfloat16() for part in ids.split(2)]
        partial = path.with_suffix(".partial")
        save_file({"early": torch.cat(parts)}, partial)
        os.replace(partial, path)
        progress(f"early states of {number + 1} of {len(paths)} shards")
    return EarlyStates(StoredStates(wanted), paths)


def smollm2_text(
    work: Path,
    model: Any,
    exit_layer: int,
    most_rows: int | None,
    tokens_per_step: int,
    seed: int,
) -> HeadText:
    """Return chats whose answers SmolLM2 has written, with its early and its final states.

    Args:
        work: holds the stored states, or what `smollm2_states` makes them of.
        model: the target. exit_layer: after which early states are wanted.
        most_rows: of the stored ones; None: all.
        tokens_per_step: of one batch. seed: of the order.

    Raises:
        BadInput: if there are no chats yet.
    """
    stored, held_out = smollm2_states(work)
    use_chunked_attention(model)
    folder = work / "states" / f"hidden-{exit_layer}"
    early = write_early(model, exit_layer, stored, folder / "train", most_rows)
    unseen = write_early(model, exit_layer, held_out, folder / "held_out", HELD_OUT_STATES)
    rows = max(1, tokens_per_step // ROW_LENGTH)
    per_epoch = len(early) // rows

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        epoch, place = divmod(step, per_epoch)
        order = np.random.default_rng((seed, epoch)).permutation(len(early))
        return early.rows(order[place * rows : (place + 1) * rows])

    return HeadText(
        batch_at=batch_at,
        held_out=[unseen.rows([row]) for row in range(HELD_OUT_STATES)],
        counts=stored.counts(),
        facts={"text": "chats whose answers the target has written", "rows": len(early)},
        stored_layers=(exit_layer, SMOLLM2_LAYERS[-1]),
    )
