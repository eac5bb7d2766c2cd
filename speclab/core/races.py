"""Gumbel-max as a race: one noise for all laws, and the exact joint law of their winners.

Every token starts with an exponential time that depends on the noise only; under a law it arrives
at time / probability, and the first to arrive is drawn. Laws that share the noise run the same
race with other speeds, so that similar laws mostly draw the same token.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import NumericalFault

Cone = tuple[NDArray[np.float64], ...]


def exponential_times(tokens: NDArray[np.int64], u: float) -> NDArray[np.float64]:
    """Return the time [n] of each token id under the noise that `u` seeds (SplitMix64)."""
    key = int(u * 2.0**53)
    start = (key * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & ((1 << 64) - 1)
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        state = _mixed(np.array([start], dtype=np.uint64))
        state = _mixed(state + (tokens.astype(np.uint64) + np.uint64(1)) * golden)
    return -np.log(((state >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def race_winner(probs: NDArray[np.float64], u: float) -> int:
    """Return the token that arrives first: distributed as `probs` over the noise seeded by `u`.

    Args:
        probs: non-negative weights [vocab]; need not sum to 1.
        u: uniform in [0, 1).

    Returns:
        A token id with `probs[id] > 0`.

    Raises:
        NumericalFault: if the weights hold NaN or sum to zero.

    **Source:** Gumbel-max with shared noise, 2408.07978; an exponential time is exp(-Gumbel).
    """
    total = probs.sum()
    if not 0.0 < total < np.inf:
        raise NumericalFault(
            f"Cannot draw a token: the probabilities sum to {total}.",
            "The model may be corrupt, or every token was filtered out.",
        )
    tokens = np.flatnonzero(probs)
    with np.errstate(over="ignore"):
        arrival = exponential_times(tokens, u) / probs[tokens]
    return int(tokens[arrival.argmin()])


def race_winners(probs: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the winner [n] of the race under each noise `u` [n], as `race_winner` would."""
    race_winner(probs, 0.0)
    tokens = np.flatnonzero(probs)
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        start = (u * 2.0**53).astype(np.uint64) * golden + np.uint64(0xD1B54A32D192ED03)
        steps = (tokens.astype(np.uint64) + np.uint64(1)) * golden
        state = _mixed(_mixed(start)[:, None] + steps)
        times = -np.log(((state >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
        return tokens[(times / probs[tokens]).argmin(axis=1)]


@lru_cache(maxsize=200_000)
def conditional_winners(
    laws: tuple[bytes, ...], winners: tuple[int, ...], law: bytes
) -> NDArray[np.float64]:
    """Return P(winner [vocab] of one more law | the winners of others in the same race).

    Args:
        laws: float64 bytes of the laws already raced. winners: their winners.
        law: float64 bytes of the further law.
    """
    raced = [np.frombuffer(each) for each in laws]
    further = np.frombuffer(law)
    given = joint_winners(raced, winners)
    weights = np.zeros(len(further))
    for token in np.flatnonzero(further):
        weights[token] = joint_winners([*raced, further], [*winners, int(token)]) / given
    weights.setflags(write=False)
    return weights


def joint_winners(laws: Sequence[NDArray[np.float64]], winners: Sequence[int]) -> float:
    """Return the probability that `laws` [vocab each], in one race, have these `winners`.

    Let x be the times of the n different winners. Law k, won by s, asks of every token v a time of
    at least x_s p_k(v) / p_k(s). For v no winner this has probability exp(-max_s x_s slope[s, v]);
    for a winner it bounds a cone. What remains, the integral of exp(-h(x)) over that cone with h
    piecewise linear, is a sum over simplicial cones on which h is linear, each of which gives
    |det G| / prod h(g) over its generators g, the rows of G.
    """
    size = max(len(law) for law in laws)
    table = np.zeros((len(laws), size))
    for row, law in zip(table, laws):
        row[: len(law)] = law / law.sum()
    if any(row[winner] <= 0.0 for row, winner in zip(table, winners)):
        return 0.0
    firsts = sorted(set(winners))
    slope = np.array([_slopes(table, winners, first) for first in firsts])
    cones: list[Cone] = [tuple(np.eye(len(firsts)))]
    for s in range(len(firsts)):
        for t, token in enumerate(firsts):
            if s != t:
                cones = _cut(cones, _normal(len(firsts), t, 1.0, s, slope[s, token]), keep=True)
    losers = [token for token in range(size) if token not in firsts]
    for token in losers:
        for s in range(len(firsts)):
            for t in range(s):
                normal = _normal(len(firsts), s, slope[s, token], t, slope[t, token])
                cones = _cut(cones, normal, keep=False)

    def height(x: NDArray[np.float64]) -> float:
        return float(x.sum() + (slope[:, losers] * x[:, None]).max(axis=0).sum())

    return sum(
        abs(float(np.linalg.det(np.array(cone)))) / np.prod([height(ray) for ray in cone])
        for cone in cones
    )


def _slopes(table: NDArray[np.float64], winners: Sequence[int], first: int) -> NDArray[np.float64]:
    """Return slope [vocab]: how late a token must start for every law won by `first`."""
    won = table[[winner == first for winner in winners]]
    return (won / won[:, [first]]).max(axis=0)


def _normal(n: int, up: int, by: float, down: int, less: float) -> NDArray[np.float64]:
    normal = np.zeros(n)
    normal[up], normal[down] = by, -less
    return normal


def _cut(cones: list[Cone], normal: NDArray[np.float64], keep: bool) -> list[Cone]:
    """Split simplicial cones along a hyperplane through 0; `keep`: drop what lies below it."""
    done: list[Cone] = []
    todo = [(cone, [float(ray @ normal) for ray in cone]) for cone in cones]
    while todo:
        rays, heights = todo.pop()
        over = [i for i, height in enumerate(heights) if height > 0.0]
        under = [i for i, height in enumerate(heights) if height < 0.0]
        if over and under:
            i, j = over[0], under[0]
            weight = heights[i] - heights[j]
            edge = rays[j] * (heights[i] / weight) - rays[i] * (heights[j] / weight)
            for replaced in (i, j):
                part, flat = list(rays), list(heights)
                part[replaced], flat[replaced] = edge, 0.0
                todo.append((tuple(part), flat))
        elif over or not keep:
            done.append(rays)
    return done
