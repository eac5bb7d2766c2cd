"""Texts of one session that its later runs may copy from; nothing here is shared by sessions."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_TEXTS = 32
MAX_TOKENS = 8_192
"""Most that a store keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTexts:
    """What a store held at one moment; a run looks up the same texts from first round to last.

    Attributes:
        vocabulary: whose token ids these are: the name of a pair.
        texts: token ids, the oldest text first.
        key: equal only for equal texts of one vocabulary.
    """

    vocabulary: str
    texts: tuple[tuple[int, ...], ...] = ()
    key: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(repr((self.vocabulary, self.texts)).encode()).hexdigest()
        object.__setattr__(self, "key", digest)

    @property
    def num_tokens(self) -> int:
        """Tokens in all texts."""
        return sum(map(len, self.texts))


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
            return EarlierTexts(vocabulary=self.vocabulary, texts=tuple(self._texts))

    def __len__(self) -> int:
        return len(self._texts)

    def _num_tokens(self) -> int:
        return sum(map(len, self._texts))
