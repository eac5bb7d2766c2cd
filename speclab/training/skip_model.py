"""A Llama's layers one by one: what each of them puts out, some left out for some rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def run_layers(
    model: Any, ids: Tensor, count: int | None = None, kept: Tensor | None = None
) -> list[Tensor]:
    """Return what the first layers put out, each [rows, length, h], before the final norm.

    A layer that a row leaves out hands on what it reads.

    Args:
        model: a causal LM of the Llama family. ids: int64 [rows, length].
        count: how many layers; None: all of them.
        kept: which layers each row goes through, bool [layers, rows]; None: all.

    **Source:** LayerSkip 2404.16710, section 4.1 (layers are dropped per sample).
    """
    trunk = model.model
    x = trunk.embed_tokens(ids)
    places = torch.arange(ids.shape[1], device=ids.device)[None]
    given = {"position_ids": places, "position_embeddings": trunk.rotary_emb(x, places)}
    states = []
    for number, layer in enumerate(trunk.layers[:count]):
        if kept is None or bool(kept[number].all()):
            x = layer(x, **given)
        elif bool(kept[number].any()):
            rows = kept[number].nonzero().flatten()
            x = x.index_copy(0, rows, layer(x[rows], **given))
        states.append(x)
    return states


def exit_logits(model: Any, state: Tensor) -> Tensor:
    """Return the logits of the final norm and the map over the state after a layer [..., h]."""
    return model.lm_head(model.model.norm(state))
