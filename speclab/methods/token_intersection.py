"""Token-level intersection: a draft with another tokenizer drafts the tokens that both have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law, Row, Sampling
from speclab.core.protocols import DraftKit, LocalText, MethodCard, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.methods.draft_model import DRAFT_MODEL_TEMPERATURE, DraftModelRun


class TokenIntersectionRun(DraftModelRun):
    """A chain from the draft's law on the shared tokens, and what that left out.

    The draft of a pair with two tokenizers hands out rows in the target's ids already
    (`models.foreign.IntersectionHandle`); of one tokenizer all tokens are shared.
    """

    def __init__(self, kit: DraftKit, sampling: Sampling, gamma: int) -> None:
        super().__init__(kit.drafts[0], kit, sampling, gamma, min_confidence=0.0)
        self._own_ids = None if kit.foreign is None else kit.foreign.spelling.growing()
        self._masses: list[float | None] = []

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draw each token from the draft's law, renormalised on the shared tokens.

        **Source:** Timor et al. 2502.05202, algorithm 4 (TLI), then Leviathan et al. 2211.17192.
        """
        self._masses = []
        proposal = super().propose(room, rng)
        tokens = proposal.tree.tokens
        if self._own_ids is None or not tokens:
            return proposal
        before, after = (
            len(self._own_ids(text)) for text in (room.context, (*room.context, *tokens))
        )
        known = all(mass is not None for mass in self._masses)
        shown = Evidence(
            kind="retokenised",
            value=max(0, after - before),
            values=tuple(self._masses) if known else (),  # type: ignore[arg-type]
        )
        return replace(proposal, evidence=(*proposal.evidence, shown))

    def _stops(self, token: int, law: Law | None, row: Row) -> bool:
        """Note how much of the draft's law the shared tokens had at this place."""
        self._masses.append(getattr(row, "shared_mass", None))
        return super()._stops(token, law, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIntersection:
    """A draft model of another tokenizer drafts only tokens that both vocabularies have.

    Attributes:
        num_speculative_tokens: gamma.
        draft_temperature: the draft's own temperature; None: the target's; 0: greedy draft.
    """

    num_speculative_tokens: int = 4
    draft_temperature: float | None = None

    card: ClassVar[MethodCard] = MethodCard(
        name="token-intersection",
        title=LocalText("Token intersection (TLI)", "词元交集（TLI）"),
        one_liner=LocalText(
            "A draft with another tokenizer draws only tokens that both vocabularies have; its law "
            "is renormalised on them and judged as usual.",
            "分词器不同的草稿模型只抽取两个词表共有的词元；它的分布在这些词元上重新归一化，"
            "再照常验证。",
        ),
        paper="Timor et al. 2025, algorithm 4",
        paper_url="https://arxiv.org/abs/2502.05202",
        needs=frozenset({"draft_model"}),
        provides=frozenset({"chain", "sampled", "deterministic", "raw_draft", "shared_tokens"}),
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="γ",
                kind="int",
                default=4,
                low=1,
                high=16,
                unit="tokens",
                help=LocalText("How many tokens are drafted per round.", "每轮起草多少个词元。"),
            ),
            DRAFT_MODEL_TEMPERATURE,
        ),
        colour_token="method-19",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """A draft at temperature 0 proposes its argmax; else it draws."""
        greedy = self.draft_sampling(sampling).greedy
        kind = "deterministic" if greedy else "sampled"
        return frozenset({"chain", "raw_draft", "shared_tokens", kind})

    def draft_sampling(self, sampling: Sampling) -> Sampling:
        """Return the request's sampling at the draft's own temperature."""
        if self.draft_temperature is None:
            return sampling
        return replace(sampling, temperature=self.draft_temperature)

    def start(self, kit: DraftKit) -> TokenIntersectionRun:
        """Open the draft's session (its prefill).

        Raises:
            UnsupportedModel: if the pair has no draft model.
        """
        if not kit.drafts:
            raise UnsupportedModel(
                "The method token-intersection needs a draft model, and this pair has none.",
                "Choose another pair, or a method such as prompt-lookup.",
                code="method_needs_draft",
                values={"method": self.card.name},
            )
        return TokenIntersectionRun(
            kit, self.draft_sampling(kit.sampling), self.num_speculative_tokens
        )
