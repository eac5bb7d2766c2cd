"""What followed a match, by frequency: the likeliest path, or the likeliest tree."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from speclab.core.trees import PENDING
from speclab.methods.suffix_tree import SuffixTrie


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A draft that continues a match of `match` tokens in one trie.

    Attributes:
        tokens, parents: of the draft's nodes [n]; -1 is the pending token.
        probs: per node how often its whole path followed, as a share of all that followed [n].
        ends: where each node's path was read last, in tokens of the trie [n].
        score: the sum of `probs`: how many tokens would be accepted if the target followed the
            same frequencies.
    """

    match: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    probs: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    score: float = 0.0

    def add(self, trie: SuffixTrie, node: int, parent: int, prob: float) -> int:
        """Append the last token of a trie's node below `parent` and return its id."""
        self.tokens.append(trie.tokens[node])
        self.parents.append(parent)
        self.probs.append(prob)
        self.ends.append(trie.ends[node])
        self.score += prob
        return len(self.tokens) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where a candidate ends.

    Attributes:
        nodes: most of its nodes. depth: its longest path. least: smallest probability of a path.
        eos_ids: tokens after which nothing is drafted.
    """

    nodes: int
    depth: int
    least: float
    eos_ids: frozenset[int] = frozenset()


def likeliest_path(trie: SuffixTrie, node: int, match: int, bounds: Bounds) -> Candidate:
    """Follow the most frequent child from a trie's node; of equals the one read last.

    Example: "ab" was followed by c twice and by d once, "abc" always by a: after "ab" the path is
    c, a with probabilities 2/3 and 2/3, score 4/3.

    **Source:** Oliaro et al. 2411.04975, section 3.
    **Deviation:** a child's share is of what followed, so an occurrence at the end of the text,
    as the match itself is one, does not lower it; their released code divides by all occurrences.
    """
    found, prob, parent = Candidate(match=match), 1.0, PENDING
    while len(found.tokens) < min(bounds.nodes, bounds.depth):
        children = trie.children(node)
        if not children:
            break
        total = sum(trie.counts[child] for child in children)
        node = max(children, key=lambda child: (trie.counts[child], trie.ends[child]))
        prob = prob * trie.counts[node] / total
        if prob < bounds.least:
            break
        parent = found.add(trie, node, parent, prob)
        if trie.tokens[node] in bounds.eos_ids:
            break
    return found


def likeliest_tree(trie: SuffixTrie, node: int, match: int, bounds: Bounds) -> Candidate:
    """Take the most probable paths from a trie's node, one node at a time.

    A path is never more probable than what it continues, so this is the tree of `bounds.nodes`
    nodes with the highest score.

    **Source:** Oliaro et al. 2411.04975, section 3, tree speculation.
    **Deviation:** as `likeliest_path`.
    """
    found = Candidate(match=match)
    heap: list[tuple[float, int, int, int, int]] = []

    def offer(node: int, parent: int, prob: float, depth: int) -> None:
        children = trie.children(node) if depth <= bounds.depth else []
        total = sum(trie.counts[child] for child in children)
        for child in children:
            share = prob * trie.counts[child] / total
            if share >= bounds.least:
                heapq.heappush(heap, (-share, -trie.ends[child], child, parent, depth))

    offer(node, PENDING, 1.0, 1)
    while heap and len(found.tokens) < bounds.nodes:
        share, _, child, parent, depth = heapq.heappop(heap)
        place = found.add(trie, child, parent, -share)
        if trie.tokens[child] not in bounds.eos_ids:
            offer(child, place, -share, depth + 1)
    return found
