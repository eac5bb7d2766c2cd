"""What is known of a trained head without loading it, and what its static trees should bring.

The tree is the one that `methods.rank_trees` finds. Its tokens per pass are modelled from how
often each rank was right; what a pass costs is read from a measured table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from speclab.methods import METHODS
from speclab.methods.rank_trees import Accuracies, RankTree, expected_tokens, search_tree

HEADS = Path(__file__).resolve().parents[2] / "assets" / "models" / "heads"
MOST_LEVELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFacts:
    """A bundled head by its manifest.

    Attributes:
        kind: its name in cards, such as "medusa". methods: that draft with it.
        parameters: trained ones. minutes: of training. steps, tokens: that it was trained on.
        text: corpus and size of the training text, as the manifest gives it.
        held_out_top1: how often each position's best guess was right, on held-out text.
        accuracies: per level, per rank, how often that choice was right.
        same_levels: the ranks were measured at the first level and are taken for every level.
        architectures: of the public layout. sha256: of the weights.
    """

    kind: str
    methods: tuple[str, ...]
    parameters: int
    minutes: float
    steps: int
    tokens: int
    text: Mapping[str, Any]
    held_out_top1: tuple[float, ...]
    accuracies: Accuracies
    same_levels: bool
    architectures: tuple[str, ...]
    sha256: str


def head_kinds(folder: str) -> tuple[str, ...]:
    """Return the kinds of heads bundled for a target, by the order of the methods' table.

    Args:
        folder: `PairEntry.heads`; empty: none.
    """
    there = (
        {path.parent.name for path in (HEADS / folder).glob("*/manifest.json")} if folder else {}
    )
    ordered = [kind for kind in _methods_by_kind() if kind in there]
    return (*ordered, *sorted(set(there) - set(ordered)))


def _methods_by_kind() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, method in METHODS.items():
        for need in method.card.needs:
            if need.startswith("head:"):
                kind = need.removeprefix("head:")
                found[kind] = (*found.get(kind, ()), name)
    return found


def head_facts(folder: str, kind: str) -> HeadFacts | None:
    """Return what the manifest of a bundled head says; None if there is no such head."""
    path = HEADS / folder / kind / "manifest.json"
    if not path.exists():
        return None
    manifest = json.loads(path.read_text(encoding="utf-8"))
    config = path.with_name("config.json")
    shape = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    training, ranks = manifest.get("training", {}), manifest.get("rank_acceptance", ())
    own = tuple(map(tuple, manifest.get("accuracies", ())))
    weights = manifest.get("files", {}).get("model.safetensors", {})
    return HeadFacts(
        kind=kind,
        methods=_methods_by_kind().get(kind, ()),
        parameters=manifest["parameters"],
        minutes=training.get("elapsed_s", 0.0) / 60.0,
        steps=training.get("step", 0),
        tokens=training.get("tokens", 0),
        text=manifest.get("text", {}),
        held_out_top1=tuple(manifest.get("held_out_top1", ())),
        accuracies=own or ((tuple(ranks),) * MOST_LEVELS if ranks else ()),
        same_levels=not own,
        architectures=tuple(shape.get("architectures", ())),
        sha256=weights.get("sha256", ""),
    )


def training_curve(folder: str, kind: str) -> list[dict[str, Any]]:
    """Return the lines of a bundled head's training log; empty if it has none."""
    path = HEADS / folder / kind / "training.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


# --- what a tree should bring ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCosts:
    """What a round costs, in target passes on one token.

    Attributes:
        widths, verify: v(n), n counting the pending token.
        per_draft_pass: of the head; 0 when it was not measured.
        draft_passes: passes of the head per round; None: one per level of the tree.
        overhead, plain_overhead: rule, cache and bookkeeping of a round, and of a plain one.
        measured: whether the drafting is measured.
    """

    widths: tuple[int, ...]
    verify: tuple[float, ...]
    per_draft_pass: float = 0.0
    draft_passes: int | None = None
    overhead: float = 0.0
    plain_overhead: float = 0.0
    measured: bool = False

    def of_pass(self, nodes: int) -> float | None:
        """Return v(nodes + 1), linear between the widths; None beyond the widest measured."""
        if not self.widths or nodes + 1 > self.widths[-1]:
            return None
        return float(np.interp(nodes + 1, self.widths, self.verify))

    def of_round(self, tree: RankTree) -> float | None:
        """Return what a round with this tree costs next to a plain one."""
        verify = self.of_pass(len(tree))
        if verify is None:
            return None
        passes = tree.depth if self.draft_passes is None else self.draft_passes
        round_ = verify + passes * self.per_draft_pass + self.overhead
        return round_ / (1.0 + self.plain_overhead)


def pass_costs(report: Mapping[str, Any], methods: Sequence[str]) -> PassCosts:
    """Return the costs that a measured report holds for a head.

    Args:
        report: a table of heads, or a benchmark with `costs` only.
        methods: that draft with the head.
    """
    costs = report["costs"]
    widths = tuple(int(n) for n in costs["verify_cost"])
    verify = tuple(costs["verify_cost"].values())
    rows = [row for row in report["rows"] if row.get("temperature") == 0.0]
    trees = [row for row in rows if row.get("shape") == "tree" and row["method"] in methods]
    plain = [row for row in rows if row.get("shape") == "plain"]
    if not trees or not plain:
        return PassCosts(widths=widths, verify=verify)
    step = costs["target_step_s"]
    passes = sum(row["passes_per_round"] for row in trees)
    return PassCosts(
        widths=widths,
        verify=verify,
        per_draft_pass=sum(row["draft_s_per_round"] for row in trees) / passes / step,
        draft_passes=1 if all(row["passes_per_round"] <= 1.0 for row in trees) else None,
        overhead=sum(row["other_s_per_round"] for row in trees) / len(trees) / step,
        plain_overhead=plain[0]["other_s_per_round"] / step,
        measured=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a tree of `nodes` nodes should bring.

    Attributes:
        tokens: per target pass. cost: of a round, in plain rounds; None where v(n) is unknown.
    """

    nodes: int
    tokens: float
    cost: float | None

    @property
    def speedup(self) -> float | None:
        """Tokens per pass over the cost of the round."""
        return None if self.cost is None else self.tokens / self.cost


def expected_curve(
    accuracies: Accuracies, costs: PassCosts | None, *, depth: int, width: int, most: int
) -> list[Expected]:
    """Return what the best trees of 0, 1, ..., `most` nodes should bring.

    The heads' hits are taken as independent of each other. No tree is plain decoding: 1 token at
    the cost of 1.

    Args:
        depth: most levels. width: most candidates after a node.
    """
    points = [Expected(nodes=0, tokens=1.0, cost=1.0)]
    for nodes in range(1, most + 1):
        tree = search_tree(accuracies, nodes, depth, width)
        if len(tree) < nodes:
            break
        cost = None if costs is None else costs.of_round(tree)
        points.append(Expected(nodes=nodes, tokens=expected_tokens(tree, accuracies), cost=cost))
    return points


def best_of(points: Sequence[Expected]) -> Expected | None:
    """Return the point with the highest speedup; None where no cost is known."""
    known = [point for point in points if point.speedup is not None]
    return max(known, key=lambda point: (point.speedup, -point.nodes)) if known else None
