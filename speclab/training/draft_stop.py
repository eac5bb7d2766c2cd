"""The recipe of the learned stops: how likely the target is to accept a drafted token.

Prompts that are in no test are continued with drafts of constant length, greedy and at temperature
1. Every token that the target judged is a row: what a stop reads of it, and the chance with which
it was accepted. A network of one hidden layer learns that chance.

**Source:** SpecDec++ 2405.19715, section 3.2.
**Deviation:** labels are the rule's own probabilities where the paper draws them, only tokens that
were reached count (the product of chances needs no others), and nothing is weighted: the network is
to be calibrated, so that the threshold means what it says.
"""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import Law, Row, Sampling
from speclab.core.protocols import DraftKit, DraftRun
from speclab.core.randomness import Seeded
from speclab.core.rules import RULES
from speclab.engine.loop import Decoding, Limits
from speclab.methods.draft_length import ChainLength, stop_features
from speclab.methods.draft_model import DraftModelRun
from speclab.methods.head_chain import PlannedChainRun
from speclab.models.pair import Pair
from speclab.models.stops import FEATURES, WEIGHTS, LearnedStop

Floats = NDArray[np.float64]
HEADS = {"eagle-2": "eagle1", "eagle-3": "eagle3", "mtp": "mtp"}
"""Methods whose chains may have a stop, besides draft-model, and the head that drafts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a stop is made.

    Attributes:
        prompts, new_tokens: text at each temperature. gamma: tokens drafted per round.
        temperatures: of target and draft.
        held_out: share of the prompts that is measured on.
        units: hidden ones. decay: weight of the squared weights in the loss. seed: of everything.
    """

    prompts: int = 45
    new_tokens: int = 48
    gamma: int = 9
    temperatures: tuple[float, ...] = (0.0, 1.0)
    held_out: float = 0.25
    units: int = 8
    decay: float = 1e-4
    seed: int = 0


class Noting(ChainLength):
    """A constant length that notes what a learned stop would read."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.rows: list[tuple[float, ...]] = []
        self._previous = 1.0

    def plan(self) -> int:
        """Begin a chain."""
        self.rows = []
        return self.most

    def stops(self, row: Row, token: int, law: Law | None) -> float:
        """Note the token and go on."""
        self.rows.append(stop_features(row, token, law, len(self.rows), self._previous))
        return 0.0

    def observe(self, drafted: int, accepted: int) -> None:
        """Remember how the round went."""
        if drafted:
            self._previous = accepted / drafted


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What was judged: features [n, len(FEATURES)], chances of acceptance [n], prompt of each."""

    features: Floats
    accepted: Floats
    prompt: NDArray[np.int64]


def methods_of(pair: Pair) -> list[str]:
    """Return the methods of a pair whose chains a stop can be trained for."""
    there = ["draft-model"] if pair.drafts else []
    return there + [method for method, head in HEADS.items() if head in pair.heads]


def training_prompts(pair: Pair, count: int, seed: int) -> list[tuple[int, ...]]:
    """Return prompts of the training split, or chat requests that no measurement uses."""
    if pair.codec.chat_by_default:
        from speclab.training.smollm2_prompts import write_prompts

        texts = write_prompts(count, random.Random(seed + 1))
    else:
        from speclab.training.corpus import FAMILIES, write_document
        from speclab.training.corpus.prompts import prompt_part

        families = list(FAMILIES)
        texts = [
            prompt_part(family, write_document(family, "train", 500_000 + number, seed).text)
            for number in range(count)
            for family in [families[number % len(families)]]
        ]
    return [pair.codec.encode(text) for text in texts]


def collect(
    pair: Pair, method: str, recipe: Recipe, progress: Callable[[str], None] = print
) -> Rows:
    """Run the drafter on the prompts and return every token that the target judged."""
    features: list[tuple[float, ...]] = []
    accepted: list[float] = []
    owner: list[int] = []
    prompts = training_prompts(pair, recipe.prompts, recipe.seed)
    for number, prompt in enumerate(prompts):
        for temperature in recipe.temperatures:
            sampling, length = Sampling(temperature=temperature), Noting(recipe.gamma)
            decoding = _open(pair, method, prompt, sampling, length, recipe, number)
            for round_ in decoding:
                for flip in round_.verdict.flips:
                    if flip.node < len(length.rows):
                        features.append(length.rows[flip.node])
                        accepted.append(flip.accept_prob)
                        owner.append(number)
        if number % 10 == 9:
            progress(f"{method}: prompt {number + 1} of {len(prompts)}, {len(owner)} tokens")
    return Rows(
        features=np.array(features), accepted=np.array(accepted), prompt=np.array(owner, dtype=int)
    )


def _open(
    pair: Pair,
    method: str,
    prompt: tuple[int, ...],
    sampling: Sampling,
    length: ChainLength,
    recipe: Recipe,
    seed: int,
) -> Decoding:
    head = None if method == "draft-model" else pair.heads[HEADS[method]]
    session = pair.target.open(prompt, () if head is None else head.taps)
    kit = DraftKit(
        prompt=prompt,
        sampling=sampling,
        eos_ids=pair.eos_ids,
        vocab_size=pair.target.vocab_size,
        drafts=pair.drafts,
        target=session,
        prefill_features=session.prefill_features if head is not None else {},
    )
    run: DraftRun = (
        DraftModelRun(pair.drafts[0], kit, sampling, recipe.gamma, 0.0, length=length)
        if head is None
        else PlannedChainRun(head, kit, length)
    )
    return Decoding(
        session=session,
        run=run,
        rule=RULES["token"],
        rng=Seeded(recipe.seed + seed),
        sampling=sampling,
        limits=Limits(
            max_new_tokens=recipe.new_tokens,
            max_context=pair.target.max_context,
            eos_ids=pair.eos_ids,
        ),
    )


