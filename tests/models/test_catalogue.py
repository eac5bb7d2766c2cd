"""Loading pairs: local folders, refusals, and what each error names."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_pairs import tiny_llama
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from speclab.core.errors import BadInput, ModelUnavailable, NotEnoughMemory
from speclab.lab.runs import generate
from speclab.models import loading
from speclab.models.catalogue import PAIRS, load_pair, pair_entry
from speclab.models.text import TextCodec, vocabulary_difference

TEXT = ["Once upon a time there was a fox.", "好 😀 naïve  two spaces\n\ttab", "def f(x): return x"]


def byte_tokenizer(size: int = 300, *, corpus: list[str] = TEXT) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|end|>",
        bos_token="<|end|>",
        clean_up_tokenization_spaces=False,
    )


def save(folder: Path, seed: int, *, vocab_size: int = 300, tokenizer=None) -> Path:
    tiny_llama(seed, vocab_size=vocab_size, dtype=torch.float32).save_pretrained(folder)
    (tokenizer or byte_tokenizer()).save_pretrained(folder)
    return folder


def test_two_local_folders_make_a_pair(tmp_path: Path) -> None:
    target, draft = save(tmp_path / "target", 0), save(tmp_path / "draft", 1, vocab_size=288)
    pair = load_pair(f"custom:{target}|{draft}", device="cpu", dtype="float64")
    assert pair.target.vocab_size == 300 and pair.drafts[0].vocab_size == 300
    plain = generate(pair, "Once 好😀", method="autoregressive", temperature=0, max_new_tokens=20)
    fast = generate(pair, "Once 好😀", method="draft-model", temperature=0, max_new_tokens=20)
    assert fast.emitted == plain.emitted
    assert any("local:" in note for note in pair.notes)


def test_same_width_other_strings_is_another_tokenizer(tmp_path: Path) -> None:
    """A23: unlike ids of one width are never compared id by id."""
    other = byte_tokenizer(corpus=["zzz qqq jjj vvv www yyy"] * 3)
    target = save(tmp_path / "target", 0)
    draft = save(tmp_path / "draft", 1, tokenizer=other)
    pair = load_pair(f"custom:{target}|{draft}", device="cpu")
    assert pair.foreign is not None and pair.drafts[0].foreign is pair.foreign
    assert any(note.startswith("Another tokenizer: Token id") for note in pair.notes)
    spelling, own = pair.foreign.spelling, TextCodec(other)
    for mine, theirs in zip(spelling.shared_own, spelling.shared_target, strict=True):
        assert own.piece(int(mine)) == pair.codec.piece(int(theirs))
    assert 257 <= len(spelling.shared_own) < 300 and 0 < pair.foreign.shared_mass < 1
    trace = generate(pair, "Once", max_new_tokens=4)
    assert any("another tokenizer" in warning for warning in trace.warnings)


def test_padding_of_one_tokenizer_is_the_same_tokenizer() -> None:
    assert vocabulary_difference(byte_tokenizer(300), byte_tokenizer(290), "a", "b") == ""


def test_corrupt_weights_are_named(tmp_path: Path) -> None:
    target = save(tmp_path / "target", 0)
    (target / "model.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(ModelUnavailable, match="target"):
        load_pair(f"custom:{target}|{target}", device="cpu")


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    target = save(tmp_path / "target", 0)
    model = tiny_llama(0, vocab_size=300, dtype=torch.float32)
    torch.save(model.state_dict(), target / "pytorch_model.bin")
    (target / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="safetensors"):
        load_pair(f"custom:{target}|{target}", device="cpu")


def test_too_large_a_pair_is_refused_before_loading(tmp_path: Path, monkeypatch) -> None:
    target = save(tmp_path / "target", 0)
    monkeypatch.setattr(loading, "load_model", lambda *a: pytest.fail("loaded anyway"))
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("M", (), {"available": 1000})())
    with pytest.raises(NotEnoughMemory, match="GB"):
        load_pair(f"custom:{target}|{target}", device="cpu")


def test_local_folders_are_off_on_a_space(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SYSTEM", "spaces")
    target = save(tmp_path / "target", 0)
    with pytest.raises(ModelUnavailable, match="Space"):
        load_pair(f"custom:{target}|{target}", device="cpu")


def test_hub_offline_is_said(monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelUnavailable):
        load_pair("custom:no-such/target|no-such/draft", device="cpu")


@pytest.mark.parametrize("name", ["nope", "custom:", "custom:a", "custom:a|", "custom:|b"])
def test_names_that_mean_nothing(name: str) -> None:
    with pytest.raises(BadInput):
        pair_entry(name)


def test_every_entry_says_what_it_costs() -> None:
    for entry in PAIRS.values():
        assert entry.licence and entry.memory_bytes > 0
        assert entry.bundled == (entry.download_bytes == 0)
        assert entry.title.en and entry.title.zh and entry.about.en and entry.about.zh


def test_pieces_join_to_the_text_and_half_characters_stay_bytes() -> None:
    codec = TextCodec(byte_tokenizer())
    for text in [*TEXT, "👨‍👩‍👧 family", "a\\b `${1+1}` <b>"]:
        ids = codec.encode(text)
        assert b"".join(map(codec.piece, ids)).decode() == text
        assert codec.decode(ids) == text
    assert codec.piece(10**6) == b""
    assert codec.piece(0) == b"<|end|>"


def test_start_token_only_at_position_zero() -> None:
    codec = TextCodec(byte_tokenizer(), prepend_bos=True)
    ids = codec.encode("Once <fox>")
    assert ids[0] == 0 and 0 not in ids[1:]
    with pytest.raises(BadInput):
        codec.encode("   ")
    with pytest.raises(BadInput, match="chat template"):
        codec.encode("hello", chat=True)
