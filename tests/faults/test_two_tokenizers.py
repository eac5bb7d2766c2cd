"""Re-tokenising between two tokenizers: hard texts, any text, markers, starts, padded ids (A24)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_kit import GREEDY
from foreign_kit import save_pair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speclab.core.records import Trace
from speclab.lab.runs import generate
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair

TEXTS = {
    "emoji": "smile 😀 and 👨‍👩‍👧 wave 👋🏽!",
    "cjk": "你好，世界。これは テスト です",
    "double spaces": "two  spaces   three    four",
    "newlines": "\n\n\tline one\r\n\n  line two\n",
    "markers": "<|im_start|>user\nhi there<|im_end|>\n<|im_start|>assistant\n",
    "foreign marker": "a </s> and <|end|> in the text",
    "half composed": "e\u0301 naïve \u200bzero\u200d width \ufb01",
    "digits": "1234567890 3.14159 1,000",
}
METHODS = ("string-match", "token-intersection", "draft-model", "draft-tree")


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Pair:
    """Two tiny models, both of whose tokenizers put a marker before every text."""
    folder: Path = tmp_path_factory.mktemp("two")
    return load_pair(save_pair(folder, start=True), device="cpu", dtype="float64")


def greedy(pair: Pair, text: str, method: str, count: int) -> Trace:
    request = {"sampling": GREEDY, "max_new_tokens": count, "chat": False, "record_laws": False}
    return generate(pair, text, method=method, **request)


def check(pair: Pair, text: str, methods: tuple[str, ...] = METHODS[:2], count: int = 12) -> None:
    plain = greedy(pair, text, "autoregressive", count)
    for method in methods:
        fast = greedy(pair, text, method, count)
        assert fast.emitted == plain.emitted and fast.text == plain.text
        drafted = [token for round_ in fast.rounds for token in round_.tree.tokens]
        assert all(0 <= token < pair.target.vocab_size for token in drafted)
        starts = set(pair.codec.start_ids) - pair.eos_ids
        assert not starts & set(drafted)


@pytest.mark.parametrize("kind", TEXTS)
def test_the_text_does_not_change(pair: Pair, kind: str) -> None:
    """https://github.com/huggingface/transformers/pull/46124 ; ggml-org/llama.cpp issue 17480"""
    check(pair, TEXTS[kind])


def test_nor_does_it_without_start_tokens_or_with_any_method(tmp_path: Path) -> None:
    pair = load_pair(save_pair(tmp_path), device="cpu", dtype="float64")
    for kind in ("emoji", "markers"):
        check(pair, TEXTS[kind], METHODS)


@given(text=st.text(min_size=1, max_size=20).filter(str.strip), method=st.sampled_from(METHODS[:2]))
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_text_changes(pair: Pair, text: str, method: str) -> None:
    check(pair, text, (method,), 8)


def test_sampled_runs_emit_valid_ids_and_repeat(pair: Pair) -> None:
    for method in METHODS[:2]:
        first, again = (
            generate(pair, "the 好 fox", method=method, seed=3, max_new_tokens=10) for _ in "ab"
        )
        assert first.emitted == again.emitted
        assert all(0 <= token < pair.target.vocab_size for token in first.emitted)


def test_it_is_said_that_the_tokenizers_differ(pair: Pair) -> None:
    assert any("Another tokenizer: Token id 0" in note for note in pair.notes)
    for method, word in (("string-match", "tokenised again"), ("draft-model", "are drafted")):
        trace = generate(pair, "fox", method=method, max_new_tokens=1)
        assert any(word in warning for warning in trace.warnings)
    plain = generate(pair, "fox", method="autoregressive", max_new_tokens=1)
    assert not any("tokenizer" in warning for warning in plain.warnings)


def test_a_text_longer_than_the_drafts_context(pair: Pair) -> None:
    text = "there upon a time the fox " * 11
    assert pair.foreign is not None
    prompt = pair.codec.encode(text)
    assert len(prompt) < 90 < 128 < len(pair.foreign.spelling.own_ids(prompt))
    check(pair, text)
