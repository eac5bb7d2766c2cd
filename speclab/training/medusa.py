"""The recipe of Medusa and Hydra heads: text, the frozen target's states and laws, export.

`python -m speclab train medusa|hydra --target pocket [--resume]`. Checkpoint and log are kept in
`runs/heads/<target>`, so that a stopped run resumes where it left off.

Source: Cai et al., Medusa, 2024 (arXiv:2401.10774), section 2.2.1, equation 1; Ankner et al.,
Hydra, 2024 (arXiv:2402.05109), section 4 (teacher loss).
Deviation: both start from a linear map (`medusa_start`) and are trained on the target's laws
instead of the text's tokens. Hydra's map to the vocabulary stays the target's own; Medusa's are
its own on `pocket`, since SiLU is never below -0.28 and a block can hardly take away what the
state says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.randomness import Seeded
from speclab.models.catalogue import load_pair
from speclab.models.heads.files import write_tensors
from speclab.models.heads.hydra import ARCHITECTURE, HydraHead
from speclab.models.heads.medusa import MedusaHead
from speclab.models.precision import autocast
from speclab.models.transformer import TransformerHandle
from speclab.training import loop
from speclab.training.eagle_data import TEXTS, HeadText
from speclab.training.frozen_target import FrozenTarget
from speclab.training.head_parts import (
    description_of,
    frequent_tokens,
    public_source,
    write_description,
)
from speclab.training.medusa_start import start_by_regression

WORK_DIR = Path("runs/heads")
RANKS = 10
LAW_TOKENS = 16
FIRST_START_BATCH = 1_000_000
Kind = Literal["medusa", "hydra"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of the heads; the manifest records them.

    Attributes:
        num_heads, num_layers: of the heads.
        own_outputs: each head has a map to the vocabulary of its own, which begins as the target's.
        start_tokens: of the text from which the heads' linear start is found; 0: none.
        law_vocab: tokens over which laws are compared, the most frequent ones; None: all of them.
        minutes: of training. max_steps: optimiser steps after which it ends earlier, or None.
        head_decay: weight of head k is this to the power of k.
        learning_rate: peak.
        tokens_per_step: of one optimiser step.
        measured_prompts, measured_tokens: held-out prompts per family, and tokens that the target
            writes after each, on which the heads' accuracies are measured.
        seed: of the order of batches and of what the target writes.
    """

    num_heads: int = 4
    num_layers: int = 1
    own_outputs: bool = False
    start_tokens: int = 0
    law_vocab: int | None = None
    minutes: float = 6.0
    max_steps: int | None = None
    head_decay: float = 0.8
    learning_rate: float = 1e-3
    tokens_per_step: int = 512
    measured_prompts: int = 8
    measured_tokens: int = 64
    seed: int = 0


RECIPES: dict[tuple[str, Kind], Recipe] = {
    ("pocket", "medusa"): Recipe(own_outputs=True, minutes=4.0, start_tokens=80_000),
    ("pocket", "hydra"): Recipe(num_layers=2, minutes=12.0, start_tokens=80_000),
    ("smollm2-135m", "medusa"): Recipe(minutes=6.0, law_vocab=8192),
}


def frozen(model: Any, stored: tuple[int, ...] | None = None) -> FrozenTarget:
    """Return the target as a source of states after the final norm."""
    return FrozenTarget(model, (int(model.config.num_hidden_layers),), stored)


def new_head(
    kind: Kind, model: Any, recipe: Recipe, tokens: Tensor | None = None
) -> MedusaHead | HydraHead:
    """Return untrained heads on a target: they begin as its own map on the state.

    Args:
        kind: "medusa" or "hydra". model: the target. recipe: parameters.
        tokens: target ids that the heads' logits are of [outputs], or None for all.
    """
    shape = recipe.num_heads, recipe.num_layers
    lm_head = model.get_output_embeddings().weight.detach()
    lm_head = lm_head if tokens is None else lm_head[tokens]
    if kind == "medusa":
        return MedusaHead(*shape, lm_head, own_outputs=recipe.own_outputs)
    embedding = model.get_input_embeddings().weight.detach()
    return HydraHead(*shape, embedding, lm_head, own_outputs=recipe.own_outputs)


