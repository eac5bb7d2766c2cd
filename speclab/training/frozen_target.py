"""The frozen target as heads in training see it: its states, and its laws over chosen tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Seen(NamedTuple):
    """What the target makes of a batch.

    Attributes:
        features: states of the layers asked for, joined [rows, length, layers * h].
        final: the state after the final norm [rows, length, h].
        best: its most likely next token, int64 [rows, length].
        written: 1.0 where the next token is the target's own, else 0.0 [rows, length].
    """

    features: Tensor
    final: Tensor
    best: Tensor
    written: Tensor


class FrozenTarget:
    """Reads batches through the target; states that were stored are not computed again.

    Args:
        model: a causal LM.
        layers: hidden states to join as features; the model's number of layers is the state after
            the final norm.
        stored: the layers in a batch's `states`, in their order.
    """

    def __init__(
        self, model: Any, layers: tuple[int, ...], stored: tuple[int, ...] | None = None
    ) -> None:
        self.model, self.layers = model.eval().requires_grad_(False), layers
        self._places = None if stored is None else [stored.index(layer) for layer in layers]

    @torch.no_grad()
    def __call__(self, batch: Mapping[str, Tensor]) -> Seen:
        """Return what the target sees in `ids` int64 [rows, length].

        Args:
            batch: `ids`; with stored states also `states` [rows, length, layers, h], the last one
                after the final norm, `best`, and `written` (where it is missing, all is).
        """
        dtype = self.model.dtype
        written = batch.get("written", torch.ones_like(batch["ids"])).float()
        if self._places is not None:
            states = batch["states"]
            features = states[:, :, self._places].flatten(2)
            return Seen(features.to(dtype), states[:, :, -1].to(dtype), batch["best"], written)
        kept = self.model.model(
            input_ids=batch["ids"], use_cache=False, output_hidden_states=True
        ).hidden_states
        features = torch.cat([kept[layer] for layer in self.layers], -1).to(dtype)
        return Seen(features, kept[-1].to(dtype), self.logits(kept[-1]).argmax(-1), written)

    @torch.no_grad()
    def logits(self, final: Tensor, tokens: Tensor | None = None) -> Tensor:
        """Return logits in float32 [..., tokens] of states after the final norm [..., h].

        Args:
            final: states. tokens: target ids, or None for all of them.
        """
        if tokens is None:
            return self.model.lm_head(final).float()
        weight = self.model.get_output_embeddings().weight
        return torch.nn.functional.linear(final, weight[tokens]).float()
