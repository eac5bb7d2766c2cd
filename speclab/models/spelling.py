"""Text between two tokenizers: what the one drafts, said in the ids of the other."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import PairMismatch
from speclab.models.word_cuts import can_cut

SPACING = 16
"""Tokens of the target between two places at which the draft's tokenizer may begin anew."""

BLOCK = 256
"""Tokens compared at a time."""


class Tokens(Protocol):
    """A tokenizer as `Spelling` uses it; `models.text.TextCodec` is one.

    Attributes:
        num_ids: ids are 0 to num_ids - 1.
        special_ids: ids that are markers, not text.
        start_ids: what the tokenizer puts before every text.
        end_id: the marker that ends a text, if there is one.
        cuts_at_words: whether parts of a text, cut where `word_cuts.can_cut` allows it, are
            tokenised as the whole is.
    """

    num_ids: int
    special_ids: frozenset[int]
    start_ids: tuple[int, ...]
    end_id: int | None
    cuts_at_words: bool

    def piece(self, token: int) -> bytes:
        """Return the bytes of an id; of a marker, its name."""

    def encode_plain(self, text: str) -> Sequence[int]:
        """Return the ids of a text, nothing put before or after it."""


class SameIds:
    """The spelling of a draft that shares the target's tokenizer: nothing to translate.

    Args:
        stops: ids that end a draft.

    Attributes:
        start_ids: what the draft's tokenizer puts before every text: unknown here.
    """

    start_ids: tuple[int, ...] = ()

    def __init__(self, stops: frozenset[int] = frozenset()) -> None:
        self.stops = stops

    def own_ids(self, tokens: Sequence[int]) -> list[int]:
        """Return the same ids."""
        return list(tokens)

    def growing(self) -> Callable[[Sequence[int]], list[int]]:
        """Return `own_ids` for one text that grows and is cut."""
        return self.own_ids

    def continuation(
        self, context: Sequence[int], drafted: Sequence[int], look_back: int
    ) -> list[int]:
        """Return the same ids."""
        return list(drafted)


