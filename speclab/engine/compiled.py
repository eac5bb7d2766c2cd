"""The scalar rule for one position, compiled to a table and sampled a million times a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput, TooManyBranches
from speclab.core.laws import Law, Sampling
from speclab.core.protocols import VerifyRule
from speclab.core.randomness import Exhaustive
from speclab.engine.coin_table import CoinTable
from speclab.engine.one_position import OnePosition

MAX_LEAVES = 50_000
CHUNK = 1 << 15
"""Draws made at once: few enough to stay in a processor's cache."""


@dataclass(slots=True, kw_only=True)
class CompiledRound:
    """One position under one rule: its candidates, its coins, its last draw.

    The table is filled by running the unmodified rule. Rules for shared noise are included: a
    second draw at one place takes the uniform of the first, as the decode loop has it.

    Attributes:
        rule: its name.
        law: exact law of the first emitted token [vocab].
        target: the law it should have [vocab].
        acceptance: exact chance that a drafted token is emitted.
        num_leaves: branches enumerated for these.
        num_uniforms: most uniforms that one draw takes.
    """

    rule: str
    law: Law
    target: Law
    acceptance: float
    num_leaves: int
    num_uniforms: int
    _table: CoinTable = field(repr=False)

    def draw(self, count: int, seed: int) -> NDArray[np.int64]:
        """Return `count` first emitted tokens, each by the rule's own coins.

        Raises:
            BadInput: for a count below 1 or a negative seed.
        """
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise BadInput(
                f"The number of draws must be a whole number >= 1, not {count!r}.",
                "Draw at least once.",
                code="draw_count",
                values={"value": repr(count)},
            )
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise BadInput(f"The seed must be a whole number >= 0, not {seed!r}.")
        generator, parts = np.random.default_rng(int(seed)), []
        for begin in range(0, int(count), CHUNK):
            size = min(CHUNK, int(count) - begin)
            parts.append(self.tokens_of(generator.random((self.num_uniforms, size))))
        return np.concatenate(parts)

    def tokens_of(self, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the token that each column of uniforms [num_uniforms, n] makes the rule emit."""
        count = uniforms.shape[1]
        out = np.empty(count, dtype=np.int64)
        start = np.zeros(count, dtype=np.int64)
        for token, cases in self._table.walk(uniforms, np.arange(count), start):
            out[cases] = token
        return out


def compile_rule(
    rule: VerifyRule,
    p: Sequence[float] | Law,
    q: Sequence[float] | Law,
    *,
    num_candidates: int | None = None,
    sampling: Sampling | None = None,
) -> CompiledRound:
    """Run a rule down every branch of every coin of one position.

    Args:
        rule: the rule, with its parameters bound.
        p: the target's law before processing [vocab]. q: the draft's [vocab].
        num_candidates: drafted tokens at this place; None: as the rule's bias is stated.
        sampling: processes both laws; None: as the rule's bias is stated.

    Raises:
        BadInput: if p or q is no law, their lengths differ or there is no candidate.
        TooManyBranches: beyond `MAX_LEAVES` branches.
    """
    place = OnePosition(rule, p, q, num_candidates=num_candidates, sampling=sampling)
    law, kept, leaves, longest = np.zeros(place.vocab_size), 0.0, 0, 1
    path: list[int] | None = []
    while path is not None:
        leaves += 1
        if leaves > MAX_LEAVES:
            raise TooManyBranches(
                f"One position has more than {MAX_LEAVES} branches.",
                "Use fewer tokens or fewer candidates.",
                code="position_branches",
                values={"limit": MAX_LEAVES},
            )
        rng = Exhaustive(path=path)
        token, drafted = place.judge(rng)
        law[token] += rng.weight
        kept += rng.weight * drafted
        longest = max(longest, len(rng.arity))
        path = rng.next_path()
    return CompiledRound(
        rule=rule.name,
        law=law,
        target=place.target_law,
        acceptance=kept,
        num_leaves=leaves,
        num_uniforms=longest,
        _table=CoinTable(lambda rng: place.judge(rng)[0]),
    )
