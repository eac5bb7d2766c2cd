"""From a catalogue entry to a loaded pair."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from speclab.core.errors import BadInput, ModelUnavailable, NotEnoughMemory, SpeclabError
from speclab.models.foreign import ForeignDraft, IntersectionHandle
from speclab.models.heads.shelf import HeadShelf
from speclab.models.pair import Pair, PairEntry
from speclab.models.precision import multiplies_bfloat16
from speclab.models.quantised_target import with_cache
from speclab.models.text import TextCodec, vocabulary_difference
from speclab.models.transformer import TransformerHandle, is_out_of_memory
from speclab.models.vocab_map import VocabMap
from speclab.models.weight_files import ASSETS, Progress, Weights, estimate_bytes, locate

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
VOCAB_MAP = "vocab_map.safetensors"


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
    needed = entry.memory_bytes or estimate_bytes(entry, (target_at, draft_at, *smaller_at))
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
        name=target_at.name,
        vocab_size=vocab,
        source=target_at.source_of(target_model),
    )
    target = with_cache(target, entry.cache)
    own_codec = None if other is None else TextCodec(other)
    width = vocab if own_codec is None else _own_width(draft_at, draft_model, own_codec)
    draft = TransformerHandle(
        model=draft_model,
        name=draft_at.name,
        vocab_size=width,
        vocab_map=read_vocab_map(Path(draft_at.path), width) if draft_at.bundled else None,
        source=draft_at.source_of(draft_model),
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
