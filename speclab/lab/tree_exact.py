"""One round over a draft tree of any shape, exactly: every draw, every coin, by the real rule.

The laws of target and draft are the same at every node, so that a tree fits on a page. A shape is
a `RankTree`: the path (0, 1) is the second child of the first child.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.laws import Law, Sampling, most_likely, overlap
from speclab.core.protocols import Proposal, VerifyRule
from speclab.core.randomness import Exhaustive, Randomness
from speclab.core.rows import TargetRows
from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.engine.one_position import POSITION, GivenRow, checked_law
from speclab.methods.draft_tree import left_to_draw
from speclab.methods.rank_trees import Accuracies, RankPath, RankTree, expected_tokens

Siblings = Literal["top-k", "without-replacement"]

RULE_OF: dict[str, str] = {
    "top-k": "siblings-topk",
    "without-replacement": "siblings-without-replacement",
}
"""The lossless rule for each way to find siblings."""

MISREAD_OF: dict[str, str] = {
    "top-k": "broken-argmax-draft-softmax-q",
    "without-replacement": "siblings-iid",
}
"""A rule that is easily taken instead: the soft q for children that were chosen, and, for children
drawn without replacement, the rule whose q keeps what was drawn (exact for independent draws)."""

MAX_NODES = 4
"""Nodes of a tree: a chain of four drawn from four tokens has some 2,000 branches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLaw:
    """What one round does under one rule.

    Attributes:
        rule: its name.
        law: of the first token emitted [vocab].
        bias: total variation between that and the target's law.
        texts_apart: largest difference of the law of the first two tokens to the target's; a round
            that emits one token is completed by a draw from the target.
        tokens_per_pass: expected number of emitted tokens.
        accepted: per node, how often it is accepted [n].
    """

    rule: str
    law: tuple[float, ...]
    bias: float
    texts_apart: float
    tokens_per_pass: float
    accepted: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeComparison:
    """A tree of some shape beside the chain and the best tree of as many nodes.

    Attributes:
        tree: an example: the draft's best tokens; for drawn siblings the tokens are left open.
        exact: the round under the lossless rule. misread: under `MISREAD_OF`.
        chain: tokens per pass of the chain of as many nodes.
        best: the most tokens per pass of any tree of as many nodes. best_shape: such a tree.
    """

    shape: RankTree
    tree: TokenTree
    siblings: Siblings
    exact: RoundLaw
    misread: RoundLaw
    chain: float
    best: float
    best_shape: RankTree


def checked_shape(paths: Sequence[Sequence[int]], vocab_size: int) -> RankTree:
    """Return the shape that `paths` name.

    Raises:
        BadInput: if they are no tree, more than `MAX_NODES`, or a node has no such child.
    """
    if len(paths) > MAX_NODES:
        raise BadInput(f"A tree here has at most {MAX_NODES} nodes, not {len(paths)}.")
    shape = RankTree.of(paths)
    known = set(shape.paths)
    for path in shape.paths:
        if type(path[-1]) is not int or not 0 <= path[-1] < vocab_size:
            raise BadInput(f"{path} names child {path[-1]}; there are {vocab_size} tokens.")
        if path[-1] and (*path[:-1], path[-1] - 1) not in known:
            raise BadInput(f"{path} stands in the tree without the sibling before it.")
    return shape


def draft(shape: RankTree, q: Law, siblings: Siblings, rng: Randomness) -> Proposal:
    """Fill a shape with tokens: the most likely ones, or drawn without replacement.

    Siblings are drawn in the order of their rank; every node has a draw of its own.
    """
    tokens: list[int] = []
    laws: list[Law | None] = []
    open_laws: dict[int, Law] = {}
    parents = shape.parents()
    for parent in parents:
        left = open_laws.get(parent, q)
        token = int(left.argmax()) if siblings == "top-k" else rng.draw(left)
        tokens.append(token)
        laws.append(None if siblings == "top-k" else left)
        open_laws[parent] = left_to_draw(left, token)
    return Proposal(
        tree=TokenTree(tuple(tokens), parents),
        draft_probs=tuple(laws),
        raw_draft=(lambda: q,) * len(tokens),
    )


