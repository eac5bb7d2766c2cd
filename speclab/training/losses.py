"""Losses of the bundled models: next token, next token with guided heads, distillation."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from speclab.training import loop
from speclab.training.attention import AttentionGuide

Batch = Mapping[str, Tensor]
"""What `pocket_data.batch_source` yields: `ids` and `guide_weight`."""


def logits_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Return `float32[batch, length, vocabulary]` logits, without a cache."""
    return model(input_ids=ids, use_cache=False).logits.float()


def next_token_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the cross-entropy of each next token of `int64[batch, length]`, in nats per token."""
    return cross_entropy(logits_of(model, ids), ids)


def cross_entropy(logits: Tensor, ids: Tensor) -> Tensor:
    """Return the mean cross-entropy of `ids[:, 1:]` under `logits[:, :-1]`, in nats per token."""
    logits = logits[:, :-1].float()
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def law_loss(logits: Tensor, law: Tensor, where: Tensor | None = None) -> Tensor:
    """Return the mean cross-entropy with a law, in nats per place that counts.

    Args:
        logits: a draft's [rows, places, vocab]. law: the target's over the same tokens, same shape.
        where: 1 at places that count, else 0 [rows, places]; None: all count.
    """
    logits = logits.float()
    each = logits.logsumexp(-1) - torch.linalg.vecdot(law, logits)
    if where is None:
        return each.sum() / max(1, each.numel())
    return (each * where).sum() / where.sum().clamp(min=1)


def corpus_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the cross-entropy of a batch, in nats per token."""
    return next_token_loss(model, batch["ids"])


def guided_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the cross-entropy plus the weighted loss of the guided heads, in nats per token."""
    weight = float(batch["guide_weight"])
    if weight == 0.0:
        return corpus_loss(model, batch)
    guide = AttentionGuide(batch["ids"])
    logits = model(input_ids=batch["ids"], use_cache=False, guide=guide).logits
    return cross_entropy(logits, batch["ids"]) + weight * guide.loss()


def distillation_loss(teacher: nn.Module) -> loop.LossFunction:
    """Return KL(target || draft) over full distributions at temperature 1, in nats per token."""

    def loss_fn(model: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad():
            target = logits_of(teacher, batch["ids"]).log_softmax(-1)
        draft = logits_of(model, batch["ids"]).log_softmax(-1)
        return functional.kl_div(draft, target, log_target=True, reduction="none").sum(-1).mean()

    return loss_fn
