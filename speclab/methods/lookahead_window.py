"""Lookahead's 2-D window: the last Jacobi iterates of the tokens ahead, in one passenger tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.methods.jacobi import FirstGuesses
from speclab.methods.lookahead_pool import Suffix, until_end

Ngram = tuple[int, Suffix]
"""(first token, what followed it)."""


def window_tree(cells: Sequence[Sequence[int]], columns: int) -> TokenTree:
    """Return the window as passengers: cell (level, column) is number level * columns + column - 1.

    Cell (0, 0) is the pending token (-1). A cell of level 0 follows its left neighbour, any other
    one the cell of its column on the level before; so it sees level 0 up to its column, and its
    column up to itself.

    Args:
        cells: tokens by level and column. columns: how many of them, at least 1.

    **Source:** Fu et al. 2402.02057, the mask of the lookahead branch.
    """
    tokens = [level[column] for level in cells for column in range(columns)][1:]
    places = range(len(tokens))
    parents = [place - (1 if place < columns - 1 else columns) for place in places]
    return TokenTree(tuple(tokens), tuple(parents))


class Window:
    """Levels of guesses, the oldest first; a cell stands level + column after the pending token.

    Args:
        width: columns once all levels are there (W).
        levels: how many levels (N - 1).
        prompt: where first guesses come from.
        position: absolute position of the pending token.
        pending: the pending token.
        eos: tokens that end a text; none of them stays in a cell.
        by_accepted: move on by as many columns as tokens were accepted, not by one place a pass.
    """

    def __init__(
        self,
        width: int,
        levels: int,
        prompt: FirstGuesses,
        position: int,
        pending: int,
        eos: frozenset[int],
        by_accepted: bool = False,
    ) -> None:
        self._by_accepted = by_accepted
        self._width, self._levels, self._prompt, self._eos = width, levels, prompt, eos
        self._position, self._columns = position, 0
        self._begin(pending)

    def _begin(self, pending: int) -> None:
        """Begin with one level of first guesses."""
        self._cells: list[list[int]] = [[]]
        self._predicted: list[int] = []
        self._fill(pending)

    def _fill(self, pending: int) -> None:
        """Add columns of first guesses on the right; one more for each level that is missing."""
        columns = self._width + self._levels - len(self._cells)
        for level, tokens in enumerate(self._cells):
            for column in range(len(tokens), columns):
                tokens.append(self._prompt.at(self._position + level + column))
        self._predicted += [0] * (columns - len(self._predicted))
        self._cells[0][0] = pending

    def passengers(self, depth: int, nodes: int) -> TokenTree:
        """Return the window for the next pass, with as many columns as there is room for.

        Args:
            depth: how far beyond the pending token it may reach; a window that could not be
                filled before that is not begun.
            nodes: how many passengers there may be.
        """
        height = len(self._cells)
        room = min(depth - height + 2, (nodes + 1) // height)
        begun = height > 1 or depth >= self._levels
        self._columns = max(0, min(len(self._cells[0]), room)) if begun else 0
        return window_tree(self._cells, self._columns) if self._columns else EMPTY_TREE

    @property
    def columns(self) -> int:
        """Columns that ride in the pass, the pending token's included; 0: none."""
        return self._columns

    def advance(self, top: Callable[[int], int], emitted: Sequence[int]) -> list[Ngram]:
        """Add the next iterate, follow the text, and return the n-grams that became complete.

        A new level holds what the target says after every cell of the last one. Before all levels
        are there the first ones stay and lose a column, which is a step ahead; then the oldest goes
        in its place. Moved by accepted tokens as well, the window keeps its place in the text, but
        has to begin anew in as many columns; else its cells are guesses of what lay further back.
        An n-gram is a column from its first cell to the new one; those that still rest on first
        guesses are left out.

        Args:
            top: the target's most likely token after a passenger (-1: after the pending token).
            emitted: tokens that the pass added to the text.

        **Source:** Fu et al. 2402.02057, lookahead branch; hao-ai-lab/LookaheadDecoding.
        **Deviation:** their code, which moves by one place a pass, takes n-grams of first guesses.
        """
        columns, height = self._columns, len(self._cells)
        self._position += len(emitted)
        if not columns:
            self._begin(emitted[-1])
            return []
        newest = [top((height - 1) * columns + column - 1) for column in range(columns)]
        found: list[Ngram] = []
        full = height == self._levels
        if full:
            for column, token in enumerate(newest):
                if self._predicted[column] >= self._levels - 1:
                    first, *middle = (level[column] for level in self._cells)
                    found.append((first, until_end((*middle, token), self._eos)))
        cells = [*self._cells, newest][full:]
        shift = (len(emitted) if self._by_accepted else 1) - full
        self._cells = [level[shift:columns] for level in cells]
        self._predicted = [count + 1 for count in self._predicted[shift:columns]]
        self._leave_out_ends()
        self._fill(emitted[-1])
        return found

    def _leave_out_ends(self) -> None:
        """Put a first guess where the newest level would end the text: nothing follows an end."""
        newest, level = self._cells[-1], len(self._cells) - 1
        for column, token in enumerate(newest):
            if token in self._eos:
                newest[column] = self._prompt.at(self._position + level + column)
                self._predicted[column] = 0

    def key(self) -> Hashable:
        """Return everything that later n-grams depend on besides the text."""
        full = tuple(min(count, self._levels) for count in self._predicted)
        return tuple(map(tuple, self._cells)), full
