"""Toy versions of the hard methods: they are what breaks a naive protocol."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from speclab.core.laws import Sampling, softmax
from speclab.core.protocols import (
    DraftKit,
    Feedback,
    LocalText,
    Method,
    MethodCard,
    Param,
    Proposal,
    Room,
)
from speclab.core.randomness import Randomness, Unplaced
from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.engine.loop import decode_round
from speclab.methods import METHODS, make_method
from speclab.methods.draft_model import DraftModel
from speclab.models.toy import FEATURE_TAP

TEXT = LocalText("toy", "玩具")


SMALL_TREE = {"depth": 2, "top_k": 2, "total_tokens": 3}


def small(name: str) -> Method:
    """Return a shipped method with its defaults, a head's tree made small enough to enumerate."""
    names = {param.name for param in METHODS[name].card.params}
    return make_method(name, SMALL_TREE if SMALL_TREE.keys() <= names else {})


def card(name: str, *params: Param, **more: Any) -> MethodCard:
    more.setdefault("provides", frozenset({"tree", "sampled"}))
    return MethodCard(
        name=name, title=TEXT, one_liner=TEXT, paper="", paper_url="", params=params, **more
    )


class StatelessRun:
    """Base of runs whose behaviour is a function of the text."""

    def observe(self, feedback: Feedback) -> None:
        pass

    def state_key(self) -> Hashable | None:
        return ()

    def close(self) -> None:
        pass


