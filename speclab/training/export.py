"""Writes a bundled pair: models, tokenizer and a manifest with the sha256 of every file."""

from __future__ import annotations

import datetime
import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

MANIFEST_FORMAT = 1
MAX_FILE_BYTES = 10_000_000


def sha256_of(path: Path) -> str:
    """Return the hexadecimal sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def count_parameters(model: torch.nn.Module) -> int:
    """Return the number of parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def rounded_copy(model: LlamaForCausalLM) -> LlamaForCausalLM:
    """Return a float32 copy in eval mode whose weights are those of the float16 export."""
    copy = LlamaForCausalLM(LlamaForCausalLM.config_class(**model.config.to_dict()))
    copy.load_state_dict({k: v.half().float() for k, v in model.state_dict().items()})
    return copy.eval()


def write_model(model: LlamaForCausalLM, folder: Path) -> None:
    """Write `config.json`, `generation_config.json` and float16 `model.safetensors`."""
    copy = rounded_copy(model).half()
    copy.save_pretrained(folder)


def file_facts(root: Path) -> dict[str, dict[str, Any]]:
    """Return size and sha256 of every file below `root` but the manifest.

    Raises:
        ValueError: If a file has 10 MB or more.
    """
    facts = {}
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.name == "manifest.json":
            continue
        size = path.stat().st_size
        if size >= MAX_FILE_BYTES:
            raise ValueError(f"{path} has {size:,} bytes; a bundled file has less than 10 MB.")
        facts[path.relative_to(root).as_posix()] = {"bytes": size, "sha256": sha256_of(path)}
    return facts


def write_pair(
    output_dir: Path,
    *,
    models: Mapping[str, LlamaForCausalLM],
    tokenizer: PreTrainedTokenizerFast,
    description: Mapping[str, Any],
) -> dict[str, Any]:
    """Write everything into a folder beside `output_dir`, then put it in its place.

    Args:
        output_dir: The pair's folder; an earlier one is replaced.
        models: Folder name (`target`, `draft`, ...) to model.
        tokenizer: The tokenizer of all models.
        description: Manifest entries besides files, versions and date.

    Returns:
        The manifest.
    """
    partial = output_dir.with_name(output_dir.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    tokenizer.save_pretrained(partial)
    for name, model in models.items():
        write_model(model, partial / name)
    files = file_facts(partial)
    manifest = {
        "format": MANIFEST_FORMAT,
        **description,
        "tokenizer_sha256": files["tokenizer.json"]["sha256"],
        "files": files,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (partial / "manifest.json").write_text(text, encoding="utf-8")
    shutil.rmtree(output_dir, ignore_errors=True)
    partial.rename(output_dir)
    return manifest
