"""Static trees: nodes named by ranks, chosen once from how often each head is right.

A node is the path of ranks that leads to it: (0, 2) is the third choice of the second head after
the first choice of the first. Which tokens these are is settled anew in every round.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from speclab.core.errors import BadInput
from speclab.core.trees import PENDING

RankPath = tuple[int, ...]
Accuracies = tuple[tuple[float, ...], ...]
"""Per head, per rank: how often the head's choice of that rank is the target's token."""

MAX_RANKS = 10


def guessed_accuracies(num_heads: int, ranks: int = MAX_RANKS) -> Accuracies:
    """Return a plain guess for heads that nobody measured: 1/2, 1/4, 1/8, ... at every head."""
    return tuple(tuple(0.5 ** (rank + 1) for rank in range(ranks)) for _ in range(num_heads))


@dataclass(frozen=True, slots=True)
class RankTree:
    """A prefix-closed set of rank paths.

    Attributes:
        paths: shorter ones first, then by rank; node i is `paths[i]`.

    Raises:
        BadInput: if a path stands twice, or its parent does not precede it.
    """

    paths: tuple[RankPath, ...]

    def __post_init__(self) -> None:
        known: set[RankPath] = {()}
        for path in self.paths:
            if not path or path in known or path[:-1] not in known:
                raise BadInput(f"The rank path {path} is empty, given twice, or lacks its parent.")
            known.add(path)

    @classmethod
    def of(cls, paths: Sequence[Sequence[int]]) -> RankTree:
        """Sort any prefix-closed paths into a tree."""
        return cls(tuple(sorted(map(tuple, paths), key=lambda path: (len(path), path))))

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def depth(self) -> int:
        """Length of the longest path; 0 for the empty tree."""
        return max(map(len, self.paths), default=0)

    @property
    def width(self) -> int:
        """Ranks that a head must offer."""
        return 1 + max((path[-1] for path in self.paths), default=-1)

    def parents(self) -> tuple[int, ...]:
        """Return the parent node of each node; -1 is the pending token."""
        places = {path: node for node, path in enumerate(self.paths)}
        return tuple(places.get(path[:-1], PENDING) for path in self.paths)

    def levels(self) -> list[list[int]]:
        """Return the nodes of depth 1, of depth 2, and so on."""
        nodes: list[list[int]] = [[] for _ in range(self.depth)]
        for node, path in enumerate(self.paths):
            nodes[len(path) - 1].append(node)
        return nodes


def path_value(path: RankPath, accuracies: Accuracies) -> float:
    """Return how often a whole path is right, its heads taken as independent."""
    return prod(accuracies[head][rank] for head, rank in enumerate(path))


def expected_tokens(tree: RankTree, accuracies: Accuracies) -> float:
    """Return the expected tokens per round: 1 and, per node, how often its path is right."""
    return 1.0 + sum(path_value(path, accuracies) for path in tree.paths)


@lru_cache(maxsize=256)
def search_tree(
    accuracies: Accuracies, num_nodes: int, max_depth: int, top_k: int = MAX_RANKS
) -> RankTree:
    """Return the tree of `num_nodes` nodes with the most expected tokens.

    Node by node the likeliest path not yet taken is added. A path is never likelier than its
    parent, so nothing is gained by looking ahead: the greedy choice is the best one.

    Args:
        accuracies: per head and rank.
        num_nodes: most nodes. max_depth: most heads used. top_k: most ranks per head.

    **Source:** Medusa 2401.10774, section 2.3.3 (optimized tree construction).
    """
    heads = accuracies[:max_depth]
    frontier: list[tuple[float, int, RankPath]] = []
    taken: list[RankPath] = []

    def offer(parent: RankPath, value: float) -> None:
        if len(parent) < len(heads):
            for rank, accuracy in enumerate(heads[len(parent)][:top_k]):
                path = (*parent, rank)
                heapq.heappush(frontier, (-value * accuracy, len(path), path))

    offer((), 1.0)
    while frontier and len(taken) < num_nodes:
        value, _, path = heapq.heappop(frontier)
        taken.append(path)
        offer(path, -value)
    return RankTree.of(taken)
