"""What static trees should bring, by the head's accuracies and the measured cost of a pass.

The tree is the one that `methods.rank_trees` finds. Its tokens per pass are modelled from how
often each rank was right; what a pass costs is read from a measured table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speclab.methods.rank_trees import (
    Accuracies,
    RankTree,
    expected_tokens,
    path_value,
    search_tree,
)


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
    own = [row for row in rows if row["method"] in methods]
    trees = [row for row in own if row["shape"] == "tree"] or own
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A node of a static tree.

    Attributes:
        parent: node, or -1. rank: 0 is the head's best guess. depth: 1 for the first level.
        chance: that the whole path to it is right, modelled.
        order: 0 is the likeliest node of the tree; a smaller budget keeps the first ones.
    """

    parent: int
    rank: int
    depth: int
    chance: float
    order: int


def tree_nodes(tree: RankTree, accuracies: Accuracies) -> list[TreeNode]:
    """Return the nodes of a tree with what each should bring."""
    chances = [path_value(path, accuracies) for path in tree.paths]
    ranked = sorted(
        range(len(tree)), key=lambda node: (-chances[node], len(tree.paths[node]), tree.paths[node])
    )
    order = {node: place for place, node in enumerate(ranked)}
    both = zip(tree.paths, tree.parents(), chances, strict=True)
    return [
        TreeNode(parent=parent, rank=path[-1], depth=len(path), chance=chance, order=order[node])
        for node, (path, parent, chance) in enumerate(both)
    ]
