"""The recipe of the bundled pair `pocket`: corpus, tokenizer, target, distilled draft, twin.

Everything is kept in a work folder, so that a stopped run resumes where it left off. Run it with
`python -m speclab train pocket` or `python -m speclab.training.pocket`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from speclab.models.precision import autocast
from speclab.training import export, loop, measure
from speclab.training.attention import use_chunked_attention
from speclab.training.corpus import FAMILIES
from speclab.training.corpus.prompts import held_out_prompts
from speclab.training.losses import (
    corpus_loss,
    distillation_loss,
    guided_loss,
    next_token_loss,
)
from speclab.training.pocket_data import (
    CONTEXT,
    VOCABULARY,
    CorpusSize,
    Data,
    batch_source,
    load_or_train_tokenizer,
    prepare_data,
)
from speclab.training.pocket_models import draft_config, target_config

OUTPUT_DIR = Path("assets/models/pocket")
WORK_DIR = Path("runs/pocket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of the recipe; the manifest records them.

    Attributes:
        size: Of the corpus and of one step.
        seed: Of the weights, the samples and the simulated coins.
        target_minutes: Training time of the target.
        draft_pretraining_steps: Steps on the corpus that draft and twin share.
        draft_minutes: Distillation time of the draft; the twin takes as many steps.
        target_learning_rate: Peak learning rate of the target.
        draft_learning_rate: Peak learning rate of that pretraining; half of it afterwards.
        measured_prompts: Held-out prompts per family for overlap and acceptance.
        measured_tokens: Tokens sampled at most after each of them.
        gamma: Drafted tokens per simulated round.
    """

    size: CorpusSize = field(default_factory=CorpusSize)
    seed: int = 0
    target_minutes: float = 60.0
    draft_pretraining_steps: int = 3000
    draft_minutes: float = 6.0
    target_learning_rate: float = 1.2e-3
    draft_learning_rate: float = 3e-3
    measured_prompts: int = 12
    measured_tokens: int = 96
    gamma: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A trained model and the facts of its training that the manifest records."""

    model: LlamaForCausalLM
    facts: dict[str, Any]


def unseen_losses(data: Data) -> loop.Evaluation:
    """Return an evaluation of the cross-entropy in nats per token on text not trained on.

    Keys: a family for held-out text; `fresh <family>` for new documents made of known parts.
    """
    rows_of = data.held_out | {f"fresh {family}": rows for family, rows in data.fresh.items()}

    def evaluation(model: nn.Module) -> dict[str, float]:
        with autocast():
            return {
                name: round(float(next_token_loss(model, rows)), 4)
                for name, rows in rows_of.items()
            }

    return evaluation


def facts_of(model: LlamaForCausalLM, progress: loop.Progress, data: Data) -> dict[str, Any]:
    """Return what the manifest says about one model."""
    losses = loop.evaluate(model, unseen_losses(data))
    return {
        "parameters": export.count_parameters(model),
        "steps": progress.step,
        "tokens_seen": progress.tokens,
        "seconds": round(progress.elapsed_s, 1),
        "held_out_loss": {family: losses[family] for family in FAMILIES},
        "fresh_loss": {family: losses[f"fresh {family}"] for family in FAMILIES},
    }


def train_model(
    config: LlamaConfig,
    data: Data,
    recipe: Recipe,
    *,
    files: Path,
    loss_fn: loop.LossFunction,
    limits: loop.LoopConfig,
    resume: bool,
    start: LlamaForCausalLM | None = None,
    echo_share: float = 0.0,
) -> Trained:
    """Train one model; its checkpoint and log stand at `files` plus a suffix.

    Args:
        config: Its architecture.
        data: The encoded corpus.
        recipe: Seed and batches.
        files: Path of checkpoint and log without suffix.
        loss_fn: Scalar loss in nats per token.
        limits: Limits and optimiser.
        resume: Continue from the checkpoint if there is one.
        start: Weights to begin with; seeded ones if None.
        echo_share: Share of rows that repeat a phrase; a single layer cannot learn from them.
    """
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(config)
    if start is not None:
        model.load_state_dict(start.state_dict())
    size = dataclasses.replace(recipe.size, echo_share=echo_share)
    use_chunked_attention(model)
    progress = loop.run_loop(
        model,
        batch_source(data, size),
        loss_fn,
        limits,
        checkpoint=files.with_suffix(".pt"),
        log=files.with_suffix(".jsonl"),
        resume=resume,
        evaluation=unseen_losses(data),
    )
    return Trained(model=model, facts=facts_of(model, progress, data))


def train_target(
    work_dir: Path, data: Data, recipe: Recipe, *, resume: bool, start_from: Path | None = None
) -> Trained:
    """Train the target on the corpus; a few heads are told at first where to look.

    Args:
        work_dir: Folder of checkpoint and log.
        data: The encoded corpus.
        recipe: Minutes, learning rate and batches.
        resume: Continue from the checkpoint if there is one.
        start_from: Checkpoint whose weights to begin with; seeded ones if None.
    """
    limits = loop.LoopConfig(
        budget_s=recipe.target_minutes * 60,
        learning_rate=recipe.target_learning_rate,
        evaluate_every_s=900.0,
        checkpoint_every_s=120.0,
    )
    start, earlier = None, None
    if start_from is not None:
        start = LlamaForCausalLM(target_config())
        earlier = loop.load_checkpoint(start_from, start)
    trained = train_model(
        target_config(),
        data,
        recipe,
        files=work_dir / "target",
        loss_fn=guided_loss,
        limits=limits,
        resume=resume,
        start=start,
        echo_share=recipe.size.echo_share,
    )
    if earlier is not None:
        trained.facts["earlier"] = {
            "steps": earlier.step,
            "tokens_seen": earlier.tokens,
            "seconds": round(earlier.elapsed_s, 1),
        }
    return trained


def provisional_target(work_dir: Path, data: Data) -> Trained:
    """Return the target as its latest checkpoint has it."""
    model = LlamaForCausalLM(target_config())
    use_chunked_attention(model)
    progress = loop.load_checkpoint(work_dir / "target.pt", model)
    return Trained(model=model, facts=facts_of(model, progress, data))


def pretrain_draft(work_dir: Path, data: Data, recipe: Recipe, *, resume: bool) -> Trained:
    """Train the weights that draft and twin both start from, on the corpus alone."""
    limits = loop.LoopConfig(
        max_steps=recipe.draft_pretraining_steps,
        learning_rate=recipe.draft_learning_rate,
        evaluate_every_s=600.0,
    )
    return train_model(
        draft_config(),
        data,
        recipe,
        files=work_dir / "draft_start",
        loss_fn=corpus_loss,
        limits=limits,
        resume=resume,
    )


def train_drafts(
    work_dir: Path, target: Trained, start: Trained, data: Data, recipe: Recipe, *, resume: bool
) -> dict[str, Trained]:
    """Distil the draft from the target; train its twin on the corpus for as many steps.

    Both start from the weights of `start`.
    """
    limits = loop.LoopConfig(
        budget_s=recipe.draft_minutes * 60,
        learning_rate=recipe.draft_learning_rate / 2,
        evaluate_every_s=600.0,
    )
    draft = train_model(
        draft_config(),
        data,
        recipe,
        files=work_dir / "draft",
        loss_fn=distillation_loss(target.model.eval()),
        limits=limits,
        resume=resume,
        start=start.model,
    )
    twin = train_model(
        draft_config(),
        data,
        recipe,
        files=work_dir / "draft_undistilled",
        loss_fn=corpus_loss,
        limits=dataclasses.replace(limits, budget_s=None, max_steps=draft.facts["steps"]),
        resume=resume,
        start=start.model,
    )
    for entry in (draft, twin):
        entry.facts["pretraining_steps"] = start.facts["steps"]
    return {"draft": draft, "draft_undistilled": twin}


def evaluate_pair(
    trained: Mapping[str, Trained], tokenizer: PreTrainedTokenizerFast, recipe: Recipe
) -> dict[str, Any]:
    """Return overlap and acceptance per family for the draft and its twin, as exported."""
    rounded = {name: export.rounded_copy(entry.model) for name, entry in trained.items()}
    prompts = {
        family: [
            tokenizer(prompt)["input_ids"]
            for prompt in held_out_prompts(family, recipe.measured_prompts, recipe.size.seed)
        ]
        for family in FAMILIES
    }
    target = rounded.pop("target")
    samples = measure.sample_families(
        target, prompts, max_new_tokens=recipe.measured_tokens, seed=recipe.seed
    )
    tables = {
        name: {
            family: measure.agreement(
                target, draft, samples[family], gamma=recipe.gamma, seed=recipe.seed
            )
            for family in FAMILIES
        }
        for name, draft in rounded.items()
    }
    return {
        "temperature": 1.0,
        "num_speculative_tokens": recipe.gamma,
        "prompts_per_family": recipe.measured_prompts,
        "text": "sampled from the target after held-out prompts",
        **tables,
    }


def train(
    output_dir: Path = OUTPUT_DIR,
    *,
    recipe: Recipe | None = None,
    work_dir: Path = WORK_DIR,
    resume: bool = True,
    provisional: bool = False,
    start_from: Path | None = None,
    note: str = "",
) -> dict[str, Any]:
    """Make the bundled pair and return its manifest.

    Args:
        output_dir: Folder of the pair; replaced at the very end.
        recipe: Parameters; the shipped weights use the default.
        work_dir: Folder of corpus, checkpoints and logs.
        resume: Continue from the checkpoints of `work_dir`.
        provisional: Take the target as its latest checkpoint has it, instead of training it.
        start_from: Checkpoint whose weights the target begins with; seeded ones if None.
        note: What the manifest should say besides, such as where this run left the recipe.
    """
    recipe = recipe or Recipe()
    work_dir.mkdir(parents=True, exist_ok=True)
    tokenizer = load_or_train_tokenizer(work_dir, recipe.size)
    data = prepare_data(work_dir, recipe.size, tokenizer)
    if provisional:
        target = provisional_target(work_dir, data)
        draft_dir = work_dir / "provisional"
        resume = False
    else:
        target = train_target(work_dir, data, recipe, resume=resume, start_from=start_from)
        draft_dir = work_dir
    start = pretrain_draft(work_dir, data, recipe, resume=True)
    drafts = train_drafts(draft_dir, target, start, data, recipe, resume=resume)
    trained = {"target": target, **drafts}
    description = {
        "name": "pocket",
        "title": "Pocket: 4.7 M target, 0.4 M draft",
        "licence": "Apache-2.0",
        "provisional": provisional,
        "note": note,
        "recipe": {"name": "pocket", **dataclasses.asdict(recipe)},
        "corpus": data.facts,
        "vocabulary": VOCABULARY,
        "context": CONTEXT,
        "models": {name: entry.facts for name, entry in trained.items()},
        "evaluation": evaluate_pair(trained, tokenizer, recipe),
    }
    models = {name: entry.model for name, entry in trained.items()}
    return export.write_pair(
        output_dir, models=models, tokenizer=tokenizer, description=description
    )


def main() -> None:
    """Run the recipe from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output-dir", type=Path, default=OUTPUT_DIR)
    parser.add_argument("--work-dir", type=Path, default=WORK_DIR)
    parser.add_argument("--target-minutes", type=float, default=Recipe().target_minutes)
    parser.add_argument("--draft-minutes", type=float, default=Recipe().draft_minutes)
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "0")))
    parser.add_argument("--restart", action="store_true", help="ignore earlier checkpoints")
    parser.add_argument("--provisional", action="store_true", help="use the target as it stands")
    parser.add_argument("--start-from", type=Path, help="checkpoint the target begins with")
    parser.add_argument("--target-learning-rate", type=float, default=Recipe().target_learning_rate)
    parser.add_argument("--note", default="", help="remark for the manifest")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    recipe = Recipe(
        target_minutes=options.target_minutes,
        draft_minutes=options.draft_minutes,
        target_learning_rate=options.target_learning_rate,
        measured_prompts=2 if options.provisional else Recipe().measured_prompts,
    )
    train(
        options.output_dir,
        recipe=recipe,
        work_dir=options.work_dir,
        resume=not options.restart,
        provisional=options.provisional,
        start_from=options.start_from,
        note=options.note,
    )


if __name__ == "__main__":
    main()
