"""EAGLE-1: one layer predicts the target's next features; a static tree of tokens."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from speclab.core.laws import Law, Sampling, most_likely
from speclab.core.protocols import DraftKit, LocalText, MethodCard, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.trees import PENDING
from speclab.methods.draft_tree import GrowingTree, left_to_draw
from speclab.methods.head_tree import (
    HeadRow,
    HeadTreeRun,
    LevelFeeder,
    TreeSize,
    confidences,
    tree_params,
)
from speclab.methods.rank_drafting import head_of
from speclab.methods.rank_trees import RankTree, search_tree

GUESSED_RANKS = (0.6, 0.15, 0.07, 0.04, 0.03, 0.02, 0.015, 0.01, 0.01, 0.01)
"""How often the target's token is a head's r-th best, for heads that nobody measured."""


class StaticTreeRun(HeadTreeRun):
    """Fills a tree of fixed shape; above temperature 0 siblings are drawn without replacement."""

    def __init__(self, head: Any, kit: DraftKit, size: TreeSize) -> None:
        super().__init__(head, kit, size)
        self._ranks = tuple(getattr(head, "rank_acceptance", ())) or GUESSED_RANKS

    def draft(self, root: Any, size: TreeSize, room: Room, rng: Randomness) -> Proposal:
        """Fill the shape level by level; how many children a node gets is settled beforehand.

        **Source:** EAGLE 2401.15077, section 4.1, figure 7.
        """
        shape = search_tree((self._ranks,) * size.depth, size.total_tokens, size.depth, size.top_k)
        offspring = _offspring(shape)
        grown, feeder, sure = GrowingTree(), LevelFeeder(self.session), []
        level, rows, features = [(PENDING, PENDING)], root.logits, root.features
        forwards = 0
        while level:
            forwards += 1
            following, above = [], []
            for number, (place, parent) in enumerate(level):
                row = HeadRow(self.head, rows[number])
                children = offspring[place]
                drawn = self._siblings(row, len(children), self._counts(grown, parent, room), rng)
                for child, (token, law) in zip(children, drawn, strict=False):
                    node = grown.add(parent, token, law, row.row())
                    before = 1.0 if parent == PENDING else sure[parent]
                    sure.append(before * float(row.raw()[token]))
                    if token not in self.eos and offspring[child]:
                        following.append((child, node))
                        above.append(features[number])
            nodes = [node for _, node in following]
            if nodes:
                parents = [grown.parents[node] for node in nodes]
                tokens = [grown.tokens[node] for node in nodes]
                rows, features = feeder.feed(nodes, parents, tokens, above)
            level = following
        return Proposal(
            tree=grown.tree(),
            draft_probs=tuple(grown.laws),
            raw_draft=tuple(grown.raw),
            num_draft_forwards=forwards,
            evidence=confidences(sure),
        )

    def _siblings(
        self, row: HeadRow, count: int, counts: Counter[int] | None, rng: Randomness
    ) -> list[tuple[int, Law | None]]:
        """Return up to `count` siblings, each with the law it was drawn from (None: chosen)."""
        if self.sampling.greedy:
            ranked = row.row().law(replace(self.sampling, temperature=1.0), counts)
            return [(int(t), None) for t in most_likely(ranked, count) if ranked[t] > 0.0]
        q = row.row().law(self.sampling, counts)
        drawn: list[tuple[int, Law | None]] = []
        while len(drawn) < count and q.any():
            drawn.append((rng.draw(q), q))
            q = left_to_draw(q, drawn[-1][0])
        return drawn

    def _counts(self, grown: GrowingTree, parent: int, room: Room) -> Counter[int] | None:
        if not self.sampling.penalised:
            return None
        counts = Counter(room.context[self.prompt_length :])
        while parent != PENDING:
            counts[grown.tokens[parent]] += 1
            parent = grown.parents[parent]
        return counts


def _offspring(shape: RankTree) -> dict[int, list[int]]:
    """Return the children of every node of a shape in order of rank."""
    children: dict[int, list[int]] = {node: [] for node in range(PENDING, len(shape))}
    for node, parent in enumerate(shape.parents()):
        children[parent].append(node)
    return children


@dataclass(frozen=True, slots=True, kw_only=True)
class Eagle1:
    """A head of one layer drafts at the level of features; its tree has a fixed shape.

    Attributes:
        depth: levels. top_k: most children of a node. total_tokens: nodes.

    **Source:** EAGLE 2401.15077.
    **Deviation:** the shape is made from how often the head's r-th choice is right.
    """

    depth: int = 6
    top_k: int = 4
    total_tokens: int = 11

    card: ClassVar[MethodCard] = MethodCard(
        name="eagle-1",
        title=LocalText("EAGLE-1 (features, static tree)", "EAGLE-1（特征，静态树）"),
        one_liner=LocalText(
            "One layer predicts the target's next features from those before and the next token.",
            "用一层网络，根据已有特征和下一个词元预测目标模型的后续特征。",
        ),
        paper="EAGLE, Li et al. 2024",
        paper_url="https://arxiv.org/abs/2401.15077",
        needs=frozenset({"hidden", "tree_mask", "head:eagle1"}),
        provides=frozenset(
            {
                "tree",
                "chain",
                "sampled",
                "siblings_without_replacement",
                "deterministic",
                "top_k_siblings",
                "raw_draft",
            }
        ),
        params=tree_params(6, 4, 11),
        colour_token="method-6",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    @property
    def size(self) -> TreeSize:
        """Return the tree's size."""
        return TreeSize(depth=self.depth, top_k=self.top_k, total_tokens=self.total_tokens)

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Drawn without replacement, or the best ones at temperature 0."""
        drawn = {"sampled", "siblings_without_replacement"}
        kind = {"deterministic", "top_k_siblings"} if sampling.greedy else drawn
        return frozenset(
            {"tree", "raw_draft"} | kind | ({"chain"} if self.size.is_chain else set())
        )

    def start(self, kit: DraftKit) -> StaticTreeRun:
        """Feed the prompt's features to the head.

        Raises:
            UnsupportedModel: if the pair has no head.
        """
        return StaticTreeRun(head_of(kit, "eagle1"), kit, self.size)
