"""Trained heads for toys: random ones of the real classes, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.models.heads.hydra import HydraHead
from speclab.models.heads.medusa import MedusaHead

LOWEST_LOG = -9.0


class ToyHead:
    """A head over a toy's feature, whose logarithms of zero are made finite first."""

    def __init__(self, head: Any) -> None:
        self._head = head
        self.num_heads, self.accuracies = head.num_heads, head.accuracies

    def rows(self, feature: NDArray, *rest: Any) -> Any:
        """Return the head's rows; see `MedusaHead.rows` and `HydraHead.rows`."""
        return self._head.rows(np.maximum(feature, LOWEST_LOG), *rest)


def toy_heads(vocab_size: int, *, seed: int = 0, num_heads: int = 3) -> dict[str, ToyHead]:
    """Return random heads by name for toys of one vocabulary; a toy's feature is [vocab_size]."""
    generator = torch.Generator().manual_seed(seed)
    lm_head, embedding = (
        torch.randn(vocab_size, vocab_size, generator=generator, dtype=torch.float64)
        for _ in range(2)
    )
    heads = {
        "medusa": MedusaHead(num_heads, 1, lm_head),
        "hydra": HydraHead(num_heads, 2, embedding, lm_head),
    }
    with torch.no_grad():
        for head in heads.values():
            for parameter in head.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_(0.5 * noise)
            head.requires_grad_(False).eval()
    return {name: ToyHead(head) for name, head in heads.items()}
