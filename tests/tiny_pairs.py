"""Tiny random pairs for tests: real transformers, no weights on disk."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from speclab.models.transformer import TransformerHandle


def tiny_llama(seed: int, *, vocab_size: int = 50, dtype: torch.dtype = torch.float64, **more):
    """Return a random Llama with decided opinions (large initial weights)."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
        **more,
    )
    return LlamaForCausalLM(config).to(dtype).eval()


def tiny_handle(seed: int, **more) -> TransformerHandle:
    """Return a handle over `tiny_llama`."""
    model = tiny_llama(seed, **more)
    return TransformerHandle(model=model, name=f"tiny-{seed}", vocab_size=model.config.vocab_size)