class Spelling:
    """Translates ids of a target into those of a draft with another tokenizer, and back.

    Args:
        target, draft: their tokenizers.
        target_size, draft_size: ids that their models know.
        usable: ids of the draft that it can draft at all; None: every one.
        names: of target and draft, for the refusal.

    Attributes:
        shared_own, shared_target: the draft's and the target's id of each token that stands for
            the same bytes in both, and of the end of the text [shared].
        stops: ids of the draft that end a draft: its markers.
        start_ids: what the draft's tokenizer puts before every text.

    Raises:
        PairMismatch: if there is no such token.
    """

    def __init__(
        self,
        target: Tokens,
        draft: Tokens,
        *,
        target_size: int,
        draft_size: int,
        usable: Collection[int] | None = None,
        names: tuple[str, str] = ("the target", "the draft"),
    ) -> None:
        self._target, self._draft, self._target_size = target, draft, target_size
        self._target_ids, own = pieces_of(target, target_size), pieces_of(draft, draft_size)
        self._longest_piece = max(map(len, self._target_ids), default=0)
        self._own_bytes = {piece[0]: token for piece, token in own.items() if len(piece) == 1}
        self.stops, markers = draft.special_ids, markers_of(target, draft)
        self._markers = {token: marker for token, marker in markers.items() if marker < draft_size}
        self.start_ids = tuple(token for token in draft.start_ids if token < draft_size)
        self._end = _known(target.end_id, target_size)
        self._draft_end = _known(draft.end_id, draft_size)
        pairs = [(token, self._target_ids.get(piece, -1)) for piece, token in own.items()]
        if self._draft_end is not None and self._end is not None:
            pairs.append((self._draft_end, self._end))
        known = set(range(draft_size) if usable is None else usable)
        kept = sorted(pair for pair in pairs if pair[1] >= 0 and pair[0] in known)
        if not kept:
            raise PairMismatch(
                f"{names[0]} and {names[1]} share no token.",
                "Choose two models of one family.",
                code="no_shared_token",
                values={"target": names[0], "draft": names[1]},
            )
        self.shared_own: NDArray[np.int64] = np.array([own for own, _ in kept], dtype=np.int64)
        self.shared_target: NDArray[np.int64] = np.array([to for _, to in kept], dtype=np.int64)

    def own_ids(self, tokens: Sequence[int]) -> list[int]:
        """Return the draft's ids of the text of target ids; at least one.

        Text between two markers is tokenised as a whole. A marker becomes the draft's marker of
        that name, the end of the text its end of the text, other markers are left out. A character
        that is only half there is given byte by byte, where the draft has bytes.
        """
        ids, raw = list(self.start_ids), bytearray()
        for token in tokens:
            if token in self._target.special_ids:
                self._add_marker(ids, raw, token)
                raw.clear()
            else:
                raw += self._target.piece(token)
        return self._with_end(ids, raw)

    def growing(self) -> Callable[[Sequence[int]], list[int]]:
        """Return `own_ids` for one text that grows and is cut, at the price of what is new."""
        return GrowingIds(self).follow

    def _add_marker(self, ids: list[int], raw: bytes | bytearray, token: int) -> None:
        """Append the ids of the text before a marker, and the draft's marker for it."""
        ids += self._draft.encode_plain(raw.decode("utf-8", "replace"))
        own = self._markers.get(token)
        if own is not None and ids != [own]:
            ids.append(own)

    def _with_end(self, ids: list[int], raw: bytes | bytearray) -> list[int]:
        """Return `ids` and those of the text behind them, half a character at its end included."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        end = self._draft.encode_plain(decoder.decode(bytes(raw)))
        half = decoder.getstate()[0]
        end = [*end, *(self._own_bytes[byte] for byte in half if byte in self._own_bytes)]
        return [*ids, *end] or [self._draft_end or 0]

    def continuation(
        self, context: Sequence[int], drafted: Sequence[int], look_back: int
    ) -> list[int]:
        """Return target ids that spell what the draft drafted, whole characters only.

        The last tokens of the context are tokenised together with the draft, for how a text is cut
        depends on what stands before it; ids that spell the context are dropped. Where a token
        straddles the boundary, its part in the draft is spelled by the longest tokens that fit.
        A drafted end of the text becomes the target's.

        Args:
            context: the target's ids so far. drafted: the draft's own ids.
            look_back: how many tokens of the context are looked at.

        Returns:
            Ids below the target's size, none a marker but a last end of the text. Their bytes are
            the beginning of the drafted ones.

        **Source:** Timor et al. 2502.05202, algorithm 2, lines 5-6.
        **Deviation:** aligned by bytes from the end, not by tokens.
        """
        raw, ended = bytearray(), False
        for token in drafted:
            if token in self.stops:
                ended = token == self._draft_end
                break
            raw += self._draft.piece(token)
        text, before = whole_text(self._window(context, look_back), bytes(raw))
        ids, num_bytes = self._checked(self._spelled(text, before), text.encode()[before:])
        if ended and self._end is not None and num_bytes == len(raw):
            ids.append(self._end)
        return ids

    def _window(self, context: Sequence[int], look_back: int) -> bytes:
        """Return the bytes of the last tokens, from the first whole character, after any marker."""
        pieces: list[bytes] = []
        for token in reversed(context[max(0, len(context) - look_back) :]):
            if token in self._target.special_ids:
                break
            pieces.append(self._target.piece(token))
        window = b"".join(reversed(pieces))
        first = next((at for at, byte in enumerate(window) if byte & 0xC0 != 0x80), len(window))
        return window[first:]

    def _spelled(self, text: str, before: int) -> list[int]:
        """Return target ids of `text` that begin after its first `before` bytes.

        Counted from the end where the tokens end like the text, for a tokenizer may put something
        before it; else from the start, for it may leave something out.
        """
        raw = text.encode()
        if len(raw) == before:
            return []
        encoded = self._target.encode_plain(text)
        pieces = [self._target.piece(token) for token in encoded]
        whole = b"".join(pieces)
        skipped = before + len(whole) - len(raw) if whole.endswith(raw[before:]) else before
        ids: list[int] = []
        place = 0
        for token, piece in zip(encoded, pieces, strict=True):
            if place >= skipped:
                ids.append(token)
            elif place + len(piece) > skipped:
                ids += self._longest(piece[skipped - place :])
            place += len(piece)
        return ids

    def _longest(self, raw: bytes) -> list[int]:
        """Return target ids that spell `raw`, the longest piece first; [] if none do."""
        ids: list[int] = []
        while raw:
            sizes = range(min(self._longest_piece, len(raw)), 0, -1)
            size = next((size for size in sizes if raw[:size] in self._target_ids), 0)
            if not size:
                return []
            ids.append(self._target_ids[raw[:size]])
            raw = raw[size:]
        return ids

    def _checked(self, ids: Sequence[int], wanted: bytes) -> tuple[list[int], int]:
        """Return the first ids that spell `wanted` and are text of the target, and their bytes."""
        kept: list[int] = []
        place = 0
        for token in ids:
            piece = self._target.piece(token)
            foreign = token >= self._target_size or token in self._target.special_ids
            if foreign or not piece or wanted[place : place + len(piece)] != piece:
                break
            kept.append(token)
            place += len(piece)
        return kept, place


@dataclass(frozen=True, slots=True)
class _Place:
    """A place at which the draft's tokenizer may begin anew.

    Attributes:
        start: tokens of the target before it. seen: first tokens that it depends on.
        own: ids of the draft before it.
    """

    start: int
    seen: int
    own: int


class GrowingIds:
    """`Spelling.own_ids` of one text that grows and is cut: only its end is tokenised again.

    The draft's tokenizer begins anew behind a marker and, if it is known to cut words whatever
    stands around them (`models.word_cuts`), before a word: the ids are exactly those of the whole
    text. Of any other tokenizer all of the text since the last marker is tokenised each time, for
    a later character may change any earlier token there.

    Args:
        spelling: between the two tokenizers.
    """

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._text: list[int] = []
        self._ids = list(spelling.start_ids)
        self._places = [_Place(0, 0, len(self._ids))]

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """Return the draft's ids of the text of target ids; at least one."""
        same = common_prefix(self._text, tokens)
        del self._text[same:]
        self._text += tokens[same:]
        while self._places[-1].seen > same:
            self._places.pop()
        del self._ids[self._places[-1].own :]
        return self._spelling._with_end(self._ids, self._read(self._places[-1].start))

    def _read(self, start: int) -> bytearray:
        """Note ids and places from a place on; return the text behind the last one."""
        spelling, raw = self._spelling, bytearray()
        for at in range(start, len(self._text)):
            token = self._text[at]
            if token in spelling._target.special_ids:
                spelling._add_marker(self._ids, raw, token)
                start = at + 1
                self._places.append(_Place(start, start, len(self._ids)))
                raw.clear()
                continue
            if at - start >= SPACING and spelling._draft.cuts_at_words:
                after, seen = self._ahead(at)
                if can_cut(raw, after):
                    self._ids += spelling._draft.encode_plain(raw.decode("utf-8", "replace"))
                    start = at
                    self._places.append(_Place(start, seen, len(self._ids)))
                    raw.clear()
            raw += spelling._target.piece(token)
        return raw

    def _ahead(self, at: int) -> tuple[bytes, int]:
        """Return the next bytes of the text, a character of three at least, and where they end."""
        target, raw = self._spelling._target, b""
        while len(raw) < 3 and at < len(self._text) and self._text[at] not in target.special_ids:
            raw += target.piece(self._text[at])
            at += 1
        return raw, at


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many first tokens two texts share."""
    size = min(len(left), len(right))
    for start in range(0, size, BLOCK):
        one, other = (list(text[start : min(size, start + BLOCK)]) for text in (left, right))
        if one != other:
            return start + next(at for at, token in enumerate(one) if token != other[at])
    return size


def _known(token: int | None, size: int) -> int | None:
    """Return an id that the model knows; a tokenizer may have more ids than its model."""
    return token if token is not None and token < size else None


def pieces_of(tokens: Tokens, size: int) -> dict[bytes, int]:
    """Return the id of every piece of text, the lowest where several ids say the same."""
    ids: dict[bytes, int] = {}
    for token in range(min(tokens.num_ids, size)):
        piece = b"" if token in tokens.special_ids else tokens.piece(token)
        if piece:
            ids.setdefault(piece, token)
    return ids


def markers_of(target: Tokens, draft: Tokens) -> dict[int, int]:
    """Return the draft's marker for each marker of the target: by name, or the end of the text."""
    by_name = {draft.piece(token): token for token in sorted(draft.special_ids)}
    markers = {
        token: by_name[target.piece(token)]
        for token in target.special_ids
        if target.piece(token) in by_name
    }
    if target.end_id is not None and draft.end_id is not None:
        markers.setdefault(target.end_id, draft.end_id)
    return markers


def whole_text(before: bytes, drafted: bytes) -> tuple[str, int]:
    """Return the text of both up to the last whole character, and how many bytes are `before`'s.

    What cannot be read in `before` is passed over, together with what stands before that. A
    character begun there that the draft does not finish, and everything from the first bytes that
    are no character, is left out: nothing is ever replaced by U+FFFD.
    """
    start = 0
    while True:
        raw = before[start:] + drafted
        known = len(before) - start
        try:
            return raw.decode(), known
        except UnicodeDecodeError as fault:
            if fault.start >= known:
                return raw[: fault.start].decode(), known
            if fault.reason == "unexpected end of data":
                return "", 0
            start = min(start + fault.end, len(before))
