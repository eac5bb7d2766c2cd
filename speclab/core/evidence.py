"""What a method wants a learner to see of a round, beside the draft itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from speclab.core.errors import TraceFormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing a method wants a learner to see.

    Attributes:
        kind: one of a closed set the figures know how to draw. `grown` says what a dynamic tree
            looked at besides the nodes it kept.
        node: the node it concerns; -1 for the whole proposal.
        start, stop: a span of absolute positions (`copied_from`: of this text; with a node, what
            the path that ends there was copied from), else 0.
        value: a number (`head`: which head; `pool_hit`: how many guesses the pool had;
            `from_earlier_text`: tokens of the match that an earlier text of the session gave;
            `window`: its columns, the pending token's included; `survived`: how many guesses the
            pass before left as they were; `layers`: the exit layer, or 0 where layers are skipped;
            `retokenised`: tokens that the draft needed for the same text; `confidence`: a
            probability; `grown`: how many candidates are left out here, of the least probable
            ones; `draft_length`: how many tokens were planned at most; `stopped_early`: the chance
            of a rejection that ended the draft, 0 for another reason).
        values: `confidence`: per node how probable the draft takes its whole path to be [n];
            `grown`: the same per candidate [m].
            `retokenised`: per node the share of the draft's law on tokens that the target has [n].
            `layers`: per layer the share of it that drafts, 0 to 1 [layers], or, where
            sublayers are skipped, per sublayer whether it drafts, attention before MLP [2 layers];
            `level`: per node which drafter it comes from, 0 for the one next to the target [n];
            `survived`: per node how many passes left it as it is [n]; `pool_hit`: per node 1 where
            the pool gave it, if other nodes came from elsewhere [n].
        tokens, parents: `grown`: candidates that were not kept, parents first [m]; a parent is -1,
            a node, or n + j for candidate j; `window`: the passengers of the pass.
        expanded: `grown`: the nodes and candidates fed to the head, in that order, so numbered.
    """

    kind: Literal[
        "copied_from",
        "no_match",
        "head",
        "pool_hit",
        "stopped_early",
        "confidence",
        "grown",
        "draft_length",
        "from_earlier_text",
        "window",
        "layers",
        "level",
        "retokenised",
        "survived",
    ]
    node: int = -1
    start: int = 0
    stop: int = 0
    value: float = 0.0
    values: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    expanded: tuple[int, ...] = ()


def check_evidence(item: Evidence, size: int, context_length: int, where: str) -> None:
    """Refuse evidence whose numbers do not fit its round.

    Args:
        item: the evidence. size: nodes drafted. context_length: committed tokens before the round.
        where: names the place.

    Raises:
        TraceFormatError: naming the place.
    """
    if not 0 <= item.start <= item.stop <= context_length:
        raise TraceFormatError(f"{where} spans {item.start} to {item.stop}.")
    of_nodes = item.kind != "layers"
    wanted = len(item.tokens) if item.kind == "grown" else size
    if of_nodes and len(item.values) != wanted and (item.values or item.kind == "grown"):
        raise TraceFormatError(f"{where} has {len(item.values)} values for {wanted}.")
    if len(item.parents) != len(item.tokens):
        raise TraceFormatError(f"{where} has {len(item.parents)} parents.")
    for place, parent in enumerate(item.parents):
        if not -1 <= parent < size + place:
            raise TraceFormatError(f"{where}.parents[{place}] is {parent}.")
    if not all(0 <= node < size + len(item.tokens) for node in item.expanded):
        raise TraceFormatError(f"{where}.expanded names a node that is not there.")
