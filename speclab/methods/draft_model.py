"""Speculative sampling with a separate draft model that proposes a chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law, Row, Sampling
from speclab.core.needs import CHAIN_WORDS, chain_words
from speclab.core.protocols import (
    NO_PROPOSAL,
    DraftKit,
    Feedback,
    LocalText,
    MethodCard,
    Param,
    Proposal,
    Room,
)
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.sessions import ModelHandle, Session
from speclab.core.trees import TokenTree
from speclab.methods.draft_length import (
    DRAFT_LENGTH,
    MIN_CONFIDENCE,
    STOP_THRESHOLD,
    ChainLength,
    DraftLength,
    chain_length,
)
from speclab.methods.draft_temperature import draft_temperature_param

DRAFT_MODEL_TEMPERATURE = draft_temperature_param(
    LocalText(
        "The draft's own temperature; empty: the target's; 0: greedy draft.",
        "草稿模型自己的温度；留空则与目标相同；0 表示贪心起草。",
    )
)


class DraftModelRun:
    """One request's draft session.

    Args:
        draft: the draft model.
        kit: the request.
        sampling: how the draft's logits become q.
        gamma: most tokens per round.
        min_confidence: stop after a token whose q is below it (the token is kept).
        shared_noise: draw with the Gumbel noise that the target's own draw spends there.
        length: how long chains become; None: gamma.
    """

    def __init__(
        self,
        draft: ModelHandle,
        kit: DraftKit,
        sampling: Sampling,
        gamma: int,
        min_confidence: float,
        shared_noise: bool = False,
        length: ChainLength | None = None,
    ) -> None:
        self._sampling, self._eos = sampling, kit.eos_ids
        self._length = length or ChainLength(gamma)
        self._min_confidence, self._shared_noise = min_confidence, shared_noise
        self._greedy_row = sampling.greedy and not sampling.penalised
        self._prompt_length = len(kit.prompt)
        self._max_context = draft.max_context
        fits = len(kit.prompt) < draft.max_context
        self.session: Session | None = draft.open(kit.prompt) if fits else None

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draw up to as many tokens as planned, each from the draft's law given those before it.

        **Source:** Leviathan et al. 2211.17192, algorithm 1, lines 1-4.
        """
        session = self.session
        if session is None:
            return NO_PROPOSAL
        planned = self._length.plan()
        shown = self._length.evidence(planned)
        fits = self._max_context - session.length
        depth = min(planned, room.max_depth, room.max_nodes, fits)
        if depth <= 0:
            self._length.drafted(0)
            return Proposal(evidence=shown)
        tokens: list[int] = []
        laws: list[Law | None] = []
        raw: list[Callable[[], Law]] = []
        early: tuple[Evidence, ...] = ()
        for left in reversed(range(depth)):
            row = session.score().row(0)
            if self._greedy_row:
                token, law = row.top(), None
            else:
                law = row.law(self._sampling, self._counts(tokens, room))
                token = self._choose(law, room.position + len(tokens), rng)
            tokens.append(token)
            laws.append(None if self._sampling.greedy else law)
            raw.append(row.raw)
            session.commit((), token)
            stopped = self._stops(token, law, row)
            doubt = self._length.stops(row, token, law) if left and not stopped else 0.0
            if stopped or doubt:
                early = (Evidence(kind="stopped_early", node=len(tokens) - 1, value=doubt),)
                break
        self._length.drafted(len(tokens))
        return Proposal(
            tree=TokenTree.chain(tokens),
            draft_probs=tuple(laws),
            raw_draft=tuple(raw),
            num_draft_forwards=len(tokens),
            evidence=(*shown, *early),
        )

    def _choose(self, law: Law, position: int, rng: Randomness) -> int:
        if self._sampling.greedy:
            return int(law.argmax())
        if self._shared_noise:
            return rng.draw(law, at=("target", position), noise="gumbel")
        return rng.draw(law)

    def _counts(self, drafted: list[int], room: Room) -> Counter[int] | None:
        return self._sampling.counted(room.context, self._prompt_length, drafted)

    def _stops(self, token: int, law: Law | None, row: Row) -> bool:
        if token in self._eos:
            return True
        if self._min_confidence <= 0.0:
            return False
        greedy = law is None or self._sampling.greedy
        confidence = row.raw()[token] if greedy else law[token]
        return bool(confidence < self._min_confidence)

    def observe(self, feedback: Feedback) -> None:
        """Roll back to the accepted tokens and append the next one."""
        session = self.session
        if session is None:
            return
        self._length.observe(len(feedback.proposal.tree), len(feedback.verdict.accepted))
        surplus = len(feedback.proposal.tree) - len(feedback.verdict.accepted)
        if surplus:
            session.rollback(session.length - surplus)
        session.extend([feedback.verdict.next_token])
        if session.length >= self._max_context:
            self.close()

    def state_key(self) -> Hashable | None:
        """The session is a function of the text; what the draft length learned is not."""
        return self._length.state_key()

    def close(self) -> None:
        """Release the draft's cache."""
        if self.session is not None:
            self.session.close()
            self.session = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftModel:
    """A small model drafts `num_speculative_tokens`, the target judges them in one pass.

    Attributes:
        num_speculative_tokens: gamma.
        draft_length: how many of them are drafted. stop_threshold: see `STOP_THRESHOLD`.
        draft_temperature: the draft's own temperature; None: the target's; 0: greedy draft.
        min_confidence: stop drafting after a token with q below this; 0: never.
        shared_noise: draw with the noise of the target's own draws, for rules that couple the two.
    """

    num_speculative_tokens: int = 4
    draft_temperature: float | None = None
    min_confidence: float = 0.0
    shared_noise: bool = False
    draft_length: DraftLength = "constant"
    stop_threshold: float = 0.6

    card: ClassVar[MethodCard] = MethodCard(
        name="draft-model",
        title=LocalText("Draft model (speculative sampling)", "草稿模型（推测采样）"),
        one_liner=LocalText(
            "A small model drafts a few tokens; the target checks them all in one pass.",
            "小模型先起草几个词元，目标模型一次前向全部验证。",
        ),
        paper="Leviathan, Kalman, Matias 2023; Chen et al. 2023",
        paper_url="https://arxiv.org/abs/2211.17192",
        needs=frozenset({"draft_model"}),
        provides=CHAIN_WORDS | {"independent_noise", "shared_noise"},
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="γ",
                kind="int",
                default=4,
                low=1,
                high=16,
                step=1,
                unit="tokens",
                help=LocalText("How many tokens are drafted per round.", "每轮起草多少个词元。"),
            ),
            DRAFT_MODEL_TEMPERATURE,
            MIN_CONFIDENCE,
            Param(
                name="shared_noise",
                symbol="",
                kind="bool",
                default=False,
                help=LocalText(
                    "Draw with the Gumbel noise of the target's own draw at each position, so that "
                    "both often pick the same token; needs a rule that emits the target's draw.",
                    "用目标模型在该位置的同一份 Gumbel 噪声采样，使两者常常选中同一个词元；"
                    "需要输出目标自身采样结果的规则。",
                ),
            ),
            DRAFT_LENGTH,
            STOP_THRESHOLD,
        ),
        colour_token="method-1",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """A draft at temperature 0 proposes its argmax and spends no noise; else it draws."""
        own = self.draft_sampling(sampling)
        given = chain_words(own)
        if self.shared_noise:
            given |= {"shared_noise", "independent_noise"} if own.greedy else {"shared_noise"}
        return given

    def draft_sampling(self, sampling: Sampling) -> Sampling:
        """Return the request's sampling at the draft's own temperature."""
        return sampling.at_temperature(self.draft_temperature)

    def start(self, kit: DraftKit) -> DraftModelRun:
        """Open the draft's session (its prefill).

        Raises:
            UnsupportedModel: if the pair has no draft model, or no learned stop where one is asked
                for.
        """
        if not kit.drafts:
            raise UnsupportedModel(
                "The method draft-model needs a draft model, and this pair has none.",
                "Choose another pair, or a method such as prompt-lookup.",
                code="needs_draft",
            )
        return DraftModelRun(
            kit.drafts[0],
            kit,
            self.draft_sampling(kit.sampling),
            self.num_speculative_tokens,
            self.min_confidence,
            self.shared_noise,
            chain_length(
                self.draft_length,
                kit,
                method=self.card.name,
                gamma=self.num_speculative_tokens,
                threshold=self.stop_threshold,
            ),
        )
