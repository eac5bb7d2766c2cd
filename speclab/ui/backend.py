"""What the page needs from the rest of the lab, in one object that a test can replace."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speclab.core.records import Trace
from speclab.core.rules import RULES
from speclab.lab.presets import PRESETS, Preset
from speclab.ui.recorded import Recorded, read_index

ASSETS = Path(__file__).resolve().parents[2] / "assets"


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
        self._pairs: OrderedDict[str, Future[Any]] = OrderedDict()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="load")
        self.note = ""
        """What the load in progress is doing."""

    @property
    def warm(self) -> bool:
        """Whether a pair has been loaded, and PyTorch with it."""
        with self._lock:
            return any(future.done() for future in self._pairs.values())

    def request(self, name: str) -> Future[Any]:
        """Return the future of a pair; starts loading it if it is not there."""
        with self._lock:
            future = self._pairs.get(name)
            if future is None:
                future = self._pairs[name] = self._pool.submit(self._load_now, name)
            self._pairs.move_to_end(name)
            return future

    def get(self, name: str) -> Any:
        """Return a loaded pair, loading it if needed."""
        return self.request(name).result()

    def _load_now(self, name: str) -> Any:
        try:
            self._make_room()
            return self._load(name, self._take_note)
        except BaseException:
            with self._lock:
                self._pairs.pop(name, None)
            raise
        finally:
            self.note = ""

    def _take_note(self, text: str) -> None:
        self.note = text

    def _make_room(self) -> None:
        """Forget the pairs unused for longest; a run that still holds one keeps it alive."""
        with self._lock:
            for name in [name for name, future in self._pairs.items() if future.done()]:
                if len(self._pairs) > self._capacity:
                    del self._pairs[name]


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
    """

    methods: Mapping[str, Any]
    pairs: Mapping[str, Any]
    open_run: Callable[..., Any]
    cache: PairCache
    summarise: Callable[[Trace], tuple[Any, ...]]
    banner: Callable[[Trace], str]
    rules: Mapping[str, Any] = field(default_factory=lambda: RULES)
    presets: Mapping[str, Preset] = field(default_factory=lambda: PRESETS)
    recorded: Mapping[str, Recorded] = field(default_factory=dict)
    turnstile: Turnstile = field(default_factory=Turnstile)


def default_lab() -> Lab:
    """Build the lab of this installation; imports neither torch nor transformers."""
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
    )


def _open_run(*args: Any, **kwargs: Any) -> Any:
    from speclab.lab.runs import open_run

    return open_run(*args, **kwargs)


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
