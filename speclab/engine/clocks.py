"""Where seconds come from."""

from __future__ import annotations

import time
from typing import ClassVar


class WallClock:
    """Real seconds; waits for the accelerator first when one is in use."""

    def __init__(self, device: str = "cpu") -> None:
        self._synchronise = None
        if device.startswith("cuda"):
            import torch

            self._synchronise = torch.cuda.synchronize

    def now(self) -> float:
        """Seconds of a monotonic clock."""
        if self._synchronise is not None:
            self._synchronise()
        return time.perf_counter()


class ScriptedClock:
    """A clock that advances by a fixed step at every reading: for golden traces and proofs.

    Attributes:
        repeats: a run that is run again reads the same seconds.
    """

    repeats: ClassVar[bool] = True

    def __init__(self, step_s: float = 0.001) -> None:
        self._step_s, self._readings = step_s, 0

    def now(self) -> float:
        """Seconds so far."""
        self._readings += 1
        return self._readings * self._step_s
