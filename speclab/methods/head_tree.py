"""What trees drafted by a head over the target's features share: size, rows, feeding, sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from speclab.core.laws import Law, Row
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
from speclab.core.trees import PENDING

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
    def longest_chain(self) -> int:
        """Most nodes of a chain."""
        return min(self.depth, self.total_tokens)

    @property
    def is_chain(self) -> bool:
        """Whether no node can have a sibling."""
        return self.top_k == 1 or self.total_tokens == 1

    @property
    def most_candidates(self) -> int:
        """Most nodes a dynamic tree can look at: `top_k` nodes per level have `top_k` children."""
        return self.top_k + (self.depth - 1) * self.top_k**2

    @property
    def most_places(self) -> int:
        """Most nodes of any tree of this depth and width."""
        return sum(self.top_k**level for level in range(1, self.depth + 1))


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
        self.prompt_length = len(kit.prompt)
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


def confidences(values: Iterable[float]) -> tuple[Evidence, ...]:
    """Return how probable the head takes the whole path of each node to be; nothing of nothing."""
    rounded = tuple(three_digits(value) for value in values)
    return (Evidence(kind="confidence", values=rounded),) if rounded else ()


def three_digits(value: float) -> float:
    """Return a probability as records keep it."""
    return float(f"{value:.3g}")
