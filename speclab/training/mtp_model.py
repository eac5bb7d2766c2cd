"""Multi-token prediction while it is trained: a chained module and parallel heads on one trunk.

The chained module reads the trunk's final state and the next token, then its own output and the
token after that, and so on: one module for every depth. A parallel head reads the state before the
trunk's last layer and nothing else; each head is for one distance.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

from speclab.training.eagle_model import HeadAttention, HeadMLP, KeyValue

Turn = tuple[Tensor, Tensor]
"""Cosine and sine of positions [places, head_dim]."""


class DecoderLayer(nn.Module):
    """A Llama layer whose later draft steps can attend to the true pairs of the first one."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = LlamaRMSNorm(hidden, eps)
        self.self_attn = HeadAttention(config, hidden)
        self.post_attention_layernorm = LlamaRMSNorm(hidden, eps)
        self.mlp = HeadMLP(config)
        self._rotary = [LlamaRotaryEmbedding(config)]

    def turn(self, first: int, x: Tensor) -> Turn:
        """Return cosine and sine of the positions from `first` on of x [rows, places, h]."""
        positions = torch.arange(first, first + x.shape[1], device=x.device)
        cos, sin = self._rotary[0].to(x.device)(x, positions[None])
        return cos[0], sin[0]

    def decode(self, x: Tensor, turn: Turn, earlier: list[KeyValue]) -> Tensor:
        """Return the layer's output [rows, places, h]; see `HeadAttention` for `earlier`."""
        x = x + self.self_attn(self.input_layernorm(x), turn, earlier)
        return x + self.mlp(self.post_attention_layernorm(x))


class MtpModule(DecoderLayer):
    """The chained module; its `state_dict` has the public names of an appended layer.

    **Source:** DeepSeek-V3 2412.19437, section 2.2, equations 21 to 23.
    **Deviation:** one module is unrolled for all depths (FastMTP 2509.18362), not one per depth.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.enorm, self.hnorm = LlamaRMSNorm(hidden, eps), LlamaRMSNorm(hidden, eps)
        self.eh_proj = nn.Linear(2 * hidden, hidden, bias=False)
        self.shared_head = nn.ModuleDict({"norm": LlamaRMSNorm(hidden, eps)})

    def forward(self, states: Tensor, embedded: Tensor, steps: int) -> list[Tensor]:
        """Draft `steps` steps from every place of every row.

        Args:
            states: the trunk's, after its final norm [rows, length, h].
            embedded: embeddings of the rows' tokens [rows, length, h].
            steps: how many; `places` is length - steps.

        Returns:
            Per step j normed states [rows, places, h]; at place i they predict token i + 2 + j.
        """
        places = states.shape[1] - steps
        current = states[:, :places]
        out: list[Tensor] = []
        earlier: list[KeyValue] = []
        for step in range(steps):
            token = embedded[:, 1 + step : 1 + step + places]
            x = self.eh_proj(torch.cat((self.enorm(token), self.hnorm(current)), -1))
            x = self.decode(x, self.turn(step, x), earlier)
            current = self.shared_head["norm"](x)
            out.append(current)
        return out


class ParallelHeads(nn.Module):
    """Heads of one layer each; head k predicts the token k + 2 places after the one it reads.

    **Source:** Gloeckle et al. 2404.19737, section 2 and figure 1.
    """

    def __init__(self, config: LlamaConfig, count: int) -> None:
        super().__init__()
        self.extra_heads = nn.ModuleList([DecoderLayer(config) for _ in range(count)])

    def forward(self, states: Tensor) -> list[Tensor]:
        """Return per head its output [rows, length, h], before the trunk's final norm.

        Args:
            states: what the trunk's last layer reads [rows, length, h].
        """
        return [
            head.decode(states, head.turn(0, states), [])  # type: ignore[operator, union-attr]
            for head in self.extra_heads
        ]


class NativeModel(nn.Module):
    """A target with what predicts further tokens, trained together.

    Args:
        target: a causal LM of the Llama family.
        mtp: the chained module. parallel: parallel heads.
    """

    def __init__(self, target: Any, mtp: MtpModule, parallel: ParallelHeads) -> None:
        super().__init__()
        self.target, self.mtp, self.parallel = target, mtp, parallel


def start_mtp(model: Any, config: LlamaConfig, seed: int) -> MtpModule:
    """Return a module that begins with the last layer and the final norm of `model`."""
    torch.manual_seed(seed)
    module, hidden = MtpModule(config), config.hidden_size
    _copy_layer(module, model.model.layers[-1])
    with torch.no_grad():
        module.shared_head["norm"].weight.copy_(model.model.norm.weight)
        module.eh_proj.weight.normal_(std=0.02)
        module.eh_proj.weight[:, hidden:] += torch.eye(hidden)
    return module


def start_parallel(model: Any, config: LlamaConfig, count: int) -> ParallelHeads:
    """Return `count` heads that begin with the last layer of `model`."""
    heads = ParallelHeads(config, count)
    for head in heads.extra_heads:
        _copy_layer(head, model.model.layers[-1])
    return heads


def _copy_layer(module: nn.Module, layer: nn.Module) -> None:
    found = module.load_state_dict(layer.state_dict(), strict=False)
    assert not found.unexpected_keys, found.unexpected_keys
