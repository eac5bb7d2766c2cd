"""The recipe of EAGLE heads: text, the frozen target's features, several draft steps, export.

`python -m speclab train eagle1|eagle3 --target pocket|smollm2-135m [--resume]`. Checkpoint and log
are kept in `runs/heads/<target>`, so that a stopped run resumes where it left off.

**Source:** Li et al., EAGLE, 2024 (arXiv:2401.15077), section 4.2; Li et al., EAGLE-3, 2025
(arXiv:2503.01840), section 3.2, training-time test.
**Deviation:** the losses of EAGLE-1 weigh 0.2 and 1.0, not 1.0 and 0.1: a head that is trained for
minutes learns the law too slowly from features. EAGLE-1 learns several steps deep too, and draft
steps are added while the training goes on. The layer starts from the target's last one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig

from speclab.core.errors import BadInput
from speclab.models.catalogue import load_pair
from speclab.models.heads.eagle_files import default_layers
from speclab.models.heads.files import write_tensors
from speclab.training import loop
from speclab.training.attention import use_chunked_attention
from speclab.training.eagle_data import TEXTS, HeadText
from speclab.training.eagle_model import EagleModule, Kind
from speclab.training.frozen_target import FrozenTarget
from speclab.training.head_parts import (
    description_of,
    fit_head,
    frequent_tokens,
    llama_config,
    with_steps,
    write_description,
)
from speclab.training.losses import law_loss

WORK_DIR = Path("runs/heads")
RANKS = 10
PROBE_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of one head; the manifest records them.

    Attributes:
        minutes: of training. max_steps: optimiser steps after which it ends earlier, or None.
        steps: draft steps per place at the end (training-time test); it begins with one.
        step_decay: weight of step j is this to the power of j.
        feature_weight, law_weight: EAGLE-1: weights of smooth L1 on features and of the
            cross-entropy with the target's law.
        draft_vocab: EAGLE-3: tokens it may draft, the most frequent ones of the text.
        learning_rate: peak.
        law_vocab: EAGLE-1: tokens over which its laws are compared, the most frequent ones; None:
            all of them.
        tokens_per_step: of one optimiser step.
        seed: of weights and order.
    """

    minutes: float = 15.0
    max_steps: int | None = None
    steps: int = 5
    step_decay: float = 0.8
    feature_weight: float = 0.2
    law_weight: float = 1.0
    draft_vocab: int = 1280
    learning_rate: float = 5e-3
    law_vocab: int | None = None
    tokens_per_step: int = 512
    seed: int = 0


RECIPES: dict[tuple[str, Kind], Recipe] = {
    ("pocket", "eagle3"): Recipe(minutes=40.0),
    ("pocket", "eagle1"): Recipe(steps=4),
    ("smollm2-135m", "eagle3"): Recipe(
        minutes=90.0, steps=3, draft_vocab=8192, learning_rate=1e-3, tokens_per_step=1024
    ),
    ("smollm2-135m", "eagle1"): Recipe(
        minutes=10.0, steps=3, law_vocab=8192, learning_rate=1e-3, tokens_per_step=1024
    ),
}


def head_config(target: Any) -> LlamaConfig:
    """Return the configuration of a head's decoder layer: one layer of the target's."""
    same = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "rms_norm_eps",
        "rope_parameters",
        "max_position_embeddings",
    )
    return LlamaConfig(num_hidden_layers=1, **{key: getattr(target, key) for key in same})


def start_module(kind: Kind, model: Any, draft_ids: Tensor, seed: int) -> EagleModule:
    """Return a head that starts from the target's last layer, final norm and lm_head.

    Args:
        kind: "eagle1" or "eagle3".
        model: the target.
        draft_ids: target ids, ascending [draft vocab]: tokens that EAGLE-3 drafts, tokens over
            which the laws of EAGLE-1 are compared.
        seed: of what the target has no counterpart for.
    """
    config, head = head_config(model.config), model.get_output_embeddings().weight.detach()
    torch.manual_seed(seed)
    module = EagleModule(
        kind,
        config,
        model.get_input_embeddings().weight,
        target_head=head[draft_ids],
        draft_vocab=len(draft_ids),
    )
    last, layer, hidden = model.model.layers[-1], module.decoder(), config.hidden_size
    own = {key: value.clone() for key, value in last.state_dict().items()}
    if kind == "eagle1":
        fit_to_features(own, model, draft_ids[:PROBE_TOKENS])
    own = {key: value for key, value in own.items() if key in layer.state_dict()}
    with torch.no_grad():
        if kind == "eagle3":
            for name in ("q_proj", "k_proj", "v_proj"):
                key = f"self_attn.{name}.weight"
                wide = torch.empty(len(own[key]), 2 * hidden).normal_(std=0.02)
                wide[:, hidden:] = own[key]
                own[key] = wide
            own["hidden_norm.weight"] = own.pop("input_layernorm.weight")
            module.norm.weight.copy_(model.model.norm.weight)
            module.lm_head.weight.copy_(head[draft_ids])
        layer.load_state_dict(own, strict=False)
        module.fc.weight.normal_(std=0.02)
        module.fc.weight[:, -hidden:] += torch.eye(hidden)
        if module.fc.bias is not None:
            module.fc.bias.zero_()
    return module


