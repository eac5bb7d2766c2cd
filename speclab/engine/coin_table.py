"""Code that is random through two verbs, turned into a table of what it asks and what follows.

The code itself runs once for every node of the table, stopping at the first question that has no
answer yet; thousands of cases then walk the table together, one numpy operation per node.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.laws import Law
from speclab.core.races import race_winners
from speclab.core.randomness import Flip, Noise, Place, Randomness, invert_cdf

Outcome = bool | int
"""What one verb gave: accepted or not, or a token id."""


class _Asked(Exception):
    """Carries the first question without an answer out of the code that asked."""

    def __init__(self, node: Node) -> None:
        self.node = node
        super().__init__()


@dataclass(slots=True, eq=False)
class Node:
    """A question, or an end.

    Attributes:
        path: the answers that lead here.
        prob: of a coin; None elsewhere.
        law: of a draw [vocab]; None elsewhere. noise, place: of the draw.
        tokens: where the law is positive; cumulative: its running sum there.
        result: what the code returned; None while it asks.
        follow: node by answer, filled as answers come up.
    """

    path: tuple[Outcome, ...]
    prob: float | None = None
    law: Law | None = None
    noise: Noise = "inverse"
    place: Place | None = None
    tokens: NDArray[np.int64] | None = None
    cumulative: NDArray[np.float64] | None = None
    result: Any = None
    follow: dict[Outcome, Node] = field(default_factory=dict)

    @property
    def ends(self) -> bool:
        """Whether nothing more is asked."""
        return self.prob is None and self.tokens is None

    def answers(self, u: NDArray[np.float64]) -> NDArray:
        """Return what each uniform [n] answers: bool [n] for a coin, token ids [n] for a draw."""
        if self.prob is not None:
            return u < self.prob
        assert self.tokens is not None and self.cumulative is not None
        if self.noise == "gumbel":
            return race_winners(self.law, u)  # type: ignore[arg-type]
        place = self.cumulative.searchsorted(u * self.cumulative[-1], side="right")
        return self.tokens[np.minimum(place, len(self.tokens) - 1)]


class Probe:
    """Answers from a given path, then stops the code at its next question.

    A second draw from one law at one place has its first answer, as its noise is the same.
    """

    def __init__(self, path: tuple[Outcome, ...]) -> None:
        self._path, self._next = path, 0
        self._placed: dict[tuple[Place, Noise, bytes], int] = {}

    def _answer(self, question: Node) -> Outcome:
        if self._next == len(self._path):
            raise _Asked(question)
        self._next += 1
        return self._path[self._next - 1]

    def flip(self, prob: float, at: Place | None = None) -> Flip:
        """Return the path's next answer."""
        return Flip(bool(self._answer(Node(self._path, prob=float(prob)))), None)

    def draw(
        self, probs: NDArray[np.float64], at: Place | None = None, noise: Noise = "inverse"
    ) -> int:
        """Return the path's next answer."""
        key = None if at is None else (at, noise, probs.tobytes())
        if key in self._placed:
            return self._placed[key]
        if self._next == len(self._path):
            raise _Asked(_draw_node(self._path, probs, noise, at))
        token = int(self._answer(Node(self._path)))
        if key is not None:
            self._placed[key] = token
        return token


def _draw_node(path: tuple[Outcome, ...], probs: Law, noise: Noise, at: Place | None) -> Node:
    """Return the question of a draw; the running sum over zeros does not change."""
    invert_cdf(probs, 0.0)
    tokens = np.flatnonzero(probs)
    return Node(
        path,
        law=probs.copy() if noise == "gumbel" else None,
        noise=noise,
        place=at,
        tokens=tokens,
        cumulative=probs[tokens].cumsum(),
    )


class CoinTable:
    """The table of one piece of code.

    Args:
        run: the code; random only through its argument, and without lasting effects.

    Attributes:
        root: its first question. num_nodes: questions and ends met so far.
    """

    def __init__(self, run: Callable[[Randomness], Any]) -> None:
        self._run, self.num_nodes = run, 0
        self.root = self._visit(())

    def _visit(self, path: tuple[Outcome, ...]) -> Node:
        self.num_nodes += 1
        try:
            return Node(path, result=self._run(Probe(path)))
        except _Asked as asked:
            return asked.node

    def after(self, node: Node, answer: Outcome) -> Node:
        """Return what follows an answer."""
        found = node.follow.get(answer)
        if found is None:
            found = node.follow[answer] = self._visit((*node.path, answer))
        return found

    def walk(
        self, uniforms: NDArray[np.float64], cases: NDArray[np.int64], start: NDArray[np.int64]
    ) -> list[tuple[Any, NDArray[np.int64]]]:
        """Walk many cases to their ends.

        Args:
            uniforms: [columns, all cases]; each verb takes the next column of its case, or that
                of an earlier draw at the same place.
            cases: which cases walk [n].
            start: first column of each case [all cases]; moved on to the first one not used.

        Returns:
            The result of every end that was reached, with its cases.
        """
        ended: list[tuple[Any, NDArray[np.int64]]] = []
        todo: list[tuple[Node, NDArray[np.int64], dict[Place, NDArray[np.int64]]]] = [
            (self.root, cases, {})
        ]
        while todo:
            node, here, placed = todo.pop()
            if node.ends:
                ended.append((node.result, here))
                continue
            columns = placed.get(node.place) if node.place is not None else None
            if columns is None:
                if node.place is not None:
                    placed = {**placed, node.place: start.copy()}
                u = uniforms[start[here], here]
                start[here] += 1
            else:
                u = uniforms[columns[here], here]
            for answer, those in split_cases(node.answers(u), here):
                todo.append((self.after(node, answer), those, placed))
        return ended


def split_cases(
    answers: NDArray, cases: NDArray[np.int64]
) -> list[tuple[Outcome, NDArray[np.int64]]]:
    """Return the cases of each answer."""
    if not len(answers):
        return []
    if len(answers) == 1:
        return [(answers[0].item(), cases)]
    if answers.dtype == np.bool_:
        parts = [(True, cases[answers]), (False, cases[~answers])]
        return [(answer, those) for answer, those in parts if len(those)]
    order = answers.argsort(kind="stable")
    ranked = answers[order]
    breaks = np.flatnonzero(ranked[1:] != ranked[:-1]) + 1
    edges = [0, *breaks.tolist(), len(ranked)]
    return [(int(ranked[low]), cases[order[low:high]]) for low, high in itertools.pairwise(edges)]
