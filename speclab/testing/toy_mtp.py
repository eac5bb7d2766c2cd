"""Random modules of multi-token prediction for toys and tiny models: the real networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speclab.models.heads.eagle import EagleSession
from speclab.models.heads.mtp import MtpFlags, MtpNet, MtpWeights, PartialRotary
from speclab.models.heads.mtp_files import MtpHandle
from speclab.models.heads.mtp_parallel import (
    LayerWeights,
    ParallelHandle,
    ParallelNet,
    ParallelSession,
)
from speclab.models.toy import FEATURE_TAP

LOWEST_LOG = -9.0
HEADS, KV_HEADS, HEAD_DIM, INNER = 2, 1, 4, 6


def _finite(features: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Return a toy's features with finite logarithms of zero."""
    return {tap: np.maximum(values, LOWEST_LOG) for tap, values in features.items()}


class ToyMtpSession(EagleSession):
    """A session of a module over a toy's features."""

    def extend(self, features: Mapping[str, NDArray], tokens: Sequence[int]) -> None:
        """Append true pairs."""
        EagleSession.extend(self, _finite(features), tokens)


class ToyMtp(MtpHandle):
    """A module over a toy's features."""

    def open(self) -> ToyMtpSession:
        """Return a session without any pairs."""
        return ToyMtpSession(self)


class ToyParallelSession(ParallelSession):
    """A session of parallel heads over a toy's features."""

    def extend(self, features: Mapping[str, NDArray], tokens: Sequence[int]) -> None:
        """Append positions."""
        ParallelSession.extend(self, _finite(features), tokens)


class ToyParallel(ParallelHandle):
    """Parallel heads over a toy's features."""

    def open(self) -> ToyParallelSession:
        """Return a session without any positions."""
        return ToyParallelSession(self)


class _Draw:
    """Random tensors in float64."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def matrix(self, rows: int, columns: int) -> Tensor:
        """Return a matrix [rows, columns]."""
        return 0.7 * torch.randn(rows, columns, generator=self._generator, dtype=torch.float64)

    def norm(self, size: int) -> Tensor:
        """Return the weight of a norm [size]."""
        return 1.0 + 0.3 * torch.rand(size, generator=self._generator, dtype=torch.float64)

    def layer(self, hidden: int) -> dict[str, Tensor]:
        """Return a decoder layer."""
        return {
            "norm": self.norm(hidden),
            "qkv": self.matrix((HEADS + 2 * KV_HEADS) * HEAD_DIM, hidden),
            "out": self.matrix(hidden, HEADS * HEAD_DIM),
            "mlp_norm": self.norm(hidden),
            "gate_up": self.matrix(2 * INNER, hidden),
            "down": self.matrix(hidden, INNER),
        }


def toy_mtp_heads(
    vocab_size: int, width: int | None = None, *, seed: int = 0, num_heads: int = 3
) -> Mapping[str, Any]:
    """Return a random module and random parallel heads by their names in cards.

    Args:
        vocab_size: of the target. width: of its features; None: a toy's, its log-probabilities.
        seed: of the weights. num_heads: parallel heads.
    """
    hidden, draw = width or vocab_size, _Draw(seed)
    sizes: dict[str, Any] = {
        "heads": HEADS,
        "kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "eps": 1e-6,
        "rotary": PartialRotary(HEAD_DIM, HEAD_DIM, 10_000.0),
    }
    lm_head, final_norm = draw.matrix(vocab_size, hidden), draw.norm(hidden)
    weights = MtpWeights(
        embedding=draw.matrix(vocab_size, hidden),
        fc=draw.matrix(hidden, 2 * hidden),
        embedding_norm=draw.norm(hidden),
        state_norm=draw.norm(hidden),
        final_norm=draw.norm(hidden),
        lm_head=lm_head,
        target_norm=final_norm,
        **draw.layer(hidden),
    )
    layers = [LayerWeights(**draw.layer(hidden)) for _ in range(num_heads)]
    parallel = ParallelNet(layers, final_norm=final_norm, lm_head=lm_head, **sizes)
    common: dict[str, Any] = {"taps": (FEATURE_TAP,), "vocab_size": vocab_size}
    mtp, both = (MtpHandle, ParallelHandle) if width else (ToyMtp, ToyParallel)
    return MappingProxyType(
        {
            "mtp": mtp(name="mtp", net=MtpNet(weights, MtpFlags(), **sizes), **common),
            "parallel_mtp": both(name="parallel_mtp", net=parallel, **common),
        }
    )
