"""Cuts of a text: parts are tokenised as the whole is, or the tokenizer is said to be unknown."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from foreign_kit import trained
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from speclab.models.text import TextCodec
from speclab.models.word_cuts import GPT_2, LLAMA_3, MARKS, QWEN_2, can_cut, cuts_at_words

FRAGMENTS = (
    *("the", " fox", "  ", " ", "\n\n", "\n", "\r\n", "\t", "   x", "don't", "'s", "'S", " 's"),
    *("世界", "你好", "，", "。", "、", "？", "人1", "A，b", "これは", "テスト", "한국", "\u3000"),
    *(
        "😀",
        "👨‍👩‍👧",
        " 👋🏽",
        "🇨🇳",
        "é",
        "e\u0301",
        "\u0301",
        "ﬁ",
        "\u200b",
        "\xa0",
        "\x85",
        "\x00",
    ),
    *("1234", " 56", "3.14", "٣", "½", "!", "...", " (", ")", "_", "<|end|>", "</s>", "ſ", "İ"),
)
TEXTS = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=3)), max_size=24).map(
    lambda parts: "".join(parts).encode("utf-8", "replace").decode()
)
CORPUS = [
    "".join(FRAGMENTS),
    "the fox, the fox; don't 世界，你好。世界，你好。 1234 56",
    " a b c\n\n  d",
]


def split(pattern: str, behavior: str = "isolated") -> Any:
    return pre_tokenizers.Split(Regex(pattern), behavior)


def words(**options: Any) -> Any:
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})


STEPS = {
    "gpt-2": lambda: words(),
    "digits": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(True), words()]),
    "gpt-2 split": lambda: pre_tokenizers.Sequence([split(GPT_2), words(use_regex=False)]),
    "llama-3": lambda: pre_tokenizers.Sequence([split(LLAMA_3), words(use_regex=False)]),
    "qwen-2": lambda: pre_tokenizers.Sequence([split(QWEN_2), words(use_regex=False)]),
}


def described(tokenizer: Tokenizer) -> dict[str, Any]:
    return json.loads(tokenizer.to_str())


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = STEPS[kind]()
    if kind == "qwen-2":
        raw.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(CORPUS * 3, trainer)
    return raw


def places(text: str) -> list[int]:
    """Return where a text may be cut, in characters."""
    return [at for at in range(1, len(text)) if can_cut(text[:at].encode(), text[at:].encode())]


@pytest.mark.parametrize("kind", list(STEPS))
@given(text=TEXTS)
@settings(max_examples=40, deadline=None)
def test_parts_are_tokenised_as_the_whole(kind: str, text: str) -> None:
    tokenizer = tokenizer_of(kind)
    assert cuts_at_words(described(tokenizer))
    ends = [0, *places(text), len(text)]
    parts = [tokenizer.encode(text[a:b]).ids for a, b in pairwise(ends)]
    assert [token for part in parts for token in part] == tokenizer.encode(text).ids


def test_elsewhere_they_are_not() -> None:
    """Control: there are places whose two parts have other ids, and `can_cut` refuses them."""
    tokenizer = tokenizer_of("gpt-2")
    for before, after in (("th", "e"), ("\n", "\n"), ("世", "界"), ("the ", "fox")):
        parts = [*tokenizer.encode(before).ids, *tokenizer.encode(after).ids]
        assert parts != tokenizer.encode(before + after).ids, before + after
        assert not can_cut(before.encode(), after.encode())


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (b"fox", b" x", True),
        ("好".encode(), b" ", True),
        ("，".encode(), b" ", True),
        ("好".encode(), "，".encode(), True),
        (b"a1", "。b".encode(), True),
        ("，".encode(), "。".encode(), False),
        (b"!", "，".encode(), False),
        (b"fox ", b" x", False),
        (b"fox\n", b" x", False),
        ("😀".encode(), b" ", False),
        ("a\u0301".encode(), b" ", False),
        (b"a\xe5\xa5", b" x", False),
        ("好".encode()[1:], b" x", False),
        (b"fox", b"x", False),
        (b"fox", b"\n", False),
        (b"fox", "，".encode()[:2], False),
        (b"", b" x", False),
        (b"fox", b"", False),
    ],
)
def test_places_by_hand(before: bytes, after: bytes, wanted: bool) -> None:
    assert can_cut(before, after) == wanted
    assert can_cut(bytearray(before), after) == wanted


def test_what_is_not_known_is_refused() -> None:
    good = described(tokenizer_of("digits"))
    end = good["added_tokens"][0]
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    other = {"type": "Split", "pattern": {"Regex": r"\S+"}, "behavior": "Isolated", "invert": False}
    gpt_2 = {**other, "pattern": {"Regex": GPT_2}}
    assert cuts_at_words(good) and cuts_at_words({**good, "pre_tokenizer": gpt_2})

    def steps(*each: dict[str, Any]) -> dict[str, Any]:
        return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": list(each)}}

    changes = [
        {"model": {**good["model"], "type": "Unigram"}},
        {"model": {**good["model"], "dropout": 0.1}},
        {"truncation": {"max_length": 5}},
        {"normalizer": {"type": "Lowercase"}},
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]}},
        *({"added_tokens": [{**end, wish: True}]} for wish in ("lstrip", "rstrip", "single_word")),
        *({"added_tokens": [{**end, "content": text}]} for text in ("a b", *MARKS)),
        {"pre_tokenizer": None},
        {"pre_tokenizer": {**level, "add_prefix_space": True}},
        {"pre_tokenizer": {**level, "use_regex": False}},
        {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}},
        {"pre_tokenizer": other},
        {"pre_tokenizer": {**gpt_2, "behavior": "MergedWithNext"}},
        {"pre_tokenizer": {**gpt_2, "invert": True}},
        steps(level, other),
        steps({"type": "Digits", "individual_digits": True}),
    ]
    for change in changes:
        assert not cuts_at_words({**good, **change}), change


def test_the_tokenizers_at_hand_are_known() -> None:
    assert TextCodec(trained(300)).cuts_at_words
    assert TextCodec(trained(290, other=True, start=True)).cuts_at_words
