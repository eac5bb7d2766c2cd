"""The recipe of a module of multi-token prediction on a frozen target that has none.

`python -m speclab train mtp --target smollm2-135m [--resume]`. The target's states over text that
it has written are read from disk; checkpoint and log are kept in `runs/heads/<target>`.

**Source:** FastMTP 2509.18362, section 3 (one module unrolled, weights falling by 0.6, a reduced
vocabulary for drafting).
**Deviation:** the target never learns with the module. The module learns the target's laws over
its draft vocabulary instead of single tokens, where the target's best token is among them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from speclab.core.errors import BadInput
from speclab.models.catalogue import load_pair
from speclab.training import loop
from speclab.training.eagle import head_config
from speclab.training.eagle_data import TEXTS, HeadText
from speclab.training.frozen_target import FrozenTarget
from speclab.training.head_parts import (
    description_of,
    fit_head,
    frequent_tokens,
    with_steps,
)
from speclab.training.losses import law_loss
from speclab.training.mtp import RANKS, step_weights
from speclab.training.mtp_export import write_mtp
from speclab.training.mtp_model import MtpModule, start_mtp

WORK_DIR = Path("runs/heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenRecipe:
    """Parameters of one module; the manifest records them.

    Attributes:
        minutes: of training. max_steps: optimiser steps after which it ends earlier, or None.
        steps: depth to which the module is unrolled at the end; it begins with one.
        step_decay: weight of step j is this to the power of j, and they add up to 1.
        draft_vocab: tokens it may draft, the most frequent ones of the text.
        learning_rate: peak.
        tokens_per_step: of one optimiser step.
        measured_steps: depth to which the module is measured.
        seed: of weights and order.
    """

    minutes: float = 25.0
    max_steps: int | None = None
    steps: int = 3
    step_decay: float = 0.6
    draft_vocab: int = 8192
    learning_rate: float = 1e-3
    tokens_per_step: int = 1024
    measured_steps: int = 5
    seed: int = 0


RECIPES: dict[str, FrozenRecipe] = {"smollm2-135m": FrozenRecipe(minutes=9.0)}


class FrozenHead:
    """What module and target share, cut to the module's vocabulary.

    Args:
        target: the frozen one. draft_ids: target ids the module may draft, ascending
            [draft vocab].
    """

    def __init__(self, target: FrozenTarget, draft_ids: Tensor) -> None:
        self.target, self.draft_ids = target, draft_ids
        self.embedding = target.model.get_input_embeddings().weight.detach()
        self.lm_head = target.model.get_output_embeddings().weight.detach()[draft_ids].clone()
        self.known = torch.zeros(len(self.embedding))
        self.known[draft_ids] = 1.0

    def logits(self, states: Tensor) -> Tensor:
        """Return logits [..., draft vocab] of normed states [..., h]."""
        return functional.linear(states, self.lm_head)

    def drafts(self, module: MtpModule, final: Tensor, ids: Tensor, steps: int) -> list[Tensor]:
        """Return the module's logits per step [rows, length - steps, draft vocab].

        Args:
            module: the module. final: the target's states after the final norm [rows, length, h].
            ids: int64 [rows, length]. steps: how many.
        """
        embedded = functional.embedding(ids, self.embedding)
        return [self.logits(out) for out in module(final, embedded, steps)]


def frozen_loss(head: FrozenHead, recipe: FrozenRecipe) -> loop.LossFunction:
    """Return the cross-entropy with the target's later laws, in nats per place that counts."""

    def loss_fn(module: nn.Module, batch: Any) -> Tensor:
        count, seen = int(batch["steps"]), head.target(batch)
        law = head.logits(seen.final).float().softmax(-1)
        counts = head.known[seen.best] * seen.written
        places = law.shape[1] - count
        weights = step_weights(count, recipe.step_decay)
        drafts = head.drafts(module, seen.final, batch["ids"], count)  # type: ignore[arg-type]
        total = torch.zeros(())
        for step, (weight, logits) in enumerate(zip(weights, drafts, strict=True)):
            later = slice(1 + step, 1 + step + places)
            total = total + weight * law_loss(logits, law[:, later], counts[:, later])
        return total

    return loss_fn


