"""Writing the draft of SmolLM2 as it ships, with a manifest that says where it comes from."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from speclab.core.errors import BadInput
from speclab.models.smollm2_wheel import sha256_of
from speclab.training.smollm2_teacher import Labelled

MAX_SHIPPED_BYTES = 9_000_000
TOKENIZER = "smollm2-tokenizer"
"""Bundled folder of the tokenizer whose ids `vocab_map.safetensors` maps to."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def export_draft(
    model: Any, draft_to_target: np.ndarray, facts: dict[str, Any], out: Path
) -> dict[str, Any]:
    """Write the shipped files: float16 weights, configuration, vocabulary map, manifest.

    Args:
        model: The trained draft, float32.
        draft_to_target: int32 [draft vocab + 1].
        facts: What the manifest says beside the files.
        out: Folder to write.

    Returns:
        The manifest.

    Raises:
        BadInput: The files would be larger than what is shipped with the project.
    """
    out.mkdir(parents=True, exist_ok=True)
    config = copy.deepcopy(model.config)
    config.dtype, config.architectures = torch.float16, [type(model).__name__]
    config.save_pretrained(out)
    weights = {
        name: tensor.half().numpy()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    save_file({"draft_to_target": draft_to_target.astype(np.int32)}, out / "vocab_map.safetensors")
    names = ("config.json", "model.safetensors", "vocab_map.safetensors")
    files = {
        name: {"bytes": (out / name).stat().st_size, "sha256": sha256_of(out / name)}
        for name in names
    }
    total = sum(entry["bytes"] for entry in files.values())
    if total > MAX_SHIPPED_BYTES:
        raise BadInput(
            f"The draft takes {total:,} bytes, more than the {MAX_SHIPPED_BYTES:,} allowed.",
            "Choose a smaller width or fewer layers.",
        )
    manifest = {**facts, "licence": "Apache-2.0", "tokenizer": TOKENIZER}
    manifest |= {"files": files, "total_bytes": total}
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")
    return manifest


def export_tokenizer(source: Path, out: Path, note: str) -> dict[str, Any]:
    """Write the tokenizer that the draft was trained with, for targets that have another one.

    Args:
        source: Folder of the target, with its tokenizer.
        out: Folder to write.
        note: Where the tokenizer comes from.

    Returns:
        The manifest.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        data = json.loads((source / name).read_text(encoding="utf-8"))
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n"
        (out / name).write_text(text, encoding="utf-8")
    files = {
        name: {"bytes": (out / name).stat().st_size, "sha256": sha256_of(out / name)}
        for name in TOKENIZER_FILES
    }
    manifest = {"source": note, "licence": "Apache-2.0", "files": files}
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def describe_data(data: Labelled, draft_to_target: np.ndarray) -> dict[str, Any]:
    """Return counts, coverage and hash of the training data, for the manifest."""
    laws = np.diff(data.label_starts)
    answer = np.concatenate(
        [data.tokens[end - n : end] for end, n in zip(data.starts[1:], laws, strict=True)]
    )
    return {
        "answers": len(data),
        "answers_held_out": int(data.held_out.sum()),
        "answer_tokens": int(laws.sum()),
        "answer_tokens_with_laws": int(laws[data.soft].sum()),
        "vocabulary_coverage": round(float(np.isin(answer, draft_to_target).mean()), 4),
        "sha256": hashlib.sha256(data.tokens.tobytes()).hexdigest(),
    }
