"""Drafts with a tokenizer of their own: fed with text, seen through the tokens that both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from speclab.core.laws import Row
from speclab.core.sessions import ModelHandle, Session
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.models.spelling import SameIds, Spelling, Tokens, common_prefix

SAMPLE_TEXT = (
    "Once upon a time there was a fox who lived near the river. One day she met a friend.\n\n"
    "def add(a, b):\n    return a + b\n"
)
"""On which the share of the draft's law that both vocabularies carry is measured."""

NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignDraft:
    """A draft model with another tokenizer than the target's.

    Attributes:
        model: in its own ids. spelling: between its ids and the target's.
        num_ids: of the draft's tokenizer.
        shared_mass: mean share of its law on tokens that the target has too, on `SAMPLE_TEXT`.
    """

    model: ModelHandle
    spelling: Spelling
    num_ids: int
    shared_mass: float

    @classmethod
    def of(
        cls, model: ModelHandle, own: Tokens, target: ModelHandle, theirs: Tokens
    ) -> ForeignDraft:
        """Compare the two vocabularies and run the draft over `SAMPLE_TEXT` once.

        Args:
            model: the draft. own: its tokenizer. target: the target. theirs: the target's.

        Raises:
            PairMismatch: if the two have no token in common.
        """
        reduced = getattr(model, "vocab_map", None)
        spelling = Spelling(
            theirs,
            own,
            target_size=target.vocab_size,
            draft_size=model.vocab_size,
            usable=None if reduced is None else reduced.proposed_targets.tolist(),
            names=(target.name, model.name),
        )
        ids = list(own.encode_plain(SAMPLE_TEXT))
        (rows,) = model.evaluate([ids], [len(ids)])  # type: ignore[attr-defined]
        masses = [row.raw()[spelling.shared_own].sum() for row in rows]
        return cls(
            model=model,
            spelling=spelling,
            num_ids=own.num_ids,
            shared_mass=float(np.mean(masses)),
        )


