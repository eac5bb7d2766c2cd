"""Folders that engines load: draft and target models, EAGLE-3 and Medusa heads of this lab."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speclab.core.errors import BadInput
from speclab.deploy.engines import ENGINES
from speclab.deploy.plans import Configuration, checked_name, make_wish
from speclab.models.catalogue import pair_entry

if TYPE_CHECKING:
    from speclab.models.pair import PairEntry

BUNDLED = "bundled:"
METHODS_OF = {
    "draft": "draft-model",
    "target": "autoregressive",
    "eagle3": "eagle-3",
    "medusa": "medusa",
}
"""What can be exported -> the method that uses it."""
TOKENIZER_KEYS = (
    *("bos_token", "eos_token", "pad_token", "unk_token", "clean_up_tokenization_spaces"),
    *("model_max_length", "chat_template"),
)
VLLM_FOLDER = "vllm-0.32"
Say = Callable[[str], None]


def export_folder(
    kind: str, pair: str, output: Path, *, target_at: str = "", say: Say = lambda text: None
) -> list[Path]:
    """Write a folder that engines load, with a README.md that tells the commands.

    Args:
        kind: a key of METHODS_OF. pair: whose. output: a folder that is not there yet, or empty.
        target_at: hub id or folder by which engines will know the target.
        say: called with a sentence at each step.

    Returns:
        The files written.

    Raises:
        BadInput: for an unknown kind, a place that is taken, or a model that engines cannot take.
    """
    if kind not in METHODS_OF:
        raise BadInput(
            f"There is nothing called {kind!r} to export.", f"Choose of {', '.join(METHODS_OF)}."
        )
    from speclab.models.heads.export import check_empty
    from speclab.models.heads.files import let_others_read

    entry = pair_entry(pair)
    check_empty(output)
    target = checked_name(target_at) or (
        entry.target if not entry.target.startswith(BUNDLED) else "./target"
    )
    readme = _readme(kind, entry, target, f"./{output.resolve().name}")
    if kind in ("draft", "target"):
        _copy_model(kind, entry, output)
        _load_again(output, say)
    else:
        _copy_head(kind, pair, output, target, say)
    (output / "README.md").write_text(readme, encoding="utf-8")
    let_others_read(output)
    return sorted(path for path in output.rglob("*") if path.is_file())


def _copy_model(kind: str, entry: PairEntry, output: Path) -> None:
    """Copy a bundled model, its tokenizer beside it, in names that older readers know too.

    Raises:
        BadInput: for a model that is on the hub already, or whose token ids are its own.
    """
    from speclab.models.weight_files import ASSETS

    identifier = entry.draft if kind == "draft" else entry.target
    if not identifier or not identifier.startswith(BUNDLED):
        raise BadInput(
            f"The {kind} of {entry.name} is {identifier or 'none'}, which is not of this lab.",
            "Engines take its hub id or folder as it is.",
        )
    source = ASSETS / identifier.removeprefix(BUNDLED)
    if (source / "vocab_map.safetensors").exists():
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        raise BadInput(
            f"The draft of {entry.name} has {config['vocab_size']:,} tokens of its own, mapped to "
            "the target's; engines read a draft's ids as the target's and have no place for the "
            "map, so they would draft nonsense.",
            "Export eagle3 instead: its layout carries such a map (d2t).",
        )
    home = source if (source / "tokenizer.json").exists() else source.parent
    output.mkdir(parents=True, exist_ok=True)
    for name in ("model.safetensors", "generation_config.json"):
        shutil.copyfile(source / name, output / name)
    shutil.copyfile(home / "tokenizer.json", output / "tokenizer.json")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config |= {
        "rope_theta": config["rope_parameters"]["rope_theta"],
        "torch_dtype": config["dtype"],
    }
    _write_json(output / "config.json", config)
    told = json.loads((home / "tokenizer_config.json").read_text(encoding="utf-8"))
    kept = {key: told[key] for key in TOKENIZER_KEYS if key in told}
    _write_json(
        output / "tokenizer_config.json", {**kept, "tokenizer_class": "PreTrainedTokenizerFast"}
    )


def _write_json(place: Path, data: Any) -> None:
    place.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _load_again(folder: Path, say: Say) -> None:
    """Load model and tokenizer as other software does, and score one text."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).float()
    with torch.inference_mode():
        logits = model(**tokenizer("Once upon a time", return_tensors="pt")).logits
    if not bool(torch.isfinite(logits).all()):
        raise BadInput(
            "The exported model gives no finite numbers.", "Check out the weights again."
        )
    say("Loaded again by Transformers without a complaint.")


