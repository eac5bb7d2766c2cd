"""Streams of text: no half characters, no stop string shown, the same text however it is cut."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from speclab.engine.ending import Ending, TextStream
from speclab.engine.loop import Limits

BYTES = st.binary(max_size=24)
CUTS = st.lists(st.integers(1, 4), min_size=30, max_size=30)


def pieces_of(raw: bytes, cuts: list[int]) -> list[bytes]:
    pieces, place = [], 0
    for size in cuts:
        if place < len(raw):
            pieces.append(raw[place : place + size])
            place += size
    return [*pieces, raw[place:]]


def stream(pieces: list[bytes], stops: tuple[str, ...] = ()) -> tuple[list[str], str]:
    reader = TextStream(stops)
    parts = [reader.feed(piece) for piece in pieces]
    return parts, reader.finish()


@given(BYTES, CUTS)
def test_the_joined_stream_is_the_text_of_all_bytes(raw: bytes, cuts: list[int]) -> None:
    parts, rest = stream(pieces_of(raw, cuts))
    assert "".join(parts) + rest == raw.decode("utf-8", "replace")


@given(st.text(max_size=8), CUTS)
def test_real_text_never_shows_a_replacement_mark(text: str, cuts: list[int]) -> None:
    text = text.encode("utf-8", "ignore").decode().replace("�", "")
    parts, rest = stream(pieces_of(text.encode(), cuts))
    assert "�" not in "".join(parts) and rest == "" and "".join(parts) == text


def first_end(text: str, stops: tuple[str, ...]) -> str:
    """Cut where the first stop string to be complete begins: reads character by character."""
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)]
    return text


@example("abca", ("abca", "bc"), [4])
@example("abca", ("bc", "abca"), [2, 2])
@example("xab", ("b", "ab"), [3])
@given(
    st.text("abc", max_size=14),
    st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple),
    CUTS,
)
def test_the_stop_string_that_ends_first_wins_however_the_text_is_cut(
    text: str, stops: tuple[str, ...], cuts: list[int]
) -> None:
    pieces = pieces_of(text.encode(), cuts)
    parts, rest = stream(pieces, stops)
    assert "".join(parts) + rest == first_end(text, stops)
    assert not any(stop in "".join(parts) + rest for stop in stops)
    limits = Limits(max_new_tokens=1000, max_context=1000, stop_strings=stops)
    ending = Ending(limits, 1, lambda token: pieces[token])
    kept, reason = ending.cut(range(len(pieces)))
    found = any(stop in text for stop in stops)
    assert (reason == "stop_string") == found
    joined = b"".join(pieces[token] for token in kept).decode()
    assert any(stop in joined for stop in stops) == found
    shorter = b"".join(pieces[token] for token in kept[:-1]).decode()
    assert not any(stop in shorter for stop in stops)


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=4), CUTS)
def test_what_could_become_a_stop_string_is_held_back(
    text: str, stop: str, cuts: list[int]
) -> None:
    reader, shown = TextStream((stop,)), ""
    for piece in pieces_of(text.encode(), cuts):
        shown += reader.feed(piece)
        assert text.startswith(shown), "text that was shown had to be taken back"


def test_after_the_stop_nothing_is_shown() -> None:
    reader = TextStream(("ab",))
    assert reader.feed(b"xa") == "x" and reader.feed(b"by") == ""
    assert reader.stopped and reader.feed(b"z") == "" and reader.finish() == ""


def test_empty_stop_strings_are_ignored() -> None:
    parts, rest = stream([b"a", b"b"], ("",))
    assert parts == ["a", "b"] and rest == ""
    limits = Limits(max_new_tokens=9, max_context=99, stop_strings=("",))
    assert Ending(limits, 1, lambda token: b"a").cut([0, 0]) == ((0, 0), None)
