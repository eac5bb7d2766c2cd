"""Thousands of requests of one prompt decoded together, token for token as the loop decodes each.

Every request is decoded by rounds of draft, test and commit with uniforms of its own. Requests that
stand at the same text share its laws and the table of the rule's coins there; nothing is drawn from
the target but what the rule draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from speclab.core.laws import Row, Sampling
from speclab.core.protocols import NO_PROPOSAL, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.rows import TargetRows
from speclab.core.trees import TokenTree
from speclab.engine.coin_table import CoinTable, split_cases
from speclab.engine.prefix_rows import PrefixRows, SparseLaw, Text

PLACE_BY_PLACE = frozenset(
    {
        "token",
        "one-hot",
        "match",
        "siblings-iid",
        "siblings-without-replacement",
        "k-seq",
        "lenience",
        "threshold",
        "threshold-log-ratio",
        "broken-redraw-after-mismatch",
        "broken-redraw-from-p",
        "broken-softmax-residual",
        "broken-wrong-temperature",
        "broken-undrawing",
        "broken-accept-above-q",
    }
)
"""Rules that judge a drawn chain one place after the other from p and q alone. For each, a test
compares this sampler with the decode loop on the same uniforms."""

KEPT = -1
"""Result of a table where the drafted token is accepted."""

Ints = NDArray[np.int64]


class _AskedBelow(Exception):
    """The rule looks below the drafted token: it has accepted it."""


@dataclass(slots=True)
class _Place:
    """A text after the prompt: its node in the tree of texts.

    Attributes:
        parent: the text without its last token. children: by next token.
        impossible: whether the target forbids it; None: not asked yet.
    """

    text: Text
    parent: int
    children: dict[int, int] = field(default_factory=dict)
    impossible: bool | None = None


class TextTree:
    """The texts met so far, numbered; shared by the samplers of several rules."""

    def __init__(self) -> None:
        self.places = [_Place((), -1)]

    def child(self, place: int, token: int) -> int:
        """Return the number of the text that is one token longer."""
        here = self.places[place]
        found = here.children.get(token)
        if found is None:
            found = here.children[token] = len(self.places)
            self.places.append(_Place((*here.text, token), place))
        return found

    def text(self, place: int) -> Text:
        """Return the tokens after the prompt."""
        return self.places[place].text


class ChainSampler:
    """Decodes many requests at once: a draft model's chain under a rule that goes place by place.

    Args:
        target, draft: laws after each text; the draft's under its own sampling.
        rule: one of `PLACE_BY_PLACE`.
        texts: shared by samplers of one prompt.
        gamma: most tokens drafted per round.
        length: most tokens emitted. eos_ids: ids that end the text.
        min_confidence: stop drafting after a token whose q is below it.
        go_on: continue after a token that the target forbids, as the loop does; False: stop there,
            since what a test can learn from this request is known.
    """

    def __init__(
        self,
        target: PrefixRows,
        draft: PrefixRows,
        rule: VerifyRule,
        texts: TextTree,
        *,
        gamma: int,
        length: int,
        eos_ids: frozenset[int],
        min_confidence: float = 0.0,
        go_on: bool = True,
    ) -> None:
        self._target, self._draft, self._rule, self._texts = target, draft, rule, texts
        self._eos, self._min_confidence = eos_ids, min_confidence
        self._gamma, self._go_on = gamma, go_on
        prompt = len(target.prompt)
        self._length = min(length, target.max_context - prompt)
        self._draft_length = draft.max_context - prompt
        self._tables: dict[tuple[int, int], CoinTable] = {}
        self.num_rounds = 0

    @property
    def num_columns(self) -> int:
        """Most uniforms that one request takes."""
        depths = [min(self._gamma, left - 1) for left in range(1, self._length + 1)]
        return sum(2 * depth + 3 for depth in depths)

    def sample(self, uniforms: NDArray[np.float64]) -> list[Text]:
        """Return what the request of each column of uniforms [num_columns, n] emits."""
        count = uniforms.shape[1]
        at, start = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        depth = np.zeros(count, dtype=np.int64)
        alive = np.arange(count if self._length > 0 else 0)
        while len(alive):
            self.num_rounds += len(alive)
            path, drafted = self._draft_chains(uniforms, start, at, depth, alive)
            at[alive] = self._judge(uniforms, start, at, path, drafted, alive)
            depth[alive] = [len(self._texts.text(place)) for place in at[alive].tolist()]
            ended = depth[alive] >= self._length
            if self._eos:
                last = (self._texts.text(place)[-1] for place in at[alive].tolist())
                ended |= np.array([token in self._eos for token in last], dtype=bool)
            if not self._go_on:
                ended |= np.array([self._impossible(place) for place in at[alive].tolist()])
            alive = alive[~ended]
        return [self._texts.text(place) for place in at.tolist()]

    def _impossible(self, place: int) -> bool:
        """Return whether some token of a text has probability zero, as far as laws are held."""
        here = self._texts.places[place]
        if here.impossible is None:
            law = None
            if here.text:
                law = self._target.held(here.text[:-1])
            above = bool(here.text) and self._impossible(here.parent)
            here.impossible = above or (law is not None and law.prob(here.text[-1]) == 0.0)
        return here.impossible

    def _draft_chains(
        self, uniforms: NDArray, start: Ints, at: Ints, depth: Ints, alive: Ints
    ) -> tuple[Ints, Ints]:
        """Draw every living request's chain; return its places [gamma+1, n] and its length [n]."""
        room = np.minimum(self._length - depth - 1, self._draft_length - depth)
        room = np.minimum(room, self._gamma)
        path = np.zeros((self._gamma + 1, len(at)), dtype=np.int64)
        drafted, here = np.zeros(len(at), dtype=np.int64), at.copy()
        going = alive
        for step in range(self._gamma):
            going = going[room[going] > step]
            if not len(going):
                break
            groups = split_cases(here[going], going)
            self._draft.ensure(self._texts.text(place) for place, _ in groups)
            stopped = np.zeros(len(at), dtype=bool)
            for place, cases in groups:
                law = self._draft.law(self._texts.text(place))
                drawn = law.draw(uniforms[start[cases], cases])
                for token, those in split_cases(drawn, cases):
                    here[those] = self._texts.child(place, token)
                    stopped[those] = self._stops(token, law)
            start[going] += 1
            path[step, going] = here[going]
            drafted[going] += 1
            going = going[~stopped[going]]
        return path, drafted

    def _stops(self, token: int, law: SparseLaw) -> bool:
        return token in self._eos or law.prob(token) < self._min_confidence

    def _judge(
        self, uniforms: NDArray, start: Ints, at: Ints, path: Ints, drafted: Ints, alive: Ints
    ) -> Ints:
        """Test every chain and draw its last token; return the places reached [living]."""
        here, going = at.copy(), alive
        for step in range(self._gamma + 1):
            if not len(going):
                break
            places = np.unique(here[going]).tolist()
            self._target.ensure(self._texts.text(place) for place in places)
            last = going[drafted[going] == step]
            for place, cases in split_cases(here[last], last):
                for token, those in self._table(place, KEPT).walk(uniforms, cases, start):
                    here[those] = self._texts.child(place, token)
            tested = going[drafted[going] > step]
            on: list[Ints] = []
            for place, cases in split_cases(path[step, tested], tested):
                below = self._texts.places[place]
                table = self._table(below.parent, below.text[-1])
                for token, those in table.walk(uniforms, cases, start):
                    if token == KEPT:
                        here[those] = place
                        if below.text[-1] not in self._eos:
                            on.append(those)
                    else:
                        here[those] = self._texts.child(below.parent, token)
            going = np.concatenate(on) if on else going[:0]
        return here[alive]

    def _table(self, place: int, token: int) -> CoinTable:
        """Return the rule's coins at a place for a drafted token; KEPT: for none."""
        table = self._tables.get((place, token))
        if table is None:
            table = CoinTable(lambda rng: self._rule_at(place, token, rng))
            self._tables[place, token] = table
        return table

    def _rule_at(self, place: int, token: int, rng: Randomness) -> int:
        """Run the rule on a chain of one token, up to where it would look below it."""
        text = self._texts.text(place)
        target = _Known(self._target.law(text).dense())

        def row(index: int) -> Row:
            if index:
                raise _AskedBelow
            return target

        proposal = NO_PROPOSAL
        if token != KEPT:
            draft = self._draft.law(text).dense()
            proposal = Proposal(tree=TokenTree((token,), (-1,)), draft_probs=(draft,))
        rows = TargetRows(row, self._target.sampling, proposal.tree)
        try:
            return self._rule.verify(
                rows, proposal, rng, len(self._target.prompt) + len(text)
            ).next_token
        except _AskedBelow:
            return KEPT


class _Known(Row):
    """A row whose processed law is known."""

    def law(self, sampling: Sampling, counts: object = None) -> NDArray[np.float64]:
        """Return it."""
        return self.logits


def texts_of(sampled: Iterable[Text]) -> dict[Text, int]:
    """Return how often each text was emitted."""
    counts: dict[Text, int] = {}
    for text in sampled:
        counts[text] = counts.get(text, 0) + 1
    return counts
