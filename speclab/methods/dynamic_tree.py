"""The dynamic tree of EAGLE-2 and EAGLE-3: expand where the head is confident, keep the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, LocalText, MethodCard, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.trees import PENDING, TokenTree
from speclab.methods.draft_length import DRAFT_LENGTH, STOP_THRESHOLD, DraftLength, chain_length
from speclab.methods.head_chain import ChainDraft, PlannedChainRun, fed_chain
from speclab.methods.head_tree import (
    HeadRow,
    HeadTreeRun,
    LevelFeeder,
    TreeSize,
    confidences,
    three_digits,
    tree_params,
)

if TYPE_CHECKING:
    from torch import Tensor

MOST_SHOWN = 32
"""Candidates recorded per round besides the nodes: a record stays below 3 KB per emitted token."""

MOST_LIKELY = Sampling(temperature=0.0)
DraftSampling = Literal["chosen", "drawn"]
DRAFT_SAMPLING = Param(
    name="draft_sampling",
    symbol="",
    kind="choice",
    default="chosen",
    options=("chosen", "drawn"),
    help=LocalText(
        "How a node's child is found: the head's most likely tokens, or, in a chain (top_k 1) "
        "above temperature 0, drawn from the head's law as a draft model draws.",
        "节点的子节点如何产生：取头认为最可能的词元；若是链（top_k 为 1）且温度大于 0，"
        "也可以像草稿模型那样从头的分布中抽取。",
    ),
)


CHAIN_LENGTH = replace(
    DRAFT_LENGTH,
    help=LocalText(
        "Of a chain (top_k 1) only, γ being its depth. " + DRAFT_LENGTH.help.en,
        "仅用于链（top_k 为 1），γ 即其层数。" + DRAFT_LENGTH.help.zh,
    ),
)


def dynamic_params(depth: int, top_k: int, total_tokens: int) -> tuple[Param, ...]:
    """Return the parameters of a dynamic tree with their defaults."""
    sizes = tree_params(depth, top_k, total_tokens)
    return (*sizes, DRAFT_SAMPLING, CHAIN_LENGTH, STOP_THRESHOLD)


@dataclass(slots=True)
class Candidates:
    """Candidate nodes in the order in which they came up: parents before children.

    Attributes:
        tokens, parents: per candidate. values: log of the product of the head's probabilities
            along its path. rows: the law it was taken from.
        expanded: the candidates that were fed to the head, in that order.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rows: list[HeadRow] = field(default_factory=list)
    expanded: list[int] = field(default_factory=list)

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

    def seen(self, kept: Sequence[int]) -> Evidence:
        """Return what was looked at besides the nodes `kept`.

        What was expanded comes first, then the most probable; parents are among what is shown.
        """
        out, expanded = set(range(len(self.values))) - set(kept), set(self.expanded)
        ranked = sorted(
            (node for node in out if self.values[node] > -np.inf),
            key=lambda node: (node not in expanded, -self.values[node], node),
        )
        dropped = sorted(ranked[:MOST_SHOWN])
        places = {node: place for place, node in enumerate([*kept, *dropped])} | {PENDING: PENDING}
        return Evidence(
            kind="grown",
            tokens=tuple(self.tokens[node] for node in dropped),
            parents=tuple(places[self.parents[node]] for node in dropped),
            values=tuple(three_digits(math.exp(self.values[node])) for node in dropped),
            expanded=tuple(places[node] for node in self.expanded if node in places),
            value=float(len(ranked) - len(dropped)),
        )


