"""What one tokenizer drafts, in the ids of another: by hand, and for any text."""

from __future__ import annotations

import codecs

import pytest
from foreign_kit import Counting, WordTokens, trained, trained_spelling
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.errors import PairMismatch
from speclab.models.spelling import SameIds, Spelling, common_prefix, whole_text
from speclab.models.text import TextCodec, vocabulary_difference

TARGET = WordTokens(["<end>", "h", "e", "l", "o", " ", "w", "he", "llo", "hello", "world"])
DRAFT = WordTokens(["lo", "l", "</s>", " w", "hel", "o", "orld", "h"])


def spelling(target: WordTokens = TARGET, draft: WordTokens = DRAFT) -> Spelling:
    return Spelling(target, draft, target_size=target.num_ids, draft_size=draft.num_ids)


def words(tokens: WordTokens, ids: list[int]) -> list[str]:
    return [tokens.piece(token).decode() for token in ids]


def ids(tokens: WordTokens, *pieces: str) -> list[int]:
    return [tokens.words.index(piece.encode()) for piece in pieces]


def test_the_text_of_a_draft_in_the_targets_words() -> None:
    drafted = ids(DRAFT, "l", "lo", " w", "orld")
    found = spelling().continuation(ids(TARGET, "he"), drafted, 10)
    assert words(TARGET, found) == ["llo", " ", "world"]


def test_a_token_across_the_boundary_is_cut_there() -> None:
    target = WordTokens(["a", "b", "c", "ab", "bc"])
    draft = WordTokens(["b", "c"])
    both = spelling(target, draft)
    assert words(target, both.continuation([0], [0, 1], 10)) == ["b", "c"]
    assert words(target, both.continuation([0], [0, 1], 0)) == ["bc"]


def test_text_is_tokenised_as_a_whole_on_the_drafts_side() -> None:
    both = spelling()
    assert words(DRAFT, both.own_ids(ids(TARGET, "he"))) == ["h"]
    assert words(DRAFT, both.own_ids(ids(TARGET, "he", "l"))) == ["hel"]


def test_a_drafted_end_is_the_targets_end_and_only_after_the_whole_text() -> None:
    both = spelling()
    assert both.continuation([1], ids(DRAFT, "l", "</s>", "l"), 10) == ids(TARGET, "l", "<end>")
    target = WordTokens(["<end>", "h"])
    kept = spelling(target, WordTokens(["h", "z", "</s>"])).continuation([1], [0, 1, 2], 10)
    assert kept == [1], "z has no word, so the end would follow another text"


def test_shared_tokens_are_those_of_equal_bytes_and_the_end() -> None:
    both = spelling()
    pairs = zip(both.shared_own.tolist(), both.shared_target.tolist(), strict=True)
    shared = {(DRAFT.words[own], TARGET.words[to]) for own, to in pairs}
    assert shared == {(b"l", b"l"), (b"o", b"o"), (b"h", b"h"), (b"</s>", b"<end>")}
    few = Spelling(TARGET, DRAFT, target_size=11, draft_size=8, usable=[1, 2])
    assert few.shared_own.tolist() == [1, 2]
    with pytest.raises(PairMismatch, match="share no token"):
        spelling(WordTokens(["a"]), WordTokens(["b"]))


def test_markers_are_mapped_by_name_or_meaning_or_left_out() -> None:
    target = WordTokens(["<end>", "<user>", "<tab>", "a"])
    draft = WordTokens(["</s>", "<tab>", "a"], start=(0,))
    both = spelling(target, draft)
    assert both.own_ids([0, 1, 3, 2, 3, 0]) == [0, 2, 1, 2, 0]
    assert both.own_ids([]) == [0]
    assert spelling(target, WordTokens(["a", "</s>"])).own_ids([]) == [1]
    literal = both.continuation([3], [2], 10)
    assert literal == [3] and both.continuation([1, 3], [2, 1, 2], 10) == [3]


def test_an_end_that_a_model_does_not_know_is_no_token_of_it() -> None:
    """A tokenizer may have more ids than its model has rows."""
    target = WordTokens(["h", "e", "<end>"])
    both = Spelling(target, WordTokens(["h", "</s>", "e"]), target_size=2, draft_size=3)
    assert both.shared_target.tolist() == [0, 1] and both.shared_own.tolist() == [0, 2]
    assert both.continuation([1], [0, 1], 10) == [0]
    draft = WordTokens(["h", "e", "</s>"], start=(2,))
    both = Spelling(target, draft, target_size=3, draft_size=2)
    assert both.shared_own.tolist() == [0, 1] == both.shared_target.tolist()
    assert both.own_ids([0, 2, 1]) == [0, 1] and both.own_ids([]) == [0] and both.start_ids == ()


