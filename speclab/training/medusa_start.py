"""Where heads start from: the linear map that best foretells the target's later states.

Head k stands for the target at a place k + 1 further on. Least squares from what the head reads to
the state there, followed by the target's own map to the vocabulary, is a head that already guesses;
training then only has to make it better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from speclab.models.heads.medusa import MedusaHead
from speclab.training.frozen_target import FrozenTarget

RIDGE = 1e-3
"""Share of the mean square of the inputs that is added to each of them."""


@torch.no_grad()
def start_by_regression(
    head: nn.Module, target: FrozenTarget, batches: Iterable[Mapping[str, Tensor]]
) -> int:
    """Set the heads' linear parts by least squares over some batches.

    Args:
        head: Medusa heads with maps of their own, or Hydra heads.
        target: the frozen one.
        batches: what it reads, `ids` int64 [rows, length] each.

    Returns:
        Places that were used.
    """
    medusa = isinstance(head, MedusaHead)
    grams: dict[int, Tensor] = {}
    crosses: dict[int, Tensor] = {}
    count = 0
    for batch in batches:
        ids, states = batch["ids"], target(batch).final.float()
        places = ids.shape[1] - head.num_heads - 1
        count += ids.shape[0] * places
        for k in range(head.num_heads):
            x = states[:, :places]
            if not medusa:
                read = ids[:, 1 : places + k + 1].unfold(1, k + 1, 1)
                ones = torch.ones(*x.shape[:2], 1)
                x = torch.cat((x, head.embedding[read].flatten(2), ones), -1)
            x = x.flatten(0, 1).double()
            later = states[:, 1 + k : 1 + k + places].flatten(0, 1).double()
            if not medusa or k == 0:
                grams[k] = grams.get(k, 0.0) + x.T @ x
            crosses[k] = crosses.get(k, 0.0) + x.T @ later
    for k, cross in crosses.items():
        gram = grams[0 if medusa else k]
        ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
        found = torch.linalg.solve(gram + ridge, cross)
        if medusa:
            head.outputs[k] = (head.lm_head.double() @ found.T).to(head.lm_head)
        else:
            size = head.hidden_size
            head.firsts[k].weight[:size] = found[:-1].T.to(head.lm_head)
            head.firsts[k].bias[:size] = found[-1].to(head.lm_head)
    return count
