"""The most that any lossless rule can accept when several tokens are drafted for one position.

By max-flow min-cut, the best chance that the emitted token is one of the candidates is
min over token sets H of p(H) + 1 - Q(H), Q(H) the chance that every candidate lies in H.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import Law, align

MAX_TOKENS_OF_SUBSETS = 16
"""Widest vocabulary whose 2^vocab sets are all tried."""


def optimal_acceptance(p: Law, candidates: NDArray[np.float64]) -> float:
    """Return the best possible acceptance for any law of candidates, over all sets of tokens.

    Args:
        p: the target's law [vocab], at most `MAX_TOKENS_OF_SUBSETS` tokens.
        candidates: probability [2^vocab] that the set of drafted tokens is the set whose bits are
            the index.

    Raises:
        BadInput: if the vocabulary is too wide or the lengths do not fit.

    **Source:** Hu et al. 2502.18779, theorem 1; 2511.15898.
    """
    _check_width(len(p))
    if len(candidates) != 1 << len(p):
        raise BadInput(f"{len(p)} tokens have {1 << len(p)} sets, not {len(candidates)}.")
    return float((_sums_over_subsets(_singles(p)) + 1.0 - _sums_over_subsets(candidates)).min())


def optimal_acceptance_iid(p: Law, q: Law, count: int) -> float:
    """Return the best possible acceptance of `count` i.i.d. candidates from q, any vocabulary.

    Here Q(H) = q(H)^K, and the best H is a set of all tokens with p/q up to some level. Proof: the
    points (p(H), q(H)) lie in the zonotope of the vectors (p(x), q(x)); a - s^K is concave there
    for s >= 0, so that its minimum is at an extreme point, and the extreme points are the sums
    of those vectors taken in order of slope, from either end. From the other end, H is the top of
    the ratio order; both ends are tried. Example: p = (.5, .3, .15, .05), q = (.2, .6, .1, .1),
    K = 2: .860. With K = 1 this is the overlap of p and q.

    Args:
        p: the target's law [vocab]. q: the draft's law [vocab]; one may be wider.
        count: how many candidates, K >= 1.
    """
    _check_count(count)
    p, q = _same_width(p, q)
    order = _by_ratio(p, q)
    best = 1.0
    for ranked in (order, order[::-1]):
        inside = np.minimum(np.concatenate([[0.0], q[ranked].cumsum()]), 1.0)
        outside = np.concatenate([[0.0], p[ranked].cumsum()]) + 1.0 - inside**count
        best = min(best, float(outside.min()))
    return best


def optimal_acceptance_without_replacement(p: Law, q: Law, count: int) -> float:
    """Return the best possible acceptance of `count` candidates drawn without replacement from q.

    The best H is again a set of all tokens with p/q up to some level. Proof: let tokens arrive at
    rates q(x), so that the candidates are the first K. In a best H no member gains by leaving and
    no other token by joining: p(x) is at most, for others at least, the chance that x is a
    candidate and that all candidates are in H or x. Divided by q(x) that chance is an integral over
    t of: x comes not before t, fewer than K others of H do, and with x put at t the K-th arrival of
    H and x precedes all others'. Call it T for one more token of vanishing rate. Outside H it is at
    least T, whose event asks besides that x come after the K-th arrival. For a member it is at most
    T, whose event holds as well wherever x comes after t. So p/q <= T in H and >= T outside.
    Example: p = (.5, .3, .15, .05), q = (.2, .6, .1, .1), K = 2: 1.0.

    Args:
        p: the target's law [vocab]. q: the draft's law [vocab]; one may be wider.
        count: how many candidates, K >= 1; where q has fewer tokens, all of them are drawn.
    """
    _check_count(count)
    p, q = _same_width(p, q)
    if count == 1:
        return optimal_acceptance_iid(p, q, 1)
    possible = q > 0.0
    if np.count_nonzero(possible) <= count:
        return float(min(1.0, p[possible].sum()))
    p, q = p[possible], q[possible]
    order = np.argsort(p / q, kind="stable")
    inside = chance_all_inside(q[order] / q.sum(), count)
    return float(min(1.0, (p[order].cumsum() + 1.0 - inside).min()))


STEP = 0.25
"""Step of the trapezoidal rule in log time; e^(-pi^2 / step) of the result is its error."""

AT_ONCE = 1 << 16
"""Numbers of one array, about: so many nodes are integrated at once."""


def chance_all_inside(q: Law, count: int) -> NDArray[np.float64]:
    """Return per n the chance [vocab] that all candidates are among the first n tokens.

    Tokens arrive at rates q; the candidates are the first K. With a = q(first n) and e_k(t) the
    elementary symmetric polynomials of exp(q(x) t) - 1 over the first n tokens, the chance is
    1 - (1 - a) times the integral of e^-t (1 + e_1 + ... + e_(K-1)) over t > 0. The first two terms
    are known; the others are integrated in log time, in logarithms, as exp(q t) overflows.

    Args:
        q: law [vocab] of more than K tokens, all above 0. count: K >= 2.
    """
    outside = _sums_after(q)
    with np.errstate(divide="ignore", invalid="ignore"):
        integral = 1.0 + (q / sums_of_others(q)).cumsum()
        if count > 2:
            integral = integral + _integral_of_later_terms(q, count)
        inside = 1.0 - outside * integral
    inside[-1] = 1.0
    inside[: count - 1] = 0.0
    return np.clip(inside, 0.0, 1.0)


def _integral_of_later_terms(q: Law, count: int) -> NDArray[np.float64]:
    """Return per n the integral [vocab] of e^-t (e_2 + ... + e_(K-1)).

    e^-t e_k is the chance that by time t exactly k tokens have arrived, all of the first n. The
    K - 1 heaviest tokens are counted apart: as no more than K - 1 arrive, j light ones leave at
    least j heavy ones waiting, so that no difference of nearly equal rates is ever taken.
    """
    heavy = np.sort(np.argsort(-q, kind="stable")[: count - 1])
    light = q.copy()
    light[heavy] = 0.0
    log_times = _log_times(float(light.sum()))
    arrived = _log_heavy_arrived(q[heavy], float(light.sum()), np.exp(log_times))
    num_heavy = heavy.searchsorted(np.arange(len(q)), side="right")
    integral = np.zeros(len(q))
    at_once = max(1, AT_ONCE // len(q))
    for begin in range(0, len(log_times), at_once):
        some = slice(begin, begin + at_once)
        waits = light * np.exp(log_times[some, None])
        log_each = waits + np.log(-np.expm1(-waits))
        log_sums = np.repeat(log_times[some, None], len(q), axis=1)
        for num_light in range(count):
            if num_light > 1:
                log_sums[:, 1:], log_sums[:, 0] = log_sums[:, :-1].copy(), -np.inf
            if num_light > 0:
                log_sums = np.logaddexp.accumulate(log_each + log_sums, axis=1)
            fitting = arrived[some, :, max(0, 2 - num_light) : count - num_light]
            rest = np.logaddexp.reduce(fitting, axis=2)[:, num_heavy]
            integral += np.exp(log_sums + rest).sum(axis=0) * STEP
    return integral


def _log_heavy_arrived(heavy: Law, light: float, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm [times, s, m] of a chance, for s and m from 0 to the number of heavy.

    By that time, of the first s heavy tokens m have arrived and no other heavy one has; e^(-light
    t) is a factor of it.

    Args:
        heavy: rates, in order of place. light: the sum of all other rates.
    """
    width = len(heavy) + 1
    logs = np.full((len(times), width, width), -np.inf)
    logs[:, 0, 0] = 0.0
    for size, rate in enumerate(heavy, start=1):
        waits = rate * times[:, None]
        logs[:, size] = logs[:, size - 1] - waits
        come = logs[:, size - 1, :-1] + np.log(-np.expm1(-waits))
        logs[:, size, 1:] = np.logaddexp(logs[:, size, 1:], come)
    waiting = np.append(heavy[0] + _sums_after(heavy)[0], _sums_after(heavy)) + light
    return logs - waiting[:, None] * times[:, None, None]


