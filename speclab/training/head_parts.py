"""What the recipes of all heads share: tokens to learn laws over, the training, the files."""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaConfig

from speclab.core.errors import BadInput
from speclab.models.heads.files import write_manifest
from speclab.training import export, loop

LAYER_KEYS = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "max_position_embeddings",
    "vocab_size",
    "hidden_act",
)


def frequent_tokens(counts: np.ndarray, wanted: int, vocab: int) -> Tensor:
    """Return the `wanted` most frequent ids, ascending [wanted].

    Args:
        counts: occurrences of each target id in the text; ids beyond its end do not occur.
        wanted: how many; where fewer occur, others fill up. vocab: of the target.

    Raises:
        BadInput: if the target has fewer tokens, or the text has ids that it does not know.
    """
    if wanted > vocab or len(counts) > vocab:
        raise BadInput(
            f"{wanted} tokens of a text with ids up to {len(counts) - 1} are asked for; the target "
            f"has {vocab}."
        )
    padded = np.pad(counts, (0, vocab - len(counts)))
    return torch.from_numpy(padded).topk(wanted).indices.sort().values


def with_steps(source: loop.BatchSource, most: int) -> loop.BatchSource:
    """Return batches with `steps`: one at first, all `most` of them from half the run on."""

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        count = min(most, 1 + int(2 * most * progress))
        return {**source(step, progress), "steps": torch.tensor(count)}

    return batch_at


class Limits(Protocol):
    """The part of a head's recipe that says how long and how fast it learns."""

    @property
    def minutes(self) -> float:
        """Of training, at most."""

    @property
    def max_steps(self) -> int | None:
        """Optimiser steps after which it ends earlier."""

    @property
    def learning_rate(self) -> float:
        """Peak of the schedule."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A head that has been trained.

    Attributes:
        progress: steps, seconds and tokens. log: of the run.
        numbers: of the held-out evaluation at the end.
    """

    progress: loop.Progress
    log: Path
    numbers: Mapping[str, Any]


def fit_head(
    module: nn.Module,
    batch_at: loop.BatchSource,
    loss_fn: loop.LossFunction,
    recipe: Limits,
    evaluation: loop.Evaluation,
    *,
    files: Path,
    resume: bool,
    evaluate_every_s: float = 240.0,
) -> Fitted:
    """Train a head in place by its recipe.

    Args:
        module, batch_at, loss_fn, evaluation: as for `loop.run_loop`.
        recipe: limits and learning rate.
        files: of checkpoint and log, without their suffixes.
        resume: continue from the checkpoint if there is one; else both are begun anew.
        evaluate_every_s: seconds between two evaluations.
    """
    checkpoint, log = files.with_suffix(".pt"), files.with_suffix(".jsonl")
    if not resume:
        loop.forget_run(checkpoint, log)
    config = loop.LoopConfig(
        budget_s=recipe.minutes * 60,
        max_steps=recipe.max_steps,
        learning_rate=recipe.learning_rate,
        warmup_steps=30,
        evaluate_every_s=evaluate_every_s,
        checkpoint_every_s=60.0,
    )
    progress = loop.run_loop(
        module,
        batch_at,
        loss_fn,
        config,
        checkpoint=checkpoint,
        log=log,
        resume=resume,
        evaluation=evaluation,
    )
    return Fitted(progress=progress, log=log, numbers=loop.evaluate(module, evaluation))


def named_target(source: str) -> dict[str, str]:
    """Return what the manifest says of the target; only bundled weights are the same everywhere."""
    if source.startswith("bundled:"):
        return {"target": source}
    return {"trained_on": public_source(source)}


def public_source(source: str) -> str:
    """Return where weights came from, without the place where this machine keeps them."""
    return source.partition(", cached")[0]


def description_of(
    name: str,
    source: str,
    module: nn.Module,
    progress: loop.Progress,
    *,
    recipe: Mapping[str, Any],
    text: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the manifest says of a trained head, but for how well it drafts.

    Args:
        name: of its kind. source: of the target's weights. module: what was trained.
        progress: of the training. recipe: its parameters. text: facts of what it read.
    """
    return {
        "name": name,
        **named_target(source),
        "licence": "Apache-2.0",
        "recipe": dict(recipe),
        "text": text,
        "parameters": export.count_parameters(module),
        "training": dataclasses.asdict(progress),
    }


def llama_config(config: LlamaConfig, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the public `config.json` of a head whose layers are like a Llama's.

    Args:
        config: of its layers. said: what only this kind of head says.
    """
    whole = config.to_dict()
    out = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **said}
    out |= {key: whole[key] for key in LAYER_KEYS}
    return out | {"rope_theta": config.rope_parameters["rope_theta"], "torch_dtype": "float16"}


def write_description(
    folder: Path, config: Mapping[str, Any], description: Mapping[str, Any], log: Path | None
) -> dict[str, Any]:
    """Write what stands beside a head's weights and return the manifest, which bears the date.

    Args:
        folder: holds the weights. config: the public `config.json`.
        description: what the manifest says. log: of the training, to copy if it is there.
    """
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if log is not None and log.exists():
        shutil.copyfile(log, folder / "training.jsonl")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return write_manifest(folder, {**description, "date": date})
