"""Kangaroo: the target's early layers draft through a trained adapter and the target's own head."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from speclab.core.laws import Row
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
from speclab.core.trees import TokenTree
from speclab.methods.draft_length import ConfidenceStop
from speclab.methods.early_exit import exit_shown
from speclab.methods.head_chain import ChainDraft, gamma_param
from speclab.methods.rank_drafting import head_of
from speclab.methods.self_drafting import target_of


class KangarooRun:
    """One request: the target's early layers, and the adapter's keys and values.

    The adapter holds a place per committed token but the last ones: those whose early states came
    with the target's pass wait until the next draft.

    Args:
        head: a `KangarooHandle`. part: the target's layers before it. kit: the request.
        gamma: most tokens per round. threshold: eta.
    """

    def __init__(self, head: Any, part: Any, kit: DraftKit, gamma: int, threshold: float) -> None:
        self._part, self._kit, (self._tap,) = part, kit, head.taps
        self._greedy = replace(kit.sampling, temperature=0.0)
        self._stop = ConfidenceStop(gamma, 1.0 - threshold)
        self._shown = exit_shown(part)
        self.session = head.open()
        self._waiting: list[NDArray] = []
        self._verified = 0
        prompt = kit.prefill_features.get(self._tap)
        if prompt is not None and len(prompt) > 0:
            self.session.extend(prompt)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft the most likely tokens one by one; an unsure one is kept and is the last.

        The last token is not run through the early layers: the target's pass will do so.

        **Source:** Kangaroo 2404.18911, section 3.2 and algorithm 1.
        """
        self._verified = len(room.context) - 1
        depth = min(self._stop.most, room.max_depth, room.max_nodes)
        if depth < 1:
            return NO_PROPOSAL
        self.session.rollback(self._verified)
        chain = ChainDraft(self._kit, room, self._greedy)
        for left in reversed(range(depth)):
            self._part.extend(TokenTree.chain(chain.tokens))
            row = self._row_after(self._part.hidden[-1:])
            chain.add(row, rng)
            if chain.ended or not left or chain.stopped_by(self._stop, row):
                break
        proposal = chain.proposal(len(chain.tokens))
        return replace(proposal, evidence=(*self._shown, *proposal.evidence))

    def _row_after(self, states: NDArray) -> Row:
        """Return the draft's row after early states [n, h] and those that wait before them."""
        outputs = self.session.extend(np.concatenate([*self._waiting, states]))
        self._waiting = []
        return Row(self._part.logits(outputs, normed=True)[0])

    def observe(self, feedback: Feedback) -> None:
        """Keep the places of the pending token and of what was accepted; the last one may lack.

        **Source:** the authors' code, on a round in which every drafted token is accepted.
        """
        states = feedback.features[self._tap]
        self.session.rollback(self._verified + len(states))
        known = max(0, self.session.length - self._verified)
        if known < len(states):
            self._waiting.append(states[known:])

    def state_key(self) -> Hashable | None:
        """What is held is a function of the text."""
        return ()

    def close(self) -> None:
        """Release the adapter's cache and let go of the target's layers."""
        self.session.close()
        self._part, self._waiting = None, []


@dataclass(frozen=True, slots=True, kw_only=True)
class Kangaroo:
    """The target's first layers and an adapter of one attention block draft a chain.

    Keys, values and states of the first layers are computed once: the target's pass goes on from
    them. Drafts are chosen, not drawn: q is one-hot, whatever the request's temperature.

    Attributes:
        num_speculative_tokens: gamma. min_confidence: eta; drafting stops after a token that the
            draft gives less than this.

    **Source:** Liu et al. 2404.18911, section 3.
    **Deviation:** chains only; lossless above temperature 0 as well, where the authors' code is
    greedy. With penalties the most likely token is that of the penalised law.
    """

    num_speculative_tokens: int = 6
    min_confidence: float = 0.6

    card: ClassVar[MethodCard] = MethodCard(
        name="kangaroo",
        title=LocalText("Kangaroo (early layers, adapter)", "Kangaroo（浅层 + 适配器）"),
        one_liner=LocalText(
            "The target's first layers draft through a small trained adapter until a token is "
            "unsure; the remaining layers check.",
            "目标模型的前几层借助一个训练过的小适配器起草，直到某个词元没有把握；其余各层负责验证。",
        ),
        paper="Liu et al. 2024, Kangaroo",
        paper_url="https://arxiv.org/abs/2404.18911",
        needs=frozenset({"early_exit", "hidden", "head:kangaroo"}),
        provides=frozenset({"chain", "deterministic", "raw_draft"}),
        params=(
            gamma_param(
                6,
                16,
                LocalText(
                    "At most how many tokens are drafted per round; each is one pass of the first "
                    "layers and the adapter.",
                    "每轮最多起草多少个词元；每个词元需要前几层与适配器的一次前向。",
                ),
            ),
            Param(
                name="min_confidence",
                symbol="η",
                kind="float",
                default=0.6,
                low=0.0,
                high=0.95,
                step=0.05,
                help=LocalText(
                    "Stop drafting after a token that the draft gives less than this (it is kept "
                    "and checked, so the law stays exact); 0: never.",
                    "若草稿给某词元的概率低于此值，则保留它、交给目标验证并停止起草"
                    "（因此分布仍然精确）；0 表示从不停止。",
                ),
            ),
        ),
        colour_token="method-14",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> KangarooRun:
        """Look at the target's first layers and give the adapter the prompt's early states.

        Raises:
            UnsupportedModel: if the pair has no adapter, or the target cannot run its first layers
                alone.
        """
        head = head_of(kit, "kangaroo")
        target = target_of(kit, self.card.name, "shallow")
        part = target.shallow(head.exit_layer)  # type: ignore[attr-defined]
        return KangarooRun(head, part, kit, self.num_speculative_tokens, self.min_confidence)
