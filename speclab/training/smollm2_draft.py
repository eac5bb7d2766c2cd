"""The recipe `smollm2-draft`: a small draft for SmolLM2-135M-Instruct, over frequent tokens only.

The target answers chat prompts; its laws over those answers are kept; a two-layer Llama over
8,192 tokens learns to imitate them. Run it with `python -m speclab.training.smollm2_draft`; it
resumes where a stopped run left off.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
import transformers
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from speclab.core.errors import BadInput
from speclab.models.smollm2_wheel import ensure_smollm2
from speclab.training import loop
from speclab.training.smollm2_chain import chain_numbers, draft_step_s
from speclab.training.smollm2_distill import (
    DistillBatch,
    DistillBatches,
    DraftShape,
    LossWeights,
    build_draft,
    build_vocabulary,
    count_tokens,
    draft_logits,
    held_out_numbers,
    special_ids,
    target_to_draft,
)
from speclab.training.smollm2_export import describe_data, export_draft
from speclab.training.smollm2_loss import distillation_loss
from speclab.training.smollm2_prompts import EVALUATION_PROMPTS, write_prompts
from speclab.training.smollm2_samples import (
    Sample,
    append_samples,
    chat_ids,
    is_held_out,
    read_samples,
    sample_completions,
)
from speclab.training.smollm2_teacher import (
    Labelled,
    join_labelled,
    label_shards,
    load_labelled,
    one_hot_labels,
)

Say = Callable[[str], None]
TEMPERATURES = (0.0, 0.7, 0.7, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of the recipe; the manifest records them.

    Attributes:
        shape: Size of the draft.
        weights: Weights of the loss.
        sampling_s: Seconds spent on sampling answers of the recipe's own prompts.
        batch_prompts: Prompts answered at a time.
        hottest: Samples of a higher temperature are left out.
        label_limit: Samples per source that get the target's whole laws (coldest first); the others
            are learnt from as they stand. None: all.
        training_s: Seconds of training.
        max_steps: Optimiser steps at most; None for no such limit.
        learning_rate: Peak learning rate.
        weight_decay: AdamW decay of matrices.
        rows: Sequences per optimiser step.
        threads: CPU threads.
        seed: Of prompts, sampling, initial weights and order.
    """

    shape: DraftShape = field(default_factory=DraftShape)
    weights: LossWeights = field(default_factory=LossWeights)
    sampling_s: float = 3600.0
    batch_prompts: int = 64
    hottest: float = 1.0
    label_limit: int | None = None
    training_s: float = 3600.0
    max_steps: int | None = None
    learning_rate: float = 2e-3
    weight_decay: float = 0.05
    rows: int = 16
    threads: int = 1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher:
    """The target as the recipe uses it: bf16 weights, tokenizer, and where it came from."""

    model: Any
    tokenizer: Any
    source: str


def load_teacher(say: Say) -> Teacher:
    """Load SmolLM2-135M-Instruct in bf16."""
    source = ensure_smollm2(say)
    model = AutoModelForCausalLM.from_pretrained(source.path, dtype=torch.bfloat16).eval()
    tokenizer = AutoTokenizer.from_pretrained(source.path)
    return Teacher(model=model, tokenizer=tokenizer, source=source.description)


def sample_own(teacher: Teacher, recipe: Recipe, path: Path, say: Say) -> None:
    """Append answers to the recipe's own prompts until `sampling_s` have passed in all.

    Args:
        teacher: The target.
        recipe: Parameters.
        path: JSON lines; a run that was stopped goes on with the next prompts.
        say: Called with a line of text after each batch.
    """
    clock = path.with_suffix(".seconds")
    spent_s = float(clock.read_text()) if clock.is_file() else 0.0
    batch = len(read_samples(path, teacher.tokenizer)) // recipe.batch_prompts if spent_s else 0
    while spent_s < recipe.sampling_s:
        started = time.perf_counter()
        rng = random.Random(f"{recipe.seed}/{batch}")
        generator = torch.Generator().manual_seed(rng.getrandbits(62))
        samples = sample_completions(
            teacher.model,
            teacher.tokenizer,
            write_prompts(recipe.batch_prompts, rng),
            temperature=TEMPERATURES[batch % len(TEMPERATURES)],
            generator=generator,
        )
        append_samples(path, samples)
        batch += 1
        spent_s += time.perf_counter() - started
        clock.write_text(f"{spent_s}")
        say(f"sampled {sum(len(s.answer) for s in samples)} tokens; {spent_s:.0f} s of sampling")


