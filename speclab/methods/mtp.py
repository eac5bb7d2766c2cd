"""Multi-token prediction: the target's own module drafts a chain, used again for every token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from speclab.core.laws import Sampling
from speclab.core.needs import CHAIN_WORDS, chain_words
from speclab.core.protocols import DraftKit, LocalText, MethodCard
from speclab.methods.draft_length import DRAFT_LENGTH, STOP_THRESHOLD, DraftLength, chain_length
from speclab.methods.head_chain import PlannedChainRun, gamma_param
from speclab.methods.rank_drafting import head_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Mtp:
    """A module trained with the target drafts from the target's last state and the next token.

    Attributes:
        num_speculative_tokens: gamma.
        draft_length: how many of them are drafted. stop_threshold: see `STOP_THRESHOLD`.

    **Source:** DeepSeek-V3 2412.19437, section 2.2; FastMTP 2509.18362, section 3.
    **Deviation:** one module drafts every token, also beyond the depth it was trained for, as
    serving engines do; the paper has one module per depth.
    """

    num_speculative_tokens: int = 3
    draft_length: DraftLength = "constant"
    stop_threshold: float = 0.6

    card: ClassVar[MethodCard] = MethodCard(
        name="mtp",
        title=LocalText("MTP (chained module)", "MTP（链式模块）"),
        one_liner=LocalText(
            "A module trained together with the target drafts one token, then reads its own output "
            "for the next, also beyond the depth it was trained for.",
            "与目标模型一起训练的模块先起草一个词元，再读取自己的输出起草下一个，"
            "也会用到训练时没有的深度。",
        ),
        paper="DeepSeek-V3, 2024",
        paper_url="https://arxiv.org/abs/2412.19437",
        needs=frozenset({"hidden", "head:mtp"}),
        provides=CHAIN_WORDS,
        params=(
            gamma_param(
                3,
                16,
                LocalText(
                    "How many tokens are drafted per round; each is one pass of the module.",
                    "每轮起草多少个词元；每个词元需要模块的一次前向。",
                ),
            ),
            DRAFT_LENGTH,
            STOP_THRESHOLD,
        ),
        colour_token="method-9",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Drawn from the module's law, or its most likely tokens at temperature 0."""
        return chain_words(sampling)

    def start(self, kit: DraftKit) -> PlannedChainRun:
        """Feed the prompt's states to the module.

        Raises:
            UnsupportedModel: if the pair has no module, or no learned stop where one is asked for.
        """
        length = chain_length(
            self.draft_length,
            kit,
            method=self.card.name,
            gamma=self.num_speculative_tokens,
            threshold=self.stop_threshold,
        )
        return PlannedChainRun(head_of(kit, "mtp"), kit, length)
