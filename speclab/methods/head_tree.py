"""Trees drafted by a head that reads the target's features: the static and the dynamic one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

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

if TYPE_CHECKING:
    from torch import Tensor


def tree_params(depth: int, top_k: int, total_tokens: int) -> tuple[Param, ...]:
    """Return the parameters of a head's tree with their defaults."""
    return (
        Param(
            name="depth",
            symbol="d",
            kind="int",
            default=depth,
            low=1,
            high=12,
            unit="levels",
            help=LocalText(
                "At most how many tokens deep the tree is; each level is one pass of the head.",
                "树最多有多少层；每一层需要头的一次前向。",
            ),
        ),
        Param(
            name="top_k",
            symbol="k",
            kind="int",
            default=top_k,
            low=1,
            high=10,
            unit="tokens",
            help=LocalText(
                "At most how many candidates follow a node; 1 makes a chain.",
                "每个节点之后最多有多少个候选；1 表示一条链。",
            ),
        ),
        Param(
            name="total_tokens",
            symbol="n",
            kind="int",
            default=total_tokens,
            low=1,
            high=64,
            unit="tokens",
            help=LocalText(
                "How many candidates the target judges per round.",
                "每轮让目标模型验证多少个候选。",
            ),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSize:
    """How large a head's tree may be."""

    depth: int
    top_k: int
    total_tokens: int

    def within(self, room: Room) -> TreeSize:
        """Return the size that `room` leaves."""
        return replace(
            self,
            depth=min(self.depth, room.max_depth),
            total_tokens=min(self.total_tokens, room.max_nodes),
        )

    @property
    def is_chain(self) -> bool:
        """Whether no node can have a sibling."""
        return self.top_k == 1 or self.total_tokens == 1


class HeadRow:
    """The head's law after one node; made only when somebody looks at it."""

    __slots__ = ("_head", "_logits", "_row")

    def __init__(self, head: Any, logits: Tensor) -> None:
        self._head, self._logits = head, logits
        self._row: Row | None = None

    def row(self) -> Row:
        """Return the row in target ids."""
        if self._row is None:
            self._row = self._head.row(self._logits)
        return self._row

    def raw(self) -> Law:
        """Return the law before processing [vocab]."""
        return self.row().raw()


@dataclass(slots=True)
class Candidates:
    """Candidate nodes in the order in which they came up: parents before children.

    Attributes:
        tokens, parents: per candidate. values: log of the product of the head's probabilities
            along its path. rows: the law it was taken from.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rows: list[HeadRow] = field(default_factory=list)

    def add(self, parent: int, row: HeadRow, tokens: list[int], values: list[float]) -> None:
        """Append the children of one node, best first."""
        count = len(tokens)
        self.tokens += tokens
        self.parents += [parent] * count
        self.values += values
        self.rows += [row] * count

    def best(self, count: int) -> list[int]:
        """Return the `count` most probable candidates in order of coming up.

        A child is never more probable than its parent and comes later, so this is a tree.
        """
        order = np.argsort(-np.asarray(self.values), kind="stable")[:count]
        return np.sort(order).tolist()

    def least(self, count: int) -> float:
        """Return the value below or at which a newcomer is not among the best `count`."""
        if len(self.values) < count:
            return -np.inf
        return float(np.partition(np.asarray(self.values), -count)[-count])


class HeadTreeRun(ABC):
    """One request of a method that drafts with a head over the target's features.

    Args:
        head: an `EagleHandle`, or anything with its `open`, `row` and `target_ids`.
        kit: the request.
        size: of the tree.
    """

    def __init__(self, head: Any, kit: DraftKit, size: TreeSize) -> None:
        self.head, self.size = head, size
        self.eos, self.sampling = kit.eos_ids, kit.sampling
        self.session: Any = head.open()
        if len(kit.prompt) > 1:
            self.session.extend(kit.prefill_features, kit.prompt[1:])

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft a tree after the last token; nothing before the target has seen one."""
        size = self.size.within(room)
        if size.depth < 1 or size.total_tokens < 1:
            return NO_PROPOSAL
        root = self.session.root()
        return NO_PROPOSAL if root is None else self.draft(root, size, room, rng)

    @abstractmethod
    def draft(self, root: Any, size: TreeSize, room: Room, rng: Randomness) -> Proposal:
        """Return the tree that grows from `root`, a `Drafted` of one row."""

    def observe(self, feedback: Feedback) -> None:
        """Replace what was drafted by the target's features and the tokens after them."""
        self.session.extend(feedback.features, feedback.emitted)

    def state_key(self) -> Hashable | None:
        """The features are a function of the text."""
        return ()

    def close(self) -> None:
        """Release the head's cache."""
        self.session.close()


class LevelFeeder:
    """Feeds a tree to a head level by level and knows who attends to whom.

    Args:
        session: the head's, its root just made.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._lines: dict[int, list[int]] = {PENDING: []}
        self._fed = self._depth = 0

    def feed(
        self,
        nodes: Sequence[int],
        parents: Sequence[int],
        tokens: Sequence[int],
        features: Sequence[Tensor],
    ) -> Any:
        """Feed the nodes of one level and return what the head says after each.

        Args:
            nodes: ids by which later levels name their parents.
            parents: a node fed before, or PENDING, per node. tokens: target ids.
            features: what the head put out at each parent [h].
        """
        self._depth += 1
        seen = None
        if len(nodes) > 1 or self._fed >= self._depth:
            seen = np.zeros((len(nodes), self._fed + len(nodes)), dtype=bool)
        for number, (node, parent) in enumerate(zip(nodes, parents, strict=True)):
            line = self._lines[node] = [*self._lines[parent], self._fed + number]
            if seen is not None:
                seen[number, line] = True
        self._fed += len(nodes)
        return self._session.grow(list(features), tokens, seen, self._depth)


class DynamicTreeRun(HeadTreeRun):
    """Grows where the head is confident; nothing is drawn."""

    def draft(self, root: Any, size: TreeSize, room: Room, rng: Randomness) -> Proposal:
        """Expand the most probable nodes level by level, then keep the best of all.

        A node that cannot have a child among the best is not expanded: it would change nothing.

        **Source:** EAGLE-2 2406.16858, section 4 (expansion and reranking phases).
        """
        found, feeder, forwards = Candidates(), LevelFeeder(self.session), 1
        level = self._add_level(found, root.logits, [PENDING], size)
        features = {PENDING: root.features[0]}
        for _ in range(1, size.depth):
            least = found.least(size.total_tokens)
            level = [
                node
                for node in level
                if found.values[node] > least and found.tokens[node] not in self.eos
            ]
            if not level:
                break
            parents = [found.parents[node] for node in level]
            drafted = feeder.feed(
                level,
                parents,
                [found.tokens[node] for node in level],
                [features[parent] for parent in parents],
            )
            forwards += 1
            features = dict(zip(level, drafted.features, strict=True))
            level = self._add_level(found, drafted.logits, level, size)
        return self._reranked(found, size, forwards)

    def _add_level(
        self, found: Candidates, logits: Tensor, parents: Sequence[int], size: TreeSize
    ) -> list[int]:
        """Add the children of every parent; return the `top_k` best of them, best first."""
        count = min(size.top_k, logits.shape[-1])
        values, own = logits.double().log_softmax(-1).topk(count, -1)
        first = len(found.tokens)
        both = zip(parents, values.tolist(), own.tolist(), strict=True)
        for place, (parent, logs, ids) in enumerate(both):
            above = 0.0 if parent == PENDING else found.values[parent]
            row = HeadRow(self.head, logits[place])
            found.add(parent, row, self.head.target_ids(ids), [above + log for log in logs])
        order = np.argsort(-np.asarray(found.values[first:]), kind="stable")[: size.top_k]
        return [first + int(node) for node in order]

    def _reranked(self, found: Candidates, size: TreeSize, forwards: int) -> Proposal:
        kept = [node for node in found.best(size.total_tokens) if found.values[node] > -np.inf]
        places = {node: place for place, node in enumerate(kept)} | {PENDING: PENDING}
        return Proposal(
            tree=TokenTree(
                tuple(found.tokens[node] for node in kept),
                tuple(places[found.parents[node]] for node in kept),
            ),
            draft_probs=(None,) * len(kept),
            raw_draft=tuple(found.rows[node].raw for node in kept),
            num_draft_forwards=forwards,
            evidence=confidences(float(np.exp(found.values[node])) for node in kept),
        )


def confidences(values: Iterable[float]) -> tuple[Evidence, ...]:
    """Return, per node, how probable the head takes its whole path to be."""
    return tuple(
        Evidence(kind="confidence", node=node, value=round(value, 6))
        for node, value in enumerate(values)
    )


def dynamic_words(size: TreeSize) -> frozenset[str]:
    """Return what the proposals of a dynamic tree are."""
    chain = {"chain"} if size.is_chain else set()
    return frozenset({"tree", "deterministic", "top_k_siblings", "raw_draft"} | chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicTreeMethod:
    """Parameters of a method whose tree grows by the head's confidence.

    Attributes:
        depth: most levels. top_k: most children of a node, and nodes expanded per level.
        total_tokens: nodes kept.
    """

    depth: int = 6
    top_k: int = 4
    total_tokens: int = 11

    taps: ClassVar[tuple[str, ...]] = ()

    @property
    def size(self) -> TreeSize:
        """Return the tree's size."""
        return TreeSize(depth=self.depth, top_k=self.top_k, total_tokens=self.total_tokens)

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Chosen siblings under any sampling; a chain where there is only one."""
        return dynamic_words(self.size)
