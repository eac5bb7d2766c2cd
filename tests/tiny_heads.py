"""Random trained heads for tiny models, written and read in their public layouts; a forced rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from speclab.core.laws import Sampling
from speclab.core.protocols import (
    DraftKit,
    Feedback,
    Method,
    Proposal,
    Room,
    VerifyRule,
    taps_of,
)
from speclab.core.randomness import Randomness, Seeded
from speclab.core.records import Verdict
from speclab.core.rules import RULES
from speclab.core.trees import EMPTY_TREE, PENDING, TokenTree
from speclab.engine.loop import Decoding, Limits
from speclab.methods import METHODS
from speclab.methods.eagle1 import Eagle1
from speclab.methods.eagle2 import Eagle2
from speclab.models.heads.files import write_manifest
from speclab.models.heads.shelf import LOADERS, load_head
from speclab.models.transformer import TransformerHandle

LAYERS, HIDDEN, VOCAB, OWN, INNER = 8, 32, 40, 30, 48
TARGET_SHAPE: dict[str, Any] = {"num_hidden_layers": LAYERS, "tie_word_embeddings": False}
"""Of a tiny model deep enough for three different taps."""

KINDS = ("medusa", "hydra", "eagle1", "eagle3", "mtp")
HEAD_METHODS: dict[str, type[Any]] = {
    "eagle-1": Eagle1,
    "eagle-2": Eagle2,
    **{
        name: method
        for name, method in METHODS.items()
        if any(need.removeprefix("head:") in KINDS for need in method.card.needs)
    },
}
"""Every method whose head is among `KINDS`."""


class Draw:
    """Random tensors of float64, each different."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int, mean: float = 0.0) -> Tensor:
        noise = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return mean + 0.3 * noise


def decoder(draw: Draw, stem: str, read: int) -> dict[str, Tensor]:
    """Return the tensors of a head's layer, whose attention reads `read` numbers."""
    attention = {"q": (32, read), "k": (16, read), "v": (16, read), "o": (HIDDEN, 32)}
    out = {f"{stem}self_attn.{n}_proj.weight": draw(*shape) for n, shape in attention.items()}
    mlp = {"gate": (INNER, HIDDEN), "up": (INNER, HIDDEN), "down": (HIDDEN, INNER)}
    out |= {f"{stem}mlp.{name}_proj.weight": draw(*shape) for name, shape in mlp.items()}
    return out | {f"{stem}post_attention_layernorm.weight": draw(HIDDEN, mean=1.0)}


def eagle1(draw: Draw) -> dict[str, Tensor]:
    """Return the tensors of an EAGLE-1 head."""
    return {
        "fc.weight": draw(HIDDEN, 2 * HIDDEN),
        "fc.bias": draw(HIDDEN),
        **decoder(draw, "layers.0.", HIDDEN),
    }


def eagle3(draw: Draw) -> dict[str, Tensor]:
    """Return the tensors of an EAGLE-3 head that drafts 30 of 40 tokens."""
    ids = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(VOCAB)[:OWN]))
    flags = torch.zeros(VOCAB, dtype=torch.bool)
    flags[ids] = True
    norms = ("midlayer.hidden_norm", "midlayer.input_layernorm", "norm")
    return {
        "fc.weight": draw(HIDDEN, 3 * HIDDEN),
        **decoder(draw, "midlayer.", 2 * HIDDEN),
        **{f"{norm}.weight": draw(HIDDEN, mean=1.0) for norm in norms},
        "lm_head.weight": draw(OWN, HIDDEN),
        "d2t": ids - torch.arange(OWN),
        "t2d": flags,
    }


def medusa(draw: Draw, heads: int = 3) -> dict[str, Tensor]:
    """Return the tensors of Medusa heads that use the target's map."""
    out: dict[str, Tensor] = {}
    for head in range(heads):
        out[f"{head}.0.linear.weight"] = draw(HIDDEN, HIDDEN)
        out[f"{head}.0.linear.bias"] = draw(HIDDEN)
    return out


def hydra(draw: Draw, heads: int = 3) -> dict[str, Tensor]:
    """Return the tensors of Hydra heads that use the target's map."""
    out: dict[str, Tensor] = {}
    for head in range(heads):
        for part in ("linear", "res_connection"):
            out[f"hydra_mlp.{head}.0.{part}.weight"] = draw(HIDDEN, HIDDEN * (head + 2))
            out[f"hydra_mlp.{head}.0.{part}.bias"] = draw(HIDDEN)
    return out


def mtp(draw: Draw) -> dict[str, Tensor]:
    """Return the tensors of an appended layer."""
    stem = f"model.layers.{LAYERS}."
    norms = ("enorm", "hnorm", "shared_head.norm", "input_layernorm")
    return {
        f"{stem}eh_proj.weight": draw(HIDDEN, 2 * HIDDEN),
        **decoder(draw, stem, HIDDEN),
        **{f"{stem}{norm}.weight": draw(HIDDEN, mean=1.0) for norm in norms},
    }


TENSORS = {"medusa": medusa, "hydra": hydra, "eagle1": eagle1, "eagle3": eagle3, "mtp": mtp}
CONFIGS: dict[str, dict[str, Any]] = {
    "eagle1": {"hidden_size": HIDDEN, "intermediate_size": INNER, "rms_norm_eps": 1e-6},
    "eagle3": {"hidden_size": HIDDEN, "intermediate_size": INNER, "draft_vocab_size": OWN},
    "mtp": {"num_nextn_predict_layers": 1},
}
for _name in ("eagle1", "eagle3"):
    CONFIGS[_name] |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB}