# --- the network ------------------------------------------------------------------------------


def fit(features: Floats, accepted: Floats, recipe: Recipe) -> LearnedStop:
    """Fit a network to chances of acceptance by cross entropy (L-BFGS, to convergence).

    Args:
        features: [n, len(FEATURES)]. accepted: chances [n].
    """
    from scipy.optimize import minimize

    means, scales = features.mean(0), features.std(0)
    scales = np.where(scales > 1e-6, scales, 1.0)
    scaled, width, units = (features - means) / scales, features.shape[1], recipe.units
    start = np.random.default_rng(recipe.seed).normal(0.0, 0.5, units * (width + 2) + 1)
    cuts = np.cumsum([units * width, units, units])

    def loss(weights: Floats) -> tuple[float, Floats]:
        flat, bias, out, last = np.split(weights, cuts)
        hidden = np.tanh(scaled @ flat.reshape(units, width).T + bias)
        logit = hidden @ out + last[0]
        value = float((np.logaddexp(0.0, logit) - accepted * logit).mean())
        back = (1.0 / (1.0 + np.exp(-logit)) - accepted) / len(accepted)
        below = (back[:, None] * out) * (1.0 - hidden**2)
        slope = (below.T @ scaled).ravel(), below.sum(0), hidden.T @ back, [back.sum()]
        return (
            value + recipe.decay * float(weights @ weights),
            np.concatenate(slope) + 2.0 * recipe.decay * weights,
        )

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    flat, bias, out, last = np.split(found, cuts)
    return LearnedStop(
        means=means,
        scales=scales,
        hidden=flat.reshape(units, width),
        hidden_bias=bias,
        out=out,
        out_bias=float(last[0]),
    )


def log_loss(predicted: Floats, accepted: Floats) -> float:
    """Return the mean cross entropy of predicted chances [n] against chances [n], in nats."""
    p = np.clip(predicted, 1e-6, 1.0 - 1e-6)
    return float(-(accepted * np.log(p) + (1.0 - accepted) * np.log1p(-p)).mean())


def judge(stop: LearnedStop, rows: Rows, rate: float) -> dict[str, float | int]:
    """Return how well a stop predicts rows it has not seen.

    Args:
        rate: acceptance in training, the guess to be better than.
    """
    predicted = np.array([stop.acceptance(row) for row in rows.features])
    deterministic = rows.features[:, FEATURES.index("deterministic")] > 0.5
    own = np.exp(np.where(deterministic, rows.features[:, 1], rows.features[:, 0]))
    return {
        "tokens": len(predicted),
        "mean_acceptance": round(float(rows.accepted.mean()), 4),
        "mean_predicted": round(float(predicted.mean()), 4),
        "log_loss": round(log_loss(predicted, rows.accepted), 4),
        "log_loss_of_the_mean": round(log_loss(np.full(len(predicted), rate), rows.accepted), 4),
        "log_loss_of_the_drafts_own_probability": round(log_loss(own, rows.accepted), 4),
        "least_possible_log_loss": round(log_loss(rows.accepted, rows.accepted), 4),
    }


def train_stop(
    pair: Pair,
    method: str,
    folder: Path,
    recipe: Recipe,
    progress: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Collect rows, fit a stop, measure it on other prompts, write it; return its manifest."""
    from speclab.models.heads.files import write_manifest

    rows = collect(pair, method, recipe, progress)
    seen = rows.prompt < recipe.prompts * (1.0 - recipe.held_out)
    stop = fit(rows.features[seen], rows.accepted[seen], recipe)
    unseen = Rows(
        features=rows.features[~seen], accepted=rows.accepted[~seen], prompt=rows.prompt[~seen]
    )
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(stop.to_data(), indent=1)
    (folder / WEIGHTS).write_text(text + "\n", encoding="utf-8")
    models = {"target": pair.target, "draft": pair.drafts[0] if method == "draft-model" else None}
    description = {
        "what": "chance that the target accepts a drafted token, for draft_length=learned",
        "pair": pair.name,
        "method": method,
        "dtype": pair.dtype,
        **{name: getattr(model, "source", "") for name, model in models.items() if model},
        "recipe": {"command": f"train draft-stop --target {pair.name}", **asdict(recipe)},
        "tokens": int(seen.sum()),
        "held_out": judge(stop, unseen, float(rows.accepted[seen].mean())),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    return write_manifest(folder, description)


def train(target: str, output: Path | None, *, recipe: Recipe | None = None) -> None:
    """Train a stop for every chain drafter of a pair and write each into a folder of its name.

    Raises:
        BadInput: for a pair that nothing drafts chains for.
    """
    from speclab.models.catalogue import load_pair

    pair = load_pair(target, device="cpu")
    folder = output or Path("runs") / "draft-stop" / target
    methods = methods_of(pair)
    if not methods:
        raise BadInput(f"Nothing drafts chains for {target}.")
    chosen = recipe or RECIPES.get(target, Recipe())
    for method in methods:
        manifest = train_stop(pair, method, folder / method, chosen)
        print(f"{folder / method}: {manifest['held_out']}")


RECIPES = {"smollm2-135m": Recipe(prompts=32, new_tokens=40, gamma=7)}
"""Less text for a target that is slower than the bundled one."""
