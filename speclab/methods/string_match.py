"""String-level exact match: a draft of any tokenizer drafts text, tokenised for the target."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from speclab.core.errors import UnsupportedModel
from speclab.core.protocols import (
    NO_PROPOSAL,
    DraftKit,
    Feedback,
    LocalText,
    MethodCard,
    ModelHandle,
    Param,
    Proposal,
    Room,
)
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.trees import TokenTree
from speclab.models.foreign import OwnText
from speclab.models.spelling import SameIds, Spelling

MOST_RESERVED = 32
"""Tokens of the draft's context that are left free for a draft, at most a quarter of it."""


class StringMatchRun:
    """One request's draft session, on the draft's own tokens of the text.

    Args:
        model: the draft, in its own ids.
        spelling: what translates between the two tokenizers.
        kit: the request.
        gamma: tokens of its own that the draft drafts per round.
        look_back: tokens of the text that are tokenised again together with the draft.
    """

    def __init__(
        self,
        model: ModelHandle,
        spelling: Spelling | SameIds,
        kit: DraftKit,
        gamma: int,
        look_back: int,
    ) -> None:
        self._spelling, self._eos = spelling, kit.eos_ids
        self._gamma, self._look_back = gamma, look_back
        self._max_context = model.max_context
        reserve = min(MOST_RESERVED, model.max_context // 4)
        self._text = OwnText(model, spelling, reserve=reserve)
        self._text.follow(kit.prompt)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft greedily in the draft's tokens and offer their text in the target's.

        What is offered is a function of the text, so q is one-hot and a rule for such drafts is
        exact, whatever the two tokenizers make of it.

        **Source:** Timor et al. 2502.05202, algorithm 2 (SLEM).
        **Deviation:** the draft never samples: a re-tokenised draft has no law that could be
        computed, and one that is drawn is accepted less often (sum of p q, not max p).
        """
        span = min(room.max_depth, room.max_nodes)
        if span <= 0:
            return NO_PROPOSAL
        drafted = self._drafted(room.context)
        tokens = self._spelling.continuation(room.context, drafted, self._look_back)[:span]
        ends = [place for place, token in enumerate(tokens) if token in self._eos]
        tokens = tokens[: ends[0] + 1] if ends else tokens
        return Proposal(
            tree=TokenTree.chain(tokens),
            draft_probs=(None,) * len(tokens),
            num_draft_forwards=len(drafted),
            evidence=(Evidence(kind="retokenised", value=len(drafted)),),
        )

    def _drafted(self, context: Sequence[int]) -> list[int]:
        """Return the draft's own ids: its likeliest tokens, up to one that ends the text."""
        session = self._text.follow(context)
        drafted: list[int] = []
        for _ in range(min(self._gamma, self._max_context - session.length)):
            token = session.score().row(0).top()
            session.commit((), token)
            drafted.append(token)
            if token in self._spelling.stops:
                break
        return drafted

    def observe(self, feedback: Feedback) -> None:
        """Nothing to learn: the next proposal follows the text and keeps what is the same of it."""

    def state_key(self) -> Hashable | None:
        """The session is a function of the text."""
        return ()

    def close(self) -> None:
        """Release the draft's cache."""
        self._text.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class StringMatch:
    """A draft model of any tokenizer drafts text; the target judges it in tokens of its own.

    Attributes:
        num_speculative_tokens: tokens that the draft drafts per round, counted in its own.
        look_back: tokens of the text that are tokenised again together with the draft.
    """

    num_speculative_tokens: int = 5
    look_back: int = 10

    card: ClassVar[MethodCard] = MethodCard(
        name="string-match",
        title=LocalText("String match (SLEM)", "字符串匹配（SLEM）"),
        one_liner=LocalText(
            "A draft with any tokenizer drafts text; the text is tokenised again for the target, "
            "which keeps the tokens it agrees with.",
            "草稿模型可用任意分词器：它起草的是文本，文本按目标模型的分词器重新分词，"
            "目标模型保留它同意的词元。",
        ),
        paper="Timor et al. 2025, algorithm 2",
        paper_url="https://arxiv.org/abs/2502.05202",
        needs=frozenset({"draft_model"}),
        provides=frozenset({"chain", "deterministic", "retokenised"}),
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="γ",
                kind="int",
                default=5,
                low=1,
                high=32,
                unit="tokens",
                help=LocalText(
                    "How many tokens of its own the draft drafts per round; the target may need "
                    "more or fewer for the same text.",
                    "草稿模型每轮起草多少个它自己的词元；同样的文本，目标模型的词元可能更多或更少。",
                ),
            ),
            Param(
                name="look_back",
                symbol="",
                kind="int",
                default=10,
                low=0,
                high=32,
                unit="tokens",
                help=LocalText(
                    "How many tokens before the draft are tokenised again with it, since a text is "
                    "cut according to what stands before it; 0: the draft alone.",
                    "草稿之前有多少个词元与它一起重新分词（切分取决于前文）；0 表示只看草稿本身。",
                ),
            ),
        ),
        colour_token="method-18",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> StringMatchRun:
        """Open the draft's session on its own tokens of the prompt (its prefill).

        Raises:
            UnsupportedModel: if the pair has no draft model.
        """
        if not kit.drafts:
            raise UnsupportedModel(
                "The method string-match needs a draft model, and this pair has none.",
                "Choose another pair, or a method such as prompt-lookup.",
                code="method_needs_draft",
                values={"method": self.card.name},
            )
        other = kit.foreign
        model: ModelHandle = kit.drafts[0] if other is None else other.model
        spelling = SameIds(kit.eos_ids) if other is None else other.spelling
        return StringMatchRun(model, spelling, kit, self.num_speculative_tokens, self.look_back)
