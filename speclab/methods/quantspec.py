"""QuantSpec: the target with 4-bit weights, reading its own cache at 4 bits, drafts for itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from speclab.core.laws import Sampling
from speclab.core.needs import CHAIN_WORDS, chain_words
from speclab.core.protocols import DraftKit, LocalText, MethodCard, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.methods.self_drafting import (
    DRAFT_TEMPERATURE,
    SelfDraftRun,
    draft_sampling,
    length_param,
    target_of,
)

WEIGHT_BITS = 4


class QuantSpecRun(SelfDraftRun):
    """One request's drafts; all there is besides the text is the target's cache."""

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft a chain and say how sure the 4-bit network is of it.

        **Source:** QuantSpec 2502.10424, algorithm 1, the draft phase.
        """
        proposal = super().propose(room, rng)
        if not proposal.tree.tokens:
            return proposal
        each = [
            float((raw() if law is None else law)[token])
            for token, law, raw in zip(
                proposal.tree.tokens, proposal.draft_probs, proposal.raw_draft, strict=True
            )
        ]
        sure = Evidence(kind="confidence", values=tuple(np.cumprod(each).tolist()))
        return replace(proposal, evidence=(*proposal.evidence, sure))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantSpec:
    """The same network drafts, its weights at 4 bits and old keys and values by their upper nibble.

    On a pair with an 8-bit cache (`pocket-int8kv`) draft and target share one cache: both nibbles
    are the target's, and its plain decoding is the baseline. On a full-precision target the draft
    keeps a 4-bit copy of the old part beside it.

    Attributes:
        num_speculative_tokens: gamma. group_size: weights that share a scale and a low.
        draft_temperature: the draft's own temperature; None: the target's; 0: greedy draft.

    **Source:** Tiwari et al. 2502.10424, section 4 and algorithm 1.
    **Deviation:** which tokens are quantised follows from the position of each row (see
    `models.quantised_cache`), so that the 8-bit target is a law of the text; low-bit arithmetic is
    emulated, so that nothing is faster on this machine: `python -m speclab quantspec` counts the
    bytes and models the time.
    """

    num_speculative_tokens: int = 4
    group_size: int = 64
    draft_temperature: float | None = None

    card: ClassVar[MethodCard] = MethodCard(
        name="quantspec",
        title=LocalText("QuantSpec (4-bit self-draft)", "QuantSpec（4 比特自草稿）"),
        one_liner=LocalText(
            "The target drafts for itself with 4-bit weights and half the bits of its cache. Made "
            "to save memory traffic on GPUs; here it is emulated and not faster.",
            "目标模型用 4 比特权重和自己缓存的一半比特来起草。"
            "它是为节省 GPU 显存带宽而设计的；这里只是模拟，并不会更快。",
        ),
        paper="Tiwari et al. 2025, QuantSpec",
        paper_url="https://arxiv.org/abs/2502.10424",
        needs=frozenset({"quantised_draft"}),
        provides=CHAIN_WORDS,
        params=(
            length_param(4, 16),
            Param(
                name="group_size",
                symbol="g",
                kind="int",
                default=64,
                low=16,
                high=128,
                step=16,
                unit="weights",
                help=LocalText(
                    "How many 4-bit weights share a scale and a low. Fewer: better drafts, more "
                    "bytes (32 bits per group). Emulated here: not faster on this machine.",
                    "多少个 4 比特权重共用一组缩放和下界。越少，草稿越好，字节也越多"
                    "（每组 32 比特）。这里只是模拟：在本机上不会更快。",
                ),
            ),
            DRAFT_TEMPERATURE,
        ),
        colour_token="method-4",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """A draft at temperature 0 proposes its argmax; else it draws."""
        return chain_words(draft_sampling(sampling, self.draft_temperature))

    def start(self, kit: DraftKit) -> QuantSpecRun:
        """Round the weights, if nobody has yet; nothing is run.

        Raises:
            UnsupportedModel: if the target is no plain Llama.
        """
        target = target_of(kit, self.card.name, "quantised")
        return QuantSpecRun(
            target.quantised(self.group_size),
            kit,
            draft_sampling(kit.sampling, self.draft_temperature),
            self.num_speculative_tokens,
            (),
        )
