"""The laws that follow the continuations of one prompt, many evaluated in one tree pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import NotEnoughMemory
from speclab.core.laws import Law, Row, Sampling
from speclab.core.sessions import Evaluates
from speclab.core.trees import PENDING, TokenTree

Text = tuple[int, ...]
PASS_NODES = 384
"""Tokens evaluated in one tree pass."""
PASS_TEXTS = 64
"""Texts evaluated in one batch by a model that cannot attend to a tree."""
BUDGET_BYTES = 768 * 1024**2
ROWS_BYTES = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class SparseLaw:
    """A law by its support, with the running sum that a draw needs.

    Attributes:
        tokens: ids of positive probability, ascending [n]. probs, cumulative: [n]. size: vocab.
    """

    tokens: NDArray[np.int64]
    probs: NDArray[np.float64]
    cumulative: NDArray[np.float64]
    size: int

    @classmethod
    def of(cls, law: Law) -> SparseLaw:
        """Keep what is positive; the running sum over zeros does not change."""
        tokens = np.flatnonzero(law)
        probs = law[tokens]
        return cls(tokens, probs, probs.cumsum(), len(law))

    def dense(self) -> Law:
        """Return the law [vocab], bit for bit."""
        law = np.zeros(self.size)
        law[self.tokens] = self.probs
        return law

    def prob(self, token: int) -> float:
        """Return the probability of a token."""
        place = int(self.tokens.searchsorted(token))
        found = place < len(self.tokens) and self.tokens[place] == token
        return float(self.probs[place]) if found else 0.0

    def draw(self, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the token [n] that `core.randomness.invert_cdf` gives for each uniform [n]."""
        place = self.cumulative.searchsorted(u * self.cumulative[-1], side="right")
        return self.tokens[np.minimum(place, len(self.tokens) - 1)]