def test_the_name_of_a_marker_in_a_draft_is_not_offered() -> None:
    target = WordTokens(["<end>", "a"])
    draft = WordTokens(["<", "end>", "a", ">", "end"])
    draft.special_ids, draft.end_id = frozenset(), None
    assert spelling(target, draft).continuation([1], [2, 0, 4, 3], 10) == [1]


@pytest.mark.parametrize(
    ("before", "drafted", "text", "known"),
    [
        (b"ab", b"cd", "abcd", 2),
        (b"\xf0\x9f", b"\x98\x80!", "\U0001f600!", 2),
        (b"\xf0\x9f", b"\x98", "", 0),
        (b"\xf0\x9f", b" x", " x", 0),
        (b"a\xffb", b"c", "bc", 1),
        (b"a", b"b\xf0\x9f", "ab", 1),
        (b"a", b"b\xffc", "ab", 1),
        (b"\xe4", b"\xbda", "", 0),
        (b"", b"", "", 0),
    ],
)
def test_whole_characters_only(before: bytes, drafted: bytes, text: str, known: int) -> None:
    assert whole_text(before, drafted) == (text, known)


def test_half_a_character_in_the_context_is_finished() -> None:
    target, draft = TextCodec(trained(300)), TextCodec(trained(290, other=True))
    both = Spelling(target, draft, target_size=300, draft_size=290)
    byte = {target.piece(token): token for token in range(300)}
    own = {draft.piece(token): token for token in range(290)}
    context = [byte[b"a"], byte[b"\xf0"], byte[b"\x9f"]]
    assert both.own_ids(context) == [own[b"a"], own[b"\xf0"], own[b"\x9f"]]
    found = both.continuation(context, [own[b"\x98"], own[b"\x80"]], 10)
    assert b"".join(map(target.piece, found)) == b"\x98\x80"


BOTH = {start: trained_spelling(start=start) for start in (False, True)}
CODECS = TextCodec(trained(300)), TextCodec(trained(290, other=True))
TARGET_IDS = st.lists(st.integers(0, 299), max_size=12)


