"""Chains drafted by part of the target's own network: what self-speculative methods share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import cast

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law, Row, Sampling
from speclab.core.protocols import DraftKit, Feedback, LocalText, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.sessions import LayeredSession, Shallow
from speclab.core.trees import TokenTree
from speclab.methods.draft_temperature import draft_temperature_param

DRAFT_TEMPERATURE = draft_temperature_param(
    LocalText(
        "The draft's own temperature; empty: the target's; 0: greedy draft.",
        "草稿自己的温度；留空则与目标相同；0 表示贪心起草。",
    )
)


def length_param(default: int, high: int) -> Param:
    """Return the parameter gamma."""
    return Param(
        name="num_speculative_tokens",
        symbol="γ",
        kind="int",
        default=default,
        low=1,
        high=high,
        step=1,
        unit="tokens",
        help=LocalText("How many tokens are drafted per round.", "每轮起草多少个词元。"),
    )


def target_of(kit: DraftKit, method: str, verb: str) -> LayeredSession:
    """Return the target's session, whose layers a method shares.

    Args:
        verb: what the session must have: "shallow", "skipping" or "quantised".

    Raises:
        UnsupportedModel: if the session has no such thing.
    """
    if kit.target is None or not hasattr(kit.target, verb):
        raise UnsupportedModel(
            f"The method {method} runs part of the target's own layers, and this target gives no "
            "access to them.",
            "Choose pocket or SmolLM2, or another method.",
            code="no_layers",
            values={"method": method},
        )
    return cast(LayeredSession, kit.target)


def draft_sampling(sampling: Sampling, temperature: float | None) -> Sampling:
    """Return the request's sampling at the draft's own temperature."""
    return sampling.at_temperature(temperature)


class SelfDraftRun:
    """One request: a chain from part of the target, run over the target's own cache.

    Args:
        part: what drafts. kit: the request. sampling: how the draft's logits become q.
        gamma: most tokens per round.
        shown: what a learner sees in every round.
        least_confidence: stop after a token whose q is below it; 0: never.
    """

    def __init__(
        self,
        part: Shallow,
        kit: DraftKit,
        sampling: Sampling,
        gamma: int,
        shown: tuple[Evidence, ...],
        least_confidence: float = 0.0,
    ) -> None:
        self._part: Shallow | None = part
        self._sampling, self._eos, self._gamma = sampling, kit.eos_ids, gamma
        self._prompt_length, self._shown = len(kit.prompt), shown
        self.least_confidence = least_confidence

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draw up to gamma tokens, each from the part's law given those before it.

        The last token is not run through the part: the target's pass will do so.
        """
        depth = min(self._gamma, room.max_depth, room.max_nodes)
        if self._part is None or depth <= 0:
            return Proposal(evidence=self._shown)
        tokens: list[int] = []
        laws: list[Law | None] = []
        raw: list[Callable[[], Law]] = []
        early: tuple[Evidence, ...] = ()
        for left in reversed(range(depth)):
            self._part.extend(TokenTree.chain(tokens))
            row = Row(self._part.logits(self._part.hidden[-1:])[0])
            token, law = self._choose(row, tokens, room, rng)
            tokens.append(token)
            laws.append(law)
            raw.append(row.raw)
            ends = token in self._eos
            doubt = 0.0 if ends or not left else self._doubt(token, law, row)
            if left and (ends or doubt):
                early = (Evidence(kind="stopped_early", node=len(tokens) - 1, value=doubt),)
                break
        return Proposal(
            tree=TokenTree.chain(tokens),
            draft_probs=tuple(laws),
            raw_draft=tuple(raw),
            num_draft_forwards=len(tokens),
            evidence=(*self._shown, *early),
        )

    def _counts(self, drafted: list[int], room: Room) -> Counter[int] | None:
        return self._sampling.counted(room.context, self._prompt_length, drafted)

    def _choose(
        self, row: Row, drafted: list[int], room: Room, rng: Randomness
    ) -> tuple[int, Law | None]:
        """Return the next token and the law that it was drawn from; None: it was chosen."""
        if not self._sampling.greedy:
            law = row.law(self._sampling, self._counts(drafted, room))
            return rng.draw(law), law
        if self._sampling.penalised:
            return int(row.law(self._sampling, self._counts(drafted, room)).argmax()), None
        return row.top(), None

    def _doubt(self, token: int, law: Law | None, row: Row) -> float:
        """Return 1 - q(token) if the chain ends after the token for it, which is kept; else 0.

        Where the token was chosen, q is the law before processing.
        """
        if self.least_confidence <= 0.0:
            return 0.0
        doubt = 1.0 - float(row.raw()[token] if law is None else law[token])
        return doubt if doubt > 1.0 - self.least_confidence else 0.0

    def observe(self, feedback: Feedback) -> None:
        """Nothing to learn: the target's cache is the draft's."""

    def state_key(self) -> Hashable | None:
        """The draft is a function of the text."""
        return ()

    def close(self) -> None:
        """Let go of the target's layers."""
        self._part = None