def write_head(
    kind: str, folder: Path, seed: int = 1, tensors: dict[str, Tensor] | None = None, **said: Any
) -> Path:
    """Write a random head (or given tensors) with its configuration and a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = TENSORS[kind](Draw(seed)) if tensors is None else tensors
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIGS.get(kind, {})))
    write_manifest(folder, {"name": kind, **said})
    return folder


def random_heads(target: Any, root: Path, seed: int = 1) -> dict[str, Any]:
    """Return a random head of every kind for a tiny target of `TARGET_SHAPE`."""
    kinds = [kind for kind in KINDS if kind in LOADERS]
    return {
        kind: load_head(kind, write_head(kind, root / f"{kind}-{seed}", seed), target)
        for kind in kinds
    }


def kit_for(
    target: TransformerHandle,
    method: Method,
    heads: dict[str, Any],
    text: tuple[int, ...],
    sampling: Sampling,
) -> DraftKit:
    """Return a kit over a session opened on `text`."""
    session = target.open(text, taps_of(method, heads))
    return DraftKit(
        prompt=text,
        sampling=sampling,
        vocab_size=target.vocab_size,
        target=session,
        prefill_features=session.prefill_features,
        heads=heads,
    )


def begin(
    target: TransformerHandle,
    method: Method,
    heads: dict[str, Any],
    *,
    prompt: tuple[int, ...] = (3, 1, 4, 1, 5),
    rule: VerifyRule | None = None,
    sampling: Sampling | None = None,
    rng: Randomness | None = None,
    n: int = 40,
) -> Decoding:
    """Open a request of a method with heads; by default paths of every length are accepted."""
    sampling = sampling or Sampling()
    kit = kit_for(target, method, heads, prompt, sampling)
    assert kit.target is not None
    return Decoding(
        session=kit.target,
        run=method.start(kit),
        rule=rule or FORCED,
        rng=rng or Seeded(2),
        sampling=sampling,
        limits=Limits(max_new_tokens=n, max_context=target.max_context),
    )


def check_rounds(
    target: TransformerHandle,
    method: Any,
    heads: dict[str, Any],
    *,
    within: float,
    passengers: TokenTree = EMPTY_TREE,
    **request: Any,
) -> set[int]:
    """Check, after every round, that features and the next proposal are those of a new request.

    Args:
        within: largest relative difference of a tap's features, in norm.
        passengers: a second tree in every pass.
        **request: of `begin`.

    Returns:
        How many drafted tokens were accepted, over the rounds.

    Raises:
        AssertionError: naming the tap, or the proposal that differs.
    """
    decoding = begin(target, method, heads, **request)
    watched = decoding.run = Watched(decoding.run, passengers)
    accepted: set[int] = set()
    for round_ in decoding:
        if round_.stop_reason is not None:
            break
        text = tuple(decoding.session.tokens)
        kit = kit_for(target, method, heads, text, decoding.sampling)
        features = watched.feedback.features
        accepted.add(round_.num_accepted)
        assert features.keys() == kit.prefill_features.keys() and features, "taps are missing"
        for tap, found in features.items():
            gap = relative(found, kit.prefill_features[tap][-1 - round_.num_accepted :])
            assert gap <= within, f"round {round_.index}: {tap} is {gap:.2g} off"
        room = Room(context=text, max_depth=9, max_nodes=64)
        ours = watched.run.propose(room, Seeded(1))
        theirs = method.start(kit).propose(room, Seeded(1))
        assert len(theirs.tree) and ours.tree == theirs.tree, f"round {round_.index}: other drafts"
        for left, right in zip(ours.raw_draft, theirs.raw_draft, strict=True):
            gap = np.abs(left() - right()).max()
            assert gap <= max(within, 1e-6), f"round {round_.index}: laws {gap:.2g} apart"
    return accepted


@dataclass
class Watched:
    """A run whose feedback is kept, and whose passes may carry a second tree."""

    run: Any
    passengers: TokenTree = EMPTY_TREE
    feedback: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Propose, with the passengers."""
        return replace(self.run.propose(room, rng), passengers=self.passengers)

    def observe(self, feedback: Feedback) -> None:
        """Keep the feedback and pass it on."""
        self.feedback = feedback
        self.run.observe(feedback)


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the norm of the difference over that of what is wanted."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def check_taps(target: TransformerHandle, text: list[int], taps: Sequence[str]) -> None:
    """Check that each tap is what Transformers' own forward has in that layer.

    Raises:
        AssertionError: naming the tap.
    """
    session = target.open(text, taps)
    with torch.inference_mode():
        output = target.model(torch.tensor([text[:-1]]), output_hidden_states=True)
    for tap, found in session.prefill_features.items():
        place = int(tap.removeprefix("hidden[").rstrip("]"))
        gap = relative(found, output.hidden_states[place][0].double().numpy())
        assert gap <= 1e-9, f"{tap} is {gap:.2g} off"


def _forced(rows: Any, proposal: Any, rng: Any, position: int) -> Verdict:
    """Accept the path to some node, of any depth, and go on with some token."""
    tree = proposal.tree
    generator = np.random.default_rng(position)
    node = int(generator.integers(PENDING, len(tree)))
    path = () if node == PENDING else tree.path(node)
    outcome = "bonus" if path and not tree.children(path[-1]) else "correction"
    return Verdict(accepted=path, next_token=int(generator.integers(VOCAB)), outcome=outcome)


FORCED = replace(RULES["token"], name="forced", lossless=False, verify=_forced)
"""For checks of state only: random heads are hardly ever right."""