class PrefixRows:
    """Laws after continuations of a prompt; those missing are evaluated together.

    Args:
        model: also what `MemoHandle` may wrap: `evaluate` answers for continuations of the prompt.
        prompt: token ids.
        sampling: makes the laws.
        keep_rows: hold the rows as well, within `ROWS_BYTES`, until `evaluate` hands them out.

    Attributes:
        num_hits, num_misses: laws asked for that were held, or not. num_passes: model passes.
    """

    def __init__(
        self,
        model: Evaluates,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        keep_rows: bool = False,
    ) -> None:
        self.model, self.prompt, self.sampling = model, tuple(prompt), sampling
        self.name, self.vocab_size = model.name, model.vocab_size
        self.max_context, self.provides = model.max_context, model.provides
        self.source = getattr(model, "source", "")
        self.num_parameters = getattr(model, "num_parameters", 0)
        self.num_hits = self.num_misses = self.num_passes = 0
        self._laws: dict[Text, SparseLaw] = {}
        self._rows: dict[Text, Row] | None = {} if keep_rows else None
        self._held_bytes = 0
        opens = hasattr(model, "open") and "tree_mask" in model.provides
        self._session = model.open(self.prompt) if opens else None  # type: ignore[attr-defined]

    def ensure(self, texts: Iterable[Text]) -> None:
        """Evaluate the continuations that are not held.

        Raises:
            NotEnoughMemory: beyond `BUDGET_BYTES`.
        """
        wanted = list(dict.fromkeys(texts))
        missing = [text for text in wanted if text not in self._laws]
        self.num_hits += len(wanted) - len(missing)
        self.num_misses += len(missing)
        for text, row in self._evaluated(missing):
            law = self._laws[text] = SparseLaw.of(row.law(self.sampling, _counts(text)))
            self._held_bytes += law.tokens.nbytes * 3
            size = row.logits.nbytes + 2 * law.size * 8
            if self._rows is not None and (1 + len(self._rows)) * size <= ROWS_BYTES:
                self._rows[text] = row
            if self._held_bytes > BUDGET_BYTES:
                raise NotEnoughMemory(
                    f"The laws of {len(self._laws)} texts do not fit into "
                    f"{BUDGET_BYTES // 1024**2} MiB.",
                    "Set top-k, or ask for fewer or shorter sequences.",
                    code="too_many_laws",
                    values={"texts": len(self._laws), "limit": BUDGET_BYTES // 1024**2},
                )

    def law(self, text: Text) -> SparseLaw:
        """Return the law after the prompt and `text`."""
        law = self._laws.get(text)
        if law is None:
            self.ensure([text])
            return self._laws[text]
        self.num_hits += 1
        return law

    def held(self, text: Text) -> SparseLaw | None:
        """Return the law if it is held; evaluates nothing."""
        return self._laws.get(text)

    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return, per sequence, the rows after its last `keep` tokens."""
        start = len(self.prompt)
        if any(len(seq) - k + 1 < start for seq, k in zip(sequences, keep, strict=True)):
            return self.model.evaluate(sequences, keep)
        texts = [
            [tuple(seq[start:end]) for end in range(len(seq) - k + 1, len(seq) + 1)]
            for seq, k in zip(sequences, keep, strict=True)
        ]
        held = self._rows or {}
        found = {text: held.pop(text) for line in texts for text in line if text in held}
        missing = dict.fromkeys(text for line in texts for text in line if text not in found)
        found.update(self._evaluated(list(missing)))
        return [[found[text] for text in line] for line in texts]

    def open(self, prompt: Sequence[int], taps: Sequence[str] = ()):
        """Open a session of the model itself."""
        return self.model.open(prompt, taps)  # type: ignore[attr-defined]

    def follow(self, other: PrefixRows, length: int, least: float, most: int) -> None:
        """Evaluate, in both, the texts that either model reaches with probability `least`.

        Args:
            other: the laws of the other model. length: texts shorter than this.
            most: texts to evaluate; the shorter and the likelier come first.
        """
        frontier: dict[Text, float] = {(): 1.0}
        for _ in range(length):
            likely = sorted(frontier, key=lambda text: -frontier[text])[:most]
            frontier = {text: frontier[text] for text in likely}
            most -= len(frontier)
            self.ensure(frontier)
            other.ensure(frontier)
            following: dict[Text, float] = {}
            for text, weight in frontier.items():
                for law in (self.law(text), other.law(text)):
                    for token, prob in zip(law.tokens.tolist(), law.probs.tolist()):
                        if weight * prob >= least:
                            longer = (*text, token)
                            following[longer] = max(following.get(longer, 0.0), weight * prob)
            frontier = following

    def close(self) -> None:
        """Release the session that the passes run in."""
        if self._session is not None:
            self._session.close()

    def _evaluated(self, texts: Sequence[Text]) -> Iterable[tuple[Text, Row]]:
        """Yield every text with its row."""
        if self._session is None:
            for begin in range(0, len(texts), PASS_TEXTS):
                part = texts[begin : begin + PASS_TEXTS]
                self.num_passes += 1
                whole = [[*self.prompt, *text] for text in part]
                for text, (row,) in zip(part, self.model.evaluate(whole, [1] * len(part))):
                    yield text, row
            return
        for tree, places in _trees(sorted(texts)):
            self.num_passes += 1
            scores = self._session.score(tree)
            for text, node in places.items():
                yield text, scores.row(1 + node)


def _counts(text: Text) -> dict[int, int]:
    return {token: text.count(token) for token in set(text)}


def _trees(texts: Sequence[Text]) -> Iterable[tuple[TokenTree, dict[Text, int]]]:
    """Yield trees that hold the texts, in lexical order, and the node of each."""
    nodes: dict[Text, int] = {}
    tokens: list[int] = []
    parents: list[int] = []
    wanted: dict[Text, int] = {}
    for text in texts:
        lacking = [text[:end] for end in range(1, len(text) + 1) if text[:end] not in nodes]
        if wanted and len(tokens) + len(lacking) > PASS_NODES:
            yield TokenTree(tuple(tokens), tuple(parents)), wanted
            nodes, tokens, parents, wanted = {}, [], [], {}
            lacking = [text[:end] for end in range(1, len(text) + 1)]
        for part in lacking:
            nodes[part] = len(tokens)
            tokens.append(part[-1])
            parents.append(nodes.get(part[:-1], PENDING))
        wanted[text] = nodes[text] if text else PENDING
    if wanted:
        yield TokenTree(tuple(tokens), tuple(parents)), wanted
