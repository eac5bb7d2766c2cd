"""Draft trees as a parents array (the encoding of EAGLE): a chain is the tree -1, 0, 1, ..."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput

PENDING = -1
"""Parent id of a node that hangs off the pending token."""


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Drafted tokens below the pending token, parents before children.

    Attributes:
        tokens: token id of each node [n].
        parents: index of each node's parent [n]; -1 is the pending token.

    Raises:
        BadInput: if the lengths differ or a parent does not precede its child.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.parents):
            raise BadInput(f"{len(self.tokens)} tokens but {len(self.parents)} parents.")
        for node, parent in enumerate(self.parents):
            if not PENDING <= parent < node:
                raise BadInput(f"Node {node} names parent {parent}; a parent precedes its child.")

    @classmethod
    def chain(cls, tokens: Sequence[int]) -> TokenTree:
        """Build the chain pending -> tokens[0] -> tokens[1] -> ..."""
        return cls(tuple(tokens), tuple(range(PENDING, len(tokens) - 1)))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_chain(self) -> bool:
        """Whether every node is the only child of the node before it."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def children(self, node: int) -> list[int]:
        """Return the children of `node` (-1: of the pending token) in draft order."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def path(self, node: int) -> tuple[int, ...]:
        """Return the nodes from the first level down to `node`, both included."""
        nodes: list[int] = []
        while node != PENDING:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))

    def path_tokens(self, node: int) -> tuple[int, ...]:
        """Return the tokens along `path(node)`."""
        return tuple(self.tokens[step] for step in self.path(node))

    def depth(self, node: int) -> int:
        """Return 1 for a child of the pending token, 0 for the pending token itself."""
        return len(self.path(node))

    @property
    def position_offsets(self) -> tuple[int, ...]:
        """Offset of each node's position from the pending token's [n]: its depth."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == PENDING else depths[parent] + 1)
        return tuple(depths)

    @property
    def max_depth(self) -> int:
        """Depth of the deepest node; 0 for the empty tree."""
        return max(self.position_offsets, default=0)

    def ancestor_mask(self) -> NDArray[np.bool_]:
        """Return bool[n+1, n+1]: row i may attend to column j; row and column 0 are pending."""
        mask = np.eye(len(self) + 1, dtype=bool)
        mask[:, 0] = True
        for node, parent in enumerate(self.parents):
            mask[node + 1] |= mask[parent + 1]
        return mask

    def leaves(self) -> Iterator[int]:
        """Yield the nodes without children."""
        inner = set(self.parents)
        return (node for node in range(len(self)) if node not in inner)


EMPTY_TREE = TokenTree()
