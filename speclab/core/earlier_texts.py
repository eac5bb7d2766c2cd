"""Texts of one session that its later runs may copy from; nothing here is shared by sessions."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, TypeVar

MAX_TEXTS = 32
MAX_TOKENS = 8_192
"""Most that a store keeps."""

MAX_BUILT = 100_000
"""Most parts that what was built from a store's texts may have, to be kept for its next run."""

Texts = tuple[tuple[int, ...], ...]
Built = TypeVar("Built", bound=Sized)


class Workshop:
    """What was last built from the texts of one store, for its next run; never another store's.

    Args:
        most: parts (`len`) that something may have, to be kept.
    """

    def __init__(self, most: int = MAX_BUILT) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: tuple[Hashable, Texts, Any] | None = None

    def built(self, key: Hashable, texts: Texts, build: Callable[..., Built]) -> Built:
        """Return what `build` makes of some texts, or made of the same ones before.

        Args:
            key: equal only where equal texts give equal results. texts: the oldest first.
            build: from (what was built of the first texts, or None; the texts after those). It
                leaves what was built as it is, since other runs may be reading it.
        """
        with self._lock:
            kept = self._kept
        old, known = None, 0
        if kept is not None and kept[0] == key and texts[: len(kept[1])] == kept[1]:
            old, known = kept[2], len(kept[1])
        if old is not None and known == len(texts):
            return old
        made = build(old, texts[known:])
        with self._lock:
            self._kept = (key, texts, made) if len(made) <= self._most else None
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTexts:
    """What a store held at one moment; a run looks up the same texts from first round to last.

    Attributes:
        vocabulary: whose token ids these are: the name of a pair.
        texts: token ids, the oldest text first.
        key: equal only for equal texts of one vocabulary.
        workshop: keeps what was built from texts of this store; None: nothing is kept.
    """

    vocabulary: str
    texts: Texts = ()
    workshop: Workshop | None = field(default=None, repr=False, compare=False)
    key: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(repr((self.vocabulary, self.texts)).encode()).hexdigest()
        object.__setattr__(self, "key", digest)

    @property
    def num_tokens(self) -> int:
        """Tokens in all texts."""
        return sum(map(len, self.texts))

    def built(self, key: Hashable, build: Callable[..., Built]) -> Built:
        """Return what `build` makes of the texts; see `Workshop.built`."""
        if self.workshop is None:
            return build(None, self.texts)
        return self.workshop.built(key, self.texts, build)


class TextStore:
    """The texts of one session for one pair; safe to use from several threads.

    The oldest texts are dropped when there are too many of them or of their tokens; a text that
    is too long by itself keeps its end.

    Args:
        vocabulary: whose token ids are kept: the name of a pair.
        max_texts: most texts.
        max_tokens: most tokens of all texts together.
    """

    def __init__(
        self, vocabulary: str, *, max_texts: int = MAX_TEXTS, max_tokens: int = MAX_TOKENS
    ) -> None:
        self.vocabulary = vocabulary
        self._max_texts, self._max_tokens = max_texts, max_tokens
        self._lock = threading.Lock()
        self._texts: deque[tuple[int, ...]] = deque()
        self._workshop = Workshop()

    def add(self, tokens: Sequence[int]) -> None:
        """Keep a text; an empty one is none."""
        text = tuple(int(token) for token in tokens[-self._max_tokens :])
        if not text:
            return
        with self._lock:
            self._texts.append(text)
            while len(self._texts) > self._max_texts or self._num_tokens() > self._max_tokens:
                self._texts.popleft()

    def snapshot(self) -> EarlierTexts:
        """Return what is there now."""
        with self._lock:
            return EarlierTexts(
                vocabulary=self.vocabulary, texts=tuple(self._texts), workshop=self._workshop
            )

    def __len__(self) -> int:
        return len(self._texts)

    def _num_tokens(self) -> int:
        return sum(map(len, self._texts))