def round_law(shape: RankTree, p: Law, q: Law, siblings: Siblings, rule: VerifyRule) -> RoundLaw:
    """Run the rule down every branch of every draw and coin of one round.

    Args:
        shape: of the tree. p, q: law of target and draft after every text [vocab].
        siblings: how the draft finds them. rule: any that walks down trees.
    """
    texts: dict[tuple[int, ...], float] = defaultdict(float)
    accepted, emitted = np.zeros(len(shape)), 0.0
    row = GivenRow(p)
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        proposal = draft(shape, q, siblings, rng)
        rows = TargetRows(lambda index: row, Sampling(), proposal.tree)
        verdict = rule.verify(rows, proposal, rng, POSITION)
        text = (*(proposal.tree.tokens[node] for node in verdict.accepted), verdict.next_token)
        texts[text[:2]] += rng.weight
        accepted[list(verdict.accepted)] += rng.weight
        emitted += rng.weight * len(text)
        path = rng.next_path()
    joint = np.zeros((len(p), len(p)))
    for text, weight in texts.items():
        if len(text) == 1:
            joint[text[0]] += weight * p
        else:
            joint[text] += weight
    law = joint.sum(axis=1)
    return RoundLaw(
        rule=rule.name,
        law=tuple(law.tolist()),
        bias=max(0.0, 1.0 - overlap(law, p)),
        texts_apart=float(np.abs(joint - np.outer(p, p)).max()),
        tokens_per_pass=emitted,
        accepted=tuple(accepted.tolist()),
    )


def sibling_rates(p: Law, q: Law, siblings: Siblings, count: int) -> tuple[float, ...]:
    """Return, per rank, how often a child of that rank is accepted once its parent is [count].

    It does not depend on how many siblings follow.
    """
    shape = RankTree.of([(rank,) for rank in range(count)])
    return round_law(shape, p, q, siblings, RULES[RULE_OF[siblings]]).accepted


def shapes_of(num_nodes: int) -> Iterator[RankTree]:
    """Yield every tree of `num_nodes` nodes in which no sibling stands without those before it."""

    def forests(count: int, rank: int) -> Iterator[tuple[RankPath, ...]]:
        """Yield the paths of every row of siblings from `rank` on, with what hangs off them."""
        if count == 0:
            yield ()
        for size in range(count):
            for below in forests(size, 0):
                for after in forests(count - 1 - size, rank + 1):
                    yield ((rank,), *((rank, *path) for path in below), *after)

    yield from map(RankTree.of, forests(num_nodes, 0))


def chain_of(num_nodes: int) -> RankTree:
    """Return the chain of first children."""
    return RankTree.of([(0,) * depth for depth in range(1, num_nodes + 1)])


@lru_cache(maxsize=512)
def compare_tree(
    paths: tuple[RankPath, ...], p: tuple[float, ...], q: tuple[float, ...], siblings: Siblings
) -> TreeComparison:
    """Return what a round does over a tree of this shape, and the chain and best tree beside it.

    Args:
        paths: the shape. p, q: law of target and draft after every text [vocab].

    Raises:
        BadInput: if the shape or a law is none.
    """
    if siblings not in RULE_OF:
        raise BadInput(f"Siblings are {' or '.join(RULE_OF)}, not {siblings!r}.")
    target, drafted = checked_law(p, "p"), checked_law(q, "q")
    shape = checked_shape(paths, len(p))
    exact, misread = (
        round_law(shape, target, drafted, siblings, RULES[names[siblings]])
        for names in (RULE_OF, MISREAD_OF)
    )
    rates: Accuracies = (sibling_rates(target, drafted, siblings, len(p)),) * MAX_NODES
    best = max(shapes_of(len(shape)), key=lambda other: expected_tokens(other, rates))
    ranked = most_likely(drafted, len(p))
    tokens = tuple(int(ranked[path[-1]]) for path in shape.paths)
    return TreeComparison(
        shape=shape,
        tree=TokenTree(tokens, shape.parents()),
        siblings=siblings,
        exact=exact,
        misread=misread,
        chain=expected_tokens(chain_of(len(shape)), rates),
        best=expected_tokens(best, rates),
        best_shape=best,
    )
