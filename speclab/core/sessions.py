"""What models promise: handles open sessions, sessions score trees and keep what was accepted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from numpy.typing import NDArray

from speclab.core.laws import Row
from speclab.core.trees import EMPTY_TREE, TokenTree


class Scores(Protocol):
    """The result of one target pass over the pending token, a tree and its passengers."""

    def row(self, index: int) -> Row:
        """Row 0 follows the pending token, row 1 + i follows node i."""

    def passenger_row(self, index: int) -> Row:
        """Row after passenger `index`."""

    def features(self, path: Sequence[int]) -> Mapping[str, NDArray]:
        """Features per tap [len(path)+1, hidden] of the pending token and the nodes of `path`."""


class Shallow(Protocol):
    """Part of a target's network, run ahead of its pass over a cache that is the session's own.

    `session.shallow(exit_layer)` is its first layers: the next `session.score` resumes after them
    for every token they have seen, wherever its tree begins with the same nodes.
    `session.skipping(...)` leaves sublayers out: `score` runs everything again.
    `session.quantised(group_size)` is the whole network with 4-bit weights on a 4-bit reading of
    the cache; `score` runs everything again.
    What was run is forgotten at `score`, `commit`, `rollback` and `extend` of the session.

    Attributes:
        exit_layer: layers run, 1 to num_layers - 1; num_layers for the other two.
        num_layers: of the whole target.
    """

    exit_layer: int
    num_layers: int

    @property
    def hidden(self) -> NDArray:
        """Hidden states [1+nodes, hidden] of the pending token and the nodes run since `commit`."""

    def extend(self, tree: TokenTree = EMPTY_TREE) -> NDArray:
        """Run what is new: the pending token at first, and the nodes of `tree` not yet run.

        A tree that does not begin with the nodes already run keeps those that are the same.

        Returns:
            Hidden states [new tokens, hidden] before the final norm, the pending token first.
        """

    def logits(self, hidden: NDArray, *, normed: bool = False) -> NDArray:
        """Return the target's head over hidden states: rows [n, vocab] in the target's ids.

        Args:
            hidden: [n, hidden]. normed: the final norm is left out.
        """


class Session(Protocol):
    """One request's state of one model.

    At a round boundary of the target the cache holds every token but the last (the pending one).
    A draft's cache may lag further; `score` first feeds what is missing.
    """

    tokens: list[int]

    @property
    def length(self) -> int:
        """Committed tokens."""

    @property
    def cache_length(self) -> int:
        """Tokens whose keys and values are cached (at a round boundary)."""

    def score(self, tree: TokenTree = EMPTY_TREE, passengers: TokenTree = EMPTY_TREE) -> Scores:
        """Evaluate the tree in one pass; commits nothing."""

    def commit(self, path: Sequence[int], next_token: int) -> None:
        """Keep the nodes of `path` (of the tree last scored) and append `next_token`."""

    def rollback(self, length: int) -> None:
        """Forget every token from position `length` on."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens without evaluating them yet."""

    def close(self) -> None:
        """Release what the session holds."""


class LayeredSession(Session, Protocol):
    """A session whose layers can be run one by one."""

    def shallow(self, exit_layer: int) -> Shallow:
        """Return the first `exit_layer` layers, after which the next pass resumes."""

    def skipping(self, attention: Collection[int], mlp: Collection[int]) -> Shallow:
        """Return all layers but the attention, or the MLP, of some."""

    def quantised(self, group_size: int) -> Shallow:
        """Return the whole network at 4 bits: weights by groups, and the cache."""


class ModelHandle(Protocol):
    """A model that can open sessions.

    Attributes:
        name: as shown to people.
        vocab_size: width of its rows, in the target's token ids.
        max_context: most tokens it can attend to.
        provides: of {"tree_mask", "path_batch", "hidden", "rollback", "early_exit", "skip_layers",
            "quantised_draft", ...}; with the last three its sessions are `LayeredSession`s.
    """

    name: str
    vocab_size: int
    max_context: int
    provides: frozenset[str]

    def open(self, prompt: Sequence[int], taps: Sequence[str] = ()) -> Session:
        """Prefill all but the last prompt token and return the session."""


class Evaluates(Protocol):
    """A model that can evaluate whole sequences without a cache."""

    name: str
    vocab_size: int
    max_context: int
    provides: frozenset[str]

    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return, per sequence, the rows after its last `keep` tokens."""
