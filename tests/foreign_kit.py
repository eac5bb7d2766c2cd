"""Two tokenizers for tests: toys of given words, and tiny byte-level ones trained here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tiny_pairs import tiny_llama
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit
from speclab.models.foreign import ForeignDraft, IntersectionHandle
from speclab.models.spelling import Spelling
from speclab.models.text import TextCodec
from speclab.models.toy import ToyModel


class WordTokens:
    """A tokenizer of given words, the longest that fits first; `<...>` are markers."""

    cuts_at_words = False

    def __init__(self, words: Sequence[str | bytes], start: tuple[int, ...] = ()) -> None:
        self.words = [word.encode() if isinstance(word, str) else word for word in words]
        self.num_ids, self.start_ids = len(words), start
        marks = [i for i, word in enumerate(self.words) if word[:1] == b"<" and len(word) > 1]
        self.special_ids = frozenset(marks)
        self.end_id = marks[0] if marks else None

    def piece(self, token: int) -> bytes:
        return self.words[token]

    def encode_plain(self, text: str) -> list[int]:
        raw, ids = text.encode(), []
        while raw:
            fits = [i for i, word in enumerate(self.words) if raw.startswith(word)]
            if not fits:
                raw = raw[1:]
                continue
            ids.append(max(fits, key=lambda i: len(self.words[i])))
            raw = raw[len(self.words[ids[-1]]) :]
        return ids


class Counting:
    """A tokenizer that counts the bytes it is given."""

    def __init__(self, tokens: Any) -> None:
        self._tokens, self.num_bytes = tokens, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokens, name)

    def encode_plain(self, text: str) -> list[int]:
        self.num_bytes += len(text.encode())
        return self._tokens.encode_plain(text)


def toy_foreign(
    target_words: Sequence[str], draft_words: Sequence[str], draft: ToyModel
) -> IntersectionHandle:
    """Return a toy draft with words of its own as a draft of a target with `target_words`."""
    target, own = WordTokens(target_words), WordTokens(draft_words)
    spelling = Spelling(target, own, target_size=target.num_ids, draft_size=draft.vocab_size)
    foreign = ForeignDraft(model=draft, spelling=spelling, num_ids=own.num_ids, shared_mass=1.0)
    return IntersectionHandle(foreign=foreign, vocab_size=target.num_ids)


TARGET_WORDS = ("a", "b", "<end>", "ab")
DRAFT_WORDS = ("ba", "a", "</s>", "b", "c")


def foreign_toy_kit(prompt: tuple[int, ...], sampling: Sampling) -> DraftKit:
    """Return the kit of the conformance tests with a draft of five other words."""
    target = ToyModel.random(7, vocab_size=len(TARGET_WORDS)).open(prompt)
    own = ToyModel.random(8, vocab_size=len(DRAFT_WORDS))
    handle = toy_foreign(TARGET_WORDS, DRAFT_WORDS, own)
    return DraftKit(
        prompt=prompt,
        sampling=sampling,
        eos_ids=frozenset({2}),
        vocab_size=len(TARGET_WORDS),
        drafts=(handle,),
        foreign=handle.foreign,
        target=target,
    )


EN = ["Once upon a time there was a fox.", "def f(x): return x\n", "the  other  one"]
OTHER = ["zzz qqq 好好 😀😀 jjj the then there", "one two  three\n\n\ttab", "naïve fox upon"]
MARKERS = ("<|end|>", "<|im_start|>", "<|im_end|>")


@cache
def trained(size: int, *, other: bool = False, start: bool = False) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE of `size` tokens, trained on one of two texts.

    Args:
        other: on the second text, and with one marker only. start: put a marker before every text.
    """
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    markers = ("</s>",) if other else MARKERS
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(markers),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(OTHER if other else EN, trainer)
    if start:
        raw.post_processor = processors.TemplateProcessing(
            single=f"{markers[0]} $A", special_tokens=[(markers[0], 0)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token=markers[0],
        bos_token=markers[0],
        clean_up_tokenization_spaces=False,
    )


def trained_spelling(size: int = 300, draft_size: int = 290, **start: bool) -> Spelling:
    """Return the spelling between the two trained tokenizers."""
    target = TextCodec(trained(size, **start))
    draft = TextCodec(trained(draft_size, other=True, **start))
    return Spelling(target, draft, target_size=size, draft_size=draft_size)


def save_model(folder: Path, seed: int, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Write a tiny model and its tokenizer."""
    size = len(tokenizer)
    tiny_llama(seed, vocab_size=size, dtype=torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_pair(folder: Path, *, start: bool = False) -> str:
    """Write two tiny models with two tokenizers; return the name under which they load."""
    target = save_model(folder / "target", 0, trained(300, start=start))
    draft = save_model(folder / "draft", 1, trained(290, other=True, start=start))
    return f"custom:{target}|{draft}"
