"""How far drafts get: acceptance by depth, and how many candidates are tested at each level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from speclab.core.records import Round
from speclab.stats.counters import acceptance_rate_per_position, ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthCounts:
    """What a run counted at one depth of its drafts.

    Attributes:
        depth: 1 is the first drafted token.
        cumulative: share of drafting rounds that accepted a token here.
        conditional: the same among rounds that accepted one at the depth before; None without any.
        tested: tested nodes divided by the rounds that tested one here; None without any.
        drafted: drafted nodes divided by drafting rounds.
    """

    depth: int
    cumulative: float
    conditional: float | None
    tested: float | None
    drafted: float


def counts_by_depth(rounds: Sequence[Round]) -> tuple[DepthCounts, ...]:
    """Return what was accepted, tested and drafted at every depth of a run; () without drafts."""
    drafting = [round_ for round_ in rounds if round_.num_drafted]
    cumulative, conditional = acceptance_rate_per_position(drafting)
    nodes = [0] * len(cumulative)
    tested = [0] * len(cumulative)
    rounds_testing = [0] * len(cumulative)
    for round_ in drafting:
        offsets = round_.tree.position_offsets
        for depth in offsets:
            nodes[depth - 1] += 1
        judged = [offsets[flip.node] for flip in round_.verdict.flips]
        for depth in judged:
            tested[depth - 1] += 1
        for depth in set(judged):
            rounds_testing[depth - 1] += 1
    return tuple(
        DepthCounts(
            depth=place + 1,
            cumulative=cumulative[place],
            conditional=conditional[place],
            tested=ratio(tested[place], rounds_testing[place]),
            drafted=nodes[place] / len(drafting),
        )
        for place in range(len(cumulative))
    )