class OwnText:
    """A draft's session, kept on the draft's own ids of a text that grows and is cut.

    The text is tokenised anew from a place on that its ids before do not depend on: later
    characters can change earlier tokens (see `spelling.GrowingIds`). What is the same as before
    stays in the cache. Of a text longer than the draft's context the draft
    sees the end, which moves on by half a context at a time, behind what its tokenizer puts before
    every text.

    Args:
        model: the draft, in its own ids. spelling: what translates. reserve: tokens to leave free.
    """

    def __init__(
        self, model: ModelHandle, spelling: Spelling | SameIds, *, reserve: int = 0
    ) -> None:
        self._model, self._spelling = model, spelling
        self._own_ids = spelling.growing()
        self._limit = max(1, model.max_context - reserve)
        self.session: Session | None = None

    def follow(self, tokens: Sequence[int]) -> Session:
        """Return the session on the text of the target's `tokens`."""
        own = self._end_of(self._own_ids(tokens))
        session = self.session
        if session is not None:
            same = common_prefix(session.tokens, own)
            if same:
                if same < session.length:
                    session.rollback(same)
                if same < len(own):
                    session.extend(own[same:])
                return session
            session.close()
        self.session = session = self._model.open(own)
        return session

    def _end_of(self, own: list[int]) -> list[int]:
        start = self._spelling.start_ids
        start = start if len(start) < self._limit else ()
        text, limit = own[len(start) :], self._limit - len(start)
        surplus = len(text) - limit
        if surplus <= 0:
            return own
        step = max(1, limit // 2)
        return [*start, *text[-(-surplus // step) * step :]]

    def close(self) -> None:
        """Release the session."""
        if self.session is not None:
            self.session.close()
            self.session = None


class SharedRow(Row):
    """A draft's row in the target's ids; -inf where the two have no token in common.

    Where the draft excludes every shared token, all of them are as likely.

    Args:
        own: the row in the draft's ids. spelling: the shared ids. size: the target's vocabulary.
    """

    __slots__ = ("_own", "_shared_own")

    def __init__(self, own: Row, spelling: Spelling, size: int) -> None:
        shared = own.logits[spelling.shared_own]
        if shared.max() == -np.inf:
            shared = np.zeros_like(shared)
        logits = np.full(size, -np.inf, dtype=shared.dtype)
        logits[spelling.shared_target] = shared
        super().__init__(logits)
        self._own, self._shared_own = own, spelling.shared_own

    @property
    def shared_mass(self) -> float:
        """Share of the draft's own law on the shared tokens."""
        return float(self._own.raw()[self._shared_own].sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class IntersectionHandle:
    """A foreign draft as a draft in the target's ids: its law on the tokens that both have.

    All other tokens of the draft are forbidden and the rest is renormalised, so the law is honest:
    whatever is drawn is drawn from it. Methods need not know that there are two tokenizers.

    **Source:** Timor et al. 2502.05202, algorithm 4 (TLI), lines 1-4.
    **Deviation:** drafted tokens too are fed as text that is tokenised anew, so that the law is a
    function of the text.
    """

    foreign: ForeignDraft
    vocab_size: int
    provides: frozenset[str] = frozenset({"rollback", "path_batch"})
    max_context: int = NO_LIMIT
    name: str = field(init=False)
    source: str = field(init=False)
    num_parameters: int = field(init=False)

    def __post_init__(self) -> None:
        model = self.foreign.model
        object.__setattr__(self, "name", model.name)
        object.__setattr__(self, "source", getattr(model, "source", ""))
        object.__setattr__(self, "num_parameters", getattr(model, "num_parameters", 0))

    def open(self, prompt: Sequence[int], taps: Sequence[str] = ()) -> IntersectionSession:
        """Prefill the draft with the text of the prompt."""
        return IntersectionSession(self, prompt)

    def row(self, own: Row) -> SharedRow:
        """Return a row of the draft in the target's ids."""
        return SharedRow(own, self.foreign.spelling, self.vocab_size)

    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return, per sequence, the rows after its last `keep` tokens."""
        ends = [
            sequence[: len(sequence) - back]
            for sequence, count in zip(sequences, keep, strict=True)
            for back in reversed(range(count))
        ]
        own_ids = self.foreign.spelling.growing()
        own = [own_ids(text) for text in ends]
        rows = self.foreign.model.evaluate(own, [1] * len(own))  # type: ignore[attr-defined]
        made = iter([self.row(row) for (row,) in rows])
        return [[next(made) for _ in range(count)] for count in keep]


class IntersectionScores:
    """Rows of one pass, made when they are asked for; see `core.sessions.Scores`."""

    def __init__(
        self, session: IntersectionSession, tree: TokenTree, passengers: TokenTree
    ) -> None:
        self._session, self._text = session, tuple(session.tokens)
        self._tree, self._passengers = tree, passengers
        self._rows: dict[int, Row] = {}

    def row(self, index: int) -> Row:
        """Row 0 follows the pending token, row 1 + i follows node i."""
        if index not in self._rows:
            path = self._tree.path_tokens(index - 1)
            self._rows[index] = self._session.row_after((*self._text, *path))
        return self._rows[index]

    def passenger_row(self, index: int) -> Row:
        """Row after passenger `index`."""
        return self._session.row_after((*self._text, *self._passengers.path_tokens(index)))

    def features(self, path: Sequence[int]) -> dict[str, NDArray]:
        """None: the states of the draft belong to its own tokens."""
        return {}


class IntersectionSession:
    """One request's text in the target's ids over a session in the draft's own."""

    def __init__(self, handle: IntersectionHandle, prompt: Sequence[int]) -> None:
        self.handle, self.tokens = handle, list(prompt)
        self._text = OwnText(handle.foreign.model, handle.foreign.spelling)
        self._text.follow(self.tokens)
        self._scored: TokenTree = EMPTY_TREE

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    @property
    def cache_length(self) -> int:
        """Committed tokens before the pending one; the draft's cache counts its own."""
        return len(self.tokens) - 1

    def row_after(self, tokens: Sequence[int]) -> SharedRow:
        """Return the row that follows a text of target ids."""
        return self.handle.row(self._text.follow(tokens).score().row(0))

    def score(
        self, tree: TokenTree = EMPTY_TREE, passengers: TokenTree = EMPTY_TREE
    ) -> IntersectionScores:
        """Return the rows of a tree; each is evaluated when it is asked for."""
        self._scored = tree
        return IntersectionScores(self, tree, passengers)

    def commit(self, path: Sequence[int], next_token: int) -> None:
        """Keep the nodes of `path` and append `next_token`."""
        kept = [self._scored.tokens[node] for node in path]
        self._scored = EMPTY_TREE
        self.tokens += [*kept, next_token]

    def rollback(self, length: int) -> None:
        """Forget every token from position `length` on."""
        self._scored = EMPTY_TREE
        del self.tokens[length:]

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens; the next row asked for feeds their text."""
        self._scored = EMPTY_TREE
        self.tokens += tokens

    def close(self) -> None:
        """Release the draft's session."""
        self._text.close()
