"""EAGLE-3: features of three layers, a head trained on its own outputs, a dynamic tree."""

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
class Eagle3(DynamicTreeMethod):
    """A head over three layers' features drafts from logits of its own; a dynamic tree.

    **Source:** EAGLE-3 2503.01840.
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="eagle-3",
        title=LocalText("EAGLE-3 (three layers' features)", "EAGLE-3（三层特征）"),
        one_liner=LocalText(
            "A head reads low, middle and high features and was trained to read its own outputs.",
            "头读取低、中、高三层特征，并在训练中学会读取自己的输出。",
        ),
        paper="EAGLE-3, Li et al. 2025",
        paper_url="https://arxiv.org/abs/2503.01840",
        needs=frozenset({"hidden", "tree_mask", "head:eagle3"}),
        provides=DYNAMIC_PROVIDES,
        params=dynamic_params(6, 4, 11),
        colour_token="method-8",
    )

    def start(self, kit: DraftKit) -> DynamicTreeRun | PlannedChainRun:
        """Feed the prompt's features to the head.

        Raises:
            UnsupportedModel: if the pair has no head, or no learned stop where one is asked for.
        """
        return self.run_with(head_of(kit, "eagle3"), kit)
