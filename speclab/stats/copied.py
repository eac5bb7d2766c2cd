"""How much of a text was copied instead of computed: defined once, for tables and pages."""

from __future__ import annotations

from collections.abc import Sequence

from speclab.core.records import Evidence, Round

COPYING = frozenset({"copied_from", "from_earlier_text", "pool_hit"})
"""Evidence of a draft that was looked up: in this text, in an earlier one, in a pool of n-grams."""


def looks_up(rounds: Sequence[Round]) -> bool:
    """Whether anything was looked up for a draft, found or not."""
    looked = COPYING | {"no_match"}
    return any(item.kind in looked for round_ in rounds for item in round_.evidence)


def copied_nodes(round_: Round) -> frozenset[int]:
    """Return the drafted nodes that were looked up.

    A node is copied if evidence of copying covers it, and if it was not drawn from a law. Evidence
    about a node covers the whole path to it, evidence about the proposal every node; a pool says
    itself which nodes it gave where others drafted as well.
    """
    found: set[int] = set()
    for item in round_.evidence:
        if item.kind in COPYING:
            found.update(_covered(item, round_))
    drawn = {node for node, sampled in enumerate(round_.sampled) if sampled}
    return frozenset(found - drawn)


def _covered(item: Evidence, round_: Round) -> Sequence[int]:
    if item.kind == "pool_hit" and item.values:
        return [node for node, given in enumerate(item.values) if given]
    return range(len(round_.tree)) if item.node < 0 else round_.tree.path(item.node)


def num_copied(round_: Round) -> int:
    """Return how many emitted tokens of a round are accepted copies.

    A token that EOS or a limit cut away does not count; the target's own token never does.
    """
    nodes = copied_nodes(round_)
    kept = round_.verdict.accepted[: len(round_.emitted)]
    return sum(node in nodes for node in kept)


def copied_share(rounds: Sequence[Round]) -> float | None:
    """Return copied tokens / emitted tokens; None where nothing was emitted."""
    emitted = sum(len(round_.emitted) for round_ in rounds)
    return sum(map(num_copied, rounds)) / emitted if emitted else None
