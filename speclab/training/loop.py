"""One small training loop: AdamW, warm-up and cosine, bf16 autocast, checkpoints that resume.

The loop knows nothing about language: it asks `batch_at(step, progress)` for a batch and
`loss_fn(model, batch)` for a scalar. Because a batch is a function of the step, a resumed run
sees exactly the batches that an uninterrupted one would have seen.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from speclab.core.errors import NumericalFault
from speclab.models.precision import multiplies_bfloat16

BatchSource = Callable[[int, float], Any]
"""`(step, progress in [0, 1]) -> batch`; pure in `step`, so that runs can resume."""

LossFunction = Callable[[nn.Module, Any], Tensor]
"""`(model, batch) -> scalar loss in nats per token`."""

Evaluation = Callable[[nn.Module], Mapping[str, float]]
"""`model -> named held-out losses in nats per token`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """What one run of the loop does; at least one of the two limits must be given.

    Attributes:
        max_steps: Optimiser steps after which the run ends, or None.
        budget_s: Seconds of training after which the run ends, or None.
        learning_rate: Peak of the schedule.
        final_lr_ratio: Learning rate at the end, as a share of the peak.
        warmup_steps: Steps of linear warm-up.
        weight_decay: AdamW decay of matrices (vectors are not decayed).
        beta2: AdamW's second moment decay.
        clip_norm: Largest gradient norm.
        autocast_dtype: Dtype of the forward pass, or None for none; bfloat16 is used only where the
            device multiplies it fast.
        device_type: Device of the autocast context, `cpu` or `cuda`.
        log_every: Steps between two lines of the log.
        evaluate_every_s: Seconds between two evaluations.
        checkpoint_every_s: Seconds between two checkpoints.
    """

    max_steps: int | None = None
    budget_s: float | None = None
    learning_rate: float = 1e-3
    final_lr_ratio: float = 0.05
    warmup_steps: int = 100
    weight_decay: float = 0.05
    beta2: float = 0.98
    clip_norm: float = 1.0
    autocast_dtype: torch.dtype | None = torch.bfloat16
    device_type: str = "cpu"
    log_every: int = 20
    evaluate_every_s: float = 300.0
    checkpoint_every_s: float = 180.0


@dataclass(slots=True, kw_only=True)
class Progress:
    """Where a run stands: optimiser steps done, seconds of training, tokens seen."""

    step: int = 0
    elapsed_s: float = 0.0
    tokens: int = 0


def fraction_done(config: LoopConfig, step: int, elapsed_s: float) -> float:
    """Return how much of the run is behind, in [0, 1], by whichever limit is nearer.

    Raises:
        ValueError: If the configuration has neither limit.
    """
    shares = []
    if config.max_steps is not None:
        shares.append(step / max(1, config.max_steps))
    if config.budget_s is not None:
        shares.append(elapsed_s / max(1e-9, config.budget_s))
    if not shares:
        raise ValueError("LoopConfig needs max_steps or budget_s; neither was given.")
    return min(1.0, max(shares))


def learning_rate_at(config: LoopConfig, step: int, progress: float) -> float:
    """Return the learning rate: linear warm-up in steps, then a cosine in `progress`."""
    warm = min(1.0, (step + 1) / max(1, config.warmup_steps))
    cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
    return (
        config.learning_rate * warm * (config.final_lr_ratio + (1 - config.final_lr_ratio) * cosine)
    )


def build_adamw(parameters: list[nn.Parameter], config: LoopConfig) -> torch.optim.AdamW:
    """Return AdamW with weight decay on matrices only."""
    trainable = [p for p in parameters if p.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trainable if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, config.beta2))


def save_checkpoint(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
) -> None:
    """Write a checkpoint so that `path` is always either the old one or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(path.suffix + ".partial")
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": asdict(progress),
    }
    torch.save(state, partial)
    os.replace(partial, path)


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> Progress:
    """Restore a checkpoint into `model` (and `optimizer`) and return where it stood."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    if optimizer is not None:
        optimizer.load_state_dict(state["optimizer"])
    return Progress(**state["progress"])


def forget_run(checkpoint: Path, log: Path) -> None:
    """Delete what an earlier run left, so that a new one does not go on from it."""
    checkpoint.unlink(missing_ok=True)
    log.unlink(missing_ok=True)


