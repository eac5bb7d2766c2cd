"""What tests of faults share: toys from functions, drafts that offer given tokens, one law."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from speclab.core.laws import Law, Row, Sampling
from speclab.core.protocols import (
    DraftKit,
    Feedback,
    LocalText,
    Method,
    MethodCard,
    Proposal,
    Room,
    VerifyRule,
    completed,
    taps_of,
)
from speclab.core.randomness import Exhaustive, Randomness, Seeded
from speclab.core.records import Round, Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules import RULES, lossless_rules
from speclab.core.sessions import ModelHandle
from speclab.core.trees import TokenTree
from speclab.engine.clocks import ScriptedClock
from speclab.engine.loop import Decoding, Limits
from speclab.methods.autoregressive import Autoregressive
from speclab.methods.draft_model import DraftModel
from speclab.models.toy import ToyModel
from speclab.testing.toy_heads import heads_for
from speclab.testing.toy_stops import toy_stops

GREEDY = Sampling(temperature=0.0)
NO_LIMIT = 1_000_000
TEXT = LocalText("test", "测试")


def rules_for(*given: str) -> list[str]:
    """Name the lossless rules that can judge proposals which are `given`; nothing: any proposal."""
    return list(lossless_rules(completed(frozenset(given))))


@dataclass(frozen=True, slots=True)
class FunctionModel(ToyModel):
    """A toy whose logits [vocab] are any function of the whole context."""

    function: Callable[[Sequence[int]], Sequence[float]] = lambda context: ()

    def logits(self, context: Sequence[int]) -> np.ndarray:
        """Return the function's logits, float64."""
        return np.asarray(self.function(context), dtype=np.float64)


def model_of(
    function: Callable[[Sequence[int]], Sequence[float]], vocab_size: int, **more: Any
) -> FunctionModel:
    """Build a toy from a function of the context."""
    return FunctionModel({}, 0, vocab_size, function=function, **more)


def scripted_model(script: Sequence[int], vocab_size: int, start: int, **more: Any) -> ToyModel:
    """Build a toy that says `script` from position `start` on, with certainty, and repeats it."""

    def logits(context: Sequence[int]) -> np.ndarray:
        row = np.full(vocab_size, -40.0)
        row[script[(len(context) - start) % len(script)]] = 0.0
        return row

    return model_of(logits, vocab_size, **more)


