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
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from speclab.training import export, loop, measure
from speclab.training.attention import use_chunked_attention
from speclab.training.corpus import FAMILIES
from speclab.training.corpus.prompts import held_out_prompts
from speclab.training.pocket_data import (
    CONTEXT,
    VOCABULARY,
    CorpusSize,
    Data,
    batch_source,
    load_or_train_tokenizer,
    prepare_data,
)

OUTPUT_DIR = Path("assets/models/pocket")
WORK_DIR = Path("runs/pocket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of the recipe; the manifest records them.

    Attributes:
        size: Of the corpus and of one step.
        seed: Of the weights, the samples and the simulated coins.
        target_minutes: Training time of the target.
        draft_minutes: Distillation time of the draft; the twin takes as many steps.
        target_learning_rate: Peak learning rate of the target.
        draft_learning_rate: Peak learning rate of draft and twin.
        measured_prompts: Held-out prompts per family for overlap and acceptance.
        measured_tokens: Tokens sampled at most after each of them.
        gamma: Drafted tokens per simulated round.
    """

    size: CorpusSize = field(default_factory=CorpusSize)
    seed: int = 0
    target_minutes: float = 57.0
    draft_minutes: float = 8.0
    target_learning_rate: float = 2e-3
    draft_learning_rate: float = 3e-3
    measured_prompts: int = 12
    measured_tokens: int = 96
    gamma: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A trained model and the facts of its training that the manifest records."""

    model: LlamaForCausalLM
    facts: dict[str, Any]


def target_config() -> LlamaConfig:
    """Return the deep and thin target: 12 layers of width 192, 4.7 million parameters."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=448,
        num_hidden_layers=12,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=None,
    )


def draft_config() -> LlamaConfig:
    """Return the draft: one layer of width 128, 0.4 million parameters."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        tie_word_embeddings=True,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=None,
    )


def logits_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Return `float32[batch, length, vocabulary]` logits, without a cache."""
    return model(input_ids=ids, use_cache=False).logits.float()


def next_token_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the cross-entropy of each next token, in nats per token."""
    logits = logits_of(model, ids)[:, :-1]
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def distillation_loss(teacher: nn.Module) -> loop.LossFunction:
    """Return KL(target || draft) over full distributions at temperature 1, in nats per token."""

    def loss_fn(model: nn.Module, ids: Tensor) -> Tensor:
        with torch.no_grad():
            target = logits_of(teacher, ids).log_softmax(-1)
        draft = logits_of(model, ids).log_softmax(-1)
        return functional.kl_div(draft, target, log_target=True, reduction="none").sum(-1).mean()

    return loss_fn


def held_out_losses(data: Data) -> loop.Evaluation:
    """Return an evaluation of the cross-entropy per family, in nats per token."""

    def evaluation(model: nn.Module) -> dict[str, float]:
        with torch.autocast("cpu", torch.bfloat16):
            return {
                family: round(float(next_token_loss(model, rows)), 4)
                for family, rows in data.held_out.items()
            }

    return evaluation


def train_model(
    config: LlamaConfig,
    data: Data,
    recipe: Recipe,
    *,
    files: Path,
    loss_fn: loop.LossFunction,
    limits: loop.LoopConfig,
    resume: bool,
) -> Trained:
    """Train one model from seeded weights; checkpoint and log stand at `files` plus a suffix."""
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(config)
    use_chunked_attention(model)
    evaluation = held_out_losses(data)
    progress = loop.run_loop(
        model,
        batch_source(data, recipe.size),
        loss_fn,
        limits,
        checkpoint=files.with_suffix(".pt"),
        log=files.with_suffix(".jsonl"),
        resume=resume,
        evaluation=evaluation,
    )
    facts = {
        "parameters": export.count_parameters(model),
        "steps": progress.step,
        "tokens_seen": progress.tokens,
        "seconds": round(progress.elapsed_s, 1),
        "held_out_loss": loop.evaluate(model, evaluation),
    }
    return Trained(model=model, facts=facts)


def train_target(work_dir: Path, data: Data, recipe: Recipe, *, resume: bool) -> Trained:
    """Train the target on the corpus for `target_minutes`."""
    limits = loop.LoopConfig(
        budget_s=recipe.target_minutes * 60, learning_rate=recipe.target_learning_rate
    )
    return train_model(
        target_config(),
        data,
        recipe,
        files=work_dir / "target",
        loss_fn=next_token_loss,
        limits=limits,
        resume=resume,
    )


def provisional_target(work_dir: Path, data: Data) -> Trained:
    """Return the target as its latest checkpoint has it."""
    model = LlamaForCausalLM(target_config())
    use_chunked_attention(model)
    progress = loop.load_checkpoint(work_dir / "target.pt", model)
    facts = {
        "parameters": export.count_parameters(model),
        "steps": progress.step,
        "tokens_seen": progress.tokens,
        "seconds": round(progress.elapsed_s, 1),
        "held_out_loss": loop.evaluate(model, held_out_losses(data)),
    }
    return Trained(model=model, facts=facts)


def train_drafts(
    work_dir: Path, target: Trained, data: Data, recipe: Recipe, *, resume: bool
) -> dict[str, Trained]:
    """Distil the draft from the target, then train its twin on the corpus for as many steps."""
    limits = loop.LoopConfig(
        budget_s=recipe.draft_minutes * 60, learning_rate=recipe.draft_learning_rate
    )
    target.model.eval()
    draft = train_model(
        draft_config(),
        data,
        recipe,
        files=work_dir / "draft",
        loss_fn=distillation_loss(target.model),
        limits=limits,
        resume=resume,
    )
    twin = train_model(
        draft_config(),
        data,
        recipe,
        files=work_dir / "draft_undistilled",
        loss_fn=next_token_loss,
        limits=dataclasses.replace(limits, budget_s=None, max_steps=draft.facts["steps"]),
        resume=resume,
    )
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
) -> dict[str, Any]:
    """Make the bundled pair and return its manifest.

    Args:
        output_dir: Folder of the pair; replaced at the very end.
        recipe: Parameters; the shipped weights use the default.
        work_dir: Folder of corpus, checkpoints and logs.
        resume: Continue from the checkpoints of `work_dir`.
        provisional: Take the target as its latest checkpoint has it, instead of training it.
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
        target = train_target(work_dir, data, recipe, resume=resume)
        draft_dir = work_dir
    drafts = train_drafts(draft_dir, target, data, recipe, resume=resume)
    trained = {"target": target, **drafts}
    description = {
        "name": "pocket",
        "title": "Pocket: 4.7 M target, 0.4 M draft",
        "licence": "Apache-2.0",
        "provisional": provisional,
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
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    recipe = Recipe(target_minutes=options.target_minutes, draft_minutes=options.draft_minutes)
    train(
        options.output_dir,
        recipe=recipe,
        work_dir=options.work_dir,
        resume=not options.restart,
        provisional=options.provisional,
    )


if __name__ == "__main__":
    main()
