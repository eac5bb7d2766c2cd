"""Files of trained heads: tensors, configuration and manifest, read and written with care.

Heads come as safetensors (one file or several) or as pickles. A pickle can run code when it is
opened, so only those that hold nothing but tensors are read. A fault is named with the file, the
key or the shape that is wrong.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.models.heads.values import CONFIG_KINDS, MANIFEST_KINDS, Kind, wrong_value

MANIFEST = "manifest.json"
MAX_SHARD_BYTES = 9_500_000
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model*.bin", "*_lm_head.pt", "*.pt", "*.bin")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read every tensor of a head, by key.

    An index says which shards there are; without one every safetensors file is read, and where
    there is none, the pickles (`pytorch_model.bin`, `medusa_lm_head.pt`, ...).

    Returns:
        Tensors on the CPU, in the dtype of the file.

    Raises:
        ModelUnavailable: for a missing or corrupt file, a pickle that holds more than tensors, or
            a key that stands in two files.
    """
    out: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        for key, tensor in _read_file(path).items():
            if key in out:
                raise ModelUnavailable(
                    f"The key {key} stands in two files of {folder}, one of them {path.name}.",
                    "Keep one set of weights in the folder.",
                    code="head_key_twice",
                    values={"key": key, "folder": folder, "file": path.name},
                )
            out[key] = tensor
    return out


def let_others_read(folder: Path) -> None:
    """Give the weights of a folder the rights of ordinary files: an engine may run as someone else.

    safetensors writes files that only their owner can read.
    """
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)


def _weight_files(folder: Path) -> list[Path]:
    for pattern in ("*.safetensors.index.json", "*.bin.index.json"):
        for index in sorted(folder.glob(pattern)):
            return [_inside(folder, name) for name in _shard_names(index)]
    found = sorted(folder.glob("*.safetensors"))
    for pattern in PICKLES:
        found = found or sorted(folder.glob(pattern))
    if not found:
        raise ModelUnavailable(
            f"{folder} holds no weights of a head.",
            "Expected .safetensors, pytorch_model.bin or a file such as medusa_lm_head.pt.",
            code="head_no_weights",
            values={"folder": folder},
        )
    return found


def _shard_names(index: Path) -> list[str]:
    places = _read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise corrupt(index, ValueError("weight_map must say which file holds each key"))
    return sorted(set(places.values()))


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if Path(name).name != name or not path.is_file():
        raise ModelUnavailable(
            f"The index in {folder} names {name}, which is not there.",
            "Fetch the missing shard.",
            code="head_no_shard",
            values={"folder": folder, "file": name},
        )
    return path


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _refused(path) from error
    except (SafetensorError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise corrupt(path, error) from error
    tensors = isinstance(state, Mapping) and all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in state.items()
    )
    if not tensors:
        raise _refused(path)
    return dict(state)


def _refused(path: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path.name} is a pickle that holds more than tensors by name; it is not opened.",
        "Convert it to safetensors where you trust it.",
        code="head_pickle",
        values={"file": path.name},
    )


def corrupt(path: Path, error: Exception) -> ModelUnavailable:
    """Return that a file cannot be read, with the first line of the reason."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ModelUnavailable(
        f"{path.name} cannot be read: {reason}",
        "The file is damaged or not complete; fetch it again.",
        code="head_corrupt",
        values={"file": path.name, "reason": reason},
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise corrupt(path, error) from error
    if not isinstance(data, dict):
        raise corrupt(path, ValueError("a JSON object was expected"))
    return data


def read_config(folder: Path) -> dict[str, Any]:
    """Return the head's `config.json`; {} where there is none.

    Raises:
        ModelUnavailable: if it is no JSON object, or a value that heads read is of another kind.
    """
    path = folder / "config.json"
    config = _read_json(path) if path.exists() else {}
    for part in (config, config.get("transformer_layer_config"), config.get("eagle_config")):
        _check_values(path, part or {}, CONFIG_KINDS)
    return config


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a head trained here; {} for a public one.

    Raises:
        ModelUnavailable: if it is no JSON object, or a value that heads read is of another kind.
    """
    path = folder / MANIFEST
    manifest = _read_json(path) if path.exists() else {}
    _check_values(path, manifest, MANIFEST_KINDS)
    return manifest


def _check_values(path: Path, said: Any, kinds: Mapping[str, Kind]) -> None:
    fault = wrong_value(said, kinds)
    if fault:
        raise corrupt(path, ValueError(fault))


