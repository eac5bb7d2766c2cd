"""The target's laws at the nodes of a draft tree, processed only when asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from speclab.core.laws import Law, Row, Sampling, penalise
from speclab.core.trees import TokenTree


class TargetRows:
    """Lazily processed target laws: `rows[0]` follows the pending token, `rows[1+i]` node i.

    Args:
        row: returns the unprocessed row of an index.
        sampling: the request's settings.
        tree: the tree that was scored.
        generated: tokens generated before this round, counted; penalties of node i see these and
            the tokens on node i's own path.

    Attributes:
        used: per tested node the two laws that its coin really used, as the rule noted them;
            the second is None where the rule took the proposal as one-hot.
        left: per refused node the weights [vocab] that take the target's place after it, as the
            rule noted them; they need not sum to 1.
    """

    __slots__ = ("_generated", "_laws", "_row", "_sampling", "_tree", "left", "used")

    def __init__(
        self,
        row: Callable[[int], Row],
        sampling: Sampling,
        tree: TokenTree,
        generated: Counter[int] | None = None,
    ) -> None:
        self._row, self._sampling, self._tree = row, sampling, tree
        self._generated = generated
        self._laws: dict[int, Law] = {}
        self.used: dict[int, tuple[Law, Law | None]] = {}
        self.left: dict[int, Law] = {}

    def __getitem__(self, index: int) -> Law:
        law = self._laws.get(index)
        if law is None:
            law = self._laws[index] = self._row(index).law(self._sampling, self.counts(index))
        return law

    def counts(self, index: int) -> Counter[int] | None:
        """Tokens generated before row `index`, counted; None when no penalty looks at them."""
        if not self._sampling.penalised:
            return None
        counts = Counter(self._generated)
        counts.update(self._tree.path_tokens(index - 1))
        return counts

    def note(self, node: int, target: Law, draft: Law | None) -> None:
        """Keep the laws that a node's coin uses, for whoever records the round."""
        self.used[node] = (target, draft)

    def note_left(self, node: int, weights: Law) -> None:
        """Keep the weights that are left after the refusal of a node."""
        self.left[node] = weights

    def raw(self, index: int) -> Law:
        """The target's law before processing [vocab]."""
        return self._row(index).raw()

    def judged_logits(self, index: int) -> Law:
        """The logits after penalties, before temperature and filters [vocab]."""
        counts = self.counts(index)
        logits = self._row(index).logits
        return penalise(logits, self._sampling, counts) if counts else logits

    def row(self, index: int) -> Row:
        """The unprocessed row."""
        return self._row(index)
