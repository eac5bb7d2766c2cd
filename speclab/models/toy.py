"""Toy models: Markov tables with the session protocol of real ones, small enough to enumerate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import Law, Row
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.models.skips import check_exit, check_skips

FEATURE_TAP = "hidden[-1]"
"""The log-probabilities that follow a token in its context [vocab]."""

EARLY_TAP = "hidden[1]"
"""Those that follow the token alone: all that the toy's early layers see [vocab]."""

NUM_LAYERS = 4
"""Layers that a toy pretends to have, for methods that exit early."""


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
    provides: frozenset[str] = frozenset(
        {"tree_mask", "hidden", "rollback", "early_exit", "skip_layers", "quantised_draft"}
    )
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

    def early_states(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """Return what the early layers make of each token [len(tokens), vocab]."""
        rows = [self.row((token,)).logits for token in tokens]
        return np.array(rows).reshape(len(rows), self.vocab_size)

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
    """Rows of one toy pass; see `core.sessions.Scores`."""

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
        tokens = [self._base[-1], *(self._tree.tokens[node] for node in path)]
        late = np.array([row.logits for row in chosen])
        return {FEATURE_TAP: late, EARLY_TAP: self._model.early_states(tokens)}


class ToySession:
    """A toy session whose rows are computed from its cache, so that a wrong cache shows."""

    def __init__(self, model: ToyModel, prompt: list[int]) -> None:
        self.model = model
        self.tokens = prompt
        self.cache = prompt[:-1]
        self.ahead: list[tuple[int, int]] = []
        self.runner: ToyPart | None = None
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
        late = np.array(rows).reshape(len(rows), self.model.vocab_size)
        return {FEATURE_TAP: late, EARLY_TAP: self.model.early_states(self.cache)}

    def context(self) -> list[int]:
        """What a pass sees before the tree: the cache and the tokens not yet in it."""
        return self.cache + self.tokens[len(self.cache) :]

    def score(self, tree: TokenTree = EMPTY_TREE, passengers: TokenTree = EMPTY_TREE) -> ToyScores:
        """Evaluate the tree in one pass."""
        self.runner = None
        del self.cache[self.length - 1 :]
        self.model.passes.append(self.length - self.cache_length + len(tree) + len(passengers))
        self._scored = tree
        return ToyScores(self, tree, passengers)

    def commit(self, path: Sequence[int], next_token: int) -> None:
        """Keep `path` and append `next_token`."""
        kept = [self._scored.tokens[node] for node in path]
        self.cache = self.context() + kept
        self.tokens = [*self.tokens, *kept, next_token]
        self._scored, self.runner = EMPTY_TREE, None

    def rollback(self, length: int) -> None:
        """Forget every token from position `length` on."""
        del self.tokens[length:]
        del self.cache[length:]
        self.runner = None

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens without evaluating them."""
        self.tokens = [*self.tokens, *tokens]
        self.runner = None

    def shallow(self, exit_layer: int) -> ToyPart:
        """Return the first `exit_layer` layers of this session.

        Raises:
            BadInput: for a layer out of range.
        """
        check_exit(exit_layer, NUM_LAYERS, self.model.name)
        return ToyPart(self, exit_layer)

    def skipping(self, attention: Collection[int], mlp: Collection[int]) -> ToyPart:
        """Return all layers but the attention, or the MLP, of some."""
        check_skips(attention, mlp, NUM_LAYERS, self.model.name)
        return ToyPart(self, NUM_LAYERS)

    def quantised(self, group_size: int) -> ToyQuantised:
        """Return the table with its log-probabilities at sixteen levels per group of tokens."""
        return ToyQuantised(self, group_size)

    def close(self) -> None:
        """Nothing to release."""


class ToyPart:
    """Part of a toy run ahead: it sees one token only, and its hidden state is its row."""

    num_layers = NUM_LAYERS

    def __init__(self, session: ToySession, exit_layer: int) -> None:
        self._session, self.exit_layer = session, exit_layer

    def _known(self) -> list[tuple[int, int]]:
        return self._session.ahead if self._session.runner is self else []

    @property
    def hidden(self) -> NDArray[np.float64]:
        """States [1+nodes, vocab] of the pending token and the nodes run since `commit`."""
        return self._states([token for token, _ in self._known()])

    def _states(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        return self._session.model.early_states(tokens)

    def extend(self, tree: TokenTree = EMPTY_TREE) -> NDArray[np.float64]:
        """Run what is new of the pending token and `tree`; its states [new tokens, vocab]."""
        session, known = self._session, self._known()
        wanted = [(session.tokens[-1], -1), *zip(tree.tokens, tree.parents, strict=True)]
        same = 0
        while same < min(len(known), len(wanted)) and known[same] == wanted[same]:
            same += 1
        session.runner, session.ahead = self, wanted
        return self._states([token for token, _ in wanted[same:]])

    def logits(self, hidden: NDArray, *, normed: bool = False) -> NDArray[np.float64]:
        """Return the rows [n, vocab]: the states themselves."""
        return np.array(hidden, dtype=np.float64)


LOWEST_LOG = -9.0
"""Smaller log-probabilities are raised to this before they are rounded."""


class ToyQuantised(ToyPart):
    """The whole toy at 4 bits: it sees the text, and its rows have sixteen levels per group."""

    def __init__(self, session: ToySession, group_size: int) -> None:
        super().__init__(session, NUM_LAYERS)
        self._group_size = group_size

    def extend(self, tree: TokenTree = EMPTY_TREE) -> NDArray[np.float64]:
        """Run what is new of the pending token and `tree`; its states [new tokens, vocab]."""
        fresh = len(super().extend(tree))
        session, context = self._session, tuple(self._session.context())
        nodes = range(-1, len(tree))[len(tree) + 1 - fresh :]
        rows = [session.model.logits((*context, *tree.path_tokens(node))) for node in nodes]
        return np.array(rows).reshape(fresh, session.model.vocab_size)

    def logits(self, hidden: NDArray, *, normed: bool = False) -> NDArray[np.float64]:
        """Return the rows [n, vocab], each group rounded to levels between its extremes."""
        rows = np.maximum(np.array(hidden, dtype=np.float64), LOWEST_LOG)
        for start in range(0, rows.shape[1], self._group_size):
            group = rows[:, start : start + self._group_size]
            low, high = group.min(1, keepdims=True), group.max(1, keepdims=True)
            step = np.where(high > low, (high - low) / 15, 1.0)
            rows[:, start : start + self._group_size] = low + step * np.round((group - low) / step)
        return rows
