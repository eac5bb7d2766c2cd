"""The exact law of a method and a rule on a small context, and the tree of its outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from speclab.core.laws import Row
from speclab.core.randomness import Exhaustive, Flip, Randomness
from speclab.engine.loop import Decoding
from speclab.engine.memo import MemoHandle
from speclab.lab.prove_case import Case, ExactReport, ProveSpec, look_up, rule_facts
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel
from speclab.testing import exact_law, largest_difference, target_law

TOLERANCE = 1e-9
REAL_CACHE_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.01}
"""Allowed where a method needs the target's features, and so its real passes: passes of different
widths round differently. In float64 it is `TOLERANCE` there too."""
MAX_LEAVES = 200_000
SHOWN_SEQUENCES, SHOWN_TOKENS = 64, 64
MAX_TREE_NODES = 400
Text = tuple[int, ...]


def prove_exact(
    pair: Pair,
    spec: ProveSpec,
    *,
    max_leaves: int = MAX_LEAVES,
    tree: bool = True,
    progress: Callable[[int], None] = lambda leaves: None,
) -> ExactReport:
    """Run the unmodified loop down every branch of every coin and compare with the target's law.

    On real models rows come from a memo over cacheless passes, for the loop and for the target's
    law: this proves the rule and the method, not the cache. Methods that need features run on the
    real cache, within what the dtype's rounding allows.

    Args:
        pair: loaded models. spec: the case; `num_samples`, `alpha`, `seed`, `control` are not used.
        max_leaves: refuse beyond this many branches. tree: draw the tree of a tiny case.
        progress: called with the number of branches so far.

    Raises:
        TooManyBranches: with the count reached.
        SpeclabError: for anything a person can put right.
    """
    begun = time.perf_counter()
    case = look_up(pair, spec)
    models = pair if case.on_cache else exact_models(pair)

    def start(rng: Randomness) -> Decoding:
        return case.begin(rng, models)

    law = exact_law(start, max_leaves=max_leaves, progress=progress)
    judge = pair.target if case.on_cache else HeldRows(models.target)
    target = target_law(judge, case.tokens, spec.sampling, case.limits)
    tolerance = REAL_CACHE_TOLERANCE.get(pair.dtype, TOLERANCE) if case.on_cache else TOLERANCE
    difference = largest_difference(law.probs, target)
    texts = law.probs.keys() | target.keys()
    apart = sum(abs(law.probs.get(text, 0.0) - target.get(text, 0.0)) for text in texts)
    return ExactReport(
        spec=spec.to_data(),
        rule=rule_facts(case.rule),
        difference=difference,
        tolerance=tolerance,
        within=difference <= tolerance,
        total_variation=0.5 * apart,
        num_leaves=law.num_leaves,
        num_sequences=len(texts),
        first=_first(case, law.probs, target),
        sequences=_sequences(case, law.probs, target),
        tree=outcome_tree(start) if tree else None,
        seconds=time.perf_counter() - begun,
        about=case.about(),
    )


class HeldRows:
    """A model's rows as its sessions hold them: the loop and the law read the same numbers."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.name, self.vocab_size = model.name, model.vocab_size
        self.max_context, self.provides = model.max_context, model.provides

    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return the row after each sequence; only the last one can be asked for."""
        assert all(count == 1 for count in keep)
        return [[self._model.open(list(text)).score().row(0)] for text in sequences]


def exact_models(pair: Pair) -> Pair:
    """Return the pair with a memo over every model that is more than a table."""
    if isinstance(pair.target, ToyModel):
        return pair
    return replace(
        pair,
        target=MemoHandle(pair.target),
        drafts=tuple(MemoHandle(draft) for draft in pair.drafts),
    )


def _first(
    case: Case, law: Mapping[Text, float], target: Mapping[Text, float]
) -> tuple[dict[str, Any], ...]:
    """Return the first token's two laws, most likely first."""
    both: dict[int, list[float]] = {}
    for place, probs in enumerate((law, target)):
        for text, prob in probs.items():
            both.setdefault(text[0], [0.0, 0.0])[place] += prob
    ranked = sorted(both.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return tuple(
        {"token": token, "piece": case.piece(token), "law": mine, "target": theirs}
        for token, (mine, theirs) in ranked[:SHOWN_TOKENS]
    )


def _sequences(
    case: Case, law: Mapping[Text, float], target: Mapping[Text, float]
) -> tuple[dict[str, Any], ...]:
    """Return the most likely sequences with their two probabilities."""
    texts = law.keys() | target.keys()
    ranked = sorted(texts, key=lambda t: (-max(target.get(t, 0.0), law.get(t, 0.0)), t))
    return tuple(
        {
            "tokens": list(text),
            "pieces": [case.piece(token) for token in text],
            "law": law.get(text, 0.0),
            "target": target.get(text, 0.0),
        }
        for text in ranked[:SHOWN_SEQUENCES]
    )


class Labelled(Exhaustive):
    """Enumerates outcomes and notes what each choice was."""

    def __init__(self, path: list[int]) -> None:
        super().__init__(path=path)
        self.labels: list[tuple[str, bool | int]] = []

    def _note(self, kind: str, outcome: bool | int) -> None:
        if len(self.labels) < len(self.arity):
            self.labels.append((kind, outcome))

    def flip(self, prob: float, at: Any = None) -> Flip:
        """Flip, and note which side came up."""
        flip = super().flip(prob, at)
        self._note("flip", flip.accepted)
        return flip

    def draw(self, probs: Any, at: Any = None, noise: Any = "inverse") -> int:
        """Draw, and note the token."""
        token = super().draw(probs, at, noise)
        self._note("draw", token)
        return token


def outcome_tree(
    start: Callable[[Randomness], Decoding], *, max_nodes: int = MAX_TREE_NODES
) -> tuple[dict[str, Any], ...] | None:
    """Return every outcome of a whole run as a tree, parents first; None if it is too large.

    Node 0 is the start; see `ExactReport.tree`.
    """
    nodes = [_node(-1, "start", None, 1.0, 1.0)]
    known: dict[tuple[int, ...], int] = {(): 0}
    path: list[int] | None = []
    while path is not None:
        rng = Labelled(path)
        decoding = start(rng)
        for _ in decoding:
            pass
        for end in range(1, len(rng.arity) + 1):
            key = tuple(rng.path[:end])
            if key in known:
                continue
            if len(nodes) >= max_nodes:
                return None
            parent, (kind, label) = known[key[:-1]], rng.labels[end - 1]
            chance = rng.weights[end - 1]
            known[key] = len(nodes)
            nodes.append(_node(parent, kind, label, chance, nodes[parent]["weight"] * chance))
        nodes[known[tuple(rng.path[: len(rng.arity)])]]["emitted"] = list(decoding.emitted)
        path = rng.next_path()
    return tuple({"id": place, **node} for place, node in enumerate(nodes))


def _node(
    parent: int, kind: str, label: bool | int | None, probability: float, weight: float
) -> dict[str, Any]:
    return {
        "parent": parent,
        "kind": kind,
        "label": label,
        "probability": probability,
        "weight": weight,
        "emitted": None,
    }
