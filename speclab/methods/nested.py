"""Drafting on several levels: a draft model that is itself speculated, above a table of the text.

Every level follows the text it is given: it keeps what its session shares with that text and rolls
the rest back. So a run of several levels is a function of the text, whatever was refused before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law
from speclab.core.protocols import (
    DraftKit,
    DraftRun,
    Feedback,
    LocalText,
    ModelHandle,
    Param,
    Proposal,
    Room,
    Session,
)
from speclab.core.randomness import Randomness, Unplaced
from speclab.core.records import DraftPass, Evidence
from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.engine.loop import MAX_NODES, RoundOutcome, decode_round

EXACT = RULES["token"]
"""The rule between two levels. Only an exact one leaves the upper model's own law as q."""


def first_drafts(kit: DraftKit, count: int, method: str) -> tuple[ModelHandle, ...]:
    """Return the first `count` drafts of a request.

    Raises:
        UnsupportedModel: if the pair has fewer.
    """
    if len(kit.drafts) < count:
        raise UnsupportedModel(
            f"{method} needs {count} draft models; this pair has {len(kit.drafts)}.",
            "Choose another pair, or settings that need fewer draft models.",
            code="needs_drafts",
            values={"method": method, "count": count, "there": len(kit.drafts)},
        )
    return kit.drafts[:count]


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two texts share from the start."""
    size = min(len(left), len(right))
    if list(left[:size]) == list(right[:size]):
        return size
    return next(place for place in range(size) if left[place] != right[place])


@dataclass(slots=True)
class Drafted:
    """A chain under construction.

    Attributes:
        tokens: drafted so far. laws: what each was drawn from; None: chosen.
        raw: the draft's law before processing, made on demand; None: a table has none.
        levels: which drafter each token comes from, 0 for the uppermost.
        forwards: passes of the models that drafted, lower levels not counted.
        passes: each of them, and each of the levels below, in order.
        ended: whether the last token ends the text.
    """

    tokens: list[int] = field(default_factory=list)
    laws: list[Law | None] = field(default_factory=list)
    raw: list[Callable[[], Law] | None] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    forwards: int = 0
    passes: list[DraftPass] = field(default_factory=list)
    ended: bool = False

    def add_round(self, outcome: RoundOutcome, eos: frozenset[int], greedy: bool) -> None:
        """Append what a round on a draft model emitted, up to the first EOS.

        What is cut comes after EOS: whether it is kept never depends on its own value.
        """
        below = [1 + level for level in levels_of(outcome.proposal)]
        levels = [*(below[node] for node in outcome.verdict.accepted), 0]
        laws: list[Law | None] = [None] * len(levels) if greedy else [*outcome.laws()]
        self.forwards += 1
        for place, token in enumerate(outcome.emitted):
            self.tokens.append(token)
            self.laws.append(laws[place])
            self.raw.append(partial(outcome.rows.raw, outcome.row_path[place]))
            self.levels.append(levels[place])
            if token in eos:
                self.ended = True
                break

    def add(self, other: Drafted, deeper: int = 0) -> None:
        """Append another chain, its levels `deeper` by that many."""
        self.tokens += other.tokens
        self.laws += other.laws
        self.raw += other.raw
        self.levels += [deeper + level for level in other.levels]
        self.forwards += other.forwards
        self.passes += other.passes
        self.ended = other.ended

    def proposal(self) -> Proposal:
        """Return the chain as a proposal that shows which level each token comes from."""
        if not self.tokens:
            return Proposal(evidence=(Evidence(kind="no_match"),))
        shown = Evidence(kind="level", values=tuple(map(float, self.levels)))
        return Proposal(
            tree=TokenTree.chain(self.tokens),
            draft_probs=tuple(self.laws),
            raw_draft=tuple(self.raw),
            num_draft_forwards=self.forwards,
            draft_passes=tuple(self.passes),
            evidence=(shown,),
        )


def levels_of(proposal: Proposal) -> list[int]:
    """Return the level of every node of a proposal [n]; 0 where it shows none."""
    for item in proposal.evidence:
        if item.kind == "level":
            return [int(level) for level in item.values]
    return [0] * len(proposal.tree)


class Level(DraftRun, Protocol):
    """Something that drafts a chain after any text."""

    def draft(self, text: Sequence[int], count: int, rng: Randomness) -> Drafted:
        """Draft up to `count` tokens after `text`."""


class ChainRun:
    """A run whose next proposal is a function of the text and of fresh chance alone.

    Args:
        gamma: most tokens per round.
    """

    def __init__(self, gamma: int) -> None:
        self._gamma = gamma

    def draft(self, text: Sequence[int], count: int, rng: Randomness) -> Drafted:
        """Draft up to `count` tokens after `text`."""
        raise NotImplementedError

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft a chain within the room."""
        count = min(self._gamma, room.max_depth, room.max_nodes)
        if count < 1:
            return Proposal()
        return self.draft(room.context, count, rng).proposal()

    def observe(self, feedback: Feedback) -> None:
        """Learn nothing: the next proposal follows the text."""

    def state_key(self) -> Hashable | None:
        """All runs over one text are alike."""
        return ()

    def close(self) -> None:
        """Nothing to release."""


