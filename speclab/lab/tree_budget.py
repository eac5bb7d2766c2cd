"""How many nodes a static tree should have: tokens per pass against what a wider pass costs.

Modelled, from two things that were measured: how often each head of a target is right by rank (its
manifest) and v(n), the cost of a target pass on n tokens (a benchmark report).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput
from speclab.lab.pass_costs import verify_cost_of
from speclab.lab.tree_exact import chain_of
from speclab.methods.rank_trees import Accuracies, RankTree, expected_tokens, search_tree

HEADS = Path(__file__).resolve().parents[2] / "assets" / "models" / "heads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The best static tree of some number of nodes.

    Attributes:
        tree: tokens per pass 1 + the sum of its paths' chances, heads taken as independent.
        chain: tokens per pass of the longest chain of at most as many nodes.
        verify_cost: v(nodes + 1), the pending token included.
        speedup: tree / verify_cost: drafting counts as free.
    """

    nodes: int
    shape: RankTree
    tree: float
    chain: float
    verify_cost: float
    speedup: float


def head_manifest(target: str, kind: str) -> dict[str, Any]:
    """Return the manifest of a bundled head.

    Raises:
        BadInput: if there is none.
    """
    path = HEADS / target / kind / "manifest.json"
    if path.resolve().parent.parent.parent != HEADS or not path.exists():
        raise BadInput(f"There is no bundled head {target}/{kind}.")
    return json.loads(path.read_text(encoding="utf-8"))


def accuracies_of(manifest: dict[str, Any]) -> Accuracies:
    """Return how often each head's choice of each rank was right.

    Raises:
        BadInput: if the head's ranks were not measured.
    """
    if "accuracies" not in manifest:
        raise BadInput(f"The head {manifest.get('name')} has no accuracies by rank.")
    return tuple(tuple(row) for row in manifest["accuracies"])


def budgets(accuracies: Accuracies, verify_cost: Callable[[int], float], most: int) -> list[Budget]:
    """Return the best tree of 1, 2, ..., `most` nodes.

    Args:
        accuracies: per head and rank.
        verify_cost: v(n), a target pass on n tokens / on 1.
        most: nodes of the largest tree.
    """
    found = []
    for nodes in range(1, most + 1):
        shape = search_tree(accuracies, nodes, len(accuracies))
        tree, cost = expected_tokens(shape, accuracies), verify_cost(nodes + 1)
        found.append(
            Budget(
                nodes=nodes,
                shape=shape,
                tree=tree,
                chain=expected_tokens(chain_of(min(nodes, len(accuracies))), accuracies),
                verify_cost=cost,
                speedup=tree / cost,
            )
        )
    return found


def head_budgets(manifest: dict[str, Any], costs: dict[str, Any]) -> list[Budget]:
    """Return the budgets of a bundled head up to the widest pass that was measured.

    Args:
        manifest: of the head. costs: `costs` of a benchmark report; v(n) between two measured
            widths is interpolated.
    """
    most = max(int(n) for n in costs["verify_cost"]) - 1
    return budgets(accuracies_of(manifest), verify_cost_of(costs), most)


def best_budget(found: Sequence[Budget]) -> Budget:
    """Return the budget with the highest speedup, the smallest where several have it."""
    return max(found, key=lambda budget: (budget.speedup, -budget.nodes))
