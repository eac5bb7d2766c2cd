"""What the page needs from the rest of the lab, in one object that a test can replace."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speclab.core.errors import NotEnoughMemory
from speclab.core.records import Trace
from speclab.core.rules import RULES
from speclab.lab.presets import PRESETS, Preset
from speclab.ui.recorded import Recorded, read_index

ASSETS = Path(__file__).resolve().parents[2] / "assets"

GPU_S = 60
"""Seconds that a click asks ZeroGPU for. Who asks for more is refused sooner, and waits longer."""

GPU_RESERVE_S = 10
"""Of these, what is left for moving the model there and for judging what was drawn."""


def on_zero_gpu() -> bool:
    """Whether the lab runs on ZeroGPU, which ends a click's work after the seconds asked for."""
    return bool(os.environ.get("SPACES_ZERO_GPU"))


def work_limit_s(wanted_s: float) -> float:
    """Return for how many seconds a click may work here, of those that are wanted."""
    return min(wanted_s, float(GPU_S - GPU_RESERVE_S)) if on_zero_gpu() else wanted_s


def keeps_texts() -> bool:
    """Whether a run's text can be kept for the session's next runs.

    Not on ZeroGPU: a run is another process there, and its text would not come back.
    """
    return not on_zero_gpu()


def usual_presets() -> dict[str, Preset]:
    """Return the presets whose lesson can be seen here."""
    return {
        name: preset for name, preset in PRESETS.items() if keeps_texts() or not preset.runs_again
    }


class Turnstile:
    """A line of visitors who want the processor: one at a time, first come, first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: list[object] = []

    def join(self) -> object:
        """Stand at the end of the line and return the ticket."""
        ticket = object()
        with self._lock:
            self._line.append(ticket)
        return ticket

    def ahead(self, ticket: object) -> int:
        """Return how many stand before the ticket; 0 means it is its turn."""
        with self._lock:
            return self._line.index(ticket)

    def leave(self, ticket: object) -> None:
        """Leave the line, from any place in it; harmless when repeated."""
        with self._lock, contextlib.suppress(ValueError):
            self._line.remove(ticket)


class Loading:
    """One load: what comes of it, and what it is doing now; only who asked for it looks at it.

    Attributes:
        future: of the pair.
        note: a short English sentence; empty before the load begins and after it ends.
        begun: whether it has left the line of loads.
    """

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.note, self.begun = "", False

    def take_note(self, text: str) -> None:
        """Say what the load is doing."""
        self.note = text


class PairCache:
    """Loaded pairs, at most `capacity`; one load at a time, off the caller's thread.

    Args:
        load: `load(name, progress) -> Pair`; `progress` takes a short sentence.
        capacity: pairs kept in memory.
    """

    def __init__(
        self, load: Callable[[str, Callable[[str], None]], Any], capacity: int = 2
    ) -> None:
        self._load, self._capacity = load, capacity
        self._lock = threading.Lock()
        self._pairs: OrderedDict[str, Loading] = OrderedDict()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="load")

    @property
    def warm(self) -> bool:
        """Whether a pair has been loaded, and PyTorch with it."""
        with self._lock:
            return any(loading.future.done() for loading in self._pairs.values())

    def request(self, name: str) -> Loading:
        """Return the load of a pair; starts it if the pair is not there."""
        with self._lock:
            loading = self._pairs.get(name)
            if loading is None:
                loading = self._pairs[name] = Loading()
                self._pool.submit(self._load_now, name, loading)
            self._pairs.move_to_end(name)
            return loading

    def get(self, name: str) -> Any:
        """Return a loaded pair, loading it if needed."""
        return self.request(name).future.result()

    def _load_now(self, name: str, loading: Loading) -> None:
        loading.begun = True
        try:
            self._make_room(self._capacity)
            try:
                pair = self._load(name, loading.take_note)
            except NotEnoughMemory:
                if not self._make_room(1):
                    raise
                pair = self._load(name, loading.take_note)
        except BaseException as error:
            with self._lock:
                if self._pairs.get(name) is loading:
                    del self._pairs[name]
            loading.future.set_exception(error)
        else:
            loading.future.set_result(pair)
        finally:
            loading.note = ""

    def _make_room(self, capacity: int) -> bool:
        """Forget the pairs unused for longest, and give their memory back.

        A run that still holds one keeps it alive.

        Returns:
            Whether any was forgotten.
        """
        with self._lock:
            done = [name for name, loading in self._pairs.items() if loading.future.done()]
            surplus = done[: max(0, len(self._pairs) - capacity)]
            for name in surplus:
                del self._pairs[name]
        if surplus:
            collect()
        return bool(surplus)


def collect() -> None:
    """Give memory that nothing uses any more back, that of the GPU too if PyTorch is there."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


