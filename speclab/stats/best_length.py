"""The draft length that one text asks for, in hindsight: the best constant one, and an oracle's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.records import Trace

LONGEST = 16
"""Longest draft that is considered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestLengths:
    """What each draft length would have cost along one text, in target steps. Badge: modelled.

    Attributes:
        num_tokens: of the text. num_unmeasured: positions without a test (bonus tokens), which
            count as the mean of the others.
        constant_cost: expected cost of the text by gamma, from 0 on. plain_cost: of gamma 0.
        best_constant: the cheapest gamma; the shortest of equal ones.
        oracle_cost: of the cheapest choice round by round, when every chance (but no coin) is known
            beforehand.
        oracle_lengths: what it would draft if a round began at each position [num_tokens].
    """

    num_tokens: int
    num_unmeasured: int
    constant_cost: tuple[float, ...]
    oracle_cost: float
    oracle_lengths: tuple[int, ...]

    @property
    def plain_cost(self) -> float:
        """Expected cost of plain decoding."""
        return self.constant_cost[0]

    @property
    def best_constant(self) -> int:
        """The cheapest constant gamma."""
        return int(np.argmin(self.constant_cost))

    @property
    def best_constant_speedup(self) -> float:
        """Plain decoding's cost over the best constant gamma's."""
        return self.plain_cost / self.constant_cost[self.best_constant]

    @property
    def oracle_speedup(self) -> float:
        """Plain decoding's cost over the oracle's."""
        return self.plain_cost / self.oracle_cost


def overlaps_along(trace: Trace) -> list[float | None]:
    """Return, per emitted token, the chance that its draft was accepted; None where untested.

    A round with a long draft tests every position up to its first rejection, and the next round
    begins behind that, so that a whole text is covered but for bonus tokens.

    Raises:
        BadInput: for a trace without laws, or with drafts that are not chains.
    """
    if not all(round_.tree.is_chain for round_ in trace.rounds):
        raise BadInput("The best draft length is that of chains; this trace has trees.")
    start = len(trace.prompt_tokens)
    found: list[float | None] = [None] * len(trace.emitted)
    for round_ in trace.rounds:
        if round_.num_tested and not round_.slices:
            raise BadInput("This trace has no laws.", "Record it with laws.")
        for part in round_.slices:
            if part.node is not None and part.position - start < len(found):
                found[part.position - start] = part.overlap
    return found


def best_gamma_along(
    trace: Trace,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = lambda tokens: 1.0,
    *,
    longest: int = LONGEST,
) -> BestLengths:
    """Return which gamma would have been best along the text of a trace with long drafts.

    Given the overlap at every position, a round of gamma tokens from position t emits k tokens with
    a known chance, and costs gamma * c + v(gamma + 1). Costs to the end follow backwards. Drafts at
    the end of the text are cut to what can still be emitted.

    Args:
        trace: of a chain, with laws. cost_ratio: c. verify_cost: v(n), a pass on n tokens over one
            on 1. longest: largest gamma considered.

    Raises:
        BadInput: for a trace without laws, tests or chains.

    **Source:** Leviathan et al. 2211.17192, section 3.5 (an oracle for gamma).
    """
    found = overlaps_along(trace)
    known = [overlap for overlap in found if overlap is not None]
    if not known:
        raise BadInput("Nothing was tested in this trace.", "Use a method that drafts.")
    mean = float(np.mean(known))
    beta = np.array([mean if overlap is None else overlap for overlap in found])
    costs = [gamma * cost_ratio + verify_cost(gamma + 1) for gamma in range(longest + 1)]
    constant = tuple(
        float(_costs_to_end(beta, costs, range(gamma, gamma + 1))[0][0])
        for gamma in range(longest + 1)
    )
    oracle, lengths = _costs_to_end(beta, costs, range(longest + 1))
    return BestLengths(
        num_tokens=len(beta),
        num_unmeasured=len(found) - len(known),
        constant_cost=constant,
        oracle_cost=float(oracle[0]),
        oracle_lengths=tuple(lengths),
    )


def _costs_to_end(
    beta: NDArray[np.float64], costs: Sequence[float], gammas: Sequence[int]
) -> tuple[NDArray[np.float64], list[int]]:
    """Return the least expected cost from each position to the end [n+1], and its gamma [n].

    Args:
        beta: chance that a draft is accepted at each position [n]. costs: of a round, by gamma.
        gammas: to choose from in every round.
    """
    count = len(beta)
    to_end, chosen = np.zeros(count + 1), [0] * count
    for place in reversed(range(count)):
        options = []
        for gamma in gammas:
            cut = min(gamma, count - place - 1)
            reached = np.concatenate([[1.0], np.cumprod(beta[place : place + cut])])
            emits = reached - np.append(reached[1:], 0.0)
            after = to_end[place + 1 : place + cut + 2]
            options.append((costs[cut] + float(emits @ after), cut))
        to_end[place], chosen[place] = min(options)
    return to_end, chosen
