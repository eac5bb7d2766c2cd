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


class PathsCache(TransformersCache):
    """For a model that cannot be told who attends to whom: a tree is a batch of its paths.

    Every row of the batch is a plain text after the same prefix, so that neither a mask nor
    positions are given; shorter paths are padded on the right, where nothing before them looks.
    From a tree's pass until `crop` or `gather` the cache holds one row per path. To its user it
    looks like `TransformersCache`: tokens are counted as they were given.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._rows: list[list[int]] = []
        self._base = self._count = 0

    @property
    def length(self) -> int:
        """Tokens held, those of a tree counted once."""
        return self._base + self._count if self._rows else super().length

    def forward(
        self,
        ids: torch.Tensor,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
        keep: int,
        taps: Sequence[str] = (),
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Append tokens, each after all that is held and those new ones that it attends to."""
        if seen is None:
            return super().forward(ids, seen, positions, keep, taps)
        base, count = self.length, len(ids)
        paths = [np.flatnonzero(line).tolist() for line in seen[:, base:]]
        assert seen[:, :base].all() and positions == [base + len(path) - 1 for path in paths]
        inner = {place for path in paths for place in path[:-1]}
        rows = [path for place, path in enumerate(paths) if place not in inner]
        width = max(map(len, rows))
        padded = torch.tensor([row + row[-1:] * (width - len(row)) for row in rows])
        if base:
            self._cache.batch_repeat_interleave(len(rows))
        else:  # an emptied cache has a batch of one and is not repeated
            self._cache = DynamicCache()
        self._rows, self._base, self._count = rows, base, count
        output = self._model(
            input_ids=ids[padded.to(ids.device)],
            cache=self._cache,
            use_cache=True,
            output_hidden_states=bool(taps),
        )
        where = {place: (row, at) for row, path in enumerate(rows) for at, place in enumerate(path)}
        row, at = (list(part) for part in zip(*(where[p] for p in range(count - keep, count))))
        states = output.hidden_states
        return output.logits[row, at], {tap: states[tap_place(tap)][row, at] for tap in taps}

    def crop(self, count: int) -> None:
        """Forget the last `count` tokens; what is left of a tree must be one path."""
        if self._rows:
            self._keep(range(self._count - count))
        else:
            super().crop(count)

    def gather(self, base: int, path: Sequence[int]) -> None:
        """Keep the first `base` tokens and, after them, those at `base + node` of `path`."""
        if self._rows:
            first = base - self._base
            self._keep([*range(first), *(first + node for node in path)])
        else:
            super().gather(base, path)

    def _keep(self, places: Sequence[int]) -> None:
        """Keep the row that begins with these tokens of the last pass, and nothing else of it."""
        kept = list(places)
        row = next(n for n, path in enumerate(self._rows) if path[: len(kept)] == kept)
        surplus = max(map(len, self._rows)) - len(kept)
        self._rows = []
        self._cache.batch_select_indices(torch.tensor([row]))
        if surplus:
            self._cache.crop(-surplus)