@given(st.booleans(), TARGET_IDS, st.lists(st.integers(0, 289), max_size=8), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_any_draft_becomes_valid_ids_of_its_own_bytes(start, context, drafted, look_back) -> None:
    target, draft = CODECS
    found = BOTH[start].continuation(context, drafted, look_back)
    assert all(0 <= token < 300 for token in found)
    assert not target.special_ids & set(found[:-1])
    ended = bool(found) and found[-1] in target.special_ids
    assert not ended or (found[-1] == target.end_id and draft.end_id in drafted)
    text = found[:-1] if ended else found
    markers = [place for place, token in enumerate(drafted) if token in draft.special_ids]
    raw = b"".join(map(draft.piece, drafted[: markers[0]] if markers else drafted))
    said = b"".join(map(target.piece, text))
    assert raw.startswith(said)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(b"".join(map(target.piece, context)) + said)
    assert not said or not decoder.getstate()[0], "half a character was offered"


@given(st.text(max_size=40), st.text(max_size=12))
@settings(max_examples=60, deadline=None)
def test_text_comes_through_both_ways(before: str, after: str) -> None:
    target, draft = CODECS
    both, context = BOTH[False], target.encode_plain(before)
    own = both.own_ids(context)
    said = b"".join(map(draft.piece, own)).decode()
    assert said == before or not context
    for look_back in (0, 10):
        found = both.continuation(context, draft.encode_plain(after), look_back)
        assert b"".join(map(target.piece, found)).decode() == after


@given(TARGET_IDS)
@settings(max_examples=25, deadline=None)
def test_the_start_stands_at_the_start_only(context: list[int]) -> None:
    plain, started = (BOTH[start].own_ids([t for t in context if t > 2]) for start in (False, True))
    assert started[0] == 0 and 0 not in started[1:]
    assert started[1:] == plain or plain == [0]


def test_the_same_ids_need_no_spelling() -> None:
    same = SameIds(frozenset({2}))
    assert same.own_ids((1, 2)) == [1, 2] and same.continuation((1,), (3, 4), 5) == [3, 4]
    assert vocabulary_difference(trained(300), trained(280), "a", "b") == ""
    told = vocabulary_difference(trained(300), trained(290, other=True), "a", "b")
    assert told.startswith("Token id 0 is '<|end|>' in a but '</s>' in b.")


# --- a text that grows and is cut ------------------------------------------------------------

PARTS = (
    *("the fox", "  ", " upon", "\n\n\ttab", " don't", "世界", "你好，世界。", " テスト", "。"),
    *("😀", " 👨‍👩‍👧", "1234", " 5", "e\u0301", "\xa0", "def f(x): return x\n", "</s>", "<|end|>"),
)
EDITS = st.one_of(
    st.sampled_from(PARTS),
    st.text(max_size=4),
    st.lists(st.integers(0, 299), min_size=1, max_size=6),
    st.integers(1, 40),
)
LONG = tuple(TextCodec(trained(300)).encode_plain("the fox upon 世界，你好。 12 x\n" * 12))


def edited(tokens: list[int], edit: str | list[int] | int) -> list[int]:
    """Return a text with more at its end, or less."""
    if isinstance(edit, int):
        return tokens[: max(0, len(tokens) - edit)]
    more = (
        CODECS[0].encode_plain(edit.encode("utf-8", "replace").decode())
        if isinstance(edit, str)
        else edit
    )
    return [*tokens, *more]


@given(st.booleans(), st.booleans(), st.lists(EDITS, max_size=12))
@settings(max_examples=80, deadline=None)
def test_ids_of_a_growing_text_are_those_of_the_whole(start, long, edits) -> None:
    both, tokens = BOTH[start], list(LONG) if long else []
    follow = both.growing()
    assert follow(tokens) == both.own_ids(tokens)
    for edit in edits:
        tokens = edited(tokens, edit)
        assert follow(tokens) == both.own_ids(tokens)
    assert follow(tokens[:5]) == both.own_ids(tokens[:5])


def test_a_text_token_by_token_and_back() -> None:
    """Every prefix, half characters among them, and every prefix again from the end."""
    text = "the naïve fox 世界，你好。 😀😀 upon 1234 times  two\n\n x <|end|> then jjj 好好，there"
    both, tokens = BOTH[False], CODECS[0].encode_plain(text)
    follow = both.growing()
    for size in (*range(len(tokens) + 1), *range(len(tokens), -1, -1)):
        assert follow(tokens[:size]) == both.own_ids(tokens[:size])


@pytest.mark.parametrize(
    "line", ["the fox upon the other one ", "你好，世界。好，", "x = f(x) 12\n"]
)
def test_only_the_end_is_tokenised_again(line: str) -> None:
    """However long the text is."""
    target, draft = CODECS[0], Counting(CODECS[1])
    both = Spelling(target, draft, target_size=300, draft_size=290)  # type: ignore[arg-type]
    most = []
    for lines in (20, 200):
        tokens, follow = target.encode_plain(line * lines), both.growing()
        follow(tokens[:-40])
        counts = []
        for size in range(len(tokens) - 40, len(tokens) + 1):
            draft.num_bytes = 0
            follow(tokens[:size])
            counts.append(draft.num_bytes)
        most.append(max(counts))
    assert max(most) < 150 < len(line.encode()) * 200 / 10


def test_of_an_unknown_tokenizer_the_text_since_the_last_marker_is_tokenised_again() -> None:
    target = WordTokens(["<end>", "a", "b", " c"])
    draft = WordTokens(["</s>", "a", "b", " c", "b c"])
    counted = Counting(draft)
    both = Spelling(target, counted, target_size=4, draft_size=5)  # type: ignore[arg-type]
    turn = [1, 2, 3] * 20
    follow, plain = both.growing(), spelling(target, draft)
    both_turns = [*turn, 0, *turn]
    for text, known in ((turn, 0), ([*turn, 1], 0), (both_turns, 0), ([*both_turns, 2, 3], 61)):
        counted.num_bytes = 0
        assert follow(text) == plain.own_ids(text)
        assert counted.num_bytes == sum(len(target.piece(token)) for token in text[known:] if token)


def test_texts_share_as_many_tokens_as_are_equal() -> None:
    long = list(range(600))
    for place in (0, 1, 255, 256, 257, 511, 599):
        other = (*long[:place], -1, *long[place + 1 :])
        assert common_prefix(long, other) == common_prefix(other, long) == place
        assert common_prefix(long, tuple(long[:place])) == place
    assert common_prefix(long, long) == 600 and common_prefix([], long) == 0


def test_a_cut_anywhere_would_be_seen(monkeypatch) -> None:
    """The fault put in: the draft's tokenizer begins anew within words."""
    both, line = BOTH[False], "then there, jjj zzz qqq "
    texts = [CODECS[0].encode_plain("x" * count + line * 9) for count in range(16)]
    assert all(both.growing()(tokens) == both.own_ids(tokens) for tokens in texts)
    monkeypatch.setattr("speclab.models.spelling.can_cut", lambda before, after: True)
    assert any(both.growing()(tokens) != both.own_ids(tokens) for tokens in texts)
