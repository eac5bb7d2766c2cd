"""What is recorded of a run: the only currency above the engine. Every record is JSON-ready."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from speclab.core.codec import decode_record, encode_record
from speclab.core.errors import TraceFormatError
from speclab.core.evidence import Evidence, check_evidence
from speclab.core.laws import Sampling
from speclab.core.trees import EMPTY_TREE, TokenTree

SCHEMA_VERSION = 1
Outcome = Literal["correction", "bonus", "plain"]
StopReason = Literal["eos", "stop_string", "max_new_tokens", "context_limit", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinFlip:
    """One test of one drafted token.

    Attributes:
        node: node id in the round's tree.
        token: the drafted token id.
        target_prob: p(token), after earlier siblings were rejected.
        draft_prob: q(token); 1 when the proposal was deterministic.
        accept_prob: probability with which the rule accepts.
        u: the uniform drawn; None when enumerated or when the rule draws a token instead.
        drawn_token: the target's own draw, for rules that compare draws.
        accepted: the coin's own verdict.
        overruled: the rule kept the token although its coin failed, or dropped it although it won.
        carried: the joint ratio of the path before this token (block verification), which scales
            the target; 1 for all other rules.
    """

    node: int
    token: int
    target_prob: float
    draft_prob: float
    accept_prob: float
    u: float | None = None
    drawn_token: int | None = None
    accepted: bool
    overruled: bool = False
    carried: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule decided about a proposal.

    Attributes:
        accepted: accepted node ids, root to leaf.
        next_token: the one further token: a correction, a bonus, or plain decoding's only token.
        outcome: which of the three it is.
        flips: the coins, in the order they were flipped.
    """

    accepted: tuple[int, ...]
    next_token: int
    outcome: Outcome
    flips: tuple[CoinFlip, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of one round.

    Attributes:
        start_s: when the round began, from the start of decoding.
        draft_s: proposing. target_s: the target pass. verify_s: the rule. commit_s: cache and
            bookkeeping, the draft's included.
    """

    start_s: float = 0.0
    draft_s: float = 0.0
    target_s: float = 0.0
    verify_s: float = 0.0
    commit_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds of the whole round."""
        return self.draft_s + self.target_s + self.verify_s + self.commit_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The laws at one place, cut to the tokens that matter (at most 24 and the drafted one).

    Attributes:
        node: the tested node, or None where the bonus or plain token was drawn.
        position: absolute position of the token judged or drawn here.
        tokens: token ids, most relevant first [k].
        target, draft: the laws used in the test [k]; draft is empty when nothing was drafted.
        raw_target, raw_draft: the models' own laws, before temperature and filters [k].
        overlap: sum of min(target, draft) over the whole vocabulary.
        left: after a refusal, the law that the rule went on with [k]; else empty.
        rest_target, rest_draft, rest_left: mass outside `tokens`.
        deterministic: the proposal was one-hot here.
    """

    node: int | None
    position: int
    tokens: tuple[int, ...]
    target: tuple[float, ...]
    draft: tuple[float, ...] = ()
    raw_target: tuple[float, ...] = ()
    raw_draft: tuple[float, ...] = ()
    overlap: float = 0.0
    left: tuple[float, ...] = ()
    rest_target: float = 0.0
    rest_draft: float = 0.0
    rest_left: float = 0.0
    deterministic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPass:
    """One pass of a draft model.

    Attributes:
        draft: which draft model of the pair, 0 for the first. tokens: new ones in the pass.
        cached: tokens before them, whose keys and values it read. rows: that it returned.
    """

    draft: int = 0
    tokens: int
    cached: int
    rows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: propose, score, verify, commit.

    Attributes:
        index: 0 for the first round.
        context_length: committed tokens before the round (prompt included).
        tree: what was drafted.
        sampled: per node, whether it was drawn from a law (else deterministic) [n].
        num_draft_forwards: draft model passes spent on this proposal.
        draft_passes: each of them, those of smaller drafts included, where they are not the usual
            ones (one token each); else ().
        evidence: what the method shows.
        verdict: the rule's decision.
        emitted: tokens that came out, after EOS, stop string or limit.
        timing: seconds.
        stop_reason: why the run ended here, else None.
        near_tie: a judged position was within rounding of another argmax.
        slices: the laws at each tested node and at the final draw.
    """

    index: int
    context_length: int
    tree: TokenTree = EMPTY_TREE
    sampled: tuple[bool, ...] = ()
    num_draft_forwards: int = 0
    draft_passes: tuple[DraftPass, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    verdict: Verdict
    emitted: tuple[int, ...]
    timing: Timing = field(default_factory=Timing)
    stop_reason: StopReason | None = None
    near_tie: bool = False
    slices: tuple[Slice, ...] = ()

    @property
    def num_drafted(self) -> int:
        """Tokens drafted in this round."""
        return len(self.tree)

    @property
    def num_passengers(self) -> int:
        """Tokens that rode in the pass without being judged, as the evidence shows them."""
        return sum(len(item.tokens) for item in self.evidence if item.kind == "window")

    @property
    def num_accepted(self) -> int:
        """Drafted tokens the rule accepted, whether or not all were emitted."""
        return len(self.verdict.accepted)

    @property
    def num_tested(self) -> int:
        """Drafted tokens whose coin was flipped."""
        return len(self.verdict.flips)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelId:
    """Which weights ran: a name and where they came from (repository@revision or bundled hash)."""

    name: str
    source: str = ""
    dtype: str = ""
    num_parameters: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything needed to run it again."""

    method: str
    params: dict[str, float | int | str | bool | None] = field(default_factory=dict)
    rule: str
    rule_params: dict[str, float | int | str | bool | None] = field(default_factory=dict)
    pair: str
    target: ModelId
    drafts: tuple[ModelId, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    max_new_tokens: int = 0
    stop_strings: tuple[str, ...] = ()
    ignore_eos: bool = False
    chat: bool = False
    device: str = "cpu"
    verifier: str = "numpy"
    versions: dict[str, str] = field(default_factory=dict)
    created: str = ""


def find_stop(text: str, stop_strings: Sequence[str]) -> int | None:
    """Return where the stop string begins that is complete first; None if there is none.

    Reading character by character would stop there, however the text came in tokens.
    """
    places = [(text.find(stop), stop) for stop in stop_strings if stop and stop in text]
    ends = [(start + len(stop), start) for start, stop in places]
    return min(ends)[1] if ends else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A whole run.

    Attributes:
        prompt_tokens: the prompt's token ids, chat template included.
        prefill_s: seconds of the target's and the draft's prefill.
        pieces: the bytes of every token id mentioned, base64, keyed by the id in decimal.
        warnings: sentences for the user (for example: the context was cut).
        ended_by: why the run ended; None while it goes on.
    """

    schema_version: int = SCHEMA_VERSION
    spec: RunSpec
    prompt_tokens: tuple[int, ...]
    rounds: tuple[Round, ...] = ()
    prefill_s: float = 0.0
    pieces: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    ended_by: StopReason | None = None

    @property
    def emitted(self) -> tuple[int, ...]:
        """All emitted token ids."""
        return tuple(token for round_ in self.rounds for token in round_.emitted)

    @property
    def stop_reason(self) -> StopReason | None:
        """Why the run ended."""
        return self.ended_by or (self.rounds[-1].stop_reason if self.rounds else None)

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token id; empty if the trace does not mention it."""
        return base64.b64decode(self.pieces.get(str(token), ""))

    @property
    def text(self) -> str:
        """The emitted text, cut before a stop string that ended the run."""
        raw = b"".join(self.piece(token) for token in self.emitted).decode("utf-8", "replace")
        if self.stop_reason == "stop_string":
            raw = raw[: find_stop(raw, self.spec.stop_strings)]
        return raw

    def to_json(self) -> str:
        """Return the trace as one line of JSON (schema: docs in ARCHITECTURE.md)."""
        return json.dumps(
            encode_record(self), ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read a trace back.

        Raises:
            TraceFormatError: if the text is not a trace of a known schema version.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TraceFormatError(
                f"This file is not JSON ({error}).",
                "Export a trace from the lab and try again.",
                code="trace_not_json",
            ) from error
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION:
            raise TraceFormatError(
                f"The file's schema_version is {version!r:.40}; this lab reads {SCHEMA_VERSION}.",
                "Export the trace again with this version.",
                code="trace_version",
                values={"found": repr(version), "known": SCHEMA_VERSION},
            )
        trace = decode_record(cls, data)
        _check_consistent(trace)
        return trace


def _check_consistent(trace: Trace) -> None:
    """Refuse a trace whose parts contradict each other: readers index one by the other.

    Raises:
        TraceFormatError: naming the place.
    """
    for token, piece in trace.pieces.items():
        try:
            base64.b64decode(piece, validate=True)
        except ValueError as error:
            raise TraceFormatError(f"trace.pieces.{token} is not base64: {error}.") from error
    for index, round_ in enumerate(trace.rounds):
        where, size = f"trace.rounds[{index}]", len(round_.tree)
        if len(round_.sampled) not in (0, size):
            raise TraceFormatError(f"{where}.sampled has {len(round_.sampled)} of {size} nodes.")
        path = round_.verdict.accepted
        if not all(0 <= node < size for node in path) or (
            path and path != round_.tree.path(path[-1])
        ):
            raise TraceFormatError(f"{where}.verdict.accepted is no path of the tree: {path}.")
        for place, item in enumerate(round_.evidence):
            check_evidence(item, size, round_.context_length, f"{where}.evidence[{place}]")
        for place, flip in enumerate(round_.verdict.flips):
            if not 0 <= flip.node < size:
                raise TraceFormatError(f"{where}.verdict.flips[{place}] names node {flip.node}.")
        for place, cut in enumerate(round_.slices):
            if cut.node is not None and not 0 <= cut.node < size:
                raise TraceFormatError(f"{where}.slices[{place}] names node {cut.node}.")
            count = len(cut.tokens)
            rows = (cut.target, cut.draft, cut.raw_target, cut.raw_draft, cut.left)
            if len(cut.target) != count or any(len(row) not in (0, count) for row in rows):
                raise TraceFormatError(f"{where}.slices[{place}] has rows of unequal length.")
