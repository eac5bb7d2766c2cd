"""Passes of fixed shape over a cache of fixed size: what a CUDA graph can replay.

On a GPU a small model's pass is the time to launch its kernels, one by one; a graph launches them
at once. Shapes and addresses must stay as they were when it was captured, so a pass of n tokens is
padded to the next of `WIDTHS` and attends to the whole buffer under a mask.

**Source:** PyTorch documentation, "CUDA semantics", CUDA graphs.
**Deviation:** each captured pass is compared with the ordinary one once; where they differ, or
where nothing can be captured, the ordinary one goes on being used: graphs never change results.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.models.attention import SHORT_PASS, mix
from speclab.models.llama import PackedCache, PackedLlama

WIDTHS = (1, 2, 4, 8, 12, 16, 24, SHORT_PASS)
SMALLEST = 256
WARM_PASSES = 3
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Relative norm by which a captured pass may differ; 2e-2 in half precision."""

Passed = tuple[torch.Tensor, dict[str, torch.Tensor]]
_CAPTURING = threading.Lock()
_HANDING = threading.RLock()
"""Held while buffers change hands; the collector may hand one on in the thread that holds it."""


class StaticPass:
    """One pass of `width` tokens: reads and writes the same tensors every time.

    Args:
        llama: the weights.
        held: keys and values [layers, 2, kv_heads, capacity, head_dim], finite everywhere.
        width: how many tokens. taps: features wanted.
    """

    def __init__(
        self, llama: PackedLlama, held: torch.Tensor, width: int, taps: tuple[str, ...]
    ) -> None:
        self.llama, self.held, self.width, self.taps = llama, held, width, taps
        capacity, group = held.shape[3], llama.heads // llama.kv_heads
        self.ids = torch.zeros(width, dtype=torch.long, device=llama.device)
        self.positions, self.slots = torch.zeros_like(self.ids), torch.zeros_like(self.ids)
        self.mask = torch.zeros(group * width, capacity, dtype=held.dtype, device=llama.device)
        whole = torch.arange(capacity, device=llama.device)
        self.cos, self.sin = llama.rotary(whole, capacity)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.passed: Passed | None = None

    def fill(
        self,
        ids: torch.Tensor,
        start: int,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int],
    ) -> None:
        """Set the inputs of a pass of n <= width tokens behind `start` cached ones.

        Args:
            ids: [n]. seen: which cached and new tokens each one attends to [n, start+n]; None:
                causal. positions: absolute [n].
        """
        count, capacity = len(ids), self.held.shape[3]
        hidden = np.ones((self.width, capacity), dtype=bool)
        if seen is None:
            hidden[:count] = np.arange(capacity) > start + np.arange(count)[:, None]
        else:
            hidden[:count, : start + count] = ~seen
        hidden[count:, start] = False
        mask = torch.zeros(hidden.shape, dtype=self.mask.dtype)
        mask.masked_fill_(torch.from_numpy(hidden), -math.inf)
        group = len(self.mask) // self.width
        self.mask.copy_(mask.repeat(group, 1), non_blocking=True)
        spare = self.width - count
        slots = [*range(start, start + self.width)]
        self.slots.copy_(torch.tensor(slots), non_blocking=True)
        self.positions.copy_(torch.tensor([*positions, *[0] * spare]), non_blocking=True)
        self.ids[:count] = ids
        self.ids[count:] = 0

    def compute(self) -> Passed:
        """Return logits [width, vocab] and features per tap [width, hidden], kernel by kernel."""
        llama = self.llama
        rotary = self.cos[self.positions], self.sin[self.positions]

        def attend(index: int, qkv: torch.Tensor) -> torch.Tensor:
            query, new_keys, new_values = llama.turned(qkv, rotary)
            keys, values = self.held[index].unbind(0)
            keys.index_copy_(1, self.slots, new_keys.to(keys.dtype))
            values.index_copy_(1, self.slots, new_values.to(values.dtype))
            return mix(query.to(keys.dtype), keys, values, self.mask).to(qkv.dtype)

        return llama.run(self.ids, attend, self.width, self.taps)

    def capture(self) -> None:
        """Record the pass as a graph; its results stay in `passed`."""
        with _CAPTURING:
            side = torch.cuda.Stream(self.llama.device)
            side.wait_stream(torch.cuda.current_stream(self.llama.device))
            with torch.cuda.stream(side):
                for _ in range(WARM_PASSES):
                    self.compute()
            torch.cuda.current_stream(self.llama.device).wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.passed = self.compute()
            self.graph = graph

    def run(self) -> Passed:
        """Return the results of the inputs last filled in."""
        if self.graph is None or self.passed is None:
            return self.compute()
        self.graph.replay()
        logits, features = self.passed
        return logits.clone(), {tap: values.clone() for tap, values in features.items()}