def agreement_of(head: FrozenHead, rows: list[Any], steps: int) -> loop.Evaluation:
    """Return an evaluation on held-out batches.

    Keys: `mtp`, per step how often module and target have the same best token; `ranks`, how often
    the target's best token is the module's r-th best at its first step.
    """

    def evaluation(module: nn.Module) -> dict[str, Any]:
        hits, ranks, totals = torch.zeros(steps), torch.zeros(RANKS), torch.zeros(steps)
        for batch in rows:
            seen, ids = head.target(batch), batch["ids"]
            places = ids.shape[1] - steps
            drafts = head.drafts(module, seen.final, ids, steps)  # type: ignore[arg-type]
            for step, logits in enumerate(drafts):
                later = slice(1 + step, 1 + step + places)
                wanted, own = seen.best[:, later], seen.written[:, later, None]
                top = head.draft_ids[logits.topk(RANKS, -1).indices]
                same = ((top == wanted[..., None]) * own).sum((0, 1))
                hits[step] += same[0]
                ranks += same if step == 0 else 0
                totals[step] += own.sum()
        return {
            "mtp": [round(float(share), 4) for share in hits / totals],
            "ranks": [round(float(share), 4) for share in ranks / totals[0]],
        }

    return evaluation


def train_on(
    handle: Any,
    text: HeadText,
    recipe: FrozenRecipe,
    *,
    work: Path,
    output: Path,
    resume: bool = False,
) -> dict[str, Any]:
    """Train a module on a loaded target and write it; return its manifest.

    Args:
        handle: of the target, in float32.
        text: what the module reads.
        recipe: parameters.
        work: folder of checkpoint and log. output: folder of the head.
        resume: continue from the checkpoint if there is one.
    """
    model, config = handle.model, head_config(handle.model.config)
    layers = int(model.config.num_hidden_layers)
    draft_ids = frequent_tokens(text.counts, recipe.draft_vocab, int(model.config.vocab_size))
    head = FrozenHead(FrozenTarget(model, (layers,), text.stored_layers), draft_ids)
    module = start_mtp(model, config, recipe.seed)
    done = fit_head(
        module,
        with_steps(text.batch_at, recipe.steps),
        frozen_loss(head, recipe),
        recipe,
        agreement_of(head, text.held_out, recipe.measured_steps),
        files=work / "mtp",
        resume=resume,
        evaluate_every_s=600.0,
    )
    description = {
        **description_of(
            "mtp",
            handle.source,
            module,
            done.progress,
            recipe=dataclasses.asdict(recipe),
            text=text.facts,
        ),
        "held_out_top1": done.numbers["mtp"],
        "rank_acceptance": done.numbers["ranks"],
    }
    return write_mtp(output, module, config, layers, description, draft_ids=draft_ids, log=done.log)


def train(target: str, output: Path | None = None, *, resume: bool = False) -> dict[str, Any]:
    """Train a module on a pair's target by its recipe and write it; return its manifest.

    Args:
        target: name of a pair.
        output: folder to write; default: beside the checkpoint.
        resume: continue from the checkpoint if there is one.

    Raises:
        BadInput: if there is no recipe for that target.
    """
    if target not in RECIPES:
        known = ", ".join(("pocket", *RECIPES))
        raise BadInput(f"No mtp head is trained for {target!r}.", f"Targets: {known}.")
    recipe, work = RECIPES[target], WORK_DIR / target
    text = TEXTS[target](work, recipe.tokens_per_step, recipe.seed)
    handle = load_pair(target, device="cpu", dtype="float32").target
    folder = output or work / "mtp-weights"
    return train_on(handle, text, recipe, work=work, output=folder, resume=resume)