def _copy_head(kind: str, pair: str, output: Path, target: str, say: Say) -> None:
    """Write a head in its public layout, Medusa's in that of vLLM too, and load it again."""
    from speclab.lab.export_console import bundled_head
    from speclab.models.catalogue import load_pair
    from speclab.models.heads.export import export_head
    from speclab.models.heads.files import MANIFEST, read_manifest, write_manifest
    from speclab.models.heads.shelf import load_head

    source = bundled_head(kind, pair)
    loaded = load_pair(pair, device="cpu", progress=say)
    export_head(kind, source, output, loaded.target)
    if kind == "medusa":
        config = json.loads((output / "config.json").read_text(encoding="utf-8"))
        _write_json(output / "config.json", config | {"base_model_name_or_path": target})
        _write_vllm_medusa(output, config)
    said = {
        key: value for key, value in read_manifest(output).items() if key not in ("format", "files")
    }
    write_manifest(output, said)
    load_head(kind, output, loaded.target)
    if kind == "medusa":
        shutil.copyfile(output / MANIFEST, output / VLLM_FOLDER / MANIFEST)
        load_head(kind, output / VLLM_FOLDER, loaded.target)
        (output / VLLM_FOLDER / MANIFEST).unlink()
    say("Loaded again by SpecLab without a complaint.")


def _write_vllm_medusa(output: Path, config: dict[str, Any]) -> None:
    """Write the names that vLLM up to 0.32 reads: blocks.K.layers.J and lm_heads.K."""
    from safetensors.torch import load_file, save_file

    layers = int(config["medusa_num_layers"])
    renamed: dict[str, Any] = {}
    for key, tensor in load_file(output / "medusa_lm_head.safetensors").items():
        head, layer, *rest = key.split(".")
        if int(layer) == layers:
            renamed[f"lm_heads.{head}.weight"] = tensor
        else:
            renamed[f"blocks.{head}.layers.{layer}.{rest[-1]}"] = tensor
    vocab, hidden = renamed["lm_heads.0.weight"].shape
    place = output / VLLM_FOLDER
    place.mkdir()
    save_file(renamed, place / "model.safetensors", metadata={"format": "pt"})
    _write_json(
        place / "config.json",
        {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "hidden_size": hidden,
            "vocab_size": vocab,
            "num_heads": int(config["medusa_num_heads"]),
            "num_hidden_layers": layers,
            "medusa_fc_bias": True,
            "torch_dtype": "float16",
        },
    )


# --- README.md ------------------------------------------------------------------------------------

ABOUT = {
    "draft": "A draft model: it guesses, the target checks.",
    "target": "A target model, for drafts and heads that were made for it.",
    "eagle3": "An EAGLE-3 head with a copy of the target's embedding and a map of its own "
    "vocabulary (d2t, t2d).",
    "medusa": "Medusa heads: `medusa_lm_head.*` with `config.json` for TGI and other readers of "
    f"the first layout, `{VLLM_FOLDER}/` under the names that vLLM up to 0.32 reads.",
}
GGUF_STOPS = (
    "llama.cpp reads GGUF files. Its converter recognises tokenizers by a checksum of what they "
    "do; the tokenizer of a model trained for this lab is not among them, so it stops there."
)


def _readme(kind: str, entry: PairEntry, target: str, here: str) -> str:
    """Return the README of an exported folder: what it is, the commands, what was checked.

    Args:
        kind, entry, target: see `export_folder`. here: the folder as seen from the one above.
    """
    lines = [
        f"# {kind} of {entry.name}",
        "",
        f"{ABOUT[kind]} Written by SpecLab; licence: {entry.licence}.",
        "",
        f"Its target: `{target}`"
        + (
            f" (write it with `python -m speclab deploy export target --pair {entry.name} "
            "--output target`)."
            if target == "./target" and kind != "target"
            else "."
        )
        + " Run the commands in the folder above this one.",
        "",
    ]
    names = {"target": target, "draft" if kind in ("draft", "target") else "head": here}
    if kind == "target":
        names["target"] = here
    for engine in ENGINES.values():
        if kind == "medusa" and engine.name == "vllm":
            names = {**names, "head": f"{here}/{VLLM_FOLDER}"}
        elif kind == "medusa":
            names = {**names, "head": here}
        found = engine.configure(make_wish(METHODS_OF[kind], **names))
        if not isinstance(found, Configuration):
            continue
        if engine.name == "llama.cpp":
            lines += ["## llama.cpp", "", _gguf(entry), ""]
            if entry.target.startswith(BUNDLED):
                continue
        lines += [f"## {engine.title} {found.version}", ""]
        for block in found.blocks:
            if block.kind == "yaml" or block is found.blocks[0]:
                fence = "sh" if block.kind == "shell" else block.kind
                lines += [f"```{fence}", block.text.rstrip(), "```", ""]
        lines += [f"- {note.en}" for note in found.notes]
        lines += [""] if found.notes else []
    lines += [
        "## What was checked",
        "",
        "The folder was loaded again after it was written (models by Transformers, heads by "
        "SpecLab). No engine was run: its options and the names of tensors were read from the "
        "version that each command is for.",
        "",
    ]
    return "\n".join(lines)


def _gguf(entry: PairEntry) -> str:
    if entry.target.startswith(BUNDLED):
        return GGUF_STOPS
    return "Convert the target and this folder to GGUF files first and name those."
