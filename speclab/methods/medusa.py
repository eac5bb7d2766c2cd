"""Medusa: extra heads on the target guess several tokens at once; a static tree joins them."""

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


class MedusaRun(RankTreeRun):
    """One request of Medusa.

    Args:
        head: a `MedusaHead`.
    """

    def __init__(self, head: Any, kit: DraftKit, limits: TreeLimits) -> None:
        super().__init__(kit, FINAL_STATE, accuracies_of(head), limits)
        self._head, self._count = head, min(limits.num_heads, head.num_heads)
        self._choices: list[Choices] = []

    @property
    def num_passes(self) -> int:
        """One pass of all heads."""
        return 1

    def choices(self, paths: Sequence[tuple[int, ...]]) -> list[Choices]:
        """Return one head's choices after every path; no head looks at a drafted token."""
        level = len(paths[0]) - 1
        if level == 0:
            rows = self._head.rows(self.feature, self._count, self.vocab_size)
            best = rows.best(self.limits.top_k)
            self._choices = [
                Choices(best[head], partial(rows.row, head)) for head in range(self._count)
            ]
        return [self._choices[level]] * len(paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Medusa(RankTreeMethod):
    """Heads guess the tokens after the next one; their best choices form a static tree.

    By default the candidates are chosen, not drawn; either way the rules for siblings keep the
    target's law. The acceptance that Medusa ships with is the rule `typical`, which does not.

    **Source:** Medusa 2401.10774, sections 2.1 and 2.3.3.
    """

    card: ClassVar[MethodCard] = MethodCard(
        name="medusa",
        title=LocalText("Medusa (parallel heads)", "Medusa（并行多头）"),
        one_liner=LocalText(
            "Extra heads on the target guess several tokens ahead at once, each on its own.",
            "目标模型上的附加头同时猜测后面几个词元，彼此独立。",
        ),
        paper="Medusa, Cai et al. 2024",
        paper_url="https://arxiv.org/abs/2401.10774",
        needs=frozenset({"hidden", "tree_mask", "head:medusa"}),
        provides=PROVIDES,
        params=TREE_PARAMS,
        colour_token="method-5",
    )

    def start(self, kit: DraftKit) -> MedusaRun:
        """Take the last feature of the prompt.

        Raises:
            UnsupportedModel: if the pair has no Medusa heads.
        """
        return MedusaRun(head_of(kit, "medusa"), kit, self.limits())
