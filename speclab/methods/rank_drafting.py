"""Drafting a static tree from trained heads that read the target's last state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law
from speclab.core.protocols import (
    NO_PROPOSAL,
    DraftKit,
    Feedback,
    LocalText,
    Param,
    Proposal,
    Room,
)
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.trees import PENDING, TokenTree
from speclab.methods.rank_trees import (
    MAX_RANKS,
    Accuracies,
    RankPath,
    RankTree,
    guessed_accuracies,
    search_tree,
)

FINAL_STATE = "hidden[-1]"
"""The state after the final norm: what the target's own next token is drawn from."""

TREE_PARAMS = (
    Param(
        name="num_heads",
        symbol="K",
        kind="int",
        default=4,
        low=1,
        high=8,
        unit="heads",
        help=LocalText(
            "How many heads take part: the deepest level of the tree.",
            "使用多少个头，也就是树的最大深度。",
        ),
    ),
    Param(
        name="tree_nodes",
        symbol="n",
        kind="int",
        default=16,
        low=1,
        high=64,
        unit="tokens",
        help=LocalText(
            "How many candidates the target judges per round; the likeliest places are taken.",
            "每轮让目标模型验证多少个候选；优先选择最可能的位置。",
        ),
    ),
    Param(
        name="top_k",
        symbol="k",
        kind="int",
        default=4,
        low=1,
        high=MAX_RANKS,
        unit="tokens",
        help=LocalText(
            "At most how many candidates a head offers after one node; 1 makes a chain.",
            "每个节点之后一个头最多给出多少个候选；1 表示一条链。",
        ),
    ),
)
PROVIDES = frozenset({"tree", "chain", "deterministic", "top_k_siblings", "raw_draft"})


def shape_words(top_k: int, tree_nodes: int) -> frozenset[str]:
    """Return what a tree of ranks is; one candidate per node makes a chain."""
    chain = {"chain"} if top_k == 1 or tree_nodes == 1 else set()
    return frozenset({"tree", "deterministic", "top_k_siblings", "raw_draft"} | chain)


def head_of(kit: DraftKit, name: str) -> Any:
    """Return the trained head `name`.

    Raises:
        UnsupportedModel: if the pair has none.
    """
    if name not in kit.heads:
        raise UnsupportedModel(
            f"The method {name} needs trained heads, and this pair has none for it.",
            "Choose a pair with heads, or a method such as prompt-lookup.",
            code="needs_head",
            values={"method": name},
        )
    return kit.heads[name]


def accuracies_of(head: Any) -> Accuracies:
    """Return how often each head is right, measured where a manifest says so, else guessed."""
    return head.accuracies or guessed_accuracies(head.num_heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """How large a rank tree may be.

    Attributes:
        num_heads: most levels. tree_nodes: most nodes. top_k: most ranks per head.
    """

    num_heads: int
    tree_nodes: int
    top_k: int


Choices = tuple[list[int], Callable[[], Law]]
"""Best tokens after a path, best first, and the head's law there."""


class RankTreeRun(ABC):
    """One request: the feature of the last position the target has seen, and a tree upon it.

    The target has not seen the pending token yet; its last feature stands one position before. So
    head 0, which looks two places ahead of its feature, fills the first level.

    Args:
        kit: the request. tap: name of the feature.
        accuracies: per head and rank, of the heads that are there. limits: of the tree.
    """

    def __init__(self, kit: DraftKit, tap: str, accuracies: Accuracies, limits: TreeLimits) -> None:
        self._tap, self._accuracies, self.limits = tap, accuracies, limits
        self._eos, self.vocab_size = kit.eos_ids, kit.vocab_size
        seen = kit.prefill_features.get(tap)
        self.feature: NDArray | None = None if seen is None or not len(seen) else seen[-1]

    @abstractmethod
    def choices(self, paths: Sequence[tuple[int, ...]]) -> list[Choices]:
        """Return what follows each path of tokens, all of one length, the pending token first.

        Asked level by level; a path of length 1 begins a new tree.
        """

    @property
    @abstractmethod
    def num_passes(self) -> int:
        """Passes of the heads spent on the tree so far."""

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Fill the static tree with tokens, level by level; nothing grows below an end of text."""
        depth = min(self.limits.num_heads, len(self._accuracies), room.max_depth)
        nodes = min(self.limits.tree_nodes, room.max_nodes)
        if self.feature is None or depth < 1 or nodes < 1:
            return NO_PROPOSAL
        shape = search_tree(self._accuracies, nodes, depth, self.limits.top_k)
        filled = self._fill(shape, room.context[-1])
        return Proposal(
            tree=TokenTree(tuple(filled.tokens), tuple(filled.parents)),
            draft_probs=(None,) * len(filled.tokens),
            raw_draft=tuple(filled.laws),
            num_draft_forwards=self.num_passes,
            evidence=tuple(
                Evidence(kind="head", node=node, value=float(level))
                for node, level in enumerate(filled.levels)
            ),
        )

    def _fill(self, shape: RankTree, pending: int) -> _Filled:
        filled = _Filled()
        text: dict[RankPath, tuple[int, ...]] = {(): (pending,)}
        for level, members in enumerate(shape.levels(), 1):
            paths = [shape.paths[node] for node in members]
            open_parents = list(dict.fromkeys(p[:-1] for p in paths if p[:-1] in text))
            if not open_parents:
                break
            found = self.choices([text[parent] for parent in open_parents])
            by_parent = dict(zip(open_parents, found, strict=True))
            for path in paths:
                best, law = by_parent.get(path[:-1], ((), None))
                if law is None or path[-1] >= len(best):
                    continue
                token = best[path[-1]]
                filled.add(path, token, law, level)
                if token not in self._eos:
                    text[path] = (*text[path[:-1]], token)
        return filled

    def observe(self, feedback: Feedback) -> None:
        """Keep the feature of the last accepted token (or of the pending one)."""
        self.feature = feedback.features[self._tap][-1]

    def state_key(self) -> Hashable | None:
        """The feature is a function of the text before the pending token."""
        return ()

    def close(self) -> None:
        """Forget the feature."""
        self.feature = None


class _Filled:
    """Tokens of a rank tree, in node order."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.laws: list[Callable[[], Law]] = []
        self.levels: list[int] = []
        self._nodes: dict[RankPath, int] = {(): PENDING}

    def add(self, path: RankPath, token: int, law: Callable[[], Law], level: int) -> None:
        """Append the node of `path`."""
        self._nodes[path] = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(self._nodes[path[:-1]])
        self.laws.append(law)
        self.levels.append(level)
