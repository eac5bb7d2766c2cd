"""The one decode loop: propose, score, verify, commit, observe, yield."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.laws import Law, Sampling
from speclab.core.protocols import Clock, DraftRun, Feedback, Proposal, Room, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Round, StopReason, Timing, Verdict
from speclab.core.rows import TargetRows
from speclab.core.sessions import Scores, Session
from speclab.engine.clocks import WallClock
from speclab.engine.ending import Ending
from speclab.engine.recording import record_counts

MAX_NODES = 256
"""Most drafted tokens the target takes in one pass."""


Mirror = Callable[[Any, Proposal, Sampling, Randomness, int], Verdict | None]
"""(scores, proposal, sampling, rng, position) -> Verdict, or None where it has no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run ends.

    Attributes:
        max_new_tokens: most tokens to emit.
        max_context: most tokens the target can hold, prompt included.
        eos_ids: ids that end the text; the first one emitted is kept.
        stop_strings: text that ends the run, also when it straddles tokens.
        max_nodes: most drafted tokens per round.
    """

    max_new_tokens: int
    max_context: int
    eos_ids: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    max_nodes: int = MAX_NODES

    def __post_init__(self) -> None:
        if not isinstance(self.max_new_tokens, int) or self.max_new_tokens < 0:
            raise BadInput(
                f"max_new_tokens must be a whole number >= 0, not {self.max_new_tokens!r}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """What one round decided, before anything is cut.

    Attributes:
        emitted: the accepted tokens and the next one.
        rows: the target's laws at the round's nodes.
        scores: the target pass they come from.
    """

    proposal: Proposal
    verdict: Verdict
    emitted: tuple[int, ...]
    rows: TargetRows
    scores: Scores
    timing: Timing

    @property
    def row_path(self) -> tuple[int, ...]:
        """Row index of the law that each emitted token follows."""
        return (0, *(1 + node for node in self.verdict.accepted))

    def laws(self) -> list[Law]:
        """Return the target law of each emitted token: a staged drafter's honest q."""
        return [self.rows[index] for index in self.row_path]


def decode_round(
    session: Session,
    run: DraftRun,
    rule: VerifyRule,
    rng: Randomness,
    *,
    room: Room,
    sampling: Sampling,
    generated: Counter[int] | None = None,
    clock: Clock | None = None,
    mirror: Mirror | None = None,
    origin_s: float = 0.0,
) -> RoundOutcome:
    """Run one round on `session` and commit it.

    Args:
        session: the target (in staged drafting: the middle model).
        run: what proposes. rule: what judges. rng: all the chance there is; a drafter that calls
            this for a middle model passes `Unplaced(rng)`.
        room: how much may be drafted.
        sampling: the request's settings.
        generated: tokens generated so far, counted, when penalties need them.
        clock: where seconds come from.
        mirror: a faster twin of the rule; it may return None to leave a case to the rule.
        origin_s: clock reading that counts as zero.

    **Source:** Leviathan et al. 2211.17192, algorithm 1, for any tree and rule.
    """
    now = (clock or WallClock()).now
    begun = now()
    proposal = run.propose(room, rng)
    drafted = now()
    scores = session.score(proposal.tree, proposal.passengers)
    rows = TargetRows(scores.row, sampling, proposal.tree, generated)
    scored = now()
    verdict = None
    if mirror is not None and generated is None:
        verdict = mirror(scores, proposal, sampling, rng, room.position)
    if verdict is None:
        verdict = rule.verify(rows, proposal, rng, room.position)
    verified = now()
    emitted = (*(proposal.tree.tokens[node] for node in verdict.accepted), verdict.next_token)
    session.commit(verdict.accepted, verdict.next_token)
    run.observe(_feedback(proposal, verdict, emitted, scores))
    timing = Timing(
        start_s=begun - origin_s,
        draft_s=drafted - begun,
        target_s=scored - drafted,
        verify_s=verified - scored,
        commit_s=now() - verified,
    )
    return RoundOutcome(
        proposal=proposal,
        verdict=verdict,
        emitted=emitted,
        rows=rows,
        scores=scores,
        timing=timing,
    )


