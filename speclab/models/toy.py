"""Toy models: Markov tables with the session protocol of real ones, small enough to enumerate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import Law, Row
from speclab.core.trees import EMPTY_TREE, TokenTree

FEATURE_TAP = "hidden[-1]"
"""The toy's only tap: the log-probabilities that follow a token [vocab]."""


@dataclass(frozen=True, slots=True)
class ToyModel:
    """A table from the last `order` tokens to a law.

    Attributes:
        laws: law [vocab_size] per context, shorter contexts included.
        order: how many tokens the table looks at.
    """

    laws: Mapping[tuple[int, ...], Law]
    order: int
    vocab_size: int
    name: str = "toy"
    max_context: int = 1_000_000
    provides: frozenset[str] = frozenset({"tree_mask", "hidden", "rollback", "early_exit"})
    passes: list[int] = field(default_factory=list)
    rows: dict[tuple[int, ...], Row] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def random(
        cls, seed: int, *, vocab_size: int = 3, order: int = 2, concentration: float = 0.7, **more
    ) -> ToyModel:
        """Build a table of Dirichlet laws."""
        generator = np.random.default_rng(seed)
        alpha = np.full(vocab_size, concentration)
        laws = {
            context: generator.dirichlet(alpha)
            for length in range(order + 1)
            for context in product(range(vocab_size), repeat=length)
        }
        return cls(laws, order, vocab_size, **more)

    @classmethod
    def constant(cls, law: Sequence[float], **more) -> ToyModel:
        """Build a model whose law never changes."""
        array = np.asarray(law, dtype=np.float64)
        return cls({(): array}, 0, len(array), **more)

    def law(self, context: Sequence[int]) -> Law:
        """Return the law [vocab_size] after `context`."""
        key = tuple(context[max(0, len(context) - self.order) :]) if self.order else ()
        return self.laws[key]

    def logits(self, context: Sequence[int]) -> NDArray[np.float64]:
        """Return log-probabilities [vocab_size] after `context`."""
        with np.errstate(divide="ignore"):
            return np.log(self.law(context))

    def row(self, context: Sequence[int]) -> Row:
        """Return the row after `context`; one of the table is made once."""
        if type(self).logits is not ToyModel.logits:
            return Row(self.logits(context))
        key = tuple(context[max(0, len(context) - self.order) :]) if self.order else ()
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = Row(self.logits(key))
        return row

    def open(self, prompt: Sequence[int], taps: Sequence[str] = ()) -> ToySession:
        """Open a session; all but the last prompt token are cached.

        Raises:
            BadInput: if the prompt is empty or longer than the context.
        """
        if not prompt:
            raise BadInput("The prompt is empty.", "Give at least one token.")
        if len(prompt) > self.max_context:
            raise BadInput(
                f"The prompt has {len(prompt)} tokens; {self.name} holds {self.max_context}."
            )
        return ToySession(self, list(prompt))

    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return, per sequence, the rows after its last `keep` tokens."""
        self.passes.append(sum(len(sequence) for sequence in sequences))
        return [
            [
                Row(self.logits(sequence[: end + 1]))
                for end in range(len(sequence) - k, len(sequence))
            ]
            for sequence, k in zip(sequences, keep, strict=True)
        ]


class ToyScores:
    """Rows of one toy pass; see `core.protocols.Scores`."""

    def __init__(self, session: ToySession, tree: TokenTree, passengers: TokenTree) -> None:
        self._model, self._base = session.model, tuple(session.context())
        self._tree, self._passengers = tree, passengers
        self._rows: dict[int, Row] = {}

    def row(self, index: int) -> Row:
        """Row 0 follows the pending token, row 1 + i follows node i."""
        row = self._rows.get(index)
        if row is None:
            row = self._model.row((*self._base, *self._tree.path_tokens(index - 1)))
            self._rows[index] = row
        return row

    def passenger_row(self, index: int) -> Row:
        """Row after passenger `index`."""
        return self._model.row((*self._base, *self._passengers.path_tokens(index)))

    def features(self, path: Sequence[int]) -> dict[str, NDArray]:
        """Log-probabilities after the pending token and after each node of `path`."""
        chosen = [self.row(0), *(self.row(1 + node) for node in path)]
        return {FEATURE_TAP: np.array([row.logits for row in chosen])}


class ToySession:
    """A toy session whose rows are computed from its cache, so that a wrong cache shows."""

    def __init__(self, model: ToyModel, prompt: list[int]) -> None:
        self.model = model
        self.tokens = prompt
        self.cache = prompt[:-1]
        self.shallow_cache: list[int] = []
        self._scored: TokenTree = EMPTY_TREE

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    @property
    def cache_length(self) -> int:
        """Cached tokens."""
        return len(self.cache)

    @property
    def prefill_features(self) -> dict[str, NDArray]:
        """Features of the cached tokens [cache_length, vocab]."""
        rows = [self.model.logits(self.cache[: i + 1]) for i in range(len(self.cache))]
        return {FEATURE_TAP: np.array(rows).reshape(len(rows), self.model.vocab_size)}

    def context(self) -> list[int]:
        """What a pass sees before the tree: the cache and the tokens not yet in it."""
        return self.cache + self.tokens[len(self.cache) :]

    def score(self, tree: TokenTree = EMPTY_TREE, passengers: TokenTree = EMPTY_TREE) -> ToyScores:
        """Evaluate the tree in one pass."""
        del self.cache[self.length - 1 :]
        self.model.passes.append(self.length - self.cache_length + len(tree) + len(passengers))
        self._scored = tree
        return ToyScores(self, tree, passengers)

    def commit(self, path: Sequence[int], next_token: int) -> None:
        """Keep `path` and append `next_token`."""
        kept = [self._scored.tokens[node] for node in path]
        self.cache = self.context() + kept
        self.tokens = [*self.tokens, *kept, next_token]
        self._scored = EMPTY_TREE

    def rollback(self, length: int) -> None:
        """Forget every token from position `length` on."""
        del self.tokens[length:]
        del self.cache[length:]
        del self.shallow_cache[length:]

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens without evaluating them."""
        self.tokens = [*self.tokens, *tokens]

    def shallow(self, exit_layer: int) -> ToyShallow:
        """Return the first `exit_layer` layers of this session (its keys and values are shared)."""
        return ToyShallow(self, exit_layer)

    def close(self) -> None:
        """Nothing to release."""


class ToyShallow:
    """The toy's early layers: they see one token only; their hidden state is its row."""

    def __init__(self, session: ToySession, exit_layer: int) -> None:
        self._session, self.exit_layer = session, exit_layer

    def extend(self, tree: TokenTree) -> NDArray[np.float64]:
        """Run the early layers over the pending token and `tree`; hidden states [n+1, vocab]."""
        session = self._session
        session.shallow_cache = list(session.context())
        tokens = [session.tokens[-1], *tree.tokens]
        return np.array([session.model.logits((token,)) for token in tokens])
