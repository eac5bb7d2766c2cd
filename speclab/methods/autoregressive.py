"""Autoregressive decoding: the method that proposes nothing."""

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
    Proposal,
    Room,
)
from speclab.core.randomness import Randomness


class AutoregressiveRun:
    """No state."""

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Return the empty proposal."""
        return NO_PROPOSAL

    def observe(self, feedback: Feedback) -> None:
        """Learn nothing."""

    def state_key(self) -> Hashable | None:
        """All runs are alike."""
        return ()

    def close(self) -> None:
        """Nothing to release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoregressive:
    """One target pass per token: the baseline, run by the same loop as every other method."""

    card: ClassVar[MethodCard] = MethodCard(
        name="autoregressive",
        title=LocalText("Autoregressive", "自回归"),
        one_liner=LocalText(
            "Nothing is drafted: one target pass per token. The baseline.",
            "不起草：目标模型每次前向只出一个词元。这是基线。",
        ),
        paper="Baseline; Chen et al. 2023, section 1",
        paper_url="https://arxiv.org/abs/2302.01318",
        provides=frozenset({"chain", "deterministic", "independent_noise", "shared_noise"}),
        colour_token="method-0",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> AutoregressiveRun:
        """Begin one request."""
        return AutoregressiveRun()
