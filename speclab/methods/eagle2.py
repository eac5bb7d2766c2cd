"""EAGLE-2: the head of EAGLE-1 with a tree that grows where the head is confident."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from speclab.core.protocols import DraftKit, LocalText, MethodCard
from speclab.methods.dynamic_tree import (
    DYNAMIC_PROVIDES,
    DynamicTreeMethod,
    DynamicTreeRun,
    dynamic_params,
)
from speclab.methods.head_chain import PlannedChainRun
from speclab.methods.rank_drafting import head_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Eagle2(DynamicTreeMethod):
    """The head of EAGLE-1; its tree is made anew in every round, by the head's confidence.

    **Source:** EAGLE-2 2406.16858.
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="eagle-2",
        title=LocalText("EAGLE-2 (dynamic tree)", "EAGLE-2（动态树）"),
        one_liner=LocalText(
            "The head's own confidence decides where the tree grows and which nodes are kept.",
            "由头自身的置信度决定树在哪里生长、保留哪些节点。",
        ),
        paper="EAGLE-2, Li et al. 2024",
        paper_url="https://arxiv.org/abs/2406.16858",
        needs=frozenset({"hidden", "tree_mask", "head:eagle1"}),
        provides=DYNAMIC_PROVIDES,
        params=dynamic_params(6, 4, 11),
        colour_token="method-7",
    )

    def start(self, kit: DraftKit) -> DynamicTreeRun | PlannedChainRun:
        """Feed the prompt's features to the head.

        Raises:
            UnsupportedModel: if the pair has no head, or no learned stop where one is asked for.
        """
        return self.run_with(head_of(kit, "eagle1"), kit)
