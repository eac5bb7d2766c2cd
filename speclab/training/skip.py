"""The recipe of `pocket-skip`: a target that can be left early, trained on from `pocket`.

`python -m speclab train pocket-skip [--resume]`. Layers are dropped, later ones more often, and
the state after every layer learns to predict through the final norm and the shared map to the
vocabulary. Checkpoint and log are kept in `runs/heads/pocket-skip`.

**Source:** Elhoushi et al., LayerSkip, 2024 (arXiv:2404.16710), section 4.1: the exponential
rise of the dropout over layers, the scale of the exits' losses, the rotational curriculum.
**Deviation:** minutes instead of 52 billion tokens, at a learning rate of 6e-4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from speclab.models.precision import autocast
from speclab.training import loop
from speclab.training.attention import use_chunked_attention
from speclab.training.losses import cross_entropy
from speclab.training.pocket_data import CorpusSize, Data, batch_source
from speclab.training.skip_model import exit_logits, run_layers

LONG_ROWS = 0.8
"""Progress at which the corpus gives rows of 512 tokens, without repeated phrases."""
FIRST_BATCH = 4_000_000
"""Batches are numbered from here, so that the rows are not those other targets have seen."""
LOGGED_ROWS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRecipe:
    """Parameters of the training; the manifest records them.

    Attributes:
        steps: of the optimiser.
        most_dropped: how often a row leaves out the last layer (the paper's p_max).
        exit_scale: of the losses of all exits but the last (the paper's e_scale).
        rotation: every so many layers have an exit in one step, other ones in the next (R).
        learning_rate: peak.
        tokens_per_step: of one optimiser step.
        seed: of what is dropped.
    """

    steps: int = 800
    most_dropped: float = 0.1
    exit_scale: float = 1.0
    rotation: int = 4
    learning_rate: float = 6e-4
    tokens_per_step: int = 1024
    seed: int = 0


def dropout_rates(num_layers: int, most: float) -> list[float]:
    """Return how often each layer is left out: 0 for the first, `most` for the last.

    **Source:** LayerSkip, section 4.1.1: p_max (exp(l ln 2 / (L - 1)) - 1), without a curriculum in
    time, as the paper continues from trained weights.
    """
    return [most * (2.0 ** (layer / (num_layers - 1)) - 1.0) for layer in range(num_layers)]


def exit_weights(num_layers: int, scale: float) -> list[float]:
    """Return what the loss of the exit after each layer counts, relative to the others.

    **Source:** LayerSkip, section 4.1.2: scale * (0 + ... + l) for layer l; L - 1 more for the last
    one, whose sum goes up to l = L - 2.
    """
    sums = [scale * layer * (layer + 1) / 2 for layer in range(num_layers)]
    return [*sums[:-1], num_layers - 1 + sums[-2]]


def exits_at(step: int, num_layers: int, rotation: int) -> list[int]:
    """Return the layers whose exits learn in a step, ascending; the last one always does.

    The first layer's loss counts 0 and is left out.

    **Source:** LayerSkip, section 4.1.2, the curriculum C_rot,R.
    """
    last = num_layers - 1
    turn = {layer for layer in range(num_layers) if (layer - step) % rotation == 0}
    return sorted((turn | {last}) - {0})


def exit_loss(recipe: SkipRecipe) -> loop.LossFunction:
    """Return the weighted mean of the exits' cross-entropies of a batch, in nats per token."""

    def loss_fn(model: Any, batch: Any) -> Tensor:
        ids, exits = batch["ids"], batch["exits"].tolist()
        states = run_layers(model, ids, kept=batch["kept"])
        weights = exit_weights(len(states), recipe.exit_scale)
        losses = [weights[e] * cross_entropy(exit_logits(model, states[e]), ids) for e in exits]
        return torch.stack(losses).sum() / sum(weights[e] for e in exits)

    return loss_fn


def batches(data: Data, recipe: SkipRecipe, num_layers: int) -> loop.BatchSource:
    """Return batches `ids`, `kept` bool [layers, rows] and `exits` int64 [exits], by step alone."""
    source = batch_source(data, CorpusSize(tokens_per_step=recipe.tokens_per_step, echo_share=0.0))
    rates = np.array(dropout_rates(num_layers, recipe.most_dropped))

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        ids = source(FIRST_BATCH + step, LONG_ROWS)["ids"]
        rng = np.random.default_rng((recipe.seed, FIRST_BATCH + step))
        kept = rng.random((num_layers, len(ids))) >= rates[:, None]
        return {
            "ids": ids,
            "kept": torch.from_numpy(kept),
            "exits": torch.tensor(exits_at(step, num_layers, recipe.rotation)),
        }

    return batch_at


@torch.no_grad()
def exit_numbers(model: Any, rows: Mapping[str, Tensor]) -> dict[str, dict[str, list[float]]]:
    """Return what the exits after 1, 2, ... layers are worth on rows of each family.

    Args:
        model: in eval mode. rows: int64 [rows, length] by family.

    Returns:
        `loss`: cross-entropies in nats per token [layers] by family; `agreement`: how often an
        exit's best token is that of the whole model [layers] by family. The last entries are the
        whole model's own.
    """
    losses, agreement = {}, {}
    for family, ids in rows.items():
        with autocast():
            found: list[tuple[float, Tensor]] = []
            for state in run_layers(model, ids):
                logits = exit_logits(model, state)
                found.append((float(cross_entropy(logits, ids)), logits.argmax(-1)))
        best = found[-1][1]
        losses[family] = [round(loss, 4) for loss, _ in found]
        agreement[family] = [round(float((own == best).float().mean()), 4) for _, own in found]
    return {"loss": losses, "agreement": agreement}


def mean_of(by_family: Mapping[str, list[float]]) -> list[float]:
    """Return the mean over families, exit by exit."""
    return [round(float(value), 4) for value in np.mean(list(by_family.values()), axis=0)]


def evaluation_of(data: Data) -> loop.Evaluation:
    """Return what is logged meanwhile: means over families of some held-out and fresh rows."""
    texts = {"held_out": data.held_out, "fresh": data.fresh}
    some = {
        name: {family: rows[:LOGGED_ROWS] for family, rows in rows_of.items()}
        for name, rows_of in texts.items()
    }

    def evaluation(model: nn.Module) -> dict[str, Any]:
        out = {}
        for name, rows in some.items():
            numbers = exit_numbers(model, rows)
            out |= {f"{name}_{what}": mean_of(of) for what, of in numbers.items()}
        return out

    return evaluation


def train_skip(
    model: Any, data: Data, recipe: SkipRecipe, *, work: Path, resume: bool = False
) -> loop.Progress:
    """Train a causal LM in place; return how far it went.

    Args:
        model: of the Llama family in float32, already trained.
        data: the encoded corpus.
        recipe: parameters.
        work: folder of checkpoint and log.
        resume: continue from the checkpoint if there is one.
    """
    use_chunked_attention(model)
    checkpoint, log = work / "skip.pt", work / "skip.jsonl"
    if not resume:
        loop.forget_run(checkpoint, log)
    return loop.run_loop(
        model,
        batches(data, recipe, int(model.config.num_hidden_layers)),
        exit_loss(recipe),
        loop.LoopConfig(
            max_steps=recipe.steps,
            learning_rate=recipe.learning_rate,
            warmup_steps=50,
            evaluate_every_s=400.0,
            checkpoint_every_s=60.0,
        ),
        checkpoint=checkpoint,
        log=log,
        resume=resume,
        evaluation=evaluation_of(data),
    )
