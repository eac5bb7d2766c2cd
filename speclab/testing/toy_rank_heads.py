"""Random Medusa and Hydra heads for toys and tiny models: the real networks, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.models.heads.hydra import HydraHead
from speclab.models.heads.medusa import MedusaHead

LOWEST_LOG = -9.0


class ToyRankHead:
    """A head over a toy's feature, whose logarithms of zero are made finite first."""

    def __init__(self, head: Any) -> None:
        self._head = head
        self.num_heads, self.accuracies = head.num_heads, head.accuracies

    def rows(self, feature: NDArray, *rest: Any) -> Any:
        """Return the head's rows; see `MedusaHead.rows` and `HydraHead.rows`."""
        return self._head.rows(np.maximum(feature, LOWEST_LOG), *rest)


@lru_cache(maxsize=64)
def toy_rank_heads(
    vocab_size: int, hidden_size: int | None = None, *, seed: int = 0, num_heads: int = 3
) -> Mapping[str, ToyRankHead]:
    """Return random heads by name.

    Args:
        vocab_size: of the target. hidden_size: width of its feature; default: a toy's, which is
            its row of log-probabilities.
        seed: of the weights. num_heads: how many.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = vocab_size, hidden_size or vocab_size
    lm_head, embedding = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2)
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
    return MappingProxyType({name: ToyRankHead(head) for name, head in heads.items()})
