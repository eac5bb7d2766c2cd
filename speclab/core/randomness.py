"""All randomness of the package: two verbs, `flip` a coin and `draw` a token.

Each verb consumes exactly one uniform number. Draws use the inverse CDF in float64, or a race whose
noise per token that uniform seeds; a coin is accepted iff `u < prob`, strictly, so that u = 0 never
accepts an impossible token.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput, NumericalFault
from speclab.core.races import conditional_winners, race_winner

Place = tuple[str, int]
"""(stream, absolute position): a uniform that is a function of the seed and this place only."""

Noise = Literal["inverse", "gumbel"]
"""How a uniform becomes a token: by inverse CDF, or by a race of the tokens (Gumbel-max)."""

MAX_LAWS_AT_A_PLACE = 4
"""Different laws that may be drawn from at one place when every outcome is enumerated."""


@dataclass(frozen=True, slots=True)
class Flip:
    """One coin: whether it was accepted, and the uniform drawn (None when enumerated)."""

    accepted: bool
    u: float | None


class Randomness(Protocol):
    """What the decode loop, the drafters and the rules may use of chance."""

    def flip(self, prob: float, at: Place | None = None) -> Flip:
        """Accept with probability `prob`; one uniform."""

    def draw(
        self, probs: NDArray[np.float64], at: Place | None = None, noise: Noise = "inverse"
    ) -> int:
        """Draw a token id from `probs` [vocab]; one uniform.

        Draws from two laws at one place share their noise: by inverse CDF they are the two laws'
        quantiles of one uniform, by "gumbel" the winners of one race.
        """


def invert_cdf(probs: NDArray[np.float64], u: float) -> int:
    """Return the smallest token id whose cumulative probability exceeds `u`.

    Args:
        probs: non-negative weights [vocab]; need not sum to 1.
        u: uniform in [0, 1).

    Returns:
        A token id with `probs[id] > 0`.

    Raises:
        NumericalFault: if the weights hold NaN or sum to zero.
    """
    cumulative = probs.cumsum()
    total = cumulative[-1]
    if not 0.0 < total < np.inf:
        raise NumericalFault(
            f"Cannot draw a token: the probabilities sum to {total}.",
            "The model may be corrupt, or every token was filtered out.",
        )
    token = int(cumulative.searchsorted(u * total, side="right"))
    if token >= len(probs):
        token = int(np.flatnonzero(probs)[-1])
    return token


def _drawn(probs: NDArray[np.float64], u: float, noise: Noise) -> int:
    return race_winner(probs, u) if noise == "gumbel" else invert_cdf(probs, u)


def uniform_at(seed: int, place: Place) -> float:
    """Return the uniform in [0, 1) that belongs to `place` under `seed` (SplitMix64)."""
    stream, position = place
    mask = (1 << 64) - 1
    state = (seed * 0x9E3779B97F4A7C15 + zlib.crc32(stream.encode()) * 0xD1B54A32D192ED03) & mask
    state = (state ^ (state >> 32)) * 0xBF58476D1CE4E5B9 & mask
    state = (state + (position + 1) * 0x9E3779B97F4A7C15) & mask
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
    return ((state ^ (state >> 31)) >> 11) * 2.0**-53


class Seeded:
    """Pseudo-random numbers from one seed; `at` picks a number that belongs to a position.

    Args:
        seed: any integer >= 0.
        tape: when given, every uniform consumed is appended to it in order.

    Raises:
        BadInput: if the seed is negative or not an integer.
    """

    def __init__(self, seed: int, tape: list[float] | None = None) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise BadInput(f"The seed must be a whole number >= 0, not {seed!r}.")
        self.seed = int(seed)
        self._generator = np.random.default_rng(self.seed)
        self._tape = tape

    def _uniform(self, at: Place | None) -> float:
        u = self._generator.random() if at is None else uniform_at(self.seed, at)
        if self._tape is not None:
            self._tape.append(u)
        return u

    def flip(self, prob: float, at: Place | None = None) -> Flip:
        """Accept iff u < prob."""
        u = self._uniform(at)
        return Flip(u < prob, u)

    def draw(
        self, probs: NDArray[np.float64], at: Place | None = None, noise: Noise = "inverse"
    ) -> int:
        """Draw by inverse CDF, or by a race whose noise the uniform seeds."""
        return _drawn(probs, self._uniform(at), noise)


class Unplaced:
    """The same chance without places: for a drafter that runs a decode loop of its own.

    A middle model must not spend the noise that belongs to the target's positions: its draws would
    be correlated with the target's, and the law would change.
    """

    def __init__(self, rng: Randomness) -> None:
        self._rng = rng

    def flip(self, prob: float, at: Place | None = None) -> Flip:
        """Flip with the next sequential uniform."""
        return self._rng.flip(prob)

    def draw(
        self, probs: NDArray[np.float64], at: Place | None = None, noise: Noise = "inverse"
    ) -> int:
        """Draw with the next sequential uniform."""
        return self._rng.draw(probs, noise=noise)


class Scripted:
    """Hands out the given uniforms in order: for replays and for edge cases such as u = 0.

    Raises:
        BadInput: from either verb, when the script is used up.
    """

    def __init__(self, uniforms: Sequence[float]) -> None:
        self._uniforms = list(uniforms)
        self.consumed = 0

    def _uniform(self) -> float:
        if self.consumed >= len(self._uniforms):
            raise BadInput(f"The script of {len(self._uniforms)} uniforms is used up.")
        self.consumed += 1
        return self._uniforms[self.consumed - 1]

    def flip(self, prob: float, at: Place | None = None) -> Flip:
        """Accept iff the next scripted uniform is < prob."""
        u = self._uniform()
        return Flip(u < prob, u)

    def draw(
        self, probs: NDArray[np.float64], at: Place | None = None, noise: Noise = "inverse"
    ) -> int:
        """Draw with the next scripted uniform."""
        return _drawn(probs, self._uniform(), noise)


@dataclass(slots=True)
class Exhaustive:
    """Replays a path of choices, then takes the first branch of every further choice.

    The loop under test runs unmodified; `advance` turns the finished path into the next one, so
    that repeated runs visit every leaf once.

    Attributes:
        path: the branch taken at each choice.
        arity: how many branches each choice had.
        weights: the probability of the branch taken at each choice.
    """

    path: list[int] = field(default_factory=list)
    arity: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    _placed: dict[tuple[Place, Noise], dict[bytes, int]] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """Probability of the whole path."""
        return float(np.prod(self.weights)) if self.weights else 1.0

    def _choose(self, weights: Sequence[float]) -> int:
        step = len(self.arity)
        if step == len(self.path):
            self.path.append(0)
        branch = self.path[step]
        self.arity.append(len(weights))
        self.weights.append(weights[branch])
        return branch

    def flip(self, prob: float, at: Place | None = None) -> Flip:
        """Branch on accepted and rejected, skipping a branch of probability zero."""
        prob = min(1.0, max(0.0, float(prob)))
        options = [(True, prob), (False, 1.0 - prob)]
        options = [option for option in options if option[1] > 0.0]
        return Flip(options[self._choose([weight for _, weight in options])][0], None)

    def draw(
        self, probs: NDArray[np.float64], at: Place | None = None, noise: Noise = "inverse"
    ) -> int:
        """Branch on every token of positive probability.

        Where a place was drawn from before, only on outcomes that its noise still allows.

        Raises:
            BadInput: for more than `MAX_LAWS_AT_A_PLACE` different laws at one place.
        """
        law = np.ascontiguousarray(probs, dtype=np.float64).tobytes()
        earlier = self._placed.setdefault((at, noise), {}) if at is not None else {}
        if law in earlier:
            return earlier[law]
        if len(earlier) >= MAX_LAWS_AT_A_PLACE:
            raise BadInput(
                f"Noise shared between more than {MAX_LAWS_AT_A_PLACE} different laws at {at} "
                "cannot be enumerated.",
                "Draft fewer tokens.",
                code="shared_laws",
                values={"count": MAX_LAWS_AT_A_PLACE},
            )
        tokens, weights = _outcomes(probs, law, earlier, noise)
        token = tokens[self._choose(weights)]
        earlier[law] = token
        return token

    def unspent(self, position: int) -> Hashable:
        """Return what is known of the noise at `position` and beyond: empty if nothing was drawn.

        Two runs of equal text go on alike only if this agrees as well.
        """
        return tuple(
            (place, noise, tuple(drawn.items()))
            for (place, noise), drawn in sorted(self._placed.items(), key=lambda item: item[0])
            if place[1] >= position
        )

    def next_path(self, keep: int = 0) -> list[int] | None:
        """Return the path of the next leaf below the first `keep` choices, None after the last."""
        path = self.path[: len(self.arity)]
        while len(path) > keep and path[-1] + 1 >= self.arity[len(path) - 1]:
            path.pop()
        if len(path) <= keep:
            return None
        path[-1] += 1
        return path


def _outcomes(
    probs: NDArray[np.float64], law: bytes, earlier: Mapping[bytes, int], noise: Noise
) -> tuple[list[int], list[float]]:
    """Return the tokens a draw can give after `earlier` draws from the same noise, and weights."""
    if not earlier:
        return _support(law)
    if noise == "gumbel":
        weights = conditional_winners(tuple(earlier), tuple(earlier.values()), law)
    else:
        weights = _overlaps(probs, earlier)
    tokens = np.flatnonzero(weights > 0.0)
    return tokens.tolist(), weights[tokens].tolist()


@lru_cache(maxsize=4096)
def _support(law: bytes) -> tuple[list[int], list[float]]:
    """Return the tokens of positive probability and their probabilities."""
    probs = np.frombuffer(law)
    tokens = np.flatnonzero(probs)
    return tokens.tolist(), (probs[tokens] / probs[tokens].sum()).tolist()


def _overlaps(probs: NDArray[np.float64], earlier: Mapping[bytes, int]) -> NDArray[np.float64]:
    """Return P(token [vocab] | the uniform gave the `earlier` draws): intervals intersected."""
    low, high = 0.0, 1.0
    for law, token in earlier.items():
        edges = _edges(np.frombuffer(law))
        low, high = max(low, edges[token]), min(high, edges[token + 1])
    edges = _edges(probs)
    shared = np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1])
    return np.maximum(shared, 0.0) / (high - low)


def _edges(probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cumulative law [vocab + 1], from 0 to 1."""
    edges = np.concatenate([[0.0], probs.cumsum()])
    return edges / edges[-1]
