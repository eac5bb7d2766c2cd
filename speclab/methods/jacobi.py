"""Jacobi decoding: guess the next tokens, refine all guesses in every pass, keep what is right."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

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
from speclab.core.trees import TokenTree


@dataclass(frozen=True, slots=True)
class FirstGuesses:
    """What is guessed where nothing is known yet: a token of the prompt, by position alone.

    Attributes:
        tokens: the prompt without tokens that end a text, unless it has no others.
    """

    tokens: tuple[int, ...]

    @classmethod
    def of(cls, kit: DraftKit) -> FirstGuesses:
        """Return the guesses of a request."""
        return cls(tuple(token for token in kit.prompt if token not in kit.eos_ids) or kit.prompt)

    def at(self, position: int) -> int:
        """Return the guess at an absolute position."""
        return self.tokens[position % len(self.tokens)]


class JacobiRun:
    """One request's guesses of the tokens ahead.

    Args:
        count: how many tokens are guessed.
        kit: the request.
    """

    def __init__(self, count: int, kit: DraftKit) -> None:
        self._count, self._eos = count, kit.eos_ids
        self._first = FirstGuesses.of(kit)
        self._position = len(kit.prompt)
        self._guesses: list[int] = []
        self._ages: list[int] = []
        self._fill()

    def _fill(self) -> None:
        """Add first guesses on the right until there are as many guesses as wanted."""
        for place in range(len(self._guesses), self._count):
            self._guesses.append(self._first.at(self._position + place))
            self._ages.append(0)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Offer the guesses as they stand; one that ends the text is the last one offered."""
        count = min(self._count, room.max_depth, room.max_nodes)
        if count < 1:
            return NO_PROPOSAL
        ends = (place for place, token in enumerate(self._guesses[:count]) if token in self._eos)
        count = min(count, next(ends, count) + 1)
        ages = self._ages[:count]
        survived = Evidence(
            kind="survived", value=sum(age > 0 for age in ages), values=tuple(map(float, ages))
        )
        return Proposal(
            tree=TokenTree.chain(self._guesses[:count]),
            draft_probs=(None,) * count,
            evidence=(survived,),
        )

    def observe(self, feedback: Feedback) -> None:
        """Replace every guess right of the text by what the target says after the one before it.

        All guesses are refined from the same pass, so each was made from the left neighbours of
        the round before, right or wrong. Those the pass did not reach stay as they are.

        **Source:** Santilli et al. 2305.10427, parallel Jacobi decoding; the nonlinear Jacobi
        iteration of Song et al. 2002.03629.
        **Deviation:** a window that slides with the text, not blocks that are solved one by one.
        """
        reached, kept = len(feedback.proposal.tree), len(feedback.verdict.accepted)
        refined = [feedback.row(node).top() for node in range(kept, reached)]
        ages = [
            self._ages[place] + 1
            if place < len(self._guesses) and self._guesses[place] == token
            else 0
            for place, token in enumerate(refined, kept + 1)
        ]
        self._position += len(feedback.emitted)
        self._guesses = refined + self._guesses[reached + 1 :]
        self._ages = ages + self._ages[reached + 1 :]
        self._fill()

    def state_key(self) -> Hashable | None:
        """The guesses depend on earlier guesses, so on more than the text."""
        return tuple(self._guesses)

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jacobi:
    """The target guesses ahead of itself: all guesses are judged and refined in each pass.

    Attributes:
        num_speculative_tokens: m, how many tokens ahead are guessed.
    """

    num_speculative_tokens: int = 8

    card: ClassVar[MethodCard] = MethodCard(
        name="jacobi",
        title=LocalText("Jacobi decoding", "雅可比解码"),
        one_liner=LocalText(
            "Guesses several tokens at once and lets every pass refine them all until they agree;"
            " no draft model.",
            "同时猜测后面的多个词元，每次前向把它们全部改进一遍，直到不再变化；不需要草稿模型。",
        ),
        paper="Santilli et al. 2023, parallel Jacobi decoding; Song et al. 2002.03629",
        paper_url="https://arxiv.org/abs/2305.10427",
        provides=frozenset({"chain", "deterministic"}),
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="m",
                kind="int",
                default=8,
                low=1,
                high=32,
                unit="tokens",
                help=LocalText("How many tokens ahead are guessed.", "向前猜测多少个词元。"),
            ),
        ),
        colour_token="method-11",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> JacobiRun:
        """Begin one request."""
        return JacobiRun(self.num_speculative_tokens, kit)
