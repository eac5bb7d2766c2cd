"""The recipe of `pocket-mtp`: a target, a chained module and parallel heads, trained together.

`python -m speclab train mtp --target pocket [--resume]` goes on from the weights of `pocket`:
module and heads first catch up with the frozen trunk, then everything is trained by one loss.
Checkpoints and logs are kept in `runs/heads/pocket-mtp`.

In the end the trunk's weights are the mean of those it began and those it ended with: on text made
of words it has not seen, the mean loses next to nothing.

**Source:** DeepSeek-V3 2412.19437, section 2.2, equation 25 (main loss plus lambda times the
module's); FastMTP 2509.18362 (one module unrolled, weights falling by 0.6); Gloeckle et al.
2404.19737, section 2 (parallel heads on a shared trunk and unembedding); Wortsman et al.
2109.01903 (the mean of the weights before and after).
**Deviation:** the trunk was trained before and not natively from the start, and for minutes.
Module and heads learn the trunk's own law at the later place instead of the text's token: a draft
is accepted for agreeing with the target, and laws teach faster than single tokens. Further steps
are added while the training goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from speclab.models.precision import autocast
from speclab.training import loop
from speclab.training.attention import use_chunked_attention
from speclab.training.eagle import head_config
from speclab.training.losses import cross_entropy, law_loss, next_token_loss
from speclab.training.mtp_model import NativeModel, start_mtp, start_parallel
from speclab.training.pocket_data import CorpusSize, Data, batch_source

SHORT_ROWS, LONG_ROWS = 0.5, 0.8
"""Progress at which the corpus gives rows of 256 and 512 tokens, without repeated phrases."""
FIRST_BATCH = {"heads": 1_000_000, "joint": 2_000_000}
"""Batches are numbered from here, so that the rows are not those `pocket` has seen."""
Phase = Literal["heads", "joint"]
PHASES: tuple[Phase, ...] = ("heads", "joint")
HELD_OUT_ROWS = 2
RANKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRecipe:
    """Parameters of the training; the manifests record them.

    Attributes:
        head_steps: optimiser steps of module and heads on the frozen trunk.
        joint_steps: of everything.
        steps: depth to which the module is unrolled at the end; it begins with one.
        step_decay: weight of step j is this to the power of j, and they add up to 1.
        mtp_weight: lambda, of the module's loss. parallel_weight: of the heads' mean loss.
        num_heads: parallel heads; with the trunk's own they predict one token more.
        head_learning_rate: peak on the frozen trunk. learning_rate: peak of module and heads
            afterwards. trunk_lr_ratio: the trunk's, as a share of it.
        head_tokens_per_step, tokens_per_step: of one optimiser step.
        trunk_share: of the trained trunk in the final one; the rest is what it began with.
        measured_steps: depth to which the module is measured.
        seed: of what the trunk has no counterpart for.
    """

    head_steps: int = 2000
    joint_steps: int = 750
    steps: int = 3
    step_decay: float = 0.6
    mtp_weight: float = 0.3
    parallel_weight: float = 0.1
    num_heads: int = 3
    head_learning_rate: float = 4e-3
    learning_rate: float = 2e-3
    trunk_lr_ratio: float = 0.15
    head_tokens_per_step: int = 256
    tokens_per_step: int = 1024
    trunk_share: float = 0.5
    measured_steps: int = 5
    seed: int = 0


def step_weights(count: int, decay: float) -> list[float]:
    """Return the weights of `count` steps; they fall by `decay` and add up to 1."""
    powers = [decay**step for step in range(count)]
    return [power / sum(powers) for power in powers]


def joint_outputs(
    model: NativeModel, ids: Tensor, steps: int
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Return the logits of trunk, module and heads.

    Args:
        model: all of them. ids: int64 [rows, length]. steps: of the module.

    Returns:
        The trunk's logits [rows, length, vocab]; per step of the module [rows, length - steps,
        vocab], which at place i are for token i + 2 + step; per head [rows, length, vocab], which
        at place i are for token i + 2 + head.
    """
    trunk, lm_head = model.target.model, model.target.lm_head
    states = trunk(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
    outputs = model.mtp(states[-1], trunk.embed_tokens(ids), steps)
    parallel = model.parallel(states[-2])
    return (
        lm_head(states[-1]),
        [lm_head(state) for state in outputs],
        [lm_head(trunk.norm(state)) for state in parallel],
    )


def joint_loss(recipe: NativeRecipe) -> loop.LossFunction:
    """Return L_main + lambda * L_mtp + mu * L_parallel of a batch, in nats per token."""

    def loss_fn(model: nn.Module, batch: Any) -> Tensor:
        ids, count = batch["ids"], int(batch["steps"])
        logits, module, heads = joint_outputs(model, ids, count)  # type: ignore[arg-type]
        law = logits.detach().float().softmax(-1)
        length = ids.shape[1]
        total = cross_entropy(logits, ids)
        weights = step_weights(count, recipe.step_decay)
        for step, (weight, found) in enumerate(zip(weights, module, strict=True)):
            later = law[:, 1 + step : 1 + step + length - count]
            total = total + recipe.mtp_weight * weight * law_loss(found, later)
        for head, found in enumerate(heads):
            one = law_loss(found[:, : length - 1 - head], law[:, 1 + head :])
            total = total + recipe.parallel_weight / len(heads) * one
        return total

    return loss_fn


def batches(data: Data, recipe: NativeRecipe, phase: Phase) -> loop.BatchSource:
    """Return batches `ids` and `steps`; steps are added in the first half of the first phase."""
    tokens = recipe.head_tokens_per_step if phase == "heads" else recipe.tokens_per_step
    source = batch_source(data, CorpusSize(tokens_per_step=tokens, echo_share=0.0))
    rows, first = SHORT_ROWS if phase == "heads" else LONG_ROWS, FIRST_BATCH[phase]

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        share = 2 * progress if phase == "heads" else 1.0
        count = min(recipe.steps, 1 + int(recipe.steps * share))
        return {"ids": source(first + step, rows)["ids"], "steps": torch.tensor(count)}

    return batch_at


def agreement(model: NativeModel, rows: list[Tensor], steps: int) -> dict[str, list[float]]:
    """Return how often drafts and the trunk have the same best token, on held-out rows.

    Keys: `mtp`, per step of the module; `parallel`, per head; `ranks`, how often the trunk's best
    token is the module's r-th best at its first step. The tokens before are the text's.
    """
    hits: dict[str, Tensor] = {}

    def count(name: str, found: Tensor) -> None:
        hits[name] = hits.get(name, torch.zeros(found.shape[-1])) + found

    total = 0
    for ids in rows:
        logits, module, heads = joint_outputs(model, ids, steps)
        best, places = logits.argmax(-1), ids.shape[1] - steps
        wanted = [best[:, 1 + step : 1 + step + places] for step in range(steps)]
        for name, drafts in (("mtp", module), ("parallel", heads)):
            same = [
                (draft[:, :places].argmax(-1) == want).sum()
                for draft, want in zip(drafts, wanted, strict=False)
            ]
            count(name, torch.stack(same))
        top = module[0].topk(RANKS, -1).indices
        count("ranks", (top == wanted[0][..., None]).sum((0, 1)))
        total += ids.shape[0] * places
    return {name: [round(float(n) / total, 4) for n in found] for name, found in hits.items()}


def trunk_losses(data: Data) -> loop.Evaluation:
    """Return an evaluation of a causal LM: cross-entropy on unseen rows, in nats per token.

    Keys: `held_out` and `fresh`, the means over families.
    """

    def evaluation(model: nn.Module) -> dict[str, float]:
        out = {}
        with autocast():
            for name, families in (("held_out", data.held_out), ("fresh", data.fresh)):
                losses = [next_token_loss(model, rows).item() for rows in families.values()]
                out[name] = round(sum(losses) / len(losses), 4)
        return out

    return evaluation


def evaluation_of(data: Data, recipe: NativeRecipe) -> loop.Evaluation:
    """Return what is logged while the model is trained."""
    rows = [rows[:HELD_OUT_ROWS] for rows in data.held_out.values()]

    def evaluation(model: nn.Module) -> dict[str, Any]:
        found = agreement(model, rows, recipe.measured_steps)  # type: ignore[arg-type]
        return trunk_losses(data)(model.target) | found  # type: ignore[arg-type]

    return evaluation


def optimizer_of(
    model: NativeModel, config: loop.LoopConfig, trunk_lr_ratio: float
) -> torch.optim.Optimizer:
    """Return AdamW that moves the trunk more slowly than module and heads, or not at all."""
    new = [*model.mtp.parameters(), *model.parallel.parameters()]
    optimizer = loop.build_adamw(new, config)
    if trunk_lr_ratio:
        for group in loop.build_adamw(list(model.target.parameters()), config).param_groups:
            kept = {key: group[key] for key in ("params", "weight_decay")}
            optimizer.add_param_group({**kept, "lr_ratio": trunk_lr_ratio})
    return optimizer


def train_phase(
    model: NativeModel,
    data: Data,
    recipe: NativeRecipe,
    phase: Phase,
    *,
    work: Path,
    resume: bool,
) -> loop.Progress:
    """Train module and heads on the frozen trunk ("heads"), or all of them ("joint")."""
    joint = phase == "joint"
    model.target.requires_grad_(joint)
    config = loop.LoopConfig(
        max_steps=recipe.joint_steps if joint else recipe.head_steps,
        learning_rate=recipe.learning_rate if joint else recipe.head_learning_rate,
        evaluate_every_s=1800.0,
        checkpoint_every_s=60.0,
    )
    checkpoint, log = work / f"mtp-{phase}.pt", work / f"mtp-{phase}.jsonl"
    if not resume:
        loop.forget_run(checkpoint, log)
    return loop.run_loop(
        model,
        batches(data, recipe, phase),
        joint_loss(recipe),
        config,
        checkpoint=checkpoint,
        log=log,
        resume=resume,
        evaluation=evaluation_of(data, recipe),
        optimizer=optimizer_of(model, config, recipe.trunk_lr_ratio if joint else 0.0),
    )


def blend(model: nn.Module, start: Mapping[str, Tensor], share: float) -> None:
    """Make the weights of `model` `share` of its own and the rest of `start`, in place."""
    own = model.state_dict()
    model.load_state_dict({key: start[key].lerp(own[key], share) for key in own})


def train_native(
    target: Any, data: Data, recipe: NativeRecipe, *, work: Path, resume: bool = False
) -> tuple[NativeModel, dict[str, loop.Progress]]:
    """Train a causal LM, a module and heads; the LM is changed in place.

    Args:
        target: a causal LM of the Llama family in float32, already trained.
        data: the encoded corpus.
        recipe: parameters.
        work: folder of checkpoints and logs.
        resume: continue from the checkpoints if there are any.

    Returns:
        The trained model, and how far each phase went.
    """
    use_chunked_attention(target)
    start = {key: value.clone() for key, value in target.state_dict().items()}
    config = head_config(target.config)
    module = start_mtp(target, config, recipe.seed)
    model = NativeModel(target, module, start_parallel(target, config, recipe.num_heads))
    done = {
        phase: train_phase(model, data, recipe, phase, work=work, resume=resume) for phase in PHASES
    }
    blend(target, start, recipe.trunk_share)
    return model.eval(), done
