"""The recipe of Kangaroo's adapter: early states, the frozen target's laws, export.

`python -m speclab train kangaroo --target pocket|smollm2-135m [--resume]`. Checkpoint and log are
kept in `runs/heads/<target>`, so that a stopped run resumes where it left off.

**Source:** Liu et al., Kangaroo, 2024 (arXiv:2404.18911), section 3.1: soft cross-entropy with the
whole model, answers only.
**Deviation:** minutes instead of a day on eight GPUs, from the next layer's attention instead of
random weights. The adapter of SmolLM2 has a third of the target's attention heads, so that all the
bundled heads of that target stay within 40 MB, and learns laws over frequent tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from speclab.core.errors import BadInput
from speclab.models.catalogue import load_pair
from speclab.models.heads.files import write_tensors
from speclab.training import loop
from speclab.training.attention import use_chunked_attention
from speclab.training.eagle_data import HeadText, pocket_text
from speclab.training.frozen_target import FrozenTarget
from speclab.training.head_parts import (
    description_of,
    fit_head,
    frequent_tokens,
    llama_config,
    write_description,
)
from speclab.training.kangaroo_data import smollm2_text
from speclab.training.kangaroo_model import KangarooModule, adapter_config, start_adapter
from speclab.training.losses import law_loss

NAME = "kangaroo"
WORK_DIR = Path("runs/heads")
RANKS = 10
MEASURED_STEPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of one adapter; the manifest records them.

    Attributes:
        exit_layer: how many of the target's layers stand before it.
        kv_heads: see `adapter_config`.
        minutes: of training. max_steps: optimiser steps after which it ends earlier, or None.
        law_vocab: tokens over which laws are compared, the most frequent ones; None: all of them.
        learning_rate: peak.
        tokens_per_step: of one optimiser step.
        rows: of stored states that are read, where there are any.
        seed: of the order.
    """

    exit_layer: int
    kv_heads: int | None = None
    minutes: float = 5.0
    max_steps: int | None = None
    law_vocab: int | None = None
    learning_rate: float = 4e-3
    tokens_per_step: int = 512
    rows: int | None = None
    seed: int = 0


RECIPES: dict[str, Recipe] = {
    "pocket": Recipe(exit_layer=2, minutes=4.5),
    "smollm2-135m": Recipe(
        exit_layer=8,
        kv_heads=1,
        minutes=9.0,
        law_vocab=8192,
        learning_rate=1e-3,
        tokens_per_step=1024,
        rows=384,
    ),
}


def adapter_loss(target: FrozenTarget, draft_ids: Tensor) -> loop.LossFunction:
    """Return the cross-entropy with the target's law at the same place, in nats per place.

    Places count where the target's best token is among `draft_ids` and the text is its own.

    Args:
        target: the frozen one; its features are the states after the exit layer.
        draft_ids: target ids over which laws are compared, ascending.
    """
    head = target.model.get_output_embeddings().weight.detach()
    known = torch.zeros(len(head), dtype=torch.bool)
    known[draft_ids] = True
    head = head[draft_ids]

    def loss_fn(module: nn.Module, batch: Any) -> Tensor:
        seen = target(batch)
        counts = known[seen.best] & (seen.written > 0)
        law = functional.linear(seen.final[counts], head).float().softmax(-1)
        return law_loss(functional.linear(module(seen.features)[counts], head), law)

    return loss_fn


def held_out_numbers(
    target: FrozenTarget, batches: Sequence[Mapping[str, Tensor]]
) -> loop.Evaluation:
    """Return an evaluation on held-out batches: how often draft and target agree on the best token.

    Keys: `top1[j]`, after j places in a row where they had; `rank[r]`, how often the target's best
    token is the draft's r-th best. The tokens before are the text's; the adapter never reads its
    own output, so that only its luck so far tells the steps apart.
    """

    def evaluation(module: nn.Module) -> dict[str, float]:
        hits, tries = torch.zeros(MEASURED_STEPS), torch.zeros(MEASURED_STEPS)
        ranks, total = torch.zeros(RANKS), 0
        for batch in batches:
            seen = target(batch)
            own = seen.written > 0
            top = target.logits(module(seen.features)).topk(RANKS, -1).indices
            same = (top == seen.best[..., None]) & own[..., None]
            ranks += same.sum((0, 1))
            total += int(own.sum())
            streak = torch.ones_like(own[:, : own.shape[1] - MEASURED_STEPS])
            for step in range(MEASURED_STEPS):
                after = slice(step, step + streak.shape[1])
                tried = streak & own[:, after]
                streak = streak & same[:, after, 0]
                tries[step] += tried.sum()
                hits[step] += streak.sum()
        shares = (hits / tries.clamp(min=1)).tolist()
        by_rank = (ranks / max(1, total)).tolist()
        out = {f"top1[{step}]": round(share, 4) for step, share in enumerate(shares)}
        return out | {f"rank[{rank}]": round(share, 4) for rank, share in enumerate(by_rank)}

    return evaluation


