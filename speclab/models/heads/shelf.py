"""Which trained heads a target has; each is loaded when a method first asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput

LoadHead = Callable[[Path, Any], Any]
"""(folder, target handle) -> head handle."""

LOADERS: dict[str, str] = {
    "medusa": "speclab.models.heads.medusa",
    "hydra": "speclab.models.heads.hydra",
    "eagle1": "speclab.models.heads.eagle_files",
    "eagle3": "speclab.models.heads.eagle_files",
    "mtp": "speclab.models.heads.mtp_files",
    "parallel_mtp": "speclab.models.heads.mtp_parallel",
    "kangaroo": "speclab.models.heads.kangaroo",
}
"""Module that has `load_head(folder, target)` of each kind of head, by its name in cards."""


class HeadShelf(Mapping[str, Any]):
    """Heads of one target by name; a lookup loads the head once.

    Args:
        root: folder that holds one folder per head.
        target: the target's handle.
    """

    def __init__(self, root: Path | None, target: Any) -> None:
        self._root, self._target = root, target
        self._loaded: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[str]:
        if self._root is not None:
            yield from (name for name in LOADERS if (self._root / name).is_dir())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in set(self):
            raise KeyError(name)
        assert self._root is not None
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load_head(name, self._root / name, self._target)
            return self._loaded[name]


def load_head(kind: str, folder: Path, target: Any) -> Any:
    """Load a head of a kind from a folder in its public layout.

    Raises:
        BadInput: for an unknown kind.
        ModelUnavailable: for a wrong shape, a missing key, or a head made for another target.
    """
    from importlib import import_module

    if kind not in LOADERS:
        raise BadInput(
            f"There is no kind of head {kind!r}.", f"Kinds: {', '.join(LOADERS) or 'none'}."
        )
    return import_module(LOADERS[kind]).load_head(folder, target)