@dataclass(frozen=True, kw_only=True)
class Lab:
    """Tables and entry points that the page reads; nothing of it belongs to one visitor.

    Attributes:
        methods: name -> method class with a `card`.
        rules: name -> verification rule.
        pairs: name -> catalogue entry.
        open_run: starts a live run (see `speclab.lab.runs.open_run`).
        cache: loaded pairs.
        summarise: trace -> counters.
        banner: trace -> key of a sentence, or "".
        presets: prompts with a lesson.
        recorded: file name -> recorded trace.
        turnstile: the line for the processor.
        ask_hub: hub id -> licence and size (see `speclab.models.hub.ask_hub`).
        allow_local: whether visitors may name folders of this machine as models.
        allow_fetch: whether visitors may have this machine ask addresses for metrics.
    """

    methods: Mapping[str, Any]
    pairs: Mapping[str, Any]
    open_run: Callable[..., Any]
    cache: PairCache
    summarise: Callable[[Trace], tuple[Any, ...]]
    banner: Callable[[Trace], str]
    rules: Mapping[str, Any] = field(default_factory=lambda: RULES)
    presets: Mapping[str, Preset] = field(default_factory=usual_presets)
    recorded: Mapping[str, Recorded] = field(default_factory=dict)
    turnstile: Turnstile = field(default_factory=Turnstile)
    ask_hub: Callable[[str], Any] = field(default_factory=lambda: _ask_hub)
    allow_local: bool = False
    allow_fetch: bool = False


def default_lab(*, allow_local: bool = False, allow_fetch: bool = False) -> Lab:
    """Build the lab of this installation; imports neither torch nor transformers.

    Args:
        allow_local: whether visitors may name folders of this machine as models.
        allow_fetch: whether visitors may have this machine ask addresses for metrics.
    """
    from speclab.methods import METHODS
    from speclab.models.catalogue import PAIRS
    from speclab.stats.counters import banner, summarise

    return Lab(
        methods=METHODS,
        pairs=PAIRS,
        open_run=_open_run,
        cache=PairCache(_load_pair),
        summarise=summarise,
        banner=banner,
        recorded=read_index(ASSETS / "traces"),
        allow_local=allow_local,
        allow_fetch=allow_fetch,
    )


def _open_run(*args: Any, **kwargs: Any) -> Any:
    from speclab.lab.runs import open_run

    return open_run(*args, **kwargs)


def _ask_hub(repo: str) -> Any:
    from speclab.models.hub import ask_hub

    return ask_hub(repo)


def _load_pair(name: str, progress: Callable[[str], None]) -> Any:
    from speclab.models.catalogue import load_pair

    return load_pair(name, progress=progress)


def wait(future: Future[Any], every_s: float = 0.4) -> Iterator[float]:
    """Yield the seconds waited until the future is done."""
    start_s = time.monotonic()
    while not future.done():
        yield time.monotonic() - start_s
        with contextlib.suppress(TimeoutError, Exception):
            future.result(timeout=every_s)