def head_logits(head: nn.Module, states: Tensor, ids: Tensor) -> list[Tensor]:
    """Return the logits of every head at every place whose future the row still holds.

    Head k at place i guesses token i + 2 + k; Hydra's reads the tokens i + 1 to i + 1 + k.

    Args:
        head: Medusa or Hydra heads.
        states: the target's [rows, length, hidden]. ids: int64 [rows, length].

    Returns:
        Per head [rows * places, vocab]; places is length - heads - 1.
    """
    count = head.num_heads
    places = ids.shape[1] - count - 1
    flat = states[:, :places].reshape(-1, states.shape[-1])
    if isinstance(head, MedusaHead):
        return list(head.logits(head.states(flat)))
    out = []
    for k in range(count):
        read = ids[:, 1 : places + k + 1].unfold(1, k + 1, 1).reshape(-1, k + 1)
        out.append(head.logits(k, head.states(k, flat, head.embedding[read])))
    return out


def heads_loss(
    target: FrozenTarget, recipe: Recipe, tokens: Tensor | None = None
) -> loop.LossFunction:
    """Return the cross-entropy of the heads with the target's laws, in nats per token.

    The law that head k at place i is compared with is the target's own for token i + 2 + k, over
    its `LAW_TOKENS` most likely tokens, where its best one is among `tokens`.

    Args:
        target: the frozen one. recipe: parameters.
        tokens: target ids that the heads' logits are of [outputs], or None for all.
    """
    decay = [recipe.head_decay**k for k in range(recipe.num_heads)]
    own = own_places(target.model.config.vocab_size, tokens)

    def loss_fn(head: nn.Module, batch: Any) -> Tensor:
        ids, seen = batch["ids"], target(batch)
        logits = target.logits(seen.final, tokens)
        best = logits.topk(min(LAW_TOKENS, logits.shape[-1]), -1)
        law, counts = best.values.softmax(-1), (own[seen.best] >= 0) * seen.written
        places, total = ids.shape[1] - recipe.num_heads - 1, torch.zeros(())
        for k, guess in enumerate(head_logits(head, seen.final, ids)):
            after = slice(1 + k, 1 + k + places)
            guess = guess.float()
            wanted, chance = (part[:, after].flatten(0, 1) for part in (best.indices, law))
            where = counts[:, after].flatten()
            named = (guess.gather(1, wanted) * chance).sum(-1)
            one = ((guess.logsumexp(-1) - named) * where).sum() / where.sum().clamp(min=1)
            total = total + decay[k] * one
        return total / sum(decay)

    return loss_fn


def own_places(vocab: int, tokens: Tensor | None) -> Tensor:
    """Return the place of each target id among `tokens`, -1 where it is missing [vocab]."""
    if tokens is None:
        return torch.arange(vocab)
    places = torch.full((vocab,), -1)
    places[tokens] = torch.arange(len(tokens))
    return places


def held_out_numbers(
    target: FrozenTarget, batches: Sequence[Mapping[str, Tensor]], tokens: Tensor | None = None
) -> loop.Evaluation:
    """Return an evaluation: `top1[k]`, how often head k and the target have the same best token."""
    own = own_places(target.model.config.vocab_size, tokens)

    def evaluation(head: nn.Module) -> dict[str, float]:
        hits, totals = np.zeros(head.num_heads), np.zeros(head.num_heads)
        for batch in batches:
            seen, ids = target(batch), batch["ids"]
            best, places = own[seen.best], ids.shape[1] - head.num_heads - 1
            for k, guess in enumerate(head_logits(head, seen.final, ids)):
                after = slice(1 + k, 1 + k + places)
                wanted, mine = best[:, after].reshape(-1), seen.written[:, after].reshape(-1)
                hits[k] += float(((guess.argmax(-1) == wanted) * mine).sum())
                totals[k] += float(mine.sum())
        return {f"top1[{k}]": round(float(hit), 4) for k, hit in enumerate(hits / totals)}

    return evaluation


