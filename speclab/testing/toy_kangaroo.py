"""A random adapter of Kangaroo over a toy's early states, or over those of a tiny model."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from speclab.models.heads.kangaroo import (
    KangarooHandle,
    KangarooNet,
    KangarooSession,
    KangarooWeights,
)
from speclab.models.toy import EARLY_TAP

LOWEST_LOG = -9.0
HEADS, KV_HEADS, HEAD_DIM = 2, 1, 4


class ToyKangarooSession(KangarooSession):
    """A session over a toy's early states, whose logarithms of zero are made finite first."""

    def extend(self, states: NDArray) -> NDArray:
        """Append places and return what the head reads after the last one."""
        return KangarooSession.extend(self, np.maximum(states, LOWEST_LOG))


class ToyKangaroo(KangarooHandle):
    """An adapter over a toy's early states."""

    def open(self) -> ToyKangarooSession:
        """Return a session without any places."""
        return ToyKangarooSession(self)


def toy_kangaroo(vocab_size: int, width: int | None = None, *, seed: int = 0) -> KangarooHandle:
    """Return a random adapter behind the first layer.

    Args:
        vocab_size: of the target.
        width: of its states; None: a toy's, its log-probabilities.
        seed: of the weights.
    """
    hidden = width or vocab_size
    config = LlamaConfig(
        hidden_size=HEADS * HEAD_DIM,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
    )
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return 0.7 * torch.randn(rows, columns, generator=generator, dtype=torch.float64)

    def norm() -> torch.Tensor:
        return 1.0 + 0.3 * torch.randn(hidden, generator=generator, dtype=torch.float64)

    weights = KangarooWeights(
        norm=norm(),
        qkv=matrix((HEADS + 2 * KV_HEADS) * HEAD_DIM, hidden),
        out=matrix(hidden, HEADS * HEAD_DIM),
        final_norm=norm(),
    )
    return (KangarooHandle if width else ToyKangaroo)(
        net=KangarooNet(weights, config, LlamaRotaryEmbedding(config)),
        exit_layer=1,
        taps=(EARLY_TAP,),
        vocab_size=vocab_size,
    )