class EagleRun(StatelessRun):
    """Drafts from the target's feature; keeps features of committed tokens as its own KV."""

    def __init__(self, kit: DraftKit, with_replacement: bool) -> None:
        self.vocab, self.with_replacement = kit.vocab_size, with_replacement
        self.kv = [np.asarray(f) for f in kit.prefill_features[FEATURE_TAP]]
        self.draft = kit.drafts[0]

    def law(self, features: list[np.ndarray], token: int) -> np.ndarray:
        """q depends on every feature in its KV (missing logs made finite) and the last token."""
        kv = np.maximum(np.array(features or [np.zeros(self.vocab)]), -9.0)
        return softmax(0.5 * kv[-1] + 0.1 * kv.mean(0) + 0.7 * self.draft.logits((token,)))

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        tokens, parents, laws = [], [], []
        if room.max_depth < 1:
            return Proposal()
        q = self.law(self.kv, room.context[-1])
        for _ in range(min(2, room.max_nodes)):
            token = rng.draw(q)
            tokens.append(token), parents.append(-1), laws.append(q)
            if not self.with_replacement:
                q = q.copy()
                q[token] = 0.0
                q = q / q.sum()
        if room.max_depth > 1 and room.max_nodes > 2:
            deeper = self.law([*self.kv, np.log(laws[0] + 1e-3)], tokens[0])
            tokens.append(rng.draw(deeper)), parents.append(0), laws.append(deeper)
        tree = TokenTree(tuple(tokens), tuple(parents))
        return Proposal(tree=tree, draft_probs=tuple(laws), num_draft_forwards=2)

    def observe(self, feedback: Feedback) -> None:
        self.kv += list(feedback.features[FEATURE_TAP])

    def state_key(self) -> Hashable | None:
        return len(self.kv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eagle:
    with_replacement: bool = False
    card: ClassVar[MethodCard] = card(
        "toy-eagle",
        Param(
            name="with_replacement",
            symbol="",
            kind="bool",
            default=False,
            low=0,
            high=1,
            step=1,
            help=TEXT,
        ),
    )
    taps: ClassVar[tuple[str, ...]] = (FEATURE_TAP,)

    def start(self, kit: DraftKit) -> EagleRun:
        return EagleRun(kit, self.with_replacement)


class LookaheadRun(StatelessRun):
    """A window of guesses rides along as passengers; its rows fill an n-gram pool."""

    def __init__(self, kit: DraftKit) -> None:
        self.pool: dict[int, int] = {}
        self.window = (0, 1)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        guess = self.pool.get(room.context[-1])
        tokens = () if guess is None or room.max_depth < 1 else (guess,)
        return Proposal(
            tree=TokenTree.chain(tokens),
            draft_probs=(None,) * len(tokens),
            passengers=TokenTree.chain(self.window[: room.max_depth]),
        )

    def observe(self, feedback: Feedback) -> None:
        for place, token in enumerate(feedback.proposal.passengers.tokens):
            row = feedback.passenger_row(place)
            self.pool[token] = int(np.argmax(row.logits))

    def state_key(self) -> Hashable | None:
        return tuple(sorted(self.pool.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookahead:
    card: ClassVar[MethodCard] = card("toy-lookahead")
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> LookaheadRun:
        return LookaheadRun(kit)


class KangarooRun(StatelessRun):
    """Drafts from the target's own early layers, whose KV it shares."""

    def __init__(self, kit: DraftKit) -> None:
        self.shallow = kit.target.shallow(1)  # type: ignore[union-attr]

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        tokens: list[int] = []
        laws = []
        while len(tokens) < min(2, room.max_depth):
            hidden = self.shallow.extend(TokenTree.chain(tokens))
            law = softmax(hidden[-1])
            tokens.append(rng.draw(law)), laws.append(law)
            if law[tokens[-1]] < 0.3:
                break
        tree = TokenTree.chain(tokens)
        return Proposal(tree=tree, draft_probs=tuple(laws), num_draft_forwards=len(tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kangaroo:
    card: ClassVar[MethodCard] = card("toy-kangaroo")
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> KangarooRun:
        return KangarooRun(kit)


class StagedRun(StatelessRun):
    """A middle model verifies a small one; its laws are the honest q for the target."""

    def __init__(self, kit: DraftKit) -> None:
        small, middle = kit.drafts[1], kit.drafts[0]
        self.sampling = kit.sampling
        self.middle = middle.open(kit.prompt)
        self.inner = DraftModel(num_speculative_tokens=1).start(replace(kit, drafts=(small,)))

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        start = self.middle.length
        tokens: list[int] = []
        laws = []
        while len(tokens) < min(2, room.max_depth):
            inner_room = Room(
                context=self.middle.tokens,
                max_depth=min(2, room.max_depth) - len(tokens) - 1,
                max_nodes=room.max_nodes,
            )
            outcome = decode_round(
                self.middle,
                self.inner,
                RULES["token"],
                Unplaced(rng),
                room=inner_room,
                sampling=self.sampling,
            )
            tokens += outcome.emitted
            laws += outcome.laws()
        assert self.middle.length == start + len(tokens)
        return Proposal(tree=TokenTree.chain(tokens), draft_probs=tuple(laws))

    def observe(self, feedback: Feedback) -> None:
        surplus = len(feedback.proposal.tree) - len(feedback.verdict.accepted)
        for session in (self.middle, self.inner.session):
            length = self.middle.length if session is self.middle else session.length
            if surplus:
                session.rollback(length - surplus)
            session.extend([feedback.verdict.next_token])


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    card: ClassVar[MethodCard] = card("toy-staged")
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> StagedRun:
        return StagedRun(kit)


class TwoDraftsRun(StatelessRun):
    """Two draft models propose one child each: independent siblings with different laws."""

    def __init__(self, kit: DraftKit) -> None:
        self.sessions = [draft.open(kit.prompt) for draft in kit.drafts[:2]]

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        if room.max_depth < 1:
            return Proposal()
        laws = [session.score().row(0).law(Sampling()) for session in self.sessions]
        tokens = tuple(rng.draw(law) for law in laws)
        return Proposal(tree=TokenTree(tokens, (-1, -1)), draft_probs=tuple(laws))

    def observe(self, feedback: Feedback) -> None:
        for session in self.sessions:
            session.extend(feedback.emitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoDrafts:
    card: ClassVar[MethodCard] = card("toy-two-drafts")
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> TwoDraftsRun:
        return TwoDraftsRun(kit)


class AdaptiveGammaRun(StatelessRun):
    """Gamma grows after full acceptance and shrinks after a rejection."""

    def __init__(self, kit: DraftKit) -> None:
        self.gamma, self.kit = 1, kit
        self.inner = DraftModel(num_speculative_tokens=2).start(kit)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        depth = min(self.gamma, room.max_depth)
        return self.inner.propose(replace(room, max_depth=depth), rng)

    def observe(self, feedback: Feedback) -> None:
        full = len(feedback.verdict.accepted) == len(feedback.proposal.tree)
        self.gamma = min(2, self.gamma + 1) if full else 1
        self.inner.observe(feedback)

    def state_key(self) -> Hashable | None:
        return self.gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveGamma:
    card: ClassVar[MethodCard] = card(
        "toy-adaptive-gamma", provides=frozenset({"chain", "sampled"})
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def start(self, kit: DraftKit) -> AdaptiveGammaRun:
        return AdaptiveGammaRun(kit)


TOY_METHODS = (
    Eagle(),
    Eagle(with_replacement=True),
    Lookahead(),
    Kangaroo(),
    Staged(),
    TwoDrafts(),
    AdaptiveGamma(),
)
