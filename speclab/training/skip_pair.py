"""Makes the bundled pair `pocket-skip`: trains its target, measures every exit, writes files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from speclab.models.catalogue import load_pair
from speclab.models.weight_files import ASSETS
from speclab.training import export, loop
from speclab.training.pocket_data import CONTEXT, VOCABULARY, CorpusSize, Data, prepare_data
from speclab.training.skip import SkipRecipe, exit_numbers, mean_of, train_skip

NAME = "pocket-skip"
WORK_DIR = Path("runs/heads") / NAME
TOKENIZER = ASSETS / "pocket"


def train(
    output: Path | None = None, *, recipe: SkipRecipe | None = None, resume: bool = False
) -> dict[str, Any]:
    """Train `pocket-skip` from the weights of `pocket` and write it; return its manifest.

    Args:
        output: folder of the pair; default: beside the checkpoint.
        recipe: parameters; the shipped weights use the default.
        resume: continue from the checkpoint if there is one.
    """
    recipe = recipe or SkipRecipe()
    WORK_DIR.mkdir(parents=True, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(TOKENIZER)
    data = prepare_data(WORK_DIR, CorpusSize(), tokenizer)
    pocket = load_pair("pocket", device="cpu", dtype="float32").target
    before = facts_of(pocket.model, data)
    done = train_skip(pocket.model, data, recipe, work=WORK_DIR, resume=resume)
    return write(
        output or WORK_DIR / "weights",
        pocket.model,
        tokenizer,
        data,
        recipe,
        done,
        start={"weights": pocket.source, **before},
    )


def facts_of(model: Any, data: Data) -> dict[str, Any]:
    """Return what the manifest says of a model's exits on text that it was not trained on.

    Keys: `held_out_loss`, `fresh_loss` and `perplexity` of the whole model; `exits`, after 1, 2,
    ... layers, by text: `loss` and `agreement` by family and `mean` of the losses.
    """
    model.eval()
    texts = {"held_out": data.held_out, "fresh": data.fresh}
    exits: dict[str, Any] = {name: exit_numbers(model, rows) for name, rows in texts.items()}
    for numbers in exits.values():
        numbers["mean"] = mean_of(numbers["loss"])
    whole = {f"{name}_loss": last_of(exits[name]["loss"]) for name in texts}
    perplexity = {name: round(math.exp(exits[name]["mean"][-1]), 3) for name in texts}
    return {**whole, "perplexity": perplexity, "exits": exits}


def last_of(by_family: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the whole model's number of each family."""
    return {family: numbers[-1] for family, numbers in by_family.items()}


def write(
    output: Path,
    model: Any,
    tokenizer: PreTrainedTokenizerFast,
    data: Data,
    recipe: SkipRecipe,
    done: loop.Progress,
    start: dict[str, Any],
) -> dict[str, Any]:
    """Write the pair's target, measured as it is exported; return its manifest."""
    facts = {
        "parameters": export.count_parameters(model),
        "steps": done.step,
        "tokens_seen": done.tokens,
        "seconds": round(done.elapsed_s, 1),
        **facts_of(export.rounded_copy(model), data),
    }
    description = {
        "name": NAME,
        "title": "Pocket skip: a 4.7 M target that can be left early",
        "licence": "Apache-2.0",
        "note": "The target continues from the weights of pocket; all of them were trained on, "
        "with layers dropped and a loss at every exit. The rows, of the same corpus, are not those "
        "that pocket was trained on. One CPU thread, float32.",
        "start": start,
        "recipe": {"name": NAME, **dataclasses.asdict(recipe)},
        "corpus": data.facts,
        "vocabulary": VOCABULARY,
        "context": CONTEXT,
        "training": dataclasses.asdict(done),
        "models": {"target": facts},
    }
    return export.write_pair(
        output, models={"target": model}, tokenizer=tokenizer, description=description
    )