class OffersRun:
    """Offers what a function of the context says, as deterministic or claimed-law nodes."""

    def __init__(self, offer: Callable[[Sequence[int], Randomness], Any], gamma: int) -> None:
        self._offer, self._gamma = offer, gamma
        self.closed = 0
        self.rooms: list[tuple[int, int]] = []

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Return the offer, cut to the room if it is a list of tokens."""
        self.rooms.append((room.position, room.max_depth))
        offered = self._offer(room.context, rng)
        if isinstance(offered, Proposal):
            return offered if offered.tree.max_depth <= room.max_depth else Proposal()
        tokens = list(offered)[: min(self._gamma, room.max_depth)]
        return Proposal(tree=TokenTree.chain(tokens), draft_probs=(None,) * len(tokens))

    def observe(self, feedback: Feedback) -> None:
        """Nothing to learn."""

    def state_key(self) -> Hashable | None:
        """The offer is a function of the text."""
        return ()

    def close(self) -> None:
        """Count the calls."""
        self.closed += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """A method that offers given tokens or a given proposal."""

    offer: Callable[[Sequence[int], Randomness], Any]
    gamma: int = 16
    card: ClassVar[MethodCard] = MethodCard(
        name="offers", title=TEXT, one_liner=TEXT, paper="", paper_url=""
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> OffersRun:
        """Begin one request."""
        return OffersRun(self.offer, self.gamma)


def offers(tokens: Sequence[int], gamma: int = 16) -> Offers:
    """Offer the same tokens every round."""
    return Offers(offer=lambda context, rng: tokens, gamma=gamma)


def children(tokens: tuple[int, ...], laws: tuple) -> Offers:
    """Offer siblings of the pending token with the laws they claim."""
    tree = TokenTree(tokens, (-1,) * len(tokens))
    return Offers(offer=lambda context, rng: Proposal(tree=tree, draft_probs=laws))


def rows_of(p: np.ndarray, tree: TokenTree) -> TargetRows:
    """Return rows that are p everywhere, also before processing."""

    class Given(Row):
        def law(self, sampling, counts=None):
            return self.logits

    return TargetRows(lambda index: Given(p), Sampling(), tree)


def offers_continuation(script: Sequence[int], start: int, gamma: int) -> Offers:
    """Offer what `script` says from the current position on."""

    def offer(context: Sequence[int], rng: Randomness) -> list[int]:
        here = len(context) - start
        return [script[(here + i) % len(script)] for i in range(gamma)]

    return Offers(offer=offer, gamma=gamma)


def begin(
    target: ModelHandle,
    prompt: Sequence[int],
    *,
    method: Method | None = None,
    drafts: Sequence[ModelHandle] = (),
    rule: str | VerifyRule = "token",
    sampling: Sampling | None = None,
    rng: Randomness | None = None,
    n: int = 8,
    eos: Sequence[int] = (),
    stops: Sequence[str] = (),
    max_context: int | None = None,
    **more: Any,
) -> Decoding:
    """Open a request on `target`: plain decoding unless a method is given."""
    method = method or Autoregressive()
    sampling = sampling or Sampling()
    session = target.open(prompt, taps_of(method, heads_for(target)))
    kit = DraftKit(
        prompt=tuple(prompt),
        sampling=sampling,
        eos_ids=frozenset(eos),
        vocab_size=target.vocab_size,
        drafts=tuple(drafts),
        foreign=getattr(drafts[0], "foreign", None) if drafts else None,
        target=session,
        prefill_features=session.prefill_features,
        heads=heads_for(target),
        stops=toy_stops(),
        clock=ScriptedClock(),
    )
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule] if isinstance(rule, str) else rule,
        rng=rng or Seeded(0),
        sampling=sampling,
        limits=Limits(
            max_new_tokens=n,
            max_context=target.max_context if max_context is None else max_context,
            eos_ids=frozenset(eos),
            stop_strings=tuple(stops),
        ),
        **more,
    )


def run(*args: Any, **kwargs: Any) -> tuple[list[int], list[Round]]:
    """Run a request of `begin` to its end; return the tokens and the rounds."""
    decoding = begin(*args, **kwargs)
    rounds = list(decoding)
    return decoding.emitted, rounds


def draft_model(gamma: int, **more: Any) -> DraftModel:
    """Return the method draft-model with this gamma."""
    return DraftModel(num_speculative_tokens=gamma, **more)


def first_rounds(start: Callable[[Randomness], Decoding]) -> Iterator[tuple[float, Round]]:
    """Yield (probability, first round) of `start(rng)` over every outcome of every coin."""
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        rounds = iter(start(rng))
        first = next(rounds)
        rounds.close()  # type: ignore[attr-defined]
        yield rng.weight, first
        path = rng.next_path()


def law_and_acceptance(
    start: Callable[[Randomness], Decoding], vocab_size: int
) -> tuple[Law, float]:
    """Return the exact law of the first token, and the chance that its draft is accepted."""
    law, accepted = np.zeros(vocab_size), 0.0
    for weight, round_ in first_rounds(start):
        law[round_.emitted[0]] += weight
        accepted += weight * bool(round_.verdict.accepted)
    return law, accepted


def one_draft(
    p: Sequence[float],
    q: Sequence[float],
    *,
    rule: str | VerifyRule = "token",
    method: Method | None = None,
    sampling: Sampling | None = None,
) -> tuple[Law, float]:
    """Return (law, acceptance) of one token drafted from the constant law q for the target p."""
    target, draft = ToyModel.constant(p), ToyModel.constant(q)

    def start(rng: Randomness) -> Decoding:
        return begin(
            target,
            (0,),
            method=method or draft_model(1),
            drafts=(draft,),
            rule=rule,
            sampling=sampling,
            rng=rng,
            n=2,
        )

    return law_and_acceptance(start, len(p))


def greedy_by_hand(
    handle: Any, prompt: Sequence[int], n: int, max_context: int = 10**9
) -> list[int]:
    """Decode greedily without any cache, session or loop."""
    text = list(prompt)
    while len(text) < min(len(prompt) + n, max_context):
        ((row,),) = handle.evaluate([text], [1])
        text.append(int(np.argmax(row.logits)))
    return text[len(prompt) :]


def forced(count: int) -> VerifyRule:
    """Return a rule that accepts the first `count` nodes of a chain: for checks of state only."""

    def verify(rows: Any, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
        outcome = "bonus" if count == len(proposal.tree) else "correction"
        return Verdict(accepted=tuple(range(count)), next_token=7, outcome=outcome)

    return replace(RULES["token"], name=f"forced-{count}", lossless=False, verify=verify)
