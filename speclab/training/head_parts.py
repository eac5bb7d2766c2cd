"""What the recipes of all heads share: tokens to learn laws over, draft steps, the files."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig

from speclab.core.errors import BadInput
from speclab.models.heads.files import write_manifest
from speclab.training import loop

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
