"""Writes a trained head as other people's software reads it, copies of the target's tensors too.

A bundled head leaves out what is the target's own. Public files carry it: EAGLE's `embed_tokens`,
the map to the vocabulary behind every Medusa and Hydra head, embedding and map of an appended layer
of multi-token prediction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from speclab.core.errors import BadInput
from speclab.models.heads.files import (
    MANIFEST,
    WEIGHTS,
    let_others_read,
    read_config,
    read_manifest,
    read_tensors,
    write_manifest,
)
from speclab.models.heads.medusa import PLAIN_BLOCK
from speclab.models.heads.shelf import LOADERS

FILES: dict[str, tuple[str, ...]] = {
    "eagle1": (WEIGHTS,),
    "eagle3": (WEIGHTS,),
    "medusa": ("medusa_lm_head.safetensors", "medusa_lm_head.pt"),
    "hydra": ("hydra_lm_head.pt",),
    "mtp": (WEIGHTS,),
    "kangaroo": ("pytorch_model.bin",),
}
"""Names of the weights of each kind; where there are two, older and newer software differ."""

ARCHITECTURES = {"eagle1": "LlamaForCausalLM", "eagle3": "LlamaForCausalLMEagle3"}
EMBEDDING = "embed_tokens.weight"


def export_head(kind: str, source: Path, output: Path, target: Any | None = None) -> list[Path]:
    """Write the head of `source` to `output` in its public layout.

    Args:
        kind: a key of `FILES`.
        source: folder of a head trained here.
        output: an empty folder, or one that is not there yet.
        target: handle of its target, to copy what public files carry of it; None: no copies.

    Returns:
        The files written: weights, `config.json`, `manifest.json`.

    Raises:
        BadInput: if there is something in `output`, if the kind has no public layout, or if the
            head drafts only some of the tokens and its layout has no way to say so.
        ModelUnavailable: if the head's files are missing or damaged.
    """
    check_kind(kind)
    check_empty(output)
    tensors = read_tensors(source)
    if kind == "kangaroo":
        _check_whole_width(read_config(source))
    if kind == "mtp" and "d2t" in tensors:
        raise BadInput(
            f"This module drafts {len(tensors['d2t'])} tokens only; readers of an appended layer "
            "expect the target's whole vocabulary and know no d2t.",
            f"SpecLab reads it as it is, from {source}.",
        )
    if target is not None:
        tensors = tensors | COPIES[kind](tensors, target.model)
    output.mkdir(parents=True, exist_ok=True)
    written = [output / name for name in FILES[kind]]
    for path in written:
        if path.suffix in (".pt", ".bin"):
            torch.save(tensors, path)
        else:
            save_file(tensors, path, metadata={"format": "pt"})
    let_others_read(output)
    config = read_config(source)
    if kind in ARCHITECTURES:
        config["architectures"] = [ARCHITECTURES[kind]]
    place = output / "config.json"
    place.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    said = {k: v for k, v in read_manifest(source).items() if k not in ("format", "files")}
    write_manifest(output, {**said, "copies_of_the_target": target is not None})
    return [*written, place, output / MANIFEST]


def _check_whole_width(config: Mapping[str, Any]) -> None:
    """Refuse an adapter with fewer attention heads than fill the target's width.

    Raises:
        BadInput: saying how wide it is.
    """
    heads, hidden = int(config.get("num_attention_heads", 0)), int(config.get("hidden_size", 0))
    width = heads * int(config.get("head_dim") or (hidden // max(1, heads)))
    if width != hidden:
        raise BadInput(
            f"This adapter's attention is {width} wide; other readers take the {hidden} of its "
            "target for granted.",
            "SpecLab reads it as it is.",
        )


def check_kind(kind: str) -> None:
    """Refuse a kind of head that no other software reads.

    Raises:
        BadInput: saying whether there is such a kind at all.
    """
    if kind in FILES:
        return
    hint = f"Kinds that can be exported: {', '.join(FILES)}."
    if kind in LOADERS:
        raise BadInput(f"Heads of the kind {kind!r} have no public layout.", hint)
    raise BadInput(f"There is no kind of head {kind!r}.", hint)


def check_empty(output: Path) -> None:
    """Refuse a place where something would be overwritten.

    Raises:
        BadInput: naming it.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise BadInput(
            f"{output} is not an empty folder; nothing is overwritten.",
            "Give --output a folder that is not there yet.",
        )


def copied(weight: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return a copy, in the dtype of the head's own tensors if that loses nothing."""
    dtype = next(t.dtype for t in tensors.values() if t.is_floating_point())
    plain = weight.detach().cpu().clone()
    narrow = plain.to(dtype)
    return narrow if torch.equal(narrow.to(plain.dtype), plain) else plain


def _embedding(tensors: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    return {EMBEDDING: copied(model.get_input_embeddings().weight, tensors)}


def _medusa(tensors: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    blocks = [tuple(map(int, m.groups())) for key in tensors if (m := PLAIN_BLOCK.fullmatch(key))]
    heads, layers = (1 + max(numbers) for numbers in zip(*blocks, strict=True))
    lm_head = copied(model.get_output_embeddings().weight, tensors)
    keys = (f"{head}.{layers}.weight" for head in range(heads))
    return {key: lm_head.clone() for key in keys if key not in tensors}


def _hydra(tensors: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    lm_head = copied(model.get_output_embeddings().weight, tensors)
    heads = {key.split(".")[1] for key in tensors if key.startswith("hydra_mlp.")}
    out: dict[str, Tensor] = {}
    for stem in (f"hydra_lm_head.{head}" for head in sorted(heads)):
        if f"{stem}.weight" not in tensors:
            out[f"{stem}.weight"] = lm_head.clone()
            out[f"{stem}.bias"] = lm_head.new_zeros(len(lm_head))
    return out


def _appended(tensors: Mapping[str, Tensor], model: Any) -> dict[str, Tensor]:
    (key,) = (key for key in tensors if key.endswith(".eh_proj.weight"))
    stem = key.removesuffix("eh_proj.weight")
    weights = {
        f"{stem}{EMBEDDING}": model.get_input_embeddings().weight,
        f"{stem}shared_head.head.weight": model.get_output_embeddings().weight,
    }
    return {k: copied(weight, tensors) for k, weight in weights.items() if k not in tensors}


COPIES: dict[str, Callable[[Mapping[str, Tensor], Any], dict[str, Tensor]]] = {
    "eagle1": _embedding,
    "eagle3": _embedding,
    "medusa": _medusa,
    "hydra": _hydra,
    "mtp": _appended,
    "kangaroo": lambda tensors, model: {},
}
"""What a public file of each kind carries of its target: (head's tensors, model) -> tensors."""