class SpeculatedDraft(ChainRun):
    """A draft model whose tokens are themselves speculated by a lower level.

    Args:
        draft: the model. kit: the request. lower: what drafts for the model.
        span: most tokens that the lower level drafts per pass of the model.
        gamma: most tokens per round. number: which of the request's drafts the model is.
    """

    def __init__(
        self,
        draft: ModelHandle,
        kit: DraftKit,
        lower: DraftRun,
        *,
        span: int,
        gamma: int,
        number: int = 0,
    ) -> None:
        super().__init__(gamma)
        self._number = number
        self._draft, self._sampling, self._eos = draft, kit.sampling, kit.eos_ids
        self._lower, self._span, self._prompt_length = lower, span, len(kit.prompt)
        self.session: Session | None = None
        self._follow(kit.prompt)

    def draft(self, text: Sequence[int], count: int, rng: Randomness) -> Drafted:
        """Decode up to `count` tokens with the model, in rounds judged by the exact rule.

        A round may emit one token more than was drafted in it, so the lower level's room is one
        less than what is left: nothing drawn is ever thrown away.

        **Source:** Spector and Re 2308.04623, section 3.2: speculation of the draft.
        """
        self._follow(text)
        session, drafted, own = self.session, Drafted(), Unplaced(rng)
        if session is None:
            return drafted
        count = min(count, self._draft.max_context - session.length)
        while len(drafted.tokens) < count and not drafted.ended:
            left = count - len(drafted.tokens)
            room = Room(
                context=session.tokens,
                max_depth=min(self._span, left - 1),
                max_nodes=MAX_NODES,
            )
            cached, known = session.cache_length, session.length
            outcome = decode_round(
                session,
                self._lower,
                EXACT,
                own,
                room=room,
                sampling=self._sampling,
                generated=self._counts(session.tokens),
            )
            rows = 1 + len(outcome.proposal.tree)
            own_pass = DraftPass(
                draft=self._number, tokens=known - cached + rows - 1, cached=cached, rows=rows
            )
            drafted.passes += [*outcome.proposal.draft_passes, own_pass]
            drafted.add_round(outcome, self._eos, self._sampling.greedy)
        return drafted

    def _counts(self, text: Sequence[int]) -> Counter[int] | None:
        if not self._sampling.penalised:
            return None
        return Counter(text[self._prompt_length :])

    def _follow(self, text: Sequence[int]) -> None:
        """Make the session's text `text`; none is open where the text fills the context."""
        if len(text) >= self._draft.max_context:
            self._release()
            return
        session = self.session
        if session is None:
            self.session = self._draft.open(text)
            return
        shared = common_prefix(session.tokens, text)
        if shared < session.length:
            session.rollback(shared)
        if shared < len(text):
            session.extend(list(text[shared:]))

    def _release(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def close(self) -> None:
        """Release the caches of this level and those below."""
        self._release()
        self._lower.close()


@dataclass(slots=True)
class FollowingTokens:
    """Which token came after each n-gram of a text, n from 1 to `max_ngram`.

    Attributes:
        places: per n-gram the positions of the tokens after it, the latest last.
        text: what is indexed; it may grow, and shrink again.
    """

    max_ngram: int
    places: dict[tuple[int, ...], list[int]] = field(default_factory=lambda: defaultdict(list))
    text: list[int] = field(default_factory=list)

    def follow(self, text: Sequence[int]) -> None:
        """Index `text`, keeping what is shared with the text before."""
        shared = common_prefix(self.text, text)
        while len(self.text) > shared:
            for before in self._before(len(self.text) - 1):
                self.places[before].pop()
                if not self.places[before]:
                    del self.places[before]
            self.text.pop()
        for token in text[shared:]:
            self.text.append(token)
            for before in self._before(len(self.text) - 1):
                self.places[before].append(len(self.text) - 1)

    def _before(self, place: int) -> list[tuple[int, ...]]:
        most = min(self.max_ngram, place)
        return [tuple(self.text[place - n : place]) for n in range(1, most + 1)]

    def after(self, tail: Sequence[int]) -> int | None:
        """Return what last followed the longest known n-gram at the end of `tail`."""
        for n in range(min(self.max_ngram, len(tail)), 0, -1):
            places = self.places.get(tuple(tail[-n:]))
            if places:
                return self.text[places[-1]]
        return None


class TableDraft(ChainRun):
    """The bottom level: no model, the text itself says what followed the same words before.

    Args:
        eos: ids that end the text. gamma: most tokens per round. max_ngram: longest match.
        likeliest: per token the one that most often follows it in a corpus (-1: unknown), for what
            the text does not know; None: nothing is drafted then.

    **Source:** Max-Gram, CS-Drafting 2312.11462, section 3.3.
    **Deviation:** each token is looked up anew, so a match may move to another place.
    """

    def __init__(
        self,
        eos: frozenset[int],
        *,
        gamma: int,
        max_ngram: int = 4,
        likeliest: Sequence[int] | None = None,
    ) -> None:
        super().__init__(gamma)
        self._eos, self._likeliest = eos, likeliest
        self._table = FollowingTokens(max_ngram)

    def draft(self, text: Sequence[int], count: int, rng: Randomness) -> Drafted:
        """Look up to `count` tokens up, each after the ones before it; nothing is drawn."""
        self._table.follow(text)
        tail, drafted = list(text[-self._table.max_ngram :]), Drafted()
        while len(drafted.tokens) < count and not drafted.ended:
            token = self._table.after(tail)
            if token is None:
                token = self._usual(tail[-1])
            if token is None:
                break
            tail.append(token)
            drafted.add(
                Drafted([token], laws=[None], raw=[None], levels=[0], ended=token in self._eos)
            )
        return drafted

    def _usual(self, token: int) -> int | None:
        if self._likeliest is None or not 0 <= token < len(self._likeliest):
            return None
        found = int(self._likeliest[token])
        return found if found >= 0 else None

    def close(self) -> None:
        """Forget the text."""
        self._table = FollowingTokens(self._table.max_ngram)


GAMMA = Param(
    name="num_speculative_tokens",
    symbol="γ",
    kind="int",
    default=4,
    low=1,
    high=16,
    step=1,
    unit="tokens",
    help=LocalText("How many tokens the target judges per round.", "目标模型每轮验证多少个词元。"),
)
