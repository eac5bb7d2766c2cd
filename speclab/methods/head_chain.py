"""A chain drafted token by token from the rows of a head: drawn, or chosen at temperature 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from speclab.core.laws import Law, Row, Sampling
from speclab.core.protocols import DraftKit, Feedback, LocalText, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.records import Evidence
from speclab.core.trees import TokenTree
from speclab.methods.draft_length import ChainLength
from speclab.methods.head_tree import HeadTreeRun, TreeSize, confidences


def gamma_param(default: int, high: int, help_text: LocalText) -> Param:
    """Return the parameter `num_speculative_tokens`."""
    return Param(
        name="num_speculative_tokens",
        symbol="γ",
        kind="int",
        default=default,
        low=1,
        high=high,
        unit="tokens",
        help=help_text,
    )


class ChainDraft:
    """A chain while it grows.

    Args:
        kit: the request. room: how the text stands.
        sampling: how rows become laws; None: the request's.

    Attributes:
        tokens: drafted so far.
    """

    def __init__(self, kit: DraftKit, room: Room, sampling: Sampling | None = None) -> None:
        self._sampling, self._eos = sampling or kit.sampling, kit.eos_ids
        self._written: Sequence[int] = room.context[len(kit.prompt) :]
        self.tokens: list[int] = []
        self._laws: list[Law | None] = []
        self._raw: list[Callable[[], Law]] = []
        self._sure: list[float] = []
        self._early: tuple[Evidence, ...] = ()

    def add(self, row: Row, rng: Randomness) -> int:
        """Append a token from the head's row [vocab] and return it.

        **Source:** Leviathan et al. 2211.17192, algorithm 1: q is the law it is drawn from.
        """
        sampling = self._sampling
        if sampling.greedy and not sampling.penalised:
            token, law = row.top(), None
        else:
            law = row.law(sampling, self._counts())
            token = int(law.argmax()) if sampling.greedy else rng.draw(law)
        self._sure.append((self._sure[-1] if self._sure else 1.0) * float(row.raw()[token]))
        self.tokens.append(token)
        self._laws.append(None if sampling.greedy else law)
        self._raw.append(row.raw)
        return token

    def stopped_by(self, length: ChainLength, row: Row) -> bool:
        """Whether the chain ends with the token that was just added from `row`."""
        doubt = length.stops(row, self.tokens[-1], self._laws[-1])
        if doubt:
            last = len(self.tokens) - 1
            self._early = (Evidence(kind="stopped_early", node=last, value=doubt),)
        return bool(doubt)

    @property
    def ended(self) -> bool:
        """Whether the last token ends the text."""
        return bool(self.tokens) and self.tokens[-1] in self._eos

    def _counts(self) -> Counter[int] | None:
        if not self._sampling.penalised:
            return None
        counts = Counter(self._written)
        counts.update(self.tokens)
        return counts

    def proposal(self, num_draft_forwards: int) -> Proposal:
        """Return the chain with its laws."""
        return Proposal(
            tree=TokenTree.chain(self.tokens),
            draft_probs=tuple(self._laws),
            raw_draft=tuple(self._raw),
            num_draft_forwards=num_draft_forwards,
            evidence=(*confidences(self._sure), *self._early),
        )


def fed_chain(
    head: Any,
    session: Any,
    root: Any,
    count: int,
    chain: ChainDraft,
    rng: Randomness,
    length: ChainLength | None = None,
) -> Proposal:
    """Return a chain whose head reads its own last output and the token that it gave.

    An end of text cuts it short, and so may `length`: behind what was drawn, never before it.

    Args:
        head: makes rows of logits. session: its own, `root` just made: a `Drafted` of one row.
        count: most tokens, at least one. chain: still empty. length: where to stop; None: nowhere.
    """
    drafted = root
    for depth in range(1, count + 1):
        row = head.row(drafted.logits[0])
        token = chain.add(row, rng)
        if chain.ended or depth == count:
            break
        if length is not None and chain.stopped_by(length, row):
            break
        drafted = session.grow(drafted.features, [token], None, depth)
    return chain.proposal(len(chain.tokens))


class PlannedChainRun(HeadTreeRun):
    """One request of a head that drafts a chain after the last verified token.

    Args:
        head, kit: see `HeadTreeRun`. length: how long chains become.
        sampling: how the head's rows become laws; None: the request's.
    """

    def __init__(
        self, head: Any, kit: DraftKit, length: ChainLength, sampling: Sampling | None = None
    ) -> None:
        super().__init__(head, kit, chain_size(length.most))
        self._kit, self._length, self._of_draft = kit, length, sampling

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft as many tokens as planned, or fewer."""
        planned = self._length.plan()
        self.size = chain_size(planned)
        proposal = super().propose(room, rng)
        self._length.drafted(len(proposal.tree))
        shown = self._length.evidence(planned)
        return replace(proposal, evidence=(*shown, *proposal.evidence)) if shown else proposal

    def draft(self, root: Any, size: TreeSize, room: Room, rng: Randomness) -> Proposal:
        """Draft token by token; the head reads its own last output and the token it gave."""
        chain = ChainDraft(self._kit, room, self._of_draft)
        count = size.longest_chain
        return fed_chain(self.head, self.session, root, count, chain, rng, self._length)

    def observe(self, feedback: Feedback) -> None:
        """Learn how long the chain should have been, and feed what the target showed."""
        self._length.observe(len(feedback.proposal.tree), len(feedback.verdict.accepted))
        super().observe(feedback)

    def state_key(self) -> Hashable | None:
        """The features are a function of the text; what the length learned is not."""
        return self._length.state_key()


def chain_size(count: int) -> TreeSize:
    """Return the size of a chain."""
    return TreeSize(depth=count, top_k=1, total_tokens=count)