@torch.no_grad()
def fit_to_features(own: dict[str, Tensor], model: Any, ids: Tensor) -> None:
    """Change the last layer's weights so that it reads and adds to states after the final norm.

    Features of EAGLE-1 are such states, and its layer has no norm before attention: that norm goes
    into the projections, the final one into what the layer adds.

    Args:
        own: weights of the target's last layer by key. model: the target.
        ids: tokens on which the size of the states is measured [n]; frequent ones will do.
    """
    norm, seen = model.model.norm, []
    hook = norm.register_forward_hook(lambda _, given, after: seen.extend((given[0], after)))
    try:
        model.model(input_ids=ids[None], use_cache=False)
    finally:
        hook.remove()
    before, after = (float(states.float().pow(2).mean(-1).sqrt().median()) for states in seen)
    for name in ("q_proj", "k_proj", "v_proj"):
        own[f"self_attn.{name}.weight"] *= own["input_layernorm.weight"] / after
    for key in ("self_attn.o_proj.weight", "mlp.down_proj.weight"):
        own[key] *= norm.weight[:, None] / before


def head_loss(target: FrozenTarget, recipe: Recipe, draft_ids: Tensor) -> loop.LossFunction:
    """Return the loss of a batch `ids`: steps weighted by `step_decay`, in nats per token.

    Cross-entropy with the target's law over `draft_ids`, where its best token is among them and the
    text is its own.
    EAGLE-1: smooth L1 on the features as well.
    """
    decay = [recipe.step_decay**step for step in range(recipe.steps)]
    known = torch.zeros(target.model.config.vocab_size, dtype=torch.bool)
    known[draft_ids] = True

    def loss_fn(module: nn.Module, batch: Any) -> Tensor:
        ids, count = batch["ids"], int(batch["steps"])
        seen = target(batch)
        counts = known[seen.best] & (seen.written > 0)
        law = target.logits(seen.final[counts], draft_ids).softmax(-1)
        number_of = counts.flatten().cumsum(0).view_as(counts) - 1
        steps: list[Tensor] = module(seen.features, ids, count)
        places, total = ids.shape[1] - count, torch.zeros(())
        for number, outputs in enumerate(steps):
            after = slice(1 + number, 1 + number + places)
            here = counts[:, after]
            one = law_loss(module.logits(outputs[here]), law[number_of[:, after][here]])
            if module.kind == "eagle1":
                wanted = seen.features[:, after].float()
                near = functional.smooth_l1_loss(outputs.float(), wanted)
                one = recipe.law_weight * one + recipe.feature_weight * near
            total = total + decay[number] * one
        return total / sum(decay[:count])

    return loss_fn


def held_out_numbers(
    target: FrozenTarget, batches: Sequence[Mapping[str, Tensor]], steps: int, draft_ids: Tensor
) -> loop.Evaluation:
    """Return an evaluation: per draft step, how often head and target have the same best token.

    Keys: `top1[j]`, given that the j tokens before were right; `rank[r]`, how often the target's
    best token is the head's r-th best, at step 0.
    """

    def evaluation(module: nn.Module) -> dict[str, float]:
        hits, ranks, totals = np.zeros(steps), np.zeros(RANKS), np.zeros(steps)
        for batch in batches:
            seen, ids = target(batch), batch["ids"]
            places = ids.shape[1] - steps
            for number, outputs in enumerate(module(seen.features, ids, steps)):
                after = slice(1 + number, 1 + number + places)
                wanted, own = seen.best[:, after], seen.written[:, after, None]
                top = draft_ids[module.logits(outputs).topk(RANKS, -1).indices]
                same = (top == wanted[..., None]) * own
                hits[number] += float(same[..., 0].sum())
                totals[number] += float(own.sum())
                if number == 0:
                    ranks += same.sum((0, 1)).numpy()
        shares, by_rank = hits / totals, ranks / totals[0]
        out = {f"top1[{step}]": round(float(share), 4) for step, share in enumerate(shares)}
        return out | {f"rank[{r}]": round(float(share), 4) for r, share in enumerate(by_rank)}

    return evaluation


