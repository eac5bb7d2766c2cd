"""An EAGLE head while it is trained: public key names, several draft steps in one pass.

Step 0 reads the target's true features, every later step what the step before put out, as in
drafting (training-time test). A query of step j attends to the true pairs up to its own place and,
of the later steps, to its own place only.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

Kind = Literal["eagle1", "eagle3"]


class KeyValue(NamedTuple):
    """Keys and values of one step [rows, heads, places, head_dim]."""

    keys: Tensor
    values: Tensor


class HeadAttention(nn.Module):
    """Attention of the head's layer; `read_width` is h in EAGLE-1 and 2h in EAGLE-3."""

    def __init__(self, config: LlamaConfig, read_width: int) -> None:
        super().__init__()
        self.heads, self.head_dim = config.num_attention_heads, config.head_dim
        self.groups = config.num_attention_heads // config.num_key_value_heads
        queries, keys = self.heads * self.head_dim, config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(read_width, queries, bias=False)
        self.k_proj = nn.Linear(read_width, keys, bias=False)
        self.v_proj = nn.Linear(read_width, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], earlier: list[KeyValue]) -> Tensor:
        """Attend as a draft step does, and append this step's keys and values to `earlier`.

        Args:
            x: what the projections read [rows, places, read width].
            turn: cosine and sine of this step's positions [places, head_dim].
            earlier: the steps before; the first is that of the true pairs.
        """
        query = rotated(self._split(self.q_proj(x)), turn) * self.head_dim**-0.5
        key = rotated(self._split(self.k_proj(x)), turn).repeat_interleave(self.groups, 1)
        value = self._split(self.v_proj(x)).repeat_interleave(self.groups, 1)
        earlier.append(KeyValue(key, value))
        true = earlier[0]
        places = x.shape[1]
        future = torch.ones(places, places, dtype=torch.bool, device=x.device).triu_(1)
        scores = (query @ true.keys.transpose(2, 3)).masked_fill(future, float("-inf"))
        own = [(query * step.keys).sum(-1, keepdim=True) for step in earlier[1:]]
        shares = torch.cat([scores, *own], -1).float().softmax(-1).to(value.dtype)
        mixed = shares[..., :places] @ true.values
        for number, step in enumerate(earlier[1:]):
            mixed = mixed + shares[..., places + number, None] * step.values
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


def rotated(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Return x [rows, heads, places, head_dim] turned by its positions."""
    cos, sin = turn
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)


class HeadMLP(nn.Module):
    """The gated MLP of a Llama layer."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return [..., h]."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class HeadLayer(nn.Module):
    """The head's decoder layer: EAGLE-1 has no input norm, EAGLE-3 one for each half it reads."""

    def __init__(self, config: LlamaConfig, kind: Kind) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = HeadAttention(config, hidden if kind == "eagle1" else 2 * hidden)
        self.mlp = HeadMLP(config)
        self.post_attention_layernorm = LlamaRMSNorm(hidden, eps)
        if kind == "eagle3":
            self.hidden_norm = LlamaRMSNorm(hidden, eps)
            self.input_layernorm = LlamaRMSNorm(hidden, eps)

    def forward(
        self, x: Tensor, read: Tensor, turn: tuple[Tensor, Tensor], earlier: list[KeyValue]
    ) -> Tensor:
        """Return the layer's output [rows, places, h] of the stream `x`; attention reads `read`."""
        x = x + self.self_attn(read, turn, earlier)
        return x + self.mlp(self.post_attention_layernorm(x))


class EagleModule(nn.Module):
    """A head in training; its `state_dict` is the public file without copies of the target's.

    Args:
        kind: "eagle1" or "eagle3".
        config: of the decoder layer.
        embedding: the target's [vocab, h]; frozen, not saved.
        target_head: EAGLE-1: the target's lm_head [vocab, h]; frozen, not saved.
        num_taps: features that EAGLE-3 fuses.
        draft_vocab: EAGLE-3: tokens it may draft.
    """

    embedding: Tensor
    target_head: Tensor

    def __init__(
        self,
        kind: Kind,
        config: LlamaConfig,
        embedding: Tensor,
        *,
        target_head: Tensor | None = None,
        num_taps: int = 3,
        draft_vocab: int = 0,
    ) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.kind: Kind = kind
        self.register_buffer("embedding", embedding.detach(), persistent=False)
        if kind == "eagle1":
            assert target_head is not None
            self.register_buffer("target_head", target_head.detach(), persistent=False)
            self.fc = nn.Linear(2 * hidden, hidden, bias=True)
            self.layers = nn.ModuleList([HeadLayer(config, kind)])
        else:
            self.fc = nn.Linear(num_taps * hidden, hidden, bias=False)
            self.midlayer = HeadLayer(config, kind)
            self.norm = LlamaRMSNorm(hidden, config.rms_norm_eps)
            self.lm_head = nn.Linear(hidden, draft_vocab, bias=False)
        self._rotary = [LlamaRotaryEmbedding(config)]

    def decoder(self) -> HeadLayer:
        """Return the head's layer, whatever its public name."""
        return self.midlayer if self.kind == "eagle3" else self.layers[0]  # type: ignore[return-value]

    def logits(self, outputs: Tensor) -> Tensor:
        """Return logits [..., draft vocab] of outputs [..., h]."""
        if self.kind == "eagle1":
            return functional.linear(outputs, self.target_head)
        return self.lm_head(self.norm(outputs))

    def _step(
        self, features: Tensor, tokens: Tensor, place: int, earlier: list[KeyValue]
    ) -> Tensor:
        layer = self.decoder()
        embedded = functional.embedding(tokens, self.embedding)
        positions = torch.arange(place, place + tokens.shape[1], device=tokens.device)
        rotary = self._rotary[0].to(tokens.device)
        cos, sin = rotary(self.embedding, positions[None])
        turn = cos[0], sin[0]
        if self.kind == "eagle1":
            x = self.fc(torch.cat((embedded, features), -1))
            return layer(x, x, turn, earlier)
        read = torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(features)), -1)
        return layer(features, read, turn, earlier)

    def forward(self, features: Tensor, ids: Tensor, steps: int) -> list[Tensor]:
        """Draft `steps` steps from every place of every row.

        Args:
            features: of the target [rows, length, taps * h].
            ids: int64 [rows, length].
            steps: how many; `places` is length - steps.

        Returns:
            Per step j its outputs [rows, places, h]; the one at place i predicts token i + 2 + j.
        """
        places = ids.shape[1] - steps
        current = features[:, :places]
        if self.kind == "eagle3":
            current = self.fc(current)
        out: list[Tensor] = []
        earlier: list[KeyValue] = []
        for step in range(steps):
            tokens = ids[:, 1 + step : 1 + step + places]
            current = self._step(current, tokens, step, earlier)
            out.append(current)
        return out
