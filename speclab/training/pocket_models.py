"""Architectures of the bundled pair `pocket`."""

from __future__ import annotations

from transformers import LlamaConfig

from speclab.training.pocket_data import CONTEXT, VOCABULARY


def target_config() -> LlamaConfig:
    """Return the deep and thin target: 12 layers of width 192, 4.7 million parameters."""
    return _config(
        hidden_size=192, intermediate_size=448, num_hidden_layers=12, num_attention_heads=6
    )


def draft_config() -> LlamaConfig:
    """Return the draft: one layer of width 128, 0.4 million parameters."""
    return _config(
        hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4
    )


def _config(**shape: int) -> LlamaConfig:
    """Return what target and draft share, with the shape of one of them."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=None,
        **shape,
    )