class DynamicTreeRun(HeadTreeRun):
    """Grows where the head is confident; nothing is drawn, except a chain that is asked to be.

    Args:
        head, kit, size: see `HeadTreeRun`.
        drawn: whether the only child of a node is drawn from the head's law.
    """

    def __init__(self, head: Any, kit: DraftKit, size: TreeSize, drawn: bool = False) -> None:
        super().__init__(head, kit, size)
        self._kit, self._drawn = kit, drawn and not kit.sampling.greedy

    def draft(self, root: Any, size: TreeSize, room: Room, rng: Randomness) -> Proposal:
        """Expand the most probable nodes level by level, then keep the best of all.

        A node that cannot have a child among the best is not expanded: it would change nothing.

        **Source:** EAGLE-2 2406.16858, section 4 (expansion and reranking phases); a drawn chain:
        Leviathan 2211.17192, algorithm 1, with the head of EAGLE as the draft.
        """
        if self._drawn:
            chain = ChainDraft(self._kit, room)
            return fed_chain(self.head, self.session, root, size.longest_chain, chain, rng)
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
            found.expanded += level
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
            evidence=(
                *confidences(math.exp(found.values[node]) for node in kept),
                *(() if size.top_k == 1 else (found.seen(kept),)),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicTreeMethod:
    """Parameters of a method whose tree grows by the head's confidence.

    Attributes:
        depth: most levels. top_k: most children of a node, and nodes expanded per level.
        total_tokens: nodes kept.
        draft_sampling: "chosen" (the most likely) or "drawn" (a chain only).
        draft_length: how many tokens of a chain are drafted. stop_threshold: see `STOP_THRESHOLD`.

    Raises:
        BadInput: if siblings are to be drawn: the tree is made of the most likely ones; if a tree
            is to have the draft length of a chain.
    """

    depth: int = 6
    top_k: int = 4
    total_tokens: int = 11
    draft_sampling: DraftSampling = "chosen"
    draft_length: DraftLength = "constant"
    stop_threshold: float = 0.6

    card: ClassVar[MethodCard]
    taps: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.draft_sampling == "drawn" and self.top_k != 1:
            raise BadInput(
                f"draft_sampling is drawn, which needs a chain, but top_k is {self.top_k}.",
                "Set top_k to 1, or leave draft_sampling at chosen.",
                code="drawn_needs_chain",
                values={"top_k": self.top_k},
            )
        if self.draft_length != "constant" and self.top_k != 1:
            raise BadInput(
                f"draft_length is {self.draft_length}, which needs a chain, but top_k is "
                f"{self.top_k}.",
                "Set top_k to 1, or leave draft_length at constant.",
                code="length_needs_chain",
                values={"length": self.draft_length, "top_k": self.top_k},
            )

    @property
    def size(self) -> TreeSize:
        """Return the tree's size."""
        return TreeSize(depth=self.depth, top_k=self.top_k, total_tokens=self.total_tokens)

    @property
    def drawn(self) -> bool:
        """Whether the chain is drawn from the head's law."""
        return self.draft_sampling == "drawn"

    def run_with(self, head: Any, kit: DraftKit) -> DynamicTreeRun | PlannedChainRun:
        """Begin a request with the head: a tree, or a chain whose length is planned.

        Raises:
            UnsupportedModel: where a learned stop is asked for and there is none.
        """
        if self.draft_length == "constant":
            return DynamicTreeRun(head, kit, self.size, self.drawn)
        most = self.size.longest_chain
        length = chain_length(
            self.draft_length,
            kit,
            method=self.card.name,
            gamma=most,
            most=most,
            threshold=self.stop_threshold,
        )
        drawn = self.drawn and not kit.sampling.greedy
        return PlannedChainRun(head, kit, length, kit.sampling if drawn else MOST_LIKELY)

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Chosen siblings; a chain where there is only one; drawn where asked for and possible."""
        if self.drawn and not sampling.greedy:
            return frozenset({"tree", "chain", "sampled", "raw_draft"})
        chain = {"chain"} if self.size.is_chain else set()
        return frozenset({"tree", "deterministic", "top_k_siblings", "raw_draft"} | chain)


DYNAMIC_PROVIDES = frozenset(
    {"tree", "chain", "deterministic", "top_k_siblings", "sampled", "raw_draft"}
)
"""All that the proposals of a dynamic tree may be."""
