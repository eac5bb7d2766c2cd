"""The network of EAGLE heads: one decoder layer over (feature, next token) pairs, with its cache.

A pair at position i is the target's feature after token i and token i + 1: the token is one ahead
of the feature. Its output stands for the feature after token i + 1 and predicts token i + 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from speclab.models.attention import AttentionCache, AttentionSpace, product


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleWeights:
    """The tensors of one head; matrices [out, in].

    Attributes:
        fc: EAGLE-1: [h, 2h], over (embedding, feature); EAGLE-3: [h, taps * target width], over the
            features of several layers. fc_bias: [h] or None.
        embedding: token embeddings [vocab, h].
        embedding_norm, feature_norm: [h], EAGLE-3 only (`input_layernorm`, `hidden_norm`).
        qkv: packed projections; of h in EAGLE-1, of 2h in EAGLE-3. qkv_bias: or None.
        out, mlp_norm, gate_up, down: the rest of the decoder layer.
        final_norm: [h], EAGLE-3 only: before `lm_head`, not before the next step.
        lm_head: [draft vocab, h]; in EAGLE-1 the target's own.
        norms_residual: EAGLE-3: the residual stream starts after `feature_norm`.
    """

    fc: Tensor
    fc_bias: Tensor | None = None
    embedding: Tensor
    embedding_norm: Tensor | None = None
    feature_norm: Tensor | None = None
    qkv: Tensor
    qkv_bias: Tensor | None = None
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor
    final_norm: Tensor | None = None
    lm_head: Tensor
    norms_residual: bool = False


class EagleNet(AttentionSpace):
    """One head's weights and its pass, shared by all sessions.

    Args:
        weights: the tensors.
        config: a `LlamaConfig` of the head's decoder layer.
        rotary: Transformers' rotary embedding of that configuration.

    **Source:** EAGLE 2401.15077, section 4.1; EAGLE-3 2503.01840, section 3.1.
    """

    def __init__(self, weights: EagleWeights, config: Any, rotary: Any) -> None:
        super().__init__(
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
            weight=weights.fc,
            rotary=rotary,
            num_layers=1,
        )
        self.weights = weights
        self.fuses = weights.feature_norm is not None

    def fused(self, features: Tensor) -> Tensor:
        """Return what a pair holds of the target's features [n, taps * width]: [n, h].

        EAGLE-3 fuses the taps; EAGLE-1 takes its only one as it is. A head's own output is never
        fused again.
        """
        if not self.fuses:
            return features
        return self._biased(product(features, self.weights.fc), self.weights.fc_bias)

    @staticmethod
    def _biased(x: Tensor, bias: Tensor | None) -> Tensor:
        return x if bias is None else x + bias

    def forward(
        self,
        cache: AttentionCache,
        features: Tensor,
        tokens: Tensor,
        positions: Tensor,
        longest: int,
        mask: Tensor | None,
    ) -> Tensor:
        """Append pairs to the cache and return their outputs.

        Args:
            cache: one session's keys and values.
            features: fused features, or outputs of the pass before [n, h].
            tokens: the token after each [n].
            positions: of the pairs [n], all below `longest`.
            mask: from `cache.mask`.

        Returns:
            Outputs before the final norm [n, h]: the features of the next step.
        """
        weights, count = self.weights, len(tokens)
        embedded = weights.embedding[tokens]
        if self.fuses:
            normed = self.normed(features, weights.feature_norm)
            x = normed if weights.norms_residual else features
            read = torch.cat((self.normed(embedded, weights.embedding_norm), normed), -1)
        else:
            both = torch.cat((embedded, features), -1)
            read = x = self._biased(product(both, weights.fc), weights.fc_bias)
        cache.reserve(cache.length + count)
        qkv = self._biased(product(read, weights.qkv), weights.qkv_bias)
        x = x + product(cache.attend(0, qkv, self.rotary(positions, longest), mask), weights.out)
        gate, up = product(self.normed(x, weights.mlp_norm), weights.gate_up).chunk(2, -1)
        x = x + product(functional.silu(gate).mul_(up), weights.down)
        cache.length += count
        return x

    def logits(self, outputs: Tensor) -> Tensor:
        """Return the draft's logits [n, draft vocab] of outputs [n, h]."""
        norm = self.weights.final_norm
        return product(
            outputs if norm is None else self.normed(outputs, norm), self.weights.lm_head
        )