def _feedback(
    proposal: Proposal, verdict: Verdict, emitted: tuple[int, ...], scores: Scores
) -> Feedback:
    return Feedback(
        proposal=proposal,
        verdict=verdict,
        emitted=emitted,
        features=scores.features(verdict.accepted),
        row=lambda node: scores.row(1 + node),
        passenger_row=scores.passenger_row,
    )


Recorder = Callable[[int, int, RoundOutcome, tuple[int, ...], StopReason | None], Round]


@dataclass(slots=True, kw_only=True)
class Decoding:
    """One request on its way: iterate it to get its rounds.

    Closing the iterator, or `cancelled()` turning true, ends the run within one round.

    Attributes:
        session: the target's session. run: the method's state. rule: the verification rule.
        rng: the randomness. sampling, limits: the request.
        piece: returns the bytes of a token, for stop strings.
        record: turns an outcome into a `Round`.
        mirror: a faster twin of the rule.
        cancelled: asked before every round.
        emitted: token ids so far.
        stop_reason: why the run ended; None while it goes on.
    """

    session: Session
    run: DraftRun
    rule: VerifyRule
    rng: Randomness
    sampling: Sampling
    limits: Limits
    piece: Callable[[int], bytes] = lambda token: b""
    record: Recorder = record_counts
    clock: Clock = field(default_factory=WallClock)
    mirror: Mirror | None = None
    cancelled: Callable[[], bool] = lambda: False
    emitted: list[int] = field(default_factory=list)
    stop_reason: StopReason | None = None

    def __iter__(self) -> Iterator[Round]:
        """Yield one `Round` per target pass until the run ends."""
        prompt_length = self.session.length
        ending = Ending(self.limits, prompt_length, self.piece)
        generated: Counter[int] | None = Counter() if self.sampling.penalised else None
        index, self.stop_reason = 0, ending.before_first()
        started_s = self.clock.now()
        try:
            while self.stop_reason is None and not self.cancelled():
                outcome = decode_round(
                    self.session,
                    self.run,
                    self.rule,
                    self.rng,
                    room=self._room(prompt_length),
                    sampling=self.sampling,
                    generated=generated,
                    clock=self.clock,
                    mirror=self.mirror,
                    origin_s=started_s,
                )
                kept, self.stop_reason = ending.cut(outcome.emitted)
                context_length = prompt_length + len(self.emitted)
                self.emitted += kept
                if generated is not None:
                    generated.update(kept)
                yield self.record(index, context_length, outcome, kept, self.stop_reason)
                index += 1
        finally:
            self.stop_reason = self.stop_reason or "cancelled"
            self.run.close()
            self.session.close()

    def _room(self, prompt_length: int) -> Room:
        length = prompt_length + len(self.emitted)
        left = min(self.limits.max_new_tokens - len(self.emitted), self.limits.max_context - length)
        return Room(
            context=self.session.tokens, max_depth=left - 1, max_nodes=self.limits.max_nodes
        )


def check_well_formed(proposal: Proposal, room: Room, vocab_size: int) -> None:
    """Refuse a proposal that breaks the protocol; passengers need room as nodes do.

    Raises:
        BadInput: naming what is wrong.
    """
    tree, passengers = proposal.tree, proposal.passengers
    if len(proposal.draft_probs) != len(tree):
        raise BadInput(f"{len(tree)} nodes but {len(proposal.draft_probs)} draft laws.")
    if tree.max_depth > room.max_depth:
        raise BadInput(f"The draft is {tree.max_depth} deep; there is room for {room.max_depth}.")
    if len(tree) > room.max_nodes:
        raise BadInput(f"The draft has {len(tree)} nodes; there is room for {room.max_nodes}.")
    if passengers.max_depth > room.max_depth:
        raise BadInput(
            f"The passengers are {passengers.max_depth} deep; there is room for {room.max_depth}."
        )
    if len(tree) + len(passengers) > room.max_nodes:
        raise BadInput(
            f"{len(tree)} nodes and {len(passengers)} passengers; there is room for "
            f"{room.max_nodes}."
        )
    _check_tokens((*tree.tokens, *passengers.tokens), vocab_size)


def _check_tokens(tokens: Sequence[int], vocab_size: int) -> None:
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise BadInput(f"Token id {token} is outside the vocabulary of {vocab_size}.")
