"""Counts of drafts, from wherever they come, and our numbers made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from speclab.core.protocols import LocalText

NO_NOTE = LocalText("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was counted; None where nobody did.

    Attributes:
        drafting_rounds: target passes that judged at least one drafted token.
        drafted, accepted: tokens.
        per_position: drafting rounds that accepted position i, from 0.
        tested: positions that were tested: up to the first refusal of each round.
        rounds: all target passes after prefill.
        emitted: tokens of all texts.
        every_position: whether per_position has an entry for each position that can be drafted,
            those that were never accepted included.
    """

    drafting_rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    per_position: tuple[int, ...] = ()
    tested: int | None = None
    rounds: int | None = None
    emitted: int | None = None
    every_position: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One of our numbers.

    Attributes:
        name: as in the glossary; position i as name[i], from 1.
        value: the number; None where it cannot be told.
        badge: counted by the engine, or reported by it as a mean of its own.
        source: the engine's metric, or how it is made of counts.
        note: what to know; may be empty.
    """

    name: str
    value: float | None
    badge: Literal["counted", "reported"] = "counted"
    source: str = ""
    note: LocalText = field(default_factory=lambda: NO_NOTE)


ALL_PASSES = LocalText(
    "Every pass emits one token besides the accepted ones, so there were emitted − accepted "
    "passes; prefill is among them, which makes it a little low.",
    "每次前向除被接受的词元外恰好输出一个，因此前向次数为“产生 − 接受”；其中含预填充，略偏低。",
)
VARYING = LocalText(
    "Drafts of several lengths: how many positions were tested cannot be told from these counters.",
    "草稿长短不一：无法从这些计数器得知检验了多少个位置。",
)


def positions_tested(counts: Counts) -> int | None:
    """Return how many positions were tested; None if it cannot be told.

    It is told by the counts themselves, or follows when every round drafted all positions: the mean
    length is then the greatest one. A mean below it can be a mixture of lengths.
    """
    if counts.tested is not None:
        return counts.tested
    rounds, drafted = counts.drafting_rounds, counts.drafted
    longest = len(counts.per_position)
    if not rounds or not drafted or not counts.every_position or drafted != rounds * longest:
        return None
    return rounds + sum(counts.per_position[:-1])


def numbers_of(counts: Counts) -> list[Value]:
    """Return our numbers; those that cannot be told have no value."""
    rounds, drafted, accepted = counts.drafting_rounds, counts.drafted, counts.accepted
    values: list[Value] = []
    for name, count in (
        ("num_rounds", counts.rounds),
        ("num_drafting_rounds", rounds),
        ("emitted_tokens", counts.emitted),
        ("drafted_tokens", drafted),
        ("accepted_tokens", accepted),
    ):
        if count is not None:
            values.append(Value(name=name, value=count))
    if drafted is not None and accepted is not None:
        values.append(Value(name="discarded_tokens", value=drafted - accepted))
        rate = accepted / drafted if drafted else None
        values.append(
            Value(name="drafted_acceptance_rate", value=rate, source="accepted / drafted")
        )
    values += _efficiency(counts)
    tested = positions_tested(counts)
    if accepted is not None and (tested or counts.per_position):
        alpha = accepted / tested if tested else None
        note = NO_NOTE if tested else VARYING
        values.append(
            Value(name="acceptance_rate", value=alpha, source="accepted / tested", note=note)
        )
    return values + _positions(counts)


def _efficiency(counts: Counts) -> list[Value]:
    """Return the mean acceptance length of drafting rounds, and tokens per pass of all."""
    found: list[Value] = []
    rounds, accepted, emitted = counts.drafting_rounds, counts.accepted, counts.emitted
    if rounds and accepted is not None:
        found.append(
            Value(
                name="mean_acceptance_length",
                value=1 + accepted / rounds,
                source="1 + accepted / drafting rounds",
            )
        )
    if counts.rounds and emitted is not None:
        found.append(
            Value(
                name="block_efficiency",
                value=emitted / counts.rounds,
                source="emitted / rounds",
                note=LocalText(
                    "The first token of each text comes from prefill, which makes it a little "
                    "high.",
                    "每段文本的第一个词元来自预填充，因此略偏高。",
                ),
            )
        )
    elif emitted and accepted is not None and emitted > accepted:
        found.append(
            Value(
                name="block_efficiency",
                value=emitted / (emitted - accepted),
                source="emitted / (emitted − accepted)",
                note=ALL_PASSES,
            )
        )
    return found


def _positions(counts: Counts) -> list[Value]:
    if not counts.drafting_rounds:
        return []
    found = []
    before: int = counts.drafting_rounds
    for index, reached in enumerate(counts.per_position, 1):
        conditional = f"{100 * reached / before:.1f} %" if before else "–"
        found.append(
            Value(
                name=f"acceptance_rate_per_position[{index}]",
                value=reached / counts.drafting_rounds,
                source="per position / drafting rounds",
                note=LocalText(
                    f"{conditional} of the rounds that accepted the position before.",
                    f"占接受了前一位置的轮次的 {conditional}。",
                )
                if index > 1
                else NO_NOTE,
            )
        )
        before = reached
    return found


def counts_of_steps(accepted: Sequence[int], drafted: Sequence[int]) -> Counts:
    """Return the counts of rounds that are known one by one.

    Args:
        accepted, drafted: tokens of each round [rounds].
    """
    judged = [(a, d) for a, d in zip(accepted, drafted, strict=True) if d > 0]
    deepest = max((a for a, _ in judged), default=0)
    longest = max((d for _, d in judged), default=0)
    reached = [sum(a > i for a, _ in judged) for i in range(min(longest, deepest + 1))]
    return Counts(
        drafting_rounds=len(judged),
        drafted=sum(drafted),
        accepted=sum(accepted),
        per_position=tuple(reached),
        tested=sum(min(d, a + 1) for a, d in judged),
        rounds=len(accepted),
        emitted=sum(accepted) + len(accepted),
    )
