"""Drafting a static tree from trained heads that read the target's last state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from numpy.typing import NDArray

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law, Row, Sampling
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
from speclab.methods.draft_tree import left_to_draw
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
    Param(
        name="siblings",
        symbol="",
        kind="choice",
        default="top-k",
        options=("top-k", "without-replacement"),
        help=LocalText(
            "How candidates for one position are found: the most likely ones, or drawn without "
            "replacement.",
            "同一位置的候选如何产生：取最可能的几个，或不放回抽取。",
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """How a rank tree is drafted.

    Attributes:
        num_heads: most levels. tree_nodes: most nodes. top_k: most ranks per head.
        siblings: "top-k" or "without-replacement"; a rank is then the place in draw order.
    """

    num_heads: int
    tree_nodes: int
    top_k: int
    siblings: SiblingKind = "top-k"


SiblingKind = Literal["top-k", "without-replacement"]
KINDS: dict[str, frozenset[str]] = {
    "top-k": frozenset({"deterministic", "top_k_siblings"}),
    "without-replacement": frozenset({"sampled", "siblings_without_replacement"}),
}
PROVIDES = frozenset({"tree", "chain", "raw_draft"}).union(*KINDS.values())


def tree_words(limits: TreeLimits, sampling: Sampling) -> frozenset[str]:
    """Return what a tree is under the request's sampling; one candidate per node makes a chain."""
    shape = {"tree", "chain"} if limits.top_k == 1 or limits.tree_nodes == 1 else {"tree"}
    return KINDS[kind_of(limits, sampling)] | shape | {"raw_draft"}


def kind_of(limits: TreeLimits, sampling: Sampling) -> str:
    """Return how siblings come about; at temperature 0 there is nothing to draw."""
    return "top-k" if sampling.greedy else limits.siblings


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTreeMethod:
    """Parameters of a method whose static tree is filled by rank.

    Attributes:
        num_heads: most heads used. tree_nodes: most nodes. top_k: most candidates after a node.
        siblings: "top-k" (chosen) or "without-replacement" (drawn).
    """

    num_heads: int = 4
    tree_nodes: int = 16
    top_k: int = 4
    siblings: SiblingKind = "top-k"

    taps: ClassVar[tuple[str, ...]] = (FINAL_STATE,)

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Siblings as asked for; at temperature 0 they are chosen."""
        return tree_words(self.limits(), sampling)

    def limits(self) -> TreeLimits:
        """Return the parameters as the tree's limits."""
        return TreeLimits(
            num_heads=self.num_heads,
            tree_nodes=self.tree_nodes,
            top_k=self.top_k,
            siblings=self.siblings,
        )


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


class Choices(NamedTuple):
    """What follows one path.

    Attributes:
        best: the best tokens, best first. row: makes the head's logits there, when asked.
    """

    best: list[int]
    row: Callable[[], Row]


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
        self._sampling, self._kind = kit.sampling, kind_of(limits, kit.sampling)
        self._prompt_length = len(kit.prompt)
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
        filled = self._fill(shape, room, rng)
        return Proposal(
            tree=TokenTree(tuple(filled.tokens), tuple(filled.parents)),
            draft_probs=tuple(filled.laws),
            raw_draft=tuple(filled.raw),
            num_draft_forwards=self.num_passes,
            evidence=tuple(
                Evidence(kind="head", node=node, value=float(level))
                for node, level in enumerate(filled.levels)
            ),
        )

    def _fill(self, shape: RankTree, room: Room, rng: Randomness) -> _Filled:
        filled = _Filled()
        text: dict[RankPath, tuple[int, ...]] = {(): (room.context[-1],)}
        for members in shape.levels():
            families: dict[RankPath, list[RankPath]] = {}
            for node in members:
                path = shape.paths[node]
                if path[:-1] in text:
                    families.setdefault(path[:-1], []).append(path)
            if not families:
                break
            found = self.choices([text[parent] for parent in families])
            for (parent, paths), choices in zip(families.items(), found, strict=True):
                children = self._children(choices, paths, text[parent], room, rng)
                for path, (token, law) in children:
                    filled.add(path, token, law, choices.row)
                    if token not in self._eos:
                        text[path] = (*text[parent], token)
        return filled

    def _children(
        self,
        choices: Choices,
        paths: Sequence[RankPath],
        text: tuple[int, ...],
        room: Room,
        rng: Randomness,
    ) -> Iterator[tuple[RankPath, tuple[int, Law | None]]]:
        """Yield, per path of one family, its token and the law it was drawn from."""
        if self._kind == "top-k":
            for path in paths:
                if path[-1] < len(choices.best):
                    yield path, (choices.best[path[-1]], None)
            return
        counts = self._sampling.counted(room.context, self._prompt_length, text[1:])
        q = choices.row().law(self._sampling, counts)
        for path in paths:
            if not q.any():
                return
            token = rng.draw(q)
            yield path, (token, q)
            q = left_to_draw(q, token)

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
        self.laws: list[Law | None] = []
        self.raw: list[Callable[[], Law]] = []
        self.levels: list[int] = []
        self._nodes: dict[RankPath, int] = {(): PENDING}

    def add(self, path: RankPath, token: int, law: Law | None, row: Callable[[], Row]) -> None:
        """Append the node of `path`."""
        self._nodes[path] = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(self._nodes[path[:-1]])
        self.laws.append(law)
        self.raw.append(lambda: row().raw())
        self.levels.append(len(path))