def write_head(
    folder: Path,
    module: KangarooModule,
    config: Any,
    exit_layer: int,
    description: Mapping[str, Any],
    log: Path | None = None,
) -> dict[str, Any]:
    """Write the adapter in its public layout, its log and a manifest; return the manifest.

    Args:
        folder: of the head; weights already in it are replaced.
        module: the trained adapter. config: of its attention block.
        exit_layer: how many layers stand before it. description: what the manifest says.
        log: of the training, to copy.
    """
    write_tensors(folder, {key: value.half() for key, value in module.state_dict().items()})
    said = llama_config(config, {"num_hidden_layers": 1, "exit_layer": exit_layer})
    return write_description(folder, said, description, log)


def text_of(target: str, model: Any, recipe: Recipe, work: Path) -> HeadText:
    """Return what an adapter of a target reads; with stored states, those of its exit layer too."""
    if target == "pocket":
        return pocket_text(work, recipe.tokens_per_step, recipe.seed)
    return smollm2_text(
        work, model, recipe.exit_layer, recipe.rows, recipe.tokens_per_step, recipe.seed
    )


def train_on(
    handle: Any, text: HeadText, recipe: Recipe, *, work: Path, output: Path, resume: bool = False
) -> dict[str, Any]:
    """Train an adapter of a loaded target and write it; return its manifest.

    Args:
        handle: of the target, in float32; its attention is changed to the one of training.
        text: what the adapter reads. recipe: parameters.
        work: folder of checkpoint and log. output: folder of the head.
        resume: continue from the checkpoint if there is one.
    """
    model, vocab = handle.model, int(handle.model.config.vocab_size)
    use_chunked_attention(model)
    target = FrozenTarget(model, (recipe.exit_layer,), text.stored_layers)
    config = adapter_config(model.config, recipe.kv_heads)
    module = start_adapter(model, recipe.exit_layer, config)
    done = fit_head(
        module,
        text.batch_at,
        adapter_loss(target, frequent_tokens(text.counts, recipe.law_vocab or vocab, vocab)),
        recipe,
        held_out_numbers(target, text.held_out),
        files=work / NAME,
        resume=resume,
    )
    description = {
        **description_of(
            NAME,
            handle.source,
            module,
            done.progress,
            recipe={"name": NAME, **dataclasses.asdict(recipe)},
            text=text.facts,
        ),
        "held_out_top1": [v for key, v in done.numbers.items() if key.startswith("top1")],
        "rank_acceptance": [v for key, v in done.numbers.items() if key.startswith("rank")],
    }
    return write_head(output, module, config, recipe.exit_layer, description, done.log)


def train(target: str, output: Path | None = None, *, resume: bool = False) -> dict[str, Any]:
    """Train an adapter of a pair's target by its recipe and write it; return its manifest.

    Args:
        target: name of a pair.
        output: folder to write; default: beside the checkpoint.
        resume: continue from the checkpoint if there is one.

    Raises:
        BadInput: if there is no recipe for that target.
    """
    if target not in RECIPES:
        raise BadInput(
            f"No {NAME} head is trained for {target!r}.", f"Targets: {', '.join(RECIPES)}."
        )
    recipe, work = RECIPES[target], WORK_DIR / target
    handle = load_pair(target, device="cpu", dtype="float32").target
    text = text_of(target, handle.model, recipe, work)
    folder = output or work / f"{NAME}-weights"
    return train_on(handle, text, recipe, work=work, output=folder, resume=resume)