def gather_samples(
    teacher: Teacher, recipe: Recipe, extra: Sequence[Path], work: Path, say: Say
) -> list[list[Sample]]:
    """Return the samples of every source, coldest first, without evaluation prompts."""
    own = work / "samples.jsonl"
    if recipe.sampling_s > 0:
        sample_own(teacher, recipe, own, say)
    sources = []
    for path in [*extra, *([own] if own.is_file() else [])]:
        samples = read_samples(path, teacher.tokenizer)
        random.Random(recipe.seed).shuffle(samples)
        samples.sort(key=lambda sample: sample.temperature)
        wanted = [s for s in samples if s.temperature <= recipe.hottest]
        sources.append([s for s in wanted if s.prompt not in EVALUATION_PROMPTS])
    if not any(sources):
        raise BadInput("There is no text to learn from.", "Give --samples or --sampling-s above 0.")
    return sources


def choose_vocabulary(
    teacher: Teacher, recipe: Recipe, sources: Sequence[Sequence[Sample]], work: Path
) -> np.ndarray:
    """Return `draft_to_target`; chosen once per work folder, since the laws depend on it."""
    path = work / "vocab_map.safetensors"
    if not path.is_file():
        samples = [sample for source in sources for sample in source]
        counts = count_tokens(sample.answer for sample in samples)
        prompts = sorted({sample.prompt for sample in samples})
        counts.update(count_tokens(chat_ids(teacher.tokenizer, prompt) for prompt in prompts))
        always = {*teacher.tokenizer.all_special_ids, *chat_ids(teacher.tokenizer, "")}
        always |= set(teacher.tokenizer.added_tokens_decoder)
        work.mkdir(parents=True, exist_ok=True)
        draft_to_target = build_vocabulary(counts, always, recipe.shape.vocab_size)
        save_file({"draft_to_target": draft_to_target}, path)
    return load_file(path)["draft_to_target"]


def label_sources(
    teacher: Teacher,
    recipe: Recipe,
    sources: Sequence[Sequence[Sample]],
    draft_to_target: np.ndarray,
    work: Path,
    say: Say,
) -> Labelled:
    """Return all samples with the target's laws, one-hot ones beyond `label_limit`."""
    table = target_to_draft(draft_to_target, teacher.model.config.vocab_size)
    parts = []
    for source in sources:
        limit = len(source) if recipe.label_limit is None else recipe.label_limit
        paths = label_shards(
            teacher.model,
            teacher.tokenizer,
            source[:limit],
            draft_to_target,
            work / "labels",
            progress=say,
        )
        parts += [load_labelled(paths)] if paths else []
        if source[limit:]:
            parts.append(one_hot_labels(teacher.tokenizer, source[limit:], table))
    return join_labelled(parts)


def train_draft(
    teacher: Teacher, recipe: Recipe, data: Labelled, draft_to_target: np.ndarray, work: Path
) -> tuple[Any, loop.Progress, dict[str, float]]:
    """Train the draft; resumes from the checkpoint in `work`.

    Returns:
        The draft in eval mode, how long it trained, and its numbers on held-out prompts.
    """
    table = target_to_draft(draft_to_target, teacher.model.config.vocab_size)
    rows = teacher.model.get_input_embeddings().weight[
        torch.from_numpy(draft_to_target[:-1]).long()
    ]
    special = special_ids(teacher.tokenizer, table)
    model = build_draft(recipe.shape, special=special, target_rows=rows.detach(), seed=recipe.seed)
    trained_on, held_out = (
        DistillBatches(data, np.flatnonzero(mask), table, weights=recipe.weights, rows=recipe.rows)
        for mask in (~data.held_out, data.held_out & data.soft)
    )

    def loss(model: Any, batch: DistillBatch) -> torch.Tensor:
        logits = draft_logits(model, batch, recipe.weights)
        laws = (batch.top_ids, batch.top_probs, batch.weight)
        return distillation_loss(logits, *laws, recipe.weights.hard)

    def numbers(model: Any) -> dict[str, float]:
        found = {"all": held_out_numbers(model, held_out)}
        for temperature in sorted(set(TEMPERATURES)):
            found[f"t{temperature:g}"] = held_out_numbers(model, held_out, temperature=temperature)
        return {f"{kind}_{name}": v for kind, of in found.items() for name, v in of.items()}

    config = loop.LoopConfig(
        max_steps=recipe.max_steps,
        budget_s=recipe.training_s,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        evaluate_every_s=420.0,
        checkpoint_every_s=60.0,
    )
    progress = loop.run_loop(
        model,
        trained_on,
        loss,
        config,
        checkpoint=work / "draft.pt",
        log=work / "draft.jsonl",
        resume=True,
        evaluation=numbers,
    )
    model.eval()
    return model, progress, loop.evaluate(model, numbers)


