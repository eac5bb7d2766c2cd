"""A p-value that may be watched while sampling and acted on at any time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from speclab.stats.cells import Cells, check_counts, check_law

CONCENTRATIONS = (30.0, 300.0, 3_000.0, 30_000.0)
"""How many samples each bettor's belief in p weighs: small ones look for large biases."""
_MOST = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class EValue:
    """The evidence so far. JSON-ready.

    Attributes:
        e_value: what a stake of 1 against the sampler has become, capped at 1e300.
        p_value: smallest 1 / e_value seen so far, at most 1: valid however often it is looked at.
        num_samples: N so far.
        forbidden: (token, count) emitted at probability zero; one makes the p-value 0 for good.
    """

    e_value: float
    p_value: float
    num_samples: int
    forbidden: tuple[tuple[int, int], ...] = ()


class EProcess:
    """Bets against "tokens are drawn from p"; fair if that is true.

    The e-value is a likelihood ratio: a mixture of Dirichlet laws centred at p, over several
    concentrations, against p. If p is right its mean is 1 at every stopping time, so it ever
    reaches 1 / alpha with probability at most alpha. With a set given, half of the stake bets only
    on the share of samples in that set, which the size of the vocabulary does not dilute.

    Args:
        expected_probs: target law [vocab].
        cells: cells to bet on instead of single tokens; fewer cells learn faster. Pooled for the
            N that is planned: chosen beforehand, so the bet stays fair.
        members: a set chosen beforehand, bool [vocab], such as {p > q}; None for none.
        concentrations: one bettor each, with equal stakes.

    Raises:
        BadInput: for what is not a law.

    **Source:** Ville 1939; Grünwald, de Heide and Koolen 1906.07801; Lindon and Malek 2011.03567
    (multinomial, Dirichlet mixture).
    """

    def __init__(
        self,
        expected_probs: ArrayLike,
        *,
        cells: Cells | None = None,
        members: ArrayLike | None = None,
        concentrations: tuple[float, ...] = CONCENTRATIONS,
    ) -> None:
        self.law = check_law(expected_probs)
        self.counts = np.zeros(self.law.size, dtype=np.int64)
        self.concentrations = concentrations
        self.members = None if members is None else np.asarray(members, dtype=bool)
        self.cells, self.smallest = cells, 1.0

    def update(self, counts: ArrayLike) -> EValue:
        """Add the counts of one more batch [vocab] and return the evidence so far.

        Raises:
            BadInput: as `check_counts`.
        """
        self.counts += check_counts(counts, self.law.size)
        stray = np.flatnonzero((self.law == 0.0) & (self.counts > 0))
        log_e = math.inf if stray.size else self._log_e()
        self.smallest = min(self.smallest, math.exp(min(-log_e, 0.0)))
        return EValue(
            e_value=math.exp(min(log_e, math.log(_MOST))),
            p_value=self.smallest,
            num_samples=int(self.counts.sum()),
            forbidden=tuple((int(token), int(self.counts[token])) for token in stray),
        )

    def _log_e(self) -> float:
        if self.cells is None:
            order = np.lexsort((self.counts, self.law))
            stakes = [self._mixture(self.law[order], self.counts[order])]
        else:
            observed = np.array(self.cells.count(self.counts).observed)
            stakes = [self._mixture(np.array(self.cells.probs), observed)]
        if self.members is not None:
            mass = math.fsum(self.law[self.members])
            if 0.0 < mass < 1.0:
                inside = int(self.counts[self.members].sum())
                pair = np.array([inside, int(self.counts.sum()) - inside])
                stakes.append(self._mixture(np.array([mass, 1.0 - mass]), pair))
        return float(np.logaddexp.reduce(stakes)) - math.log(len(stakes))

    def _mixture(self, law: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
        """Return ln of the mean over bettors of Dirichlet-multinomial / multinomial."""
        n = int(counts.sum())
        seen = counts > 0
        law, counts = law[seen], counts[seen]
        null = float((counts * np.log(law)).sum())
        logs = []
        for weight in self.concentrations:
            prior = weight * law
            gained = special.gammaln(prior + counts) - special.gammaln(prior)
            start = special.gammaln(weight) - special.gammaln(weight + n)
            logs.append(float(gained.sum() + start) - null)
        return float(np.logaddexp.reduce(logs)) - math.log(len(logs))
