"""A chain drafted token by token from the rows of a head: drawn, or chosen at temperature 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from speclab.core.laws import Law, Row
from speclab.core.protocols import DraftKit, LocalText, Param, Proposal, Room
from speclab.core.randomness import Randomness
from speclab.core.trees import TokenTree
from speclab.methods.head_tree import confidences


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

    Attributes:
        tokens: drafted so far.
    """

    def __init__(self, kit: DraftKit, room: Room) -> None:
        self._sampling, self._eos = kit.sampling, kit.eos_ids
        self._written: Sequence[int] = room.context[len(kit.prompt) :]
        self.tokens: list[int] = []
        self._laws: list[Law | None] = []
        self._raw: list[Callable[[], Law]] = []
        self._sure: list[float] = []

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
            evidence=confidences(self._sure),
        )


def fed_chain(
    head: Any, session: Any, root: Any, count: int, chain: ChainDraft, rng: Randomness
) -> Proposal:
    """Return a chain whose head reads its own last output and the token that it gave.

    The length is settled before anything is drawn; only an end of text cuts it short.

    Args:
        head: makes rows of logits. session: its own, `root` just made: a `Drafted` of one row.
        count: most tokens, at least one. chain: still empty.
    """
    drafted = root
    for depth in range(1, count + 1):
        token = chain.add(head.row(drafted.logits[0]), rng)
        if chain.ended or depth == count:
            break
        drafted = session.grow(drafted.features, [token], None, depth)
    return chain.proposal(len(chain.tokens))