def write_tensors(
    folder: Path, tensors: Mapping[str, Tensor], max_bytes: int = MAX_SHARD_BYTES
) -> list[Path]:
    """Write a head as one safetensors file, or as shards with an index.

    Args:
        folder: made if need be; weights already in it are replaced.
        tensors: by public key.
        max_bytes: most bytes of tensors in one file.

    Returns:
        The files written.

    Raises:
        BadInput: if one tensor alone is larger than that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.safetensors"), folder / INDEX):
        old.unlink(missing_ok=True)
    shards = _shards(tensors, max_bytes)
    if len(shards) == 1:
        save_file(shards[0], folder / WEIGHTS, metadata={"format": "pt"})
        return [folder / WEIGHTS]
    files, places = [], {}
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        files.append(folder / name)
        places |= dict.fromkeys(shard, name)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return [*files, folder / INDEX]


def _shards(tensors: Mapping[str, Tensor], max_bytes: int) -> list[dict[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for key, tensor in tensors.items():
        if tensor.nbytes > max_bytes:
            raise BadInput(f"{key} has {tensor.nbytes:,} bytes; a file holds {max_bytes:,}.")
        if size + tensor.nbytes > max_bytes:
            shards.append({})
            size = 0
        shards[-1][key] = tensor.detach().cpu().contiguous().clone()
        size += tensor.nbytes
    return shards


def write_manifest(folder: Path, description: Mapping[str, Any]) -> dict[str, Any]:
    """Write `manifest.json`: the description and the sha256 of every file of the folder.

    Returns:
        What was written.
    """
    files = {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    manifest = {"format": 1, **description, "files": files}
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    return manifest


def check_target(manifest: Mapping[str, Any], target: Any, head: str) -> None:
    """Refuse a head whose manifest names other weights than the target's.

    Args:
        manifest: from `read_manifest`; its `target` is what the target's `source` was in training.
        target: the target's handle.
        head: kind of head, for the message.

    Raises:
        ModelUnavailable: naming both.
    """
    wanted, found = manifest.get("target"), getattr(target, "source", "")
    if wanted and found and wanted != found:
        raise ModelUnavailable(
            f"This {head} head was trained for {wanted}, not for {found}.",
            "Choose the target it was trained for, or train a head for this one.",
            code="head_other_target",
            values={"head": head, "wanted": wanted, "target": found},
        )


def check_shape(
    tensors: Mapping[str, Tensor],
    key: str,
    shape: Sequence[int],
    *,
    head: str,
    target: str,
) -> Tensor:
    """Return the tensor at `key`.

    Args:
        tensors: from `read_tensors`. key: its full key.
        shape: what the target's width and vocabulary make of it.
        head, target: kind of head and name of the target, for the message.

    Raises:
        ModelUnavailable: for a missing key (with the nearest ones there are), a wrong shape, or a
            weight that is no plain floating-point number, or not finite, anywhere.
    """
    if key not in tensors:
        near = difflib.get_close_matches(key, tensors, n=3, cutoff=0.0)
        raise ModelUnavailable(
            f"The {head} head has no tensor {key}.",
            f"It has {', '.join(near) or 'none at all'}; the layout is another one.",
            code="head_no_key",
            values={"head": head, "key": key, "near": ", ".join(near)},
        )
    tensor = tensors[key]
    if tuple(tensor.shape) != tuple(shape):
        found, wanted = list(tensor.shape), list(shape)
        raise ModelUnavailable(
            f"{key} of the {head} head has shape {found}; {target} needs {wanted}.",
            "The head was made for another target, or its configuration says otherwise.",
            code="head_shape",
            values={"head": head, "key": key, "found": found, "wanted": wanted, "target": target},
        )
    if key.endswith((".weight", ".bias")):
        _check_numbers(tensor, key, head)
    return tensor


PLAIN_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _check_numbers(tensor: Tensor, key: str, head: str) -> None:
    """Refuse weights that would draft nothing, or something else, without a word."""
    if tensor.dtype not in PLAIN_DTYPES:
        dtype = str(tensor.dtype).removeprefix("torch.")
        raise ModelUnavailable(
            f"{key} of the {head} head is kept as {dtype}; quantised heads are not read.",
            "Fetch the head in float16, bfloat16 or float32.",
            code="head_dtype",
            values={"head": head, "key": key, "dtype": dtype},
        )
    if not tensor.isfinite().all():
        raise ModelUnavailable(
            f"{key} of the {head} head holds values that are not finite.",
            "The file is damaged or its training went astray; fetch or train it again.",
            code="head_not_finite",
            values={"head": head, "key": key},
        )


def count_blocks(numbers: Iterable[tuple[int, ...]], head: str) -> tuple[int, int]:
    """Return how many heads and how many blocks per head a file holds.

    Args:
        numbers: (head, block) of every block found, at least one. head: kind, for the message.

    Raises:
        ModelUnavailable: if one is missing: a stray number must not make room for a billion heads.
    """
    found = set(numbers)
    heads, blocks = (1 + max(each) for each in zip(*found, strict=True))
    if len(found) != heads * blocks:
        raise ModelUnavailable(
            f"The {head} head has {len(found)} blocks, numbered up to head {heads - 1} and block "
            f"{blocks - 1}: some are missing.",
            "The file is not complete; fetch it again.",
            code="head_gap",
            values={"head": head, "count": len(found), "heads": heads - 1, "blocks": blocks - 1},
        )
    return heads, blocks


def refuse_unknown(tensors: Mapping[str, Tensor], known: Iterable[str], *, head: str) -> None:
    """Refuse tensors that nothing would read: a head that lost one would draft badly in silence.

    Raises:
        ModelUnavailable: naming some of them.
    """
    unknown = sorted(set(tensors) - set(known))
    if unknown:
        shown = ", ".join(unknown[:3])
        raise ModelUnavailable(
            f"The {head} head has {len(unknown)} tensors that its layout does not know: {shown}.",
            "The file holds another kind of head, or a newer layout.",
            code="head_unknown_keys",
            values={"head": head, "count": len(unknown), "keys": shown},
        )
