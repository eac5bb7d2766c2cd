"""Makes the bundled pair `pocket-mtp`: trains it, measures it beside `pocket`, writes its files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from speclab.models.catalogue import load_pair
from speclab.models.weight_files import ASSETS
from speclab.training import export, loop
from speclab.training.eagle import head_config
from speclab.training.mtp import (
    HELD_OUT_ROWS,
    NativeRecipe,
    agreement,
    train_native,
)
from speclab.training.mtp_export import write_mtp, write_parallel
from speclab.training.mtp_model import NativeModel
from speclab.training.pocket import unseen_losses
from speclab.training.pocket_data import CONTEXT, VOCABULARY, CorpusSize, Data, prepare_data

NAME = "pocket-mtp"
WORK_DIR = Path("runs/heads") / NAME
TOKENIZER = ASSETS / "pocket"


def train(
    output: Path | None = None, *, recipe: NativeRecipe | None = None, resume: bool = False
) -> dict[str, Any]:
    """Train `pocket-mtp` from the weights of `pocket` and write it; return its manifest.

    Args:
        output: folder that receives `pocket-mtp` and `heads/pocket-mtp`, as `assets/models` has
            them; default: beside the checkpoints.
        recipe: parameters; the shipped weights use the default.
        resume: continue from the checkpoints if there are any.
    """
    recipe = recipe or NativeRecipe()
    WORK_DIR.mkdir(parents=True, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(TOKENIZER)
    data = prepare_data(WORK_DIR, CorpusSize(), tokenizer)
    pocket = load_pair("pocket", device="cpu", dtype="float32").target
    before = losses_of(pocket.model, data)
    model, done = train_native(pocket.model, data, recipe, work=WORK_DIR, resume=resume)
    return write_all(
        output or WORK_DIR / "weights",
        model,
        tokenizer,
        data,
        recipe,
        done,
        start={"weights": pocket.source, **before},
    )


def losses_of(model: Any, data: Data) -> dict[str, dict[str, float]]:
    """Return cross-entropies of a causal LM on unseen text by family, in nats per token."""
    losses = loop.evaluate(model, unseen_losses(data))
    fresh = {
        family.removeprefix("fresh "): loss
        for family, loss in losses.items()
        if family.startswith("fresh ")
    }
    return {"held_out_loss": {family: losses[family] for family in fresh}, "fresh_loss": fresh}


def write_all(
    output: Path,
    model: NativeModel,
    tokenizer: PreTrainedTokenizerFast,
    data: Data,
    recipe: NativeRecipe,
    done: dict[str, loop.Progress],
    start: dict[str, Any],
) -> dict[str, Any]:
    """Write the pair's target and its two kinds of heads; return the pair's manifest."""
    target = model.target
    training = {phase: dataclasses.asdict(progress) for phase, progress in done.items()}
    facts = {
        "parameters": export.count_parameters(target),
        "steps": done["joint"].step,
        "tokens_seen": done["joint"].tokens,
        "seconds": round(done["joint"].elapsed_s, 1),
        **losses_of(export.rounded_copy(target), data),
    }
    description = {
        "name": NAME,
        "title": "Pocket MTP: a 4.7 M target with modules for further tokens",
        "licence": "Apache-2.0",
        "note": "The target continues from the weights of pocket; all of them were trained on, "
        "together with the modules in heads/pocket-mtp, and then averaged with where they began. "
        "The rows, of the same corpus, are not those that pocket was trained on. One CPU thread, "
        "bfloat16 autocast.",
        "start": start,
        "recipe": {"name": "mtp", **dataclasses.asdict(recipe)},
        "corpus": data.facts,
        "vocabulary": VOCABULARY,
        "context": CONTEXT,
        "training": training,
        "models": {"target": facts},
    }
    manifest = export.write_pair(
        output / NAME, models={"target": target}, tokenizer=tokenizer, description=description
    )
    digest = manifest["files"]["target/model.safetensors"]["sha256"][:12]
    source = f"bundled:{NAME}/target@{digest}"
    write_heads(output / "heads" / NAME, model, data, recipe, done, source)
    return manifest


def write_heads(
    folder: Path,
    model: NativeModel,
    data: Data,
    recipe: NativeRecipe,
    done: dict[str, loop.Progress],
    source: str,
) -> None:
    """Write the module to `mtp` and the heads to `parallel_mtp`, each with a manifest."""
    rows = [rows[:HELD_OUT_ROWS] for rows in data.held_out.values()]
    with torch.no_grad():
        found = agreement(model, rows, recipe.measured_steps)
    config = head_config(model.target.config)
    layers = model.target.config.num_hidden_layers
    common = {
        "target": source,
        "licence": "Apache-2.0",
        "recipe": {"name": "mtp", **dataclasses.asdict(recipe)},
        "text": {"corpus": "pocket", **data.facts},
        "training": dataclasses.asdict(done["joint"]),
        "training_on_the_frozen_trunk": dataclasses.asdict(done["heads"]),
    }
    log = WORK_DIR / "mtp-joint.jsonl"
    write_mtp(
        folder / "mtp",
        model.mtp,
        config,
        layers,
        {
            "name": "mtp",
            **common,
            "parameters": export.count_parameters(model.mtp),
            "held_out_top1": found["mtp"],
            "rank_acceptance": found["ranks"],
        },
        log=log,
    )
    write_parallel(
        folder / "parallel_mtp",
        model.parallel,
        config,
        layers,
        {
            "name": "parallel_mtp",
            **common,
            "parameters": export.count_parameters(model.parallel),
            "held_out_top1": found["parallel"],
        },
        log=log,
    )