def _log_times(slowest: float) -> NDArray[np.float64]:
    """Return the nodes: from where e_2 is below 1e-16 to where the slowest term has died away."""
    return np.arange(-13.0, np.log(40.0 / max(slowest, 1e-300)), STEP)


def _sums_after(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for every place the sum of all values behind it [n]."""
    return np.append(values[::-1].cumsum()[::-1][1:], 0.0)


def sums_of_others(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for every place the sum of all other values [n], to the last digits however small."""
    return np.append(0.0, values[:-1].cumsum()) + _sums_after(values)


def candidates_iid(q: Law, count: int) -> NDArray[np.float64]:
    """Return the law [2^vocab] of the set of `count` i.i.d. draws from q."""
    _check_width(len(q))
    sets = np.zeros(1 << len(q))
    sets[0] = 1.0
    for _ in range(count):
        longer = np.zeros_like(sets)
        for token, prob in enumerate(q):
            np.add.at(longer, np.arange(len(sets)) | (1 << token), sets * prob)
        sets = longer
    return sets


def candidates_without_replacement(q: Law, count: int) -> NDArray[np.float64]:
    """Return the law [2^vocab] of the set of `count` draws without replacement from q.

    Where q has fewer tokens than that, all of them are drawn.
    """
    _check_width(len(q))
    sets = np.zeros(1 << len(q))
    possible = np.flatnonzero(q).tolist()
    for drawn in permutations(possible, min(count, len(possible))):
        prob, left = 1.0, q.copy()
        for token in drawn:
            prob *= q[token] / left.sum()
            left[token] = 0.0
        sets[sum(1 << token for token in drawn)] += prob
    return sets


def _by_ratio(p: Law, q: Law) -> NDArray[np.int64]:
    """Order tokens by p/q, without dividing; those of q = 0 come last."""
    return np.argsort(np.arctan2(p, q), kind="stable")


def _singles(law: Law) -> NDArray[np.float64]:
    sets = np.zeros(1 << len(law))
    sets[1 << np.arange(len(law))] = law
    return sets


def _sums_over_subsets(sets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for every set the sum over all of its subsets [2^vocab]."""
    sums, width = sets.copy(), len(sets).bit_length() - 1
    for token in range(width):
        halves = sums.reshape(-1, 2, 1 << token)
        halves[:, 1] += halves[:, 0]
    return sums


def _same_width(p: Law, q: Law) -> tuple[Law, Law]:
    size = max(len(p), len(q))
    return align(p, size), align(q, size)


def _check_width(size: int) -> None:
    if size > MAX_TOKENS_OF_SUBSETS:
        raise BadInput(
            f"{size} tokens have too many sets; at most {MAX_TOKENS_OF_SUBSETS} are tried."
        )


def _check_count(count: int) -> None:
    if count < 1:
        raise BadInput(f"There must be at least one candidate, not {count}.")