class Buffer:
    """Keys and values of fixed size with the passes made for them; used by one session at a time.

    Args:
        llama: the weights. capacity: tokens it holds.
    """

    def __init__(self, llama: PackedLlama, capacity: int) -> None:
        shape = (llama.num_layers, 2, llama.kv_heads, capacity, llama.head_dim)
        self.held = torch.zeros(shape, dtype=llama.cache_dtype, device=llama.device)
        self.capacity = capacity
        self.passes: dict[tuple[int, tuple[str, ...]], StaticPass | None] = {}


class StaticCache(PackedCache):
    """One session's keys and values in a buffer that is handed on when the session is gone.

    Args:
        llama: the weights.
        spare: buffers of the same weights that nobody uses.
        capacity: tokens to make room for at first.
    """

    def __init__(self, llama: PackedLlama, spare: list[Buffer], capacity: int = SMALLEST) -> None:
        self._spare: list[Buffer] = spare
        self._mine: list[Buffer] = []
        super().__init__(llama, capacity)
        weakref.finalize(self, _hand_on, self._mine, spare)

    def _room(self, capacity: int) -> torch.Tensor:
        size = max(SMALLEST, 1 << (capacity + SHORT_PASS - 1).bit_length())
        with _HANDING:
            found = next((each for each in self._spare if each.capacity == size), None)
            if found is not None:
                self._spare.remove(found)
        if found is None:
            found = Buffer(self.llama_of(), size)
        self._mine.insert(0, found)
        return found.held

    def llama_of(self) -> PackedLlama:
        """Return the weights, also while the cache is being made."""
        assert isinstance(self.space, PackedLlama)
        return self.space

    def has_graph(self, width: int) -> bool:
        """Whether passes of `width` tokens replay a CUDA graph."""
        found = self._mine[0].passes.get((next(w for w in WIDTHS if w >= width), ()))
        return found is not None and found.graph is not None

    def reserve(self, length: int) -> None:
        """Make room for `length` tokens and a padded pass behind them."""
        super().reserve(length + SHORT_PASS)
        with _HANDING:
            self._spare += self._mine[1:]
            del self._mine[1:]

    def forward(
        self,
        ids: torch.Tensor,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
        keep: int,
        taps: Sequence[str] = (),
    ) -> Passed:
        """Append tokens and return their logits and features; see `PackedCache.forward`."""
        start, count = self.length, len(ids)
        if count > SHORT_PASS:
            return super().forward(ids, seen, positions, keep, taps)
        width, own = next(w for w in WIDTHS if w >= count), tuple(taps)
        self.reserve(start + count)
        if is_gpu(self.llama.device):
            self.prepare(own)
        passes = self._mine[0].passes
        if (width, own) not in passes:
            made = StaticPass(self.llama, self._held, width, own)
            logits, features = self._first(made, ids, seen, positions)
            return logits[-keep:], {tap: values[-keep:] for tap, values in features.items()}
        found = passes[width, own]
        if found is None:
            return super().forward(ids, seen, positions, keep, taps)
        at = list(range(start, start + count)) if positions is None else list(positions)
        found.fill(ids, start, seen, at)
        logits, features = found.run()
        self.length += count
        last = slice(count - keep, count)
        return logits[last], {tap: values[last] for tap, values in features.items()}

    def prepare(self, taps: tuple[str, ...] = ()) -> None:
        """Make the passes of every width that the buffer lacks, so that none is made later on.

        The tokens cached stay as they are; what is written behind them is overwritten.
        """
        passes = self._mine[0].passes
        if all((width, taps) in passes for width in WIDTHS):
            return
        self.reserve(self.length + SHORT_PASS)
        passes = self._mine[0].passes
        for width in WIDTHS:
            if (width, taps) not in passes:
                ids = torch.zeros(width, dtype=torch.long, device=self.llama.device)
                self._first(StaticPass(self.llama, self._held, width, taps), ids)
                self.length -= width

    def _first(
        self,
        found: StaticPass,
        ids: torch.Tensor,
        seen: NDArray[np.bool_] | None = None,
        positions: Sequence[int] | None = None,
    ) -> Passed:
        """Append tokens by the ordinary pass, and keep the fixed one if it gives the same."""
        start, count = self.length, len(ids)
        wanted = super().forward(ids, seen, positions, count, found.taps)
        at = list(range(start, start + count)) if positions is None else list(positions)
        found.fill(ids, start, seen, at)
        same = _captured(found, wanted[0])
        self._mine[0].passes[found.width, found.taps] = found if same else None
        return wanted


def is_gpu(device: torch.device) -> bool:
    """Whether passes are captured on a device: they are on CUDA only."""
    return device.type == "cuda"


def _hand_on(mine: list[Buffer], spare: list[Buffer]) -> None:
    with _HANDING:
        spare += mine
        mine.clear()


def _captured(found: StaticPass, wanted: torch.Tensor) -> bool:
    """Capture a pass whose inputs are set; whether it gives what the ordinary pass gave."""
    if is_gpu(found.llama.device):
        try:
            found.capture()
        except RuntimeError:
            found.graph = None
            return False
    logits = found.run()[0][: len(wanted)]
    within = TOLERANCE.get(logits.dtype, 2e-2)
    return bool((logits - wanted).float().norm() <= within * wanted.float().norm())
