"""Lookahead's n-gram pool, and the tree that its guesses are verified in."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from speclab.core.trees import PENDING, TokenTree

MOST_KEYS = 4096
"""First tokens the pool keeps at most; the one added to least recently goes."""

Suffix = tuple[int, ...]


def until_end(tokens: Sequence[int], eos: frozenset[int]) -> Suffix:
    """Return the tokens up to the first one that ends the text, that one included."""
    ends = (place for place, token in enumerate(tokens) if token in eos)
    return tuple(tokens[: next(ends, len(tokens)) + 1])


class NgramPool:
    """What followed a token before: for each first token, the suffixes met most recently.

    Args:
        most: suffixes kept per first token.
        most_keys: first tokens kept.

    **Source:** Fu et al. 2402.02057, n-gram pool; the limit per token is their parameter G.
    """

    def __init__(self, most: int, most_keys: int = MOST_KEYS) -> None:
        self._most, self._most_keys = most, most_keys
        self._lists: dict[int, dict[Suffix, None]] = {}

    def add(self, first: int, suffix: Suffix) -> None:
        """Add an n-gram or mark it as met again; the one met least recently makes room."""
        held = self._lists.pop(first, {})
        held.pop(suffix, None)
        held[suffix] = None
        if len(held) > self._most:
            del held[next(iter(held))]
        self._lists[first] = held
        if len(self._lists) > self._most_keys:
            del self._lists[next(iter(self._lists))]

    def guesses(self, first: int) -> tuple[Suffix, ...]:
        """Return what may follow a token, met most recently first."""
        return tuple(reversed(self._lists.get(first, {})))

    def key(self) -> Hashable:
        """Return the whole content, in the order in which it would make room."""
        return tuple((first, tuple(held)) for first, held in self._lists.items())


@dataclass(slots=True)
class GuessTree:
    """Guesses joined where they begin alike, so that siblings differ.

    Attributes:
        tokens, parents: the nodes so far.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, path: Sequence[int], most_nodes: int) -> None:
        """Add a path below the pending token, as much of it as `most_nodes` in all allow."""
        node = PENDING
        for token in path:
            child = self._nodes.get((node, token))
            if child is None:
                if len(self.tokens) >= most_nodes:
                    return
                child = self._nodes[node, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(node)
            node = child

    def tree(self) -> TokenTree:
        """Return the tree so far."""
        return TokenTree(tuple(self.tokens), tuple(self.parents))
