"""Rounds over a text of easy and hard stretches, coin by coin: where acceptance is not i.i.d."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speclab.core.errors import BadInput

MAX_ROUNDS = 20_000
BATCHES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Tokens per pass of simulated rounds.

    Attributes:
        tokens_per_pass: mean. low, high: its 95 % interval.
    """

    tokens_per_pass: float
    low: float
    high: float


def simulate_stretches(
    acceptance_rates: Sequence[float], length: int, gamma: int, rounds: int, seed: int
) -> Simulated:
    """Simulate a text whose stretches of `length` tokens take turns in being easy or hard.

    A token's coin has the rate of the stretch that its place lies in, so the coins of one round
    are alike: acceptance is not i.i.d., though its mean over all places is the mean of the rates.

    Args:
        acceptance_rates: of the stretches, in turn. length: tokens per stretch.
        gamma: drafted tokens per round. rounds: how many. seed: of the coins.

    Returns:
        The interval is that of `BATCHES` consecutive parts.

    Raises:
        BadInput: for a number of rounds out of range.
    """
    if not BATCHES <= rounds <= MAX_ROUNDS:
        raise BadInput(
            f"Between {BATCHES} and {MAX_ROUNDS} rounds can be simulated, not {rounds}.",
            code="field_range",
            values={"name": "rounds", "low": BATCHES, "high": MAX_ROUNDS, "value": rounds},
        )
    coins = np.random.default_rng(seed).random((rounds, gamma)).tolist()
    place, counts = 0, np.empty(rounds)
    for index, row in enumerate(coins):
        accepted = 0
        while accepted < gamma:
            stretch = (place + accepted) // length % len(acceptance_rates)
            if row[accepted] >= acceptance_rates[stretch]:
                break
            accepted += 1
        counts[index] = accepted + 1
        place += accepted + 1
    parts = counts[: rounds - rounds % BATCHES].reshape(BATCHES, -1).mean(axis=1)
    mean, half = float(parts.mean()), 1.96 * float(parts.std(ddof=1)) / BATCHES**0.5
    return Simulated(tokens_per_pass=mean, low=mean - half, high=mean + half)