def public_tensors(
    module: EagleModule, draft_ids: Tensor, target_vocab: int, dtype: torch.dtype = torch.float16
) -> dict[str, Tensor]:
    """Return what the head's file holds: its own tensors, and `d2t` and `t2d` of EAGLE-3."""
    tensors = {key: value.detach().to(dtype) for key, value in module.state_dict().items()}
    if module.kind == "eagle3":
        tensors["d2t"] = draft_ids - torch.arange(len(draft_ids))
        flags = torch.zeros(target_vocab, dtype=torch.bool)
        flags[draft_ids] = True
        tensors["t2d"] = flags
    return tensors


def write_head(
    folder: Path,
    module: EagleModule,
    config: LlamaConfig,
    draft_ids: Tensor,
    description: Mapping[str, Any],
    log: Path | None = None,
) -> dict[str, Any]:
    """Write the head in its public layout, its log and a manifest; return the manifest."""
    write_tensors(folder, public_tensors(module, draft_ids, config.vocab_size))
    own = {"bias": True} if module.kind == "eagle1" else {"draft_vocab_size": len(draft_ids)}
    said = llama_config(config, {"num_hidden_layers": 1, **own})
    return write_description(folder, said, description, log)


def train_on(
    kind: Kind,
    handle: Any,
    text: HeadText,
    recipe: Recipe,
    *,
    work: Path,
    output: Path,
    resume: bool = False,
) -> dict[str, Any]:
    """Train a head of a loaded target and write it; return its manifest.

    Args:
        kind: "eagle1" or "eagle3".
        handle: of the target, in float32; its attention is changed to the one of training.
        text: what the head reads.
        recipe: parameters.
        work: folder of checkpoint and log. output: folder of the head.
        resume: continue from the checkpoint if there is one.
    """
    model = handle.model
    use_chunked_attention(model)
    count = int(model.config.num_hidden_layers)
    layers = default_layers(count) if kind == "eagle3" else (count,)
    frozen = FrozenTarget(model, layers, text.stored_layers)
    vocab = int(model.config.vocab_size)
    wanted = recipe.draft_vocab if kind == "eagle3" else recipe.law_vocab or vocab
    draft_ids = frequent_tokens(text.counts, wanted, vocab)
    module = start_module(kind, model, draft_ids, recipe.seed)
    done = fit_head(
        module,
        with_steps(text.batch_at, recipe.steps),
        head_loss(frozen, recipe, draft_ids),
        recipe,
        held_out_numbers(frozen, text.held_out, max(5, recipe.steps), draft_ids),
        files=work / kind,
        resume=resume,
    )
    description = {
        **description_of(
            kind,
            handle.source,
            module,
            done.progress,
            recipe=dataclasses.asdict(recipe),
            text=text.facts,
        ),
        "held_out_top1": [v for key, v in done.numbers.items() if key.startswith("top1")],
        "rank_acceptance": [v for key, v in done.numbers.items() if key.startswith("rank")],
    }
    return write_head(output, module, head_config(model.config), draft_ids, description, done.log)


def train_head(
    kind: Kind, target: str, output: Path | None = None, *, resume: bool = False
) -> dict[str, Any]:
    """Train a head of a pair's target by its recipe and write it; return its manifest.

    Args:
        kind: "eagle1" or "eagle3".
        target: name of a pair.
        output: folder to write; default: beside the checkpoint.
        resume: continue from the checkpoint if there is one.

    Raises:
        BadInput: if there is no recipe for that target.
    """
    if (target, kind) not in RECIPES:
        known = ", ".join(dict.fromkeys(name for name, _ in RECIPES))
        raise BadInput(f"No {kind} head is trained for {target!r}.", f"Targets: {known}.")
    recipe, work = RECIPES[target, kind], WORK_DIR / target
    text = TEXTS[target](work, recipe.tokens_per_step, recipe.seed)
    handle = load_pair(target, device="cpu", dtype="float32").target
    folder = output or work / f"{kind}-weights"
    return train_on(kind, handle, text, recipe, work=work, output=folder, resume=resume)
