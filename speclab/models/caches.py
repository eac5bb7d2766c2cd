"""A session's passes over any Hugging Face causal LM, with Transformers' own cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from speclab.models.llama import tap_place


class TransformersCache:
    """One session's keys and values, and the passes over them."""

    def __init__(self, model: Any) -> None:
        self._model, self._cache = model, DynamicCache()

    @property
    def length(self) -> int:
        """Tokens held."""
        return self._cache.get_seq_length()

    def forward(
        self,
        ids: torch.Tensor,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
        keep: int,
        taps: Sequence[str] = (),
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Append tokens and return their logits and features; see `PackedCache.forward`.

        The mask is additive, since eager attention would add a boolean one as 0 and 1 without a
        word.
        """
        device, mask = self._model.device, None
        if seen is not None:
            hidden = torch.from_numpy(~seen)[None, None].to(device)
            mask = torch.zeros(hidden.shape, dtype=self._model.dtype, device=device)
            mask.masked_fill_(hidden, torch.finfo(mask.dtype).min)
        output = self._model(
            input_ids=ids[None],
            attention_mask=mask,
            position_ids=None if positions is None else torch.tensor([positions], device=device),
            cache=self._cache,
            use_cache=True,
            logits_to_keep=keep,
            output_hidden_states=bool(taps),
        )
        states = output.hidden_states
        features = {tap: states[tap_place(tap)][0, -keep:] for tap in taps}
        return output.logits[0], features

    def crop(self, count: int) -> None:
        """Forget the last `count` tokens."""
        self._cache.crop(-count)

    def gather(self, base: int, path: Sequence[int]) -> None:
        """Keep the first `base` tokens and, after them, those at `base + node` of `path`."""
        index = torch.tensor([*range(base), *(base + node for node in path)])
        for layer in self._cache.layers:
            place = index.to(layer.keys.device)
            layer.keys = layer.keys.index_select(-2, place)
            layer.values = layer.values.index_select(-2, place)
