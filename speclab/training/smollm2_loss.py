"""The loss by which the draft imitates its target, with its gradient written out.

Let p_k be the target's stored probabilities, r the rest, q the draft's law, S the sum of q over the
stored tokens and h the weight of the hard term. The loss of one position is

    - sum p_k log q_k - r log(1 - S) - h log q_0

and its gradient with respect to the logits is (sum p_k + h - r S / (1 - S)) q everywhere, plus
r q_k / (1 - S) - p_k at the stored tokens, minus h at the best one. Written out, a step passes over
the [laws, vocab] array three times instead of ten.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

FLOOR = 1e-6
"""The rest of the draft's law counts as at least this much."""


def distillation_loss(
    logits: Tensor, top_ids: Tensor, top_probs: Tensor, weight: Tensor, hard: float
) -> Tensor:
    """Return the weighted cross-entropy with the target's law, plus that with its best token.

    The tokens outside the stored ones count as one event, "anything else".

    Args:
        logits: [laws, vocab], of any float dtype; the result is computed in float32.
        top_ids: Draft ids of the target's most probable tokens, int64 [laws, k].
        top_probs: Their probabilities, float32 [laws, k]. Ids of probability 0 are not read.
        weight: Weight of each law, float32 [laws].
        hard: Weight of the second term.

    Returns:
        Scalar, in nats per token.
    """
    return _Distillation.apply(logits, top_ids, top_probs, weight / weight.sum(), hard)


class _Distillation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, top_ids: Tensor, top_probs: Tensor, share: Tensor, hard: float
    ) -> Tensor:
        q = logits.float()
        q = q - q.amax(-1, keepdim=True)
        top_logits = q.gather(1, top_ids)
        q.exp_()
        total = q.sum(-1, keepdim=True)
        top_logq = top_logits - total.log()
        stored = top_logq.exp() * (top_probs > 0)
        mass = top_probs.sum(-1)
        rest = (1.0 - mass).clamp_min(0.0)
        left = (1.0 - stored.sum(-1)).clamp_min(FLOOR)
        soft = -(top_probs * top_logq).sum(-1) - rest * left.log()
        loss = ((soft - hard * top_logq[:, 0]) * share).sum()
        if logits.requires_grad:
            scale = (mass + hard - rest * stored.sum(-1) / left) * share / total[:, 0]
            q *= scale[:, None]
            extra = (rest / left)[:, None] * stored - top_probs
            extra[:, 0] -= hard
            q.scatter_add_(1, top_ids, extra * share[:, None])
            ctx.save_for_backward(q.to(logits.dtype))
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        (of_logits,) = ctx.saved_tensors
        return of_logits.mul_(gradient.to(of_logits.dtype)), None, None, None, None
