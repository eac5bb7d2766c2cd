"""Hydra: heads that also read the tokens drafted before them on their path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from speclab.core.protocols import DraftKit, LocalText, MethodCard
from speclab.methods.rank_drafting import (
    FINAL_STATE,
    PROVIDES,
    TREE_PARAMS,
    Choices,
    RankTreeMethod,
    RankTreeRun,
    TreeLimits,
    accuracies_of,
    head_of,
)


class HydraRun(RankTreeRun):
    """One request of Hydra.

    Args:
        head: a `HydraHead`.
    """

    def __init__(self, head: Any, kit: DraftKit, limits: TreeLimits) -> None:
        super().__init__(kit, FINAL_STATE, accuracies_of(head), limits)
        self._head, self._passes = head, 0

    @property
    def num_passes(self) -> int:
        """One pass per level."""
        return self._passes

    def choices(self, paths: Sequence[tuple[int, ...]]) -> list[Choices]:
        """Return the choices of the level's head after each path, which it reads."""
        self._passes = len(paths[0])
        rows = self._head.rows(self.feature, paths, self.vocab_size)
        best = rows.best(self.limits.top_k)
        return [Choices(best[i], partial(rows.row, i)) for i in range(len(paths))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hydra(RankTreeMethod):
    """Medusa's static tree, with heads that depend on each other.

    A head reads the target's state and the tokens on the path so far, so that cousins, unlike in
    Medusa, differ. The tree is filled level by level.

    **Source:** Hydra 2402.05109, section 3.
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="hydra",
        title=LocalText("Hydra (heads that read the path)", "Hydra（读取路径的多头）"),
        one_liner=LocalText(
            "Like Medusa, but each head also reads the tokens drafted before it on its path.",
            "与 Medusa 相似，但每个头还会读取路径上先前起草的词元。",
        ),
        paper="Hydra, Ankner et al. 2024",
        paper_url="https://arxiv.org/abs/2402.05109",
        needs=frozenset({"hidden", "tree_mask", "head:hydra"}),
        provides=PROVIDES,
        params=TREE_PARAMS,
        colour_token="method-5",
    )

    def start(self, kit: DraftKit) -> HydraRun:
        """Take the last feature of the prompt.

        Raises:
            UnsupportedModel: if the pair has no Hydra heads.
        """
        return HydraRun(head_of(kit, "hydra"), kit, self.limits())
