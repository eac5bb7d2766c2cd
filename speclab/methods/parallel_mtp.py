"""Parallel multi-token prediction: one head for each distance, all from one state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from speclab.core.laws import Sampling
from speclab.core.needs import CHAIN_WORDS, chain_words
from speclab.core.protocols import DraftKit, LocalText, MethodCard, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.methods.head_chain import ChainDraft, gamma_param
from speclab.methods.head_tree import HeadTreeRun, TreeSize
from speclab.methods.rank_drafting import head_of


class ParallelMtpRun(HeadTreeRun):
    """One request: the heads' caches, and a chain of one token per head.

    Args:
        head: a `ParallelHandle`. kit: the request. gamma: most tokens per round.
    """

    def __init__(self, head: Any, kit: DraftKit, gamma: int) -> None:
        gamma = min(gamma, head.num_heads)
        super().__init__(head, kit, TreeSize(depth=gamma, top_k=1, total_tokens=gamma))
        self._kit = kit

    def draft(self, root: Any, size: TreeSize, room: Room, rng: Randomness) -> Proposal:
        """Take one token of each head; no head knows what the one before it gave.

        The heads' last state stands before the pending token, which the target has settled; so the
        first head, two places ahead, drafts the token after it.

        **Source:** Gloeckle et al. 2404.19737, section 2 (self-speculative decoding).
        """
        chain = ChainDraft(self._kit, room)
        for logits in root[: size.longest_chain]:
            chain.add(self.head.row(logits), rng)
            if chain.ended:
                break
        return chain.proposal(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelMtp:
    """Heads on a shared trunk draft one token each, all at once.

    Attributes:
        num_speculative_tokens: gamma; no more than there are heads.

    **Source:** Gloeckle et al. 2404.19737.
    **Deviation:** above temperature 0 tokens are drawn from the heads' laws and judged by the
    rules for drawn tokens; the paper decodes greedily.
    """

    num_speculative_tokens: int = 3

    card: ClassVar[MethodCard] = MethodCard(
        name="parallel-mtp",
        title=LocalText("MTP (parallel heads)", "MTP（并行头）"),
        one_liner=LocalText(
            "Heads trained together with the target draft one token each from the same state; none "
            "knows what the others say.",
            "与目标模型一起训练的头从同一个状态各起草一个词元，彼此不知道对方的结果。",
        ),
        paper="Gloeckle et al. 2024",
        paper_url="https://arxiv.org/abs/2404.19737",
        needs=frozenset({"hidden", "head:parallel_mtp"}),
        provides=CHAIN_WORDS,
        params=(
            gamma_param(
                3,
                8,
                LocalText(
                    "How many tokens are drafted per round, at most one per head; they cost one "
                    "pass together.",
                    "每轮起草多少个词元，每个头最多一个；合起来只需一次前向。",
                ),
            ),
        ),
        colour_token="method-10",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Drawn from the heads' laws, or their most likely tokens at temperature 0."""
        return chain_words(sampling)

    def start(self, kit: DraftKit) -> ParallelMtpRun:
        """Feed the prompt's states to the heads.

        Raises:
            UnsupportedModel: if the pair has none.
        """
        return ParallelMtpRun(head_of(kit, "parallel_mtp"), kit, self.num_speculative_tokens)
