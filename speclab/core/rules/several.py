"""How often one of several candidates is accepted, per rule: exact, for vocabularies of any size.

Testing siblings in turn leaves of p, after k refusals, norm(max(0, p - c q)) for some c: each test
against q/s adds z/s to c, z(c) being the mass of max(0, p - c q) and s the share of q that is not
drawn yet. So what a refusal leaves is one number, and z is a sum over the tokens with p/q above c.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import Law, align
from speclab.core.rules.bounds import sums_of_others
from speclab.core.rules.k_seq import price

LEAST_WEIGHT = 1e-13
"""Refused tokens less probable than this are passed over."""

REPRESENTATIVES = 16
"""Tokens that stand for all that may be refused, per stage before the last two."""


@dataclass(slots=True)
class Surplus:
    """The mass z(c) of max(0, p - c q), for any c at the cost of a look-up.

    Args:
        p, q: laws [vocab] of one width.
    """

    p: Law
    q: Law
    _ratios: NDArray[np.float64] = field(init=False)
    _mass: NDArray[np.float64] = field(init=False)
    _drafted: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        ratio = np.full(len(self.p), np.inf)
        np.divide(self.p, self.q, out=ratio, where=self.q > 0.0)
        order = np.argsort(ratio, kind="stable")
        self._ratios = ratio[order]
        self._mass = _sums_from(self.p[order])
        self._drafted = _sums_from(self.q[order])

    def __call__(self, c: ArrayLike) -> NDArray[np.float64]:
        """Return z at every c."""
        c = np.minimum(c, np.finfo(np.float64).max)
        above = self._ratios.searchsorted(c, side="right")
        return np.maximum(self._mass[above] - c * self._drafted[above], 0.0)


def _sums_from(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of values[i:] [n+1]."""
    return np.concatenate([values[::-1].cumsum()[::-1], [0.0]])


def acceptance_iid(p: Law, q: Law, count: int) -> float:
    """Return how often one of `count` i.i.d. candidates from q is accepted when tested in turn.

    Example: p = (.5, .3, .15, .05), q = (.2, .6, .1, .1), K = 2: .755.

    **Source:** SpecInfer 2305.09781, algorithm 2.
    """
    left_of = _surplus(p, q, count)
    c, left = 0.0, 1.0
    for _ in range(count):
        c += left
        left = float(left_of(c))
    return 1.0 - left


def acceptance_k_seq(p: Law, q: Law, count: int) -> float:
    """Return how often K-SEQ accepts one of `count` i.i.d. candidates: 1 - (1 - beta)^K.

    Example: as above, K = 2: .788.

    **Source:** SpecTr 2310.15141, algorithm 2.
    """
    laws = _surplus(p, q, count)
    return 1.0 - (1.0 - price(laws.p, laws.q, count).beta) ** count


def acceptance_without_replacement(
    p: Law, q: Law, count: int, *, representatives: int = REPRESENTATIVES
) -> float:
    """Return how often one of `count` candidates drawn without replacement is accepted.

    The refused tokens matter only through the share of q that they take. Exact for two candidates,
    and for more as long as no more tokens than `representatives` can be refused. Beyond, the most
    probable of them are followed, and the others in groups of like q. As above: .860.

    Args:
        p, q: laws [vocab]; one may be wider. count: K >= 1; where q has fewer tokens, they are all.
        representatives: refused tokens followed per stage before the last two.

    **Source:** recursive rejection sampling, RSD 2402.14160, section 3.
    """
    left_of = _surplus(p, q, count)
    return 1.0 - _refused(left_of, count, 0.0, 1.0, (), representatives)


def _refused(
    left_of: Surplus,
    count: int,
    c: float,
    left: float,
    drawn: tuple[int, ...],
    n: int,
) -> float:
    """Return the chance that all of `count` further candidates are refused.

    Args:
        c: p is max(0, p - c q) by now. left: its mass.
        drawn: tokens refused so far. n: representatives.
    """
    undrawn = left_of.q.copy()
    undrawn[list(drawn)] = 0.0
    share = float(undrawn.sum())
    if share == 0.0:
        return 1.0
    later = c + left / share
    after = float(left_of(later))
    if count == 1 or after <= 0.0:
        return after / left
    p, q = left_of.p, left_of.q
    refused = np.maximum(q / share - np.maximum(p - c * q, 0.0) / left, 0.0)
    refused[list(drawn)] = 0.0
    tokens = np.flatnonzero(refused > LEAST_WEIGHT)
    if count == 2:
        shares = sums_of_others(undrawn)[tokens]
        some = shares > 0.0
        chances = np.ones(len(tokens))
        chances[some] = left_of(later + after / shares[some]) / after
        return float(refused[tokens] @ chances)
    total = 0.0
    for token, weight in _followed(tokens, refused[tokens], q[tokens], n):
        total += weight * _refused(left_of, count - 1, later, after, (*drawn, token), n)
    return total


def _followed(
    tokens: NDArray[np.int64], weights: NDArray[np.float64], q: NDArray[np.float64], most: int
) -> list[tuple[int, float]]:
    """Return at most `most` tokens with weights that stand for all: the first half for themselves.

    The others are grouped by like q into groups of like weight; a group's middle stands for it.
    """
    if len(tokens) <= most:
        return list(zip(tokens.tolist(), weights.tolist(), strict=True))
    order = np.argsort(-weights, kind="stable")
    alone, rest = order[: most // 2], order[most // 2 :]
    found = [(int(tokens[place]), float(weights[place])) for place in alone]
    rest = rest[np.argsort(q[rest], kind="stable")]
    reached = weights[rest].cumsum()
    groups = most - len(alone)
    middles = reached[-1] * (np.arange(groups) + 0.5) / groups
    places = np.minimum(reached.searchsorted(middles), len(rest) - 1)
    return found + [(int(tokens[rest[place]]), float(reached[-1]) / groups) for place in places]


def _surplus(p: Law, q: Law, count: int) -> Surplus:
    """Return the two laws over what can be drafted, and last the rest of p."""
    if count < 1:
        raise BadInput(f"There must be at least one candidate, not {count}.")
    size = max(len(p), len(q))
    p, q = align(p, size), align(q, size)
    drafted = q > 0.0
    return Surplus(np.append(p[drafted], p[~drafted].sum()), np.append(q[drafted], 0.0))
