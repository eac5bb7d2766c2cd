"""Random heads over a toy target's features: the real networks and caches, small enough to
enumerate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from speclab.models.heads.eagle import EagleHandle, EagleSession
from speclab.models.heads.eagle_layers import EagleNet, EagleWeights
from speclab.models.toy import FEATURE_TAP
from speclab.testing.toy_kangaroo import toy_kangaroo
from speclab.testing.toy_mtp import toy_mtp_heads
from speclab.testing.toy_rank_heads import toy_rank_heads

LOWEST_LOG = -9.0


class ToyEagleSession(EagleSession):
    """A session over a toy's features, whose logarithms of zero are made finite first."""

    def extend(self, features: Mapping[str, NDArray], tokens: Sequence[int]) -> None:
        """Append true pairs."""
        finite = {tap: np.maximum(values, LOWEST_LOG) for tap, values in features.items()}
        EagleSession.extend(self, finite, tokens)


class ToyEagle(EagleHandle):
    """An EAGLE head over a toy's features."""

    def open(self) -> ToyEagleSession:
        """Return a session without any pairs."""
        return ToyEagleSession(self)


def toy_eagle(
    kind: str, vocab_size: int, *, width: int | None = None, seed: int = 0
) -> EagleHandle:
    """Return a random EAGLE head that reads a toy's log-probabilities as features.

    Args:
        kind: "eagle1" or "eagle3"; the latter drafts all tokens but the last.
        vocab_size: of the target.
        width: of its features; None: a toy's.
        seed: of the weights.
    """
    hidden, mlp, third = width or vocab_size, 6, kind == "eagle3"
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=mlp,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=4,
    )
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator, dtype=torch.float64) * 0.7

    def vector() -> torch.Tensor:
        return 1.0 + 0.3 * torch.randn(hidden, generator=generator, dtype=torch.float64)

    own = vocab_size - 1 if third else vocab_size
    weights = EagleWeights(
        fc=matrix(hidden, hidden if third else 2 * hidden),
        embedding=matrix(vocab_size, hidden),
        embedding_norm=vector() if third else None,
        feature_norm=vector() if third else None,
        qkv=matrix(3 * 4, 2 * hidden if third else hidden),
        out=matrix(hidden, 4),
        mlp_norm=vector(),
        gate_up=matrix(2 * mlp, hidden),
        down=matrix(hidden, mlp),
        final_norm=vector() if third else None,
        lm_head=matrix(own, hidden),
    )
    net = EagleNet(weights, config, LlamaRotaryEmbedding(config))
    return (EagleHandle if width else ToyEagle)(
        name=kind,
        net=net,
        taps=(FEATURE_TAP,),
        vocab_size=vocab_size,
        to_target=torch.arange(own).numpy() if third else None,
    )


@lru_cache(maxsize=64)
def toy_heads(vocab_size: int, width: int | None = None) -> Mapping[str, Any]:
    """Return a random head of every kind by its name in cards; `width` as in `toy_eagle`."""
    kinds = ("eagle1", "eagle3")
    eagles = {kind: toy_eagle(kind, vocab_size, width=width) for kind in kinds}
    ranked = toy_rank_heads(vocab_size, width or vocab_size)
    early = {"kangaroo": toy_kangaroo(vocab_size, width)}
    return MappingProxyType({**eagles, **ranked, **early, **toy_mtp_heads(vocab_size, width)})


def heads_for(target: Any) -> Mapping[str, Any]:
    """Return random heads that fit a toy, or those that fit a loaded model of any width."""
    model = getattr(target, "model", None)
    if model is None:
        return toy_heads(target.vocab_size)
    return toy_heads(target.vocab_size, model.config.hidden_size)
