"""A suffix trie of bounded depth: how often every short sequence occurs in a set of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

ROOT = 0
NONE = -1
KEY_BITS = 32
"""A child is found by (node << KEY_BITS) | token; token ids are narrower."""


class SuffixTrie:
    """Counts of every sequence of at most `max_depth` tokens, kept up to date token by token.

    A node is a sequence, node 0 the empty one. One more token costs one step per suffix that it
    makes longer: at most `max_depth`, whatever the length of the text.

    Attributes:
        max_depth: longest sequence counted.
        length: tokens read so far, of all texts.
        tokens: last token of each node's sequence [nodes].
        counts: how often it occurs [nodes].
        ends: the `length` at which it ended last [nodes].
        tail: nodes of the last 0, 1, 2, ... tokens of the text being read, as far as they can
            still grow.

    **Source:** the suffix tree of Oliaro et al. 2411.04975, section 3.
    **Deviation:** not path-compressed: memory grows with tokens x depth, so the depth is small.
    """

    def __init__(self, max_depth: int) -> None:
        self.max_depth, self.length = max_depth, 0
        self.tokens, self.counts, self.ends = [NONE], [0], [0]
        self.tail = [ROOT]
        self._child: dict[int, int] = {}
        self._first_child, self._next_sibling = [NONE], [NONE]

    def copy(self) -> Self:
        """Return the same counts, to be read on in without a change here."""
        twin = type(self)(self.max_depth)
        twin.length, twin.tail = self.length, list(self.tail)
        twin.tokens, twin.counts, twin.ends = list(self.tokens), list(self.counts), list(self.ends)
        twin._child = dict(self._child)
        twin._first_child, twin._next_sibling = list(self._first_child), list(self._next_sibling)
        return twin

    def begin_text(self) -> None:
        """Begin a further text: no sequence reaches over from the last one."""
        self.tail = [ROOT]

    def extend(self, tokens: Iterable[int]) -> None:
        """Read on in the text."""
        for token in tokens:
            self.length += 1
            reached = [ROOT]
            self.counts[ROOT] += 1
            for node in self.tail:
                longer = self._child.get(node << KEY_BITS | token)
                if longer is None:
                    longer = self._grow(node, token)
                self.counts[longer] += 1
                self.ends[longer] = self.length
                reached.append(longer)
            self.tail = reached[: self.max_depth]

    def follow(self, tail: Sequence[int], token: int) -> list[int]:
        """Return the tail of a text that is not read in: its suffixes that occur here.

        Args:
            tail: what `follow` returned for the text so far; [ROOT] for the empty text.
            token: the next token of that text.
        """
        reached = [ROOT]
        for node in tail:
            longer = self._child.get(node << KEY_BITS | token)
            if longer is None:
                break
            reached.append(longer)
        return reached[: self.max_depth]

    def children(self, node: int) -> list[int]:
        """Return the nodes one token longer."""
        found = []
        child = self._first_child[node]
        while child != NONE:
            found.append(child)
            child = self._next_sibling[child]
        return found

    def count(self, sequence: Sequence[int]) -> int:
        """Return how often a sequence of at most `max_depth` tokens occurs."""
        node = ROOT
        for token in sequence:
            node = self._child.get(node << KEY_BITS | token, NONE)
            if node == NONE:
                return 0
        return self.counts[node]

    def __len__(self) -> int:
        return len(self.tokens)

    def _grow(self, node: int, token: int) -> int:
        child = len(self.tokens)
        self._child[node << KEY_BITS | token] = child
        self.tokens.append(token)
        self.counts.append(0)
        self.ends.append(0)
        self._first_child.append(NONE)
        self._next_sibling.append(self._first_child[node])
        self._first_child[node] = child
        return child


def longer_trie(
    trie: SuffixTrie | None, texts: Iterable[Sequence[int]], max_depth: int
) -> SuffixTrie:
    """Return the trie of the texts of `trie`, which stays as it is, and of further ones.

    It is the trie that all texts give that are read in their order.
    """
    trie = SuffixTrie(max_depth) if trie is None else trie.copy()
    for text in texts:
        trie.begin_text()
        trie.extend(text)
    return trie
