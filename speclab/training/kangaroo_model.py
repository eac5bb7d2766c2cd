"""Kangaroo's adapter while it is trained: public key names, whole rows in one pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

from speclab.training.eagle import head_config
from speclab.training.eagle_model import HeadAttention


class AdapterLayer(nn.Module):
    """A norm and an attention block with a residual; no MLP."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = HeadAttention(config, config.hidden_size)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """Return the layer's output [rows, length, h]."""
        return x + self.self_attn(self.input_layernorm(x), turn, [])


class KangarooModule(nn.Module):
    """The adapter in training; its `state_dict` is the public file.

    Args:
        config: of the attention block.

    **Source:** Kangaroo 2404.18911, section 3.1 and figure 3.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList([AdapterLayer(config)])
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self._rotary = [LlamaRotaryEmbedding(config)]

    def forward(self, states: Tensor) -> Tensor:
        """Return what the target's head reads [rows, length, h]; place i predicts token i + 1.

        Args:
            states: the target's, after its exit layer and before its final norm, same shape.
        """
        places = torch.arange(states.shape[1], device=states.device)
        cos, sin = self._rotary[0].to(states.device)(states, places[None])
        return self.norm(self.layers[0](states, (cos[0], sin[0])))


def adapter_config(target: Any, kv_heads: int | None = None) -> LlamaConfig:
    """Return the configuration of an adapter's attention block.

    Args:
        target: the target's configuration.
        kv_heads: how many of its key and value heads the adapter has, with as many query heads to
            each as the target; None: all.
    """
    config = head_config(target)
    if kv_heads is not None:
        config.num_attention_heads = (
            kv_heads * config.num_attention_heads // config.num_key_value_heads
        )
        config.num_key_value_heads = kv_heads
    return config


def start_adapter(model: Any, exit_layer: int, config: LlamaConfig) -> KangarooModule:
    """Return an adapter that begins with the next layer's attention and the final norm.

    Args:
        model: the target. exit_layer: how many of its layers stand before the adapter.
        config: from `adapter_config`; of fewer heads, the target's first ones are taken.

    **Deviation:** the paper begins with random weights; minutes do not suffice for that.
    """
    module, nearest = KangarooModule(config), model.model.layers[exit_layer]
    own = module.layers[0].state_dict()
    with torch.no_grad():
        for key, weight in own.items():
            given = nearest.state_dict()[key]
            weight.copy_(given[tuple(slice(size) for size in weight.shape)])
        module.norm.weight.copy_(model.model.norm.weight)
    return module
