"""Tiny random causal LMs of several architectures, in float64: two layers of width 32."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from speclab.models.transformer import TransformerHandle

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 192,
    "initializer_range": 0.25,
    "pad_token_id": 0,
}


def tiny_model(
    kind: str = "llama", seed: int = 0, *, dtype: torch.dtype = torch.float64, **more: Any
) -> Any:
    """Return a random model of the architecture `kind` (a `model_type` of transformers)."""
    attention = {"attn_implementation": more.pop("attention")} if "attention" in more else {}
    config = AutoConfig.for_model(kind, **{**SIZES, **more})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config, **attention).to(dtype).eval()


def tiny(kind: str = "llama", seed: int = 0, **more: Any) -> TransformerHandle:
    """Return a handle over `tiny_model`; `width` is the width of its rows in target ids."""
    width = more.pop("width", None)
    model = tiny_model(kind, seed, **more)
    return TransformerHandle(
        model=model, name=f"tiny-{kind}", vocab_size=width or model.config.vocab_size
    )
