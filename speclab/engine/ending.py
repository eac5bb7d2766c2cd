"""Where a run ends: EOS, stop strings that straddle tokens, budgets; and UTF-8-safe streaming."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Protocol

from speclab.core.records import StopReason, find_stop


class HasLimits(Protocol):
    """The part of `Limits` that an ending looks at."""

    max_new_tokens: int
    max_context: int
    eos_ids: frozenset[int]
    stop_strings: tuple[str, ...]


class Ending:
    """Cuts what a round emitted at the first reason to stop.

    Args:
        limits: when to stop.
        prompt_length: tokens of the prompt.
        piece: returns the bytes of a token.
    """

    def __init__(
        self, limits: HasLimits, prompt_length: int, piece: Callable[[int], bytes]
    ) -> None:
        self._limits, self._piece = limits, piece
        self._prompt_length, self._count = prompt_length, 0
        self._stops = tuple(stop.encode() for stop in limits.stop_strings if stop)
        self._tail = b""

    def before_first(self) -> StopReason | None:
        """Return why nothing can be emitted at all, if so."""
        return self._budget()

    def _budget(self) -> StopReason | None:
        if self._count >= self._limits.max_new_tokens:
            return "max_new_tokens"
        if self._prompt_length + self._count >= self._limits.max_context:
            return "context_limit"
        return None

    def cut(self, emitted: Sequence[int]) -> tuple[tuple[int, ...], StopReason | None]:
        """Return the tokens kept of `emitted` and why the run ends after them, if it does.

        The token that ends the run is kept; what follows it in the same round is dropped.
        """
        kept: list[int] = []
        for token in emitted:
            kept.append(token)
            self._count += 1
            if token in self._limits.eos_ids:
                return tuple(kept), "eos"
            if self._stops and self._finds_stop(token):
                return tuple(kept), "stop_string"
            reason = self._budget()
            if reason is not None:
                return tuple(kept), reason
        return tuple(kept), None

    def _finds_stop(self, token: int) -> bool:
        self._tail += self._piece(token)
        found = any(stop in self._tail for stop in self._stops)
        self._tail = self._tail[-(max(map(len, self._stops)) - 1) or len(self._tail) :]
        return found


class TextStream:
    """Turns token bytes into text without ever showing half a character.

    Text that could still become a stop string is held back until it is settled.
    """

    def __init__(self, stop_strings: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = tuple(stop for stop in stop_strings if stop)
        self._held = ""
        self.stopped = False

    def feed(self, piece: bytes) -> str:
        """Return the text that `piece` settles."""
        if self.stopped:
            return ""
        return self._release(self._held + self._decoder.decode(piece))

    def _release(self, text: str) -> str:
        start = find_stop(text, self._stops)
        if start is not None:
            self.stopped, self._held = True, ""
            return text[:start]
        hold = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(text)), 0, -1):
                if text.endswith(stop[:size]):
                    hold = max(hold, size)
                    break
        self._held = text[len(text) - hold :]
        return text[: len(text) - hold]

    def finish(self) -> str:
        """Return what was held back; a character cut in half becomes one U+FFFD."""
        if self.stopped:
            return ""
        held, self._held = self._held, ""
        return held + self._decoder.decode(b"", final=True)