def append_log(path: Path | None, record: Mapping[str, Any]) -> None:
    """Append one JSON line to the log, if there is one."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(dict(record), ensure_ascii=False) + "\n")


def training_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    loss_fn: LossFunction,
    config: LoopConfig,
) -> float:
    """Take one optimiser step and return its loss in nats per token.

    Raises:
        NumericalFault: if the loss is not finite; the weights stay as they were.
    """
    dtype = config.autocast_dtype
    if config.device_type == "cpu" and dtype == torch.bfloat16 and not multiplies_bfloat16():
        dtype = None
    with torch.autocast(config.device_type, dtype or torch.bfloat16, enabled=dtype is not None):
        loss = loss_fn(model, batch)
    value = float(loss.detach())
    if not math.isfinite(value):
        raise NumericalFault(
            f"The loss is {value}: the training went astray.",
            "Lower the learning rate and begin again, or resume from the last checkpoint.",
        )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return value


def count_tokens(batch: Any) -> int:
    """Return the number of token ids in a batch: its first tensor's size, 0 if it has none."""
    if isinstance(batch, Tensor):
        return batch.numel()
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (tuple, list)) and batch and isinstance(batch[0], Tensor):
        return batch[0].numel()
    return 0


def evaluate(model: nn.Module, evaluation: Evaluation | None) -> dict[str, float]:
    """Run the held-out evaluation in eval mode without gradients; {} when there is none."""
    if evaluation is None:
        return {}
    was_training = model.training
    model.eval()
    with torch.no_grad():
        losses = dict(evaluation(model))
    model.train(was_training)
    return losses


def run_loop(
    model: nn.Module,
    batch_at: BatchSource,
    loss_fn: LossFunction,
    config: LoopConfig,
    *,
    checkpoint: Path | None = None,
    log: Path | None = None,
    resume: bool = False,
    evaluation: Evaluation | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Progress:
    """Train `model` in place until the first limit of `config` is reached.

    Args:
        model: Any module that `loss_fn` understands.
        batch_at: Source of batches, pure in the step.
        loss_fn: Scalar loss in nats per token.
        config: Limits, optimiser and intervals.
        checkpoint: File for checkpoints, or None to keep none.
        log: JSONL file for losses, or None.
        resume: Continue from `checkpoint` if it exists.
        evaluation: Held-out losses, run every `evaluate_every_s` and at the end.
        optimizer: Takes the steps; AdamW over all parameters if None. A parameter group with
            `lr_ratio` has that share of the learning rate.

    Returns:
        Steps, seconds and tokens of the whole run, earlier sessions included.
    """
    optimizer = optimizer or build_adamw(list(model.parameters()), config)
    state = Progress()
    if resume and checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, model, optimizer)
    model.train()
    last_checkpoint = last_evaluation = state.elapsed_s
    share = fraction_done(config, state.step, state.elapsed_s)
    while share < 1.0:
        started = time.perf_counter()
        rate = learning_rate_at(config, state.step, share)
        for group in optimizer.param_groups:
            group["lr"] = rate * group.get("lr_ratio", 1.0)
        batch = batch_at(state.step, share)
        loss = training_step(model, optimizer, batch, loss_fn, config)
        state.step += 1
        state.tokens += count_tokens(batch)
        state.elapsed_s += time.perf_counter() - started
        if state.step % config.log_every == 0:
            append_log(log, {**asdict(state), "loss": loss, "lr": rate})
        if checkpoint and state.elapsed_s - last_checkpoint >= config.checkpoint_every_s:
            save_checkpoint(checkpoint, model, optimizer, state)
            last_checkpoint = state.elapsed_s
        if evaluation and state.elapsed_s - last_evaluation >= config.evaluate_every_s:
            append_log(log, {**asdict(state), "held_out": evaluate(model, evaluation)})
            last_evaluation = state.elapsed_s
        share = fraction_done(config, state.step, state.elapsed_s)
    if checkpoint:
        save_checkpoint(checkpoint, model, optimizer, state)
    append_log(log, {**asdict(state), "held_out": evaluate(model, evaluation), "done": True})
    return state