def evaluation_answers(teacher: Teacher, work: Path, max_new_tokens: int = 128) -> list[Sample]:
    """Return the target's greedy answers to `EVALUATION_PROMPTS`, computed once per work folder."""
    path = work / "evaluation.jsonl"
    if not path.is_file():
        answers = sample_completions(
            teacher.model,
            teacher.tokenizer,
            EVALUATION_PROMPTS,
            temperature=0.0,
            generator=torch.Generator(),
            max_new_tokens=max_new_tokens,
        )
        append_samples(path, answers)
    return read_samples(path, teacher.tokenizer)


def run_recipe(
    recipe: Recipe, *, extra: Sequence[Path], work: Path, out: Path, say: Say = print
) -> dict[str, Any]:
    """Sample, label, train, measure and export.

    Args:
        recipe: Parameters.
        extra: Further files of samples.
        work: Folder for intermediate files; a stopped run resumes from it.
        out: Folder of the shipped draft.
        say: Called with lines of progress.

    Returns:
        The manifest.
    """
    torch.set_num_threads(recipe.threads)
    teacher = load_teacher(say)
    sources = gather_samples(teacher, recipe, extra, work, say)
    draft_to_target = choose_vocabulary(teacher, recipe, sources, work)
    data = label_sources(teacher, recipe, sources, draft_to_target, work, say)
    say(f"training on {int((~data.held_out).sum())} answers for up to {recipe.training_s:.0f} s")
    model, progress, held_out = train_draft(teacher, recipe, data, draft_to_target, work)
    answers = evaluation_answers(teacher, work)
    cold = [s for source in sources for s in source if not s.temperature and is_held_out(s.prompt)]
    facts = {
        "recipe": "smollm2-draft",
        "target": teacher.source,
        "parameters": asdict(recipe),
        "data": describe_data(data, draft_to_target),
        "steps": progress.step,
        "training_s": round(progress.elapsed_s),
        "held_out": {name: round(value, 4) for name, value in held_out.items()},
        "greedy_chain": chain_numbers(model, teacher.tokenizer, answers, draft_to_target),
        "greedy_chain_held_out_samples": chain_numbers(
            model, teacher.tokenizer, cold[: len(answers)], draft_to_target
        ),
        "draft_step_ms": round(draft_step_s(model) * 1e3, 3),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "safetensors": safetensors.__version__,
        },
        "date": datetime.date.today().isoformat(),
    }
    return export_draft(model, draft_to_target, facts, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the recipe from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=Path, action="append", default=[], help="more samples")
    parser.add_argument("--sampling-s", type=float, default=Recipe().sampling_s)
    parser.add_argument("--training-s", type=float, default=Recipe().training_s)
    parser.add_argument("--label-limit", type=int, default=None)
    parser.add_argument("--hottest", type=float, default=Recipe().hottest)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("runs/smollm2-draft"))
    parser.add_argument("--out", type=Path, default=Path("assets/models/smollm2-135m-draft"))
    given = parser.parse_args(arguments)
    recipe = Recipe(
        sampling_s=given.sampling_s,
        training_s=given.training_s,
        label_limit=given.label_limit,
        hottest=given.hottest,
        threads=given.threads,
    )
    manifest = run_recipe(recipe, extra=given.samples, work=given.work, out=given.out)
    print(json.dumps({name: manifest[name] for name in ("held_out", "greedy_chain")}, indent=1))


if __name__ == "__main__":
    main()