def written_text(
    handle: TransformerHandle, prompt: Sequence[int], count: int, temperature: float, seed: int
) -> list[int]:
    """Return `count` tokens that the target writes after a prompt, an end of text or not."""
    session, rng = handle.open(prompt), Seeded(seed)
    sampling = Sampling(temperature=temperature)
    for _ in range(count):
        row = session.score().row(0)
        session.commit((), row.top() if sampling.greedy else rng.draw(row.law(sampling)))
    return session.tokens[len(prompt) :]


@torch.no_grad()
def measured_accuracies(
    head: nn.Module, handle: TransformerHandle, prompts: Sequence[Sequence[int]], recipe: Recipe
) -> dict[str, Any]:
    """Measure how often each head is right, per rank, on text that the target writes.

    Every prompt is continued greedily and at temperature 1.

    Returns:
        `accuracies` [heads][ranks]; `accuracies_measured_on`: on how many tokens of what.
    """
    target = frozen(handle.model)
    counts, total = np.zeros((head.num_heads, RANKS)), 0
    for number, prompt in enumerate(prompts):
        for temperature in (0.0, 1.0):
            text = written_text(handle, prompt, recipe.measured_tokens, temperature, number)
            ids = torch.tensor([[*prompt, *text]])
            states = target({"ids": ids}).final
            first, places = max(0, len(prompt) - 2), ids.shape[1] - head.num_heads - 1
            for k, guess in enumerate(head_logits(head, states, ids)):
                wanted = ids[0, 2 + k + first : 2 + k + places]
                values = guess[first:]
                mine = values.gather(1, wanted[:, None])
                ranks = (values > mine).sum(-1).numpy()
                counts[k] += np.bincount(ranks[ranks < RANKS], minlength=RANKS)
            total += places - first
    table = (counts / total).round(4).tolist()
    text = "written by the target after held-out prompts, greedily and at temperature 1"
    return {"accuracies": table, "accuracies_measured_on": {"positions": total, "text": text}}


def measuring_prompts(target: str, codec: Any, recipe: Recipe) -> list[list[int]]:
    """Return prompts that were not trained on, of the target's own kind of text."""
    from speclab.training.corpus import FAMILIES
    from speclab.training.corpus.prompts import held_out_prompts
    from speclab.training.smollm2_prompts import EVALUATION_PROMPTS
    from speclab.training.smollm2_samples import chat_ids

    if target == "smollm2-135m":
        return [chat_ids(codec.tokenizer, prompt) for prompt in EVALUATION_PROMPTS]
    return [
        codec.tokenizer(prompt)["input_ids"]
        for family in FAMILIES
        for prompt in held_out_prompts(family, recipe.measured_prompts, recipe.seed)
    ]


def config_of(kind: Kind, recipe: Recipe, base: str) -> dict[str, Any]:
    """Return the public `config.json`."""
    config = {
        f"{kind}_num_heads": recipe.num_heads,
        f"{kind}_num_layers": recipe.num_layers,
        "base_model_name_or_path": base,
    }
    if kind == "hydra":
        config |= {
            "hydra_head_arch": ARCHITECTURE,
            "grounded_heads": True,
            "hidden_state_offset": 0,
        }
    return config


def write_head(
    folder: Path,
    head: MedusaHead | HydraHead,
    config: dict[str, Any],
    description: dict[str, Any],
    log: Path | None = None,
) -> dict[str, Any]:
    """Write the heads in their public layout, float16, with log and manifest."""
    write_tensors(folder, {key: value.half() for key, value in head.tensors().items()})
    return write_description(folder, config, description, log)


