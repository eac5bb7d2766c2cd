"""Lookahead beside a draft model: one proposal of tokens drawn by it and guesses of the pool."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Feedback, LocalText, MethodCard, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.sessions import ModelHandle
from speclab.methods.draft_model import DRAFT_MODEL_TEMPERATURE, DraftModelRun
from speclab.methods.lookahead import WINDOW_PARAMS, Lookahead2D, Shift
from speclab.methods.lookahead_pool import GuessTree


class LookaheadDraftRun(DraftModelRun):
    """One request's draft session, window and pool.

    Args:
        draft: the draft model. kit: the request. sampling: how its logits become q.
        depth: most tokens it drafts.
        ahead: the window and the pool.
    """

    def __init__(
        self,
        draft: ModelHandle,
        kit: DraftKit,
        sampling: Sampling,
        depth: int,
        ahead: Lookahead2D,
    ) -> None:
        super().__init__(draft, kit, sampling, depth, 0.0)
        self._ahead = ahead
        self._num_drawn = 0

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draw the draft's chain, then hang the pool's guesses beside it.

        Drawn tokens come first among siblings and keep the law they were drawn from; a guess that
        begins like the chain shares its nodes, what is left of it is chosen, not drawn.

        **Source:** decision of this lab: Leviathan et al. 2211.17192, algorithm 1, beside the
        guesses of Fu et al. 2402.02057; judged sibling by sibling as in SpecInfer 2305.09781.
        """
        chain = super().propose(room, rng)
        self._num_drawn = drawn = len(chain.tree)
        grown, guesses = GuessTree(), self._ahead.guesses(room)
        for path in (chain.tree.tokens, *guesses):
            grown.add(path, room.max_nodes)
        tree = grown.tree()
        chosen = len(tree) - drawn
        passengers = self._ahead.passengers(room, len(tree))
        origin = (0.0,) * drawn + (1.0,) * chosen
        hit = (Evidence(kind="pool_hit", value=len(guesses), values=origin),) if chosen else ()
        return replace(
            chain,
            tree=tree,
            draft_probs=(*chain.draft_probs, *(None,) * chosen),
            raw_draft=(*chain.raw_draft, *(None,) * chosen),
            passengers=passengers,
            evidence=(*chain.evidence, *hit, *self._ahead.evidence(passengers)),
        )

    def observe(self, feedback: Feedback) -> None:
        """Let the draft's session follow the text; learn from the pass."""
        self._ahead.observe(feedback)
        session = self.session
        if session is None:
            return
        kept = sum(node < self._num_drawn for node in feedback.verdict.accepted)
        surplus, self._num_drawn = self._num_drawn - kept, 0
        if surplus:
            session.rollback(session.length - surplus)
        session.extend(feedback.emitted[kept:])
        if session.length >= self._max_context:
            self.close()

    def state_key(self) -> Hashable | None:
        """The draft's session is a function of the text; window and pool are not."""
        return self._ahead.state_key()


@dataclass(frozen=True, slots=True, kw_only=True)
class LookaheadDraft:
    """A draft model draws a chain; the n-grams of a lookahead window are verified beside it.

    Attributes:
        depth: most tokens the draft model drafts.
        window, ngram, guesses, shift, pool_from_prompt: as in `Lookahead`.
        draft_temperature: the draft's own temperature; None: the target's; 0: greedy draft.
    """

    depth: int = 3
    window: int = 8
    ngram: int = 3
    guesses: int = 8
    shift: Shift = "one"
    pool_from_prompt: bool = False
    draft_temperature: float | None = None

    card: ClassVar[MethodCard] = MethodCard(
        name="lookahead-draft",
        title=LocalText("Lookahead with a draft model", "前瞻解码 + 草稿模型"),
        one_liner=LocalText(
            "A draft model's tokens and the n-grams of a lookahead window stand in one proposal,"
            " drawn and chosen ones side by side.",
            "草稿模型抽出的词元和前瞻窗口的 n-gram 放进同一份草稿，抽取的与选定的并列接受验证。",
        ),
        paper="Fu et al. 2024 (2402.02057) beside Leviathan et al. 2023 (2211.17192)",
        paper_url="https://arxiv.org/abs/2402.02057",
        needs=frozenset({"draft_model", "tree_mask"}),
        provides=frozenset({"tree", "deterministic", "top_k_siblings"}),
        params=(
            Param(
                name="depth",
                symbol="γ",
                kind="int",
                default=3,
                low=1,
                high=16,
                unit="tokens",
                help=LocalText(
                    "How many tokens the draft model drafts per round.",
                    "草稿模型每轮起草多少个词元。",
                ),
            ),
            *WINDOW_PARAMS,
            DRAFT_MODEL_TEMPERATURE,
        ),
        colour_token="method-13",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Nodes of both kinds are neither all drawn nor all chosen; a greedy draft chooses too."""
        kind = {"deterministic", "top_k_siblings"} if self.draft_sampling(sampling).greedy else ()
        return frozenset({"tree", *kind})

    def draft_sampling(self, sampling: Sampling) -> Sampling:
        """Return the request's sampling at the draft's own temperature."""
        return sampling.at_temperature(self.draft_temperature)

    def start(self, kit: DraftKit) -> LookaheadDraftRun:
        """Open the draft's session (its prefill).

        Raises:
            UnsupportedModel: if the pair has no draft model.
        """
        if not kit.drafts:
            raise UnsupportedModel(
                "The method lookahead-draft needs a draft model, and this pair has none.",
                "Choose another pair, or the method lookahead.",
                code="lookahead_needs_draft",
            )
        ahead = Lookahead2D(
            self.window, self.ngram, self.guesses, self.shift, self.pool_from_prompt, kit
        )
        sampling = self.draft_sampling(kit.sampling)
        return LookaheadDraftRun(kit.drafts[0], kit, sampling, self.depth, ahead)
