"""K-SEQ: K i.i.d. candidates tested in turn, each against the whole target at a raised price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from speclab.core.errors import NumericalFault
from speclab.core.laws import Law, align
from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.rejection import Trial, accept_probability, walk
from speclab.core.rules.siblings import drawn_independently


@dataclass(frozen=True, slots=True)
class Price:
    """How K candidates from q are tested for the target p.

    Attributes:
        rho: a candidate x is accepted with probability min(1, p(x) / (rho q(x))); in [1, K].
        beta: the chance that one candidate is accepted, sum of min(q, p / rho).
        left: what is left of p when all K are refused [vocab]; sums to about (1 - beta)^K.
    """

    rho: float
    beta: float
    left: Law


def price(p: Law, q: Law, count: int) -> Price:
    """Return the smallest rho at which K tests never give a token more than p allows.

    K tests accept x with probability min(q(x), p(x)/rho) (1 - (1-beta)^K) / beta, which stays below
    p(x) for every x as soon as 1 - (1-beta)^K <= rho beta. The left side falls and the right side
    rises with rho. Bisection ends at the upper end of the last interval of float64, where the
    inequality holds: the law is exact there even if rho is a little above the root.

    Args:
        p: target law [vocab]. q: draft law [vocab]; one may be wider. count: K >= 1.

    Raises:
        NumericalFault: if a law holds NaN.

    **Source:** SpecTr 2310.15141, algorithm 2 and theorem 2 (their gamma is rho, their K is K).
    """
    size = max(len(p), len(q))
    p, q = align(p, size), align(q, size)
    if not math.isfinite(p.sum() + q.sum()):
        raise NumericalFault("A law holds NaN: no candidate can be tested against it.")

    def beta_at(rho: float) -> float:
        return min(1.0, float(np.minimum(q, p / rho).sum()))

    def fits(rho: float) -> bool:
        beta = beta_at(rho)
        return 1.0 - (1.0 - beta) ** count <= rho * beta

    low, high = 1.0, float(count)
    if fits(low):
        high = low
    while high - low > math.ulp(high):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (low, middle) if fits(middle) else (middle, high)
    beta = beta_at(high)
    gain = (1.0 - (1.0 - beta) ** count) / beta if beta > 0.0 else 0.0
    left = np.maximum(p - np.minimum(q, p / high) * gain, 0.0)
    return Price(high, beta, left if left.any() else p)


SMALL = 64
"""Widest laws whose price is remembered: an enumeration asks for the same one many times."""


def _price(p: bytes, q: bytes, count: int) -> Price:
    return price(np.frombuffer(p), np.frombuffer(q), count)


_price_again = lru_cache(maxsize=4096)(_price)


def verify_k_seq(rows: TargetRows, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
    """Accept each of K i.i.d. siblings with min(1, p/(rho q)); if all fail draw from the rest of p.

    Example: p = (.5, .3, .15, .05), q = (.2, .6, .1, .1), K = 2: rho = 1.460, beta = .540, accepted
    1 - (1-beta)^2 = .788 of the time, where testing what is left in turn accepts .755. With K = 1
    rho is 1: the ratio test.

    **Source:** SpecTr 2310.15141, algorithm 2 (K-SEQ).
    """
    prices: dict[int, Price] = {}

    def price_of(trial: Trial) -> Price:
        if trial.row not in prices:
            count = len(proposal.tree.children(trial.row - 1))
            q = trial.q
            if q is None:
                q = np.zeros(max(len(trial.p), trial.token + 1))
                q[trial.token] = 1.0
            make = _price_again if len(trial.p) <= SMALL and len(q) <= SMALL else _price
            prices[trial.row] = make(trial.p.tobytes(), q.tobytes(), count)
        return prices[trial.row]

    return walk(
        rows,
        proposal,
        rng,
        position,
        candidates=drawn_independently,
        accept=lambda trial: accept_probability(
            trial.target_prob, price_of(trial).rho * trial.draft_prob
        ),
        left=lambda trial: price_of(trial).left[: len(trial.p)],
        look_at=rows.__getitem__,
    )


K_SEQ = VerifyRule(
    name="k-seq",
    title=LocalText("K-SEQ (SpecTr)", "K-SEQ（SpecTr）"),
    one_liner=LocalText(
        "K independent siblings share p: each is accepted with p/(rho q), rho just large enough.",
        "K 个独立候选共享 p：每个以 p/(ρq) 接受，ρ 取刚好够大的值。",
    ),
    lossless=True,
    needs=frozenset({"sampled", "iid_siblings", "independent_noise"}),
    source="SpecTr 2310.15141, algorithm 2",
    verify=verify_k_seq,
)
