"""What drafts look like and how far they get, counted on some prompts: the law of a round.

Everything here is counted; nothing is a time. Rounds that the limit on new tokens left too little
room for are not counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from speclab.core.records import Round, Trace
from speclab.core.trees import PENDING, TokenTree

Shape = tuple[int, int, int, int]
"""(depth, nodes, passes of whatever drafts, passengers) of one proposal."""


@dataclass(slots=True)
class RoundCounts:
    """Counts of one prompt.

    Attributes:
        shapes: rounds by the shape of what they drafted, of depth 0 where nothing was.
        reached: rounds by depth d that accepted at least d tokens; `reached[0]` is all rounds.
        offered: rounds by depth d >= 1 that accepted d - 1 tokens and had a candidate after them.
    """

    shapes: Counter[Shape] = field(default_factory=Counter)
    reached: Counter[int] = field(default_factory=Counter)
    offered: Counter[int] = field(default_factory=Counter)

    def add(self, round_: Round) -> None:
        """Count one round."""
        tree, accepted = round_.tree, round_.num_accepted
        passes, riding = round_.num_draft_forwards, round_.num_passengers
        self.shapes[tree.max_depth, len(tree), passes, riding] += 1
        for depth in range(accepted + 1):
            self.reached[depth] += 1
        path = (PENDING, *round_.verdict.accepted)
        for depth, node in enumerate(path, start=1):
            self.offered[depth] += has_child(tree, node)


def has_child(tree: TokenTree, node: int) -> bool:
    """Return whether anything was drafted after a node; -1 is the pending token."""
    return node in tree.parents


def count_rounds(traces: Mapping[tuple[int, int], Trace]) -> list[RoundCounts]:
    """Return the counts of every prompt.

    Args:
        traces: by (repeat, prompt), of one label at one sampling.
    """
    deepest = max(
        (round_.tree.max_depth for trace in traces.values() for round_ in trace.rounds), default=0
    )
    counts: dict[int, RoundCounts] = defaultdict(RoundCounts)
    for (_, prompt), trace in sorted(traces.items()):
        counts[prompt]
        emitted = 0
        for round_ in trace.rounds:
            if trace.spec.max_new_tokens - emitted - 1 >= deepest:
                counts[prompt].add(round_)
            emitted += len(round_.emitted)
    return [counts[prompt] for prompt in sorted(counts)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLaw:
    """The law of a round.

    Attributes:
        shapes: (depth, nodes, passes, passengers) with its share of all rounds.
        offered: P(a candidate at depth d | d - 1 were accepted), d = 1, 2, ...
        rates: P(depth d accepted | a candidate there); 0 where none was seen.
        acceptance_rate: alpha: accepted / tested, a level of a tree counting as one position.
        rounds: how many were counted.
    """

    shapes: tuple[tuple[Shape, float], ...]
    offered: tuple[float, ...]
    rates: tuple[float, ...]
    acceptance_rate: float
    rounds: int

    @classmethod
    def of(cls, counts: Sequence[RoundCounts]) -> RoundLaw:
        """Return the law of the counts of some prompts taken together."""
        shapes, reached, offered = Counter(), Counter(), Counter()
        for each in counts:
            shapes.update(each.shapes)
            reached.update(each.reached)
            offered.update(each.offered)
        total = reached[0]
        depths = range(1, 1 + max((depth for depth, *_ in shapes), default=0))
        tested = sum(offered[d] for d in depths)
        return cls(
            shapes=tuple((shape, n / total) for shape, n in sorted(shapes.items())),
            offered=tuple(offered[d] / reached[d - 1] if reached[d - 1] else 0.0 for d in depths),
            rates=tuple(reached[d] / offered[d] if offered[d] else 0.0 for d in depths),
            acceptance_rate=sum(reached[d] for d in depths) / tested if tested else 0.0,
            rounds=total,
        )

    @property
    def depth(self) -> int:
        """Deepest draft."""
        return len(self.rates)

    @property
    def drafting_share(self) -> float:
        """Share of rounds that draft something."""
        return sum(share for (depth, *_), share in self.shapes if depth)

    def cut(self, gamma: int) -> RoundLaw:
        """Return the law of the same drafts cut to their first `gamma` tokens; chains only.

        Rounds begin where the last one failed. A deeper draft moves those places a little, which
        this leaves out.
        """
        shapes: Counter[Shape] = Counter()
        for (depth, nodes, passes, riding), share in self.shapes:
            kept = min(depth, gamma)
            shapes[kept, min(nodes, kept), _cut_passes(passes, depth, kept), riding] += share
        return RoundLaw(
            shapes=tuple(sorted(shapes.items())),
            offered=self.offered[:gamma],
            rates=self.rates[:gamma],
            acceptance_rate=self.acceptance_rate,
            rounds=self.rounds,
        )

    def accepted_law(self, room: int) -> list[float]:
        """Return P(0, 1, ... tokens accepted) from the rates by position.

        Args:
            room: most tokens that may be accepted.
        """
        survive = [1.0, *np.cumprod(np.multiply(self.offered, self.rates)).tolist()]
        survive = [*survive[: room + 1], 0.0]
        return [high - low for high, low in pairwise(survive)]

    def accepted_law_iid(self, room: int) -> list[float]:
        """Return the same from alpha alone: every position of a draft as likely as any other."""
        alpha, law = self.acceptance_rate, [0.0] * (min(room, self.depth) + 1)
        for (depth, *_), share in self.shapes:
            last = min(depth, room)
            for accepted in range(last):
                law[accepted] += share * alpha**accepted * (1.0 - alpha)
            law[last] += share * alpha**last
        return law

    def tokens_per_pass(self, *, iid: bool = False) -> float:
        """Return E[N], the extra token included."""
        law = self.accepted_law_iid(self.depth) if iid else self.accepted_law(self.depth)
        return 1.0 + sum(count * chance for count, chance in enumerate(law))


def _cut_passes(passes: int, depth: int, kept: int) -> int:
    """Return the passes of a draft cut short: one per token if they were so many, else as many."""
    return min(passes, kept) if passes >= depth else (passes if kept else 0)