def train_head(
    kind: Kind,
    target: str,
    output: Path | None = None,
    *,
    resume: bool = False,
    recipe: Recipe | None = None,
    text: HeadText | None = None,
) -> dict[str, Any]:
    """Train heads on the target of a pair and write them; return their manifest.

    Args:
        kind: "medusa" or "hydra".
        target: name of a pair.
        output: folder to write; default: beside the checkpoint.
        resume: continue from the checkpoint if there is one.
        recipe: default: the one of RECIPES.
        text: default: the one of `eagle_data.TEXTS`.

    Raises:
        BadInput: if there is no recipe for that target.
    """
    if (target, kind) not in RECIPES:
        known = ", ".join(name for name, of in RECIPES if of == kind)
        raise BadInput(f"No {kind} heads are trained for {target!r}.", f"Targets: {known}.")
    recipe = recipe or RECIPES[target, kind]
    work = WORK_DIR / target
    text = text or TEXTS[target](work, recipe.tokens_per_step, recipe.seed)
    pair = load_pair(target, device="cpu", dtype="float32")
    handle: Any = pair.target
    tokens = law_tokens(text.counts, recipe, handle.model.config.vocab_size)
    head = new_head(kind, handle.model, recipe, tokens)
    evaluation = held_out_numbers(frozen(handle.model, text.stored_layers), text.held_out, tokens)
    log = work / f"{kind}.jsonl"
    done = fit(head, handle.model, text, recipe, evaluation, log, resume=resume)
    whole = new_head(kind, handle.model, recipe)
    whole.load_state_dict(head.state_dict())
    prompts = measuring_prompts(target, pair.codec, recipe)
    measured = measured_accuracies(whole.eval(), handle, prompts, recipe)
    description = {
        **description_of(
            kind,
            handle.source,
            head,
            done,
            recipe={"name": kind, "target": target, **dataclasses.asdict(recipe)},
            text=text.facts,
        ),
        "held_out_top1": list(loop.evaluate(head, evaluation).values()),
        **measured,
    }
    folder = output or work / f"{kind}-weights"
    return write_head(
        folder, whole, config_of(kind, recipe, public_source(handle.source)), description, log
    )


def law_tokens(counts: np.ndarray, recipe: Recipe, vocab: int) -> Tensor | None:
    """Return the ids over which laws are compared, ascending, or None for all."""
    wanted = recipe.law_vocab
    return None if wanted is None else frequent_tokens(counts, wanted, vocab)


def fit(
    head: MedusaHead | HydraHead,
    model: Any,
    text: HeadText,
    recipe: Recipe,
    evaluation: loop.Evaluation,
    log: Path,
    *,
    resume: bool,
) -> loop.Progress:
    """Start heads by regression and train them in place; the checkpoint stands beside the log."""
    target, checkpoint = frozen(model, text.stored_layers), log.with_suffix(".pt")
    if not resume:
        loop.forget_run(checkpoint, log)
    if recipe.start_tokens and not checkpoint.exists():
        steps = range(recipe.start_tokens // recipe.tokens_per_step)
        with autocast():
            rows = (text.batch_at(FIRST_START_BATCH + step, 0.0) for step in steps)
            start_by_regression(head, target, rows)
        loop.append_log(log, {"step": 0, "held_out": loop.evaluate(head, evaluation)})
    limits = loop.LoopConfig(
        budget_s=recipe.minutes * 60,
        max_steps=recipe.max_steps,
        learning_rate=recipe.learning_rate,
        warmup_steps=50,
        weight_decay=0.0,
        evaluate_every_s=120.0,
        checkpoint_every_s=60.0,
    )
    return loop.run_loop(
        head,
        text.batch_at,
        heads_loss(target, recipe, law_tokens(text.counts, recipe, model.config.vocab_size)),
        limits,
        checkpoint=checkpoint,
        log=log,
        resume=resume,
        evaluation=evaluation,
    )
