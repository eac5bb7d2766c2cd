"""Rows of a head's logits: the best tokens of each, and a law when somebody asks."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from speclab.core.laws import Row


class HeadRows:
    """Logits of several heads or positions.

    Args:
        logits: [n, vocab], on any device; -inf marks tokens that are never proposed.
        vocab_size: width of the target's rows; ids beyond it are cut off.
    """

    def __init__(self, logits: Tensor, vocab_size: int) -> None:
        self.logits = logits[:, :vocab_size]

    def __len__(self) -> int:
        return len(self.logits)

    def best(self, count: int) -> list[list[int]]:
        """Return the `count` best ids of each row, best first; ties go to the lower id."""
        count = min(count, self.logits.shape[1])
        least = self.logits.topk(count).values[:, -1:]
        kept = torch.isfinite(self.logits) & (self.logits >= least)
        rows, ids = (part.cpu().numpy() for part in kept.nonzero(as_tuple=True))
        values = self.logits[kept].double().cpu().numpy()
        found = []
        for row in range(len(self.logits)):
            mine = rows == row
            order = np.argsort(-values[mine], kind="stable")[:count]
            found.append(ids[mine][order].tolist())
        return found

    def row(self, index: int) -> Row:
        """Return row `index`, float64."""
        return Row(self.logits[index].double().cpu().numpy())
