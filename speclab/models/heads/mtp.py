"""Multi-token prediction modules: one decoder layer over (next token, state), used again and again.

A pair at position i is the target's final normed state after token i, and token i + 1; its output
predicts token i + 2. The network has what the public families differ in: where the state stands
beside the embedding, zero-centred norms, norms of queries and keys, an output gate, rotary
embedding of a part of each head, and whether the recycled state is normed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from speclab.models.attention import AttentionCache, AttentionSpace, product

ConcatOrder = Literal["embedding-first", "state-first"]
NormStage = Literal["after", "before"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpFlags:
    """What a file does not say, and a wrong guess does not show but in acceptance.

    Attributes:
        concat: which half of the projection reads the embedding.
        norm_in: whether the first step reads the target's state after its final norm or before.
        norm_recycle: whether a further step reads the output after the module's final norm or
            before.
        zero_centred: RMSNorm multiplies by 1 + weight.
    """

    concat: ConcatOrder = "embedding-first"
    norm_in: NormStage = "after"
    norm_recycle: NormStage = "after"
    zero_centred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MtpWeights:
    """The tensors of one module; matrices [out, in], norms as they multiply (1 + w where centred).

    Attributes:
        embedding: [vocab, h]. fc: [h, 2h], the half of the embedding first.
        embedding_norm, state_norm: [h], of the two halves.
        norm, qkv, qkv_bias, out, mlp_norm, gate_up, down: of the decoder layer; heads in the order
            that `split_rotary` makes of their dimensions.
        query_norm, key_norm: [head_dim] or None.
        output_gate: [heads * head_dim, h] or None; its sigmoid scales what attention puts out.
        final_norm: [h]. lm_head: [draft vocab, h].
        target_norm: [h], of the target's own final norm.
    """

    embedding: Tensor
    fc: Tensor
    embedding_norm: Tensor
    state_norm: Tensor
    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None = None
    out: Tensor
    query_norm: Tensor | None = None
    key_norm: Tensor | None = None
    output_gate: Tensor | None = None
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor
    final_norm: Tensor
    lm_head: Tensor
    target_norm: Tensor


def split_rotary(head_dim: int, rotary_dim: int) -> Tensor:
    """Return an order of a head's dimensions in which a part of them turns like a whole head.

    Dimensions i and i + rotary_dim / 2 turn together; afterwards they stand head_dim / 2 apart, and
    the dimensions that do not turn fill both halves. Queries and keys in the same order have the
    same products.

    Returns:
        int64 [head_dim]: which old dimension stands at each new place.
    """
    half, turning = head_dim // 2, rotary_dim // 2
    still = torch.arange(rotary_dim, head_dim)
    first = torch.cat((torch.arange(turning), still[: half - turning]))
    second = torch.cat((torch.arange(turning, rotary_dim), still[half - turning :]))
    return torch.cat((first, second))


class PartialRotary:
    """Cosines and sines of heads in the order of `split_rotary`; the other dimensions stay.

    Args:
        head_dim: of each head. rotary_dim: how many of its dimensions turn.
        theta: base of the frequencies.
    """

    def __init__(self, head_dim: int, rotary_dim: int, theta: float) -> None:
        turning = torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim
        still = torch.zeros(head_dim // 2 - rotary_dim // 2, dtype=torch.float64)
        self._frequencies = torch.cat((theta**-turning, still))

    def __call__(self, like: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine [1, n, head_dim] of positions [1, n], in the dtype of `like`."""
        angles = positions[..., None].double() * self._frequencies.to(positions.device)
        both = torch.cat((angles, angles), -1)
        return both.cos().to(like.dtype), both.sin().to(like.dtype)


class MtpNet(AttentionSpace):
    """One module's weights and its pass, shared by all sessions; an `EagleSession` can run it.

    Args:
        weights: the tensors. flags: what the file does not say.
        heads, kv_heads, head_dim, eps: of the layer.
        rotary: (x, positions) -> cosine and sine.

    **Source:** DeepSeek-V3 2412.19437, section 2.2, equations 21 to 23.
    """

    def __init__(
        self,
        weights: MtpWeights,
        flags: MtpFlags,
        *,
        heads: int,
        kv_heads: int,
        head_dim: int,
        eps: float,
        rotary: Any,
    ) -> None:
        super().__init__(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            eps=eps,
            weight=weights.fc,
            rotary=rotary,
            num_layers=1,
        )
        self.weights, self.flags = weights, flags

    def fused(self, features: Tensor) -> Tensor:
        """Return what the first step reads of the target's states after its final norm [n, h].

        Before the norm a state is the same up to its length and the norm's weight; the length is
        lost on the norm that reads it next.
        """
        return features if self.flags.norm_in == "after" else features / self.weights.target_norm

    def forward(
        self,
        cache: AttentionCache,
        features: Tensor,
        tokens: Tensor,
        positions: Tensor,
        longest: int,
        mask: Tensor | None,
    ) -> Tensor:
        """Append pairs to the cache and return what a further step reads [n, h].

        Args:
            cache: one session's keys and values.
            features: the target's states, or outputs of the pass before [n, h].
            tokens: the token after each [n].
            positions: of the pairs [n], all below `longest`.
            mask: from `cache.mask`.
        """
        weights, count = self.weights, len(tokens)
        embedded = self.normed(weights.embedding[tokens], weights.embedding_norm)
        state = self.normed(features, weights.state_norm)
        x = product(torch.cat((embedded, state), -1), weights.fc)
        cache.reserve(cache.length + count)
        read = self.normed(x, weights.norm)
        qkv = product(read, weights.qkv)
        if weights.qkv_bias is not None:
            qkv = qkv + weights.qkv_bias
        mixed = cache.attend(0, self._qk_normed(qkv), self.rotary(positions, longest), mask)
        if weights.output_gate is not None:
            mixed = mixed * torch.sigmoid(product(read, weights.output_gate))
        x = x + product(mixed, weights.out)
        gate, up = product(self.normed(x, weights.mlp_norm), weights.gate_up).chunk(2, -1)
        x = x + product(functional.silu(gate).mul_(up), weights.down)
        cache.length += count
        return self.normed(x, weights.final_norm) if self.flags.norm_recycle == "after" else x

    def _qk_normed(self, qkv: Tensor) -> Tensor:
        weights = self.weights
        if weights.query_norm is None or weights.key_norm is None:
            return qkv
        parts = qkv.view(len(qkv), -1, self.head_dim)
        query, key, value = parts.split((self.heads, self.kv_heads, self.kv_heads), 1)
        query, key = self.normed(query, weights.query_norm), self.normed(key, weights.key_norm)
        return torch.cat((query, key, value), 1).flatten(1)

    def logits(self, outputs: Tensor) -> Tensor:
        """Return the logits [n, draft vocab] of outputs [n, h]."""
        if self.flags.norm_recycle == "before":
            outputs = self.normed(outputs, self.weights.final_norm)
        return product(outputs, self.weights.lm_head)
