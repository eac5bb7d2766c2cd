"""Files of multi-token prediction: the chained module as an appended layer, and parallel heads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig

from speclab.models.heads.files import write_tensors
from speclab.training.head_parts import llama_config, write_description
from speclab.training.mtp_model import MtpModule, ParallelHeads


def write_mtp(
    folder: Path,
    module: MtpModule,
    config: LlamaConfig,
    num_layers: int,
    description: Mapping[str, Any],
    *,
    draft_ids: Tensor | None = None,
    log: Path | None = None,
) -> dict[str, Any]:
    """Write the module as layer `num_layers` of its target; return the manifest.

    Args:
        folder: of the head; weights already in it are replaced.
        module: the trained module.
        config: of its layer. num_layers: of the target.
        description: what the manifest says; the flags of the module are added.
        draft_ids: target ids it may draft, ascending; None: all. Written as `d2t`, like EAGLE-3's.
        log: of the training, to copy.
    """
    stem = f"model.layers.{num_layers}."
    tensors = {stem + key: half(value) for key, value in module.state_dict().items()}
    if draft_ids is not None:
        tensors["d2t"] = draft_ids - torch.arange(len(draft_ids))
    said = {"num_hidden_layers": num_layers, "num_nextn_predict_layers": 1}
    flags = {"concat": "embedding-first", "norm_in": "after", "norm_recycle": "after"}
    return _write(folder, tensors, config, said, {**description, **flags}, log)


def write_parallel(
    folder: Path,
    heads: ParallelHeads,
    config: LlamaConfig,
    num_layers: int,
    description: Mapping[str, Any],
    *,
    log: Path | None = None,
) -> dict[str, Any]:
    """Write parallel heads as `extra_heads.{k}.*`; return the manifest."""
    tensors = {key: half(value) for key, value in heads.state_dict().items()}
    said = {"num_hidden_layers": num_layers, "n_future_tokens": 1 + len(heads.extra_heads)}
    return _write(folder, tensors, config, said, description, log)


def half(tensor: Tensor) -> Tensor:
    """Return a tensor as it is exported."""
    return tensor.detach().to(torch.float16)


def _write(
    folder: Path,
    tensors: Mapping[str, Tensor],
    config: LlamaConfig,
    said: Mapping[str, Any],
    description: Mapping[str, Any],
    log: Path | None,
) -> dict[str, Any]:
    write_tensors(folder, tensors)
    return write_description(folder, llama_config(config, said), description, log)
