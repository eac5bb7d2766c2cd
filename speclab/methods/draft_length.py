"""How long a chain is drafted: constant, by a rule of thumb, by doubt, learned, or by goodput.

A length may depend on the text, on earlier rounds and on what was drawn so far in this one. A token
once drawn stays in the proposal: dropping it because of its own probability would change the law.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law, Row
from speclab.core.protocols import Clock, DraftKit, LocalText, Param
from speclab.core.records import Evidence
from speclab.engine.clocks import WallClock
from speclab.models.stops import LearnedStop

DraftLength = Literal["constant", "heuristic", "confidence", "learned", "goodput"]
KINDS: tuple[DraftLength, ...] = ("constant", "heuristic", "confidence", "learned", "goodput")
LONGEST = 16
"""To how many tokens the heuristic may grow, where the method has no bound of its own."""

DRAFT_LENGTH = Param(
    name="draft_length",
    symbol="",
    kind="choice",
    default="constant",
    options=KINDS,
    help=LocalText(
        "constant: γ tokens every round. heuristic: two more after a round that accepted all, one "
        "fewer after any other; γ is where it starts. confidence, learned, goodput: at most γ; "
        "stop where the draft itself is unsure, where a small network expects a rejection, or at "
        "the length with most tokens per second as measured so far.",
        "constant：每轮 γ 个词元。heuristic：全部接受后加 2，否则减 1，从 γ 开始。"
        "confidence、learned、goodput：最多 γ 个；分别在草稿模型自己没把握时、"
        "小网络预计会被拒绝时停止，或取到目前为止测得每秒词元最多的长度。",
    ),
)
MIN_CONFIDENCE = Param(
    name="min_confidence",
    symbol="q_min",
    kind="float",
    default=0.0,
    low=0.0,
    high=0.95,
    step=0.05,
    help=LocalText(
        "Stop drafting after a token whose q is below this (it is kept, so the law stays exact).",
        "若某词元的 q 低于此值，则保留它并停止起草（因此分布仍然精确）。",
    ),
)
STOP_THRESHOLD = Param(
    name="stop_threshold",
    symbol="ρ",
    kind="float",
    default=0.6,
    low=0.05,
    high=0.95,
    step=0.05,
    help=LocalText(
        "For confidence and learned: stop once the chance of a rejection is taken to be above this "
        "(the last token is kept, so the law stays exact).",
        "用于 confidence 和 learned：当预计被拒绝的概率高于此值时停止起草"
        "（最后一个词元保留，因此分布仍然精确）。",
    ),
)


class ChainLength:
    """One request's draft lengths: the constant one, and what the others change.

    Call `plan` before anything is drawn, `stops` after each token that more could follow, `drafted`
    when the chain is handed over, and `observe` when the target has judged it.

    Args:
        most: tokens per round.
    """

    kind: DraftLength = "constant"

    def __init__(self, most: int) -> None:
        self.most = most

    def plan(self) -> int:
        """Return how many tokens this round may draft at most."""
        return self.most

    def stops(self, row: Row, token: int, law: Law | None) -> float:
        """Return the chance of a rejection that ends the chain after `token`; 0: it goes on.

        Args:
            row: the draft's, from which the token came. law: as drawn from; None: chosen.
        """
        return 0.0

    def drafted(self, count: int) -> None:
        """Note that the chain has `count` tokens."""

    def observe(self, drafted: int, accepted: int) -> None:
        """Learn how many of the drafted tokens were accepted."""

    def state_key(self) -> Hashable | None:
        """Return what future lengths depend on besides the text; None: on what never repeats."""
        return ()

    def evidence(self, planned: int) -> tuple[Evidence, ...]:
        """Return what a learner sees of the plan."""
        if self.kind == "constant":
            return ()
        return (Evidence(kind="draft_length", value=float(planned)),)


class HeuristicLength(ChainLength):
    """Two more after full acceptance, one fewer otherwise; the state of one request.

    Args:
        start: the first length. most: the longest.

    **Source:** Transformers, `num_assistant_tokens_schedule="heuristic_transient"`.
    **Deviation:** bounded by `most`; Transformers' plain "heuristic" outlives the request in the
    draft model's configuration.
    """

    kind: DraftLength = "heuristic"

    def __init__(self, start: int, most: int) -> None:
        super().__init__(most)
        self._length = min(start, most)

    def plan(self) -> int:
        """Return the current length."""
        return self._length

    def observe(self, drafted: int, accepted: int) -> None:
        """Grow if all that was drafted was accepted."""
        whole = accepted == drafted
        self._length = min(self.most, self._length + 2) if whole else max(1, self._length - 1)

    def state_key(self) -> Hashable | None:
        """Return the current length."""
        return self._length


class ConfidenceStop(ChainLength):
    """Stops after a token of which the draft itself was unsure.

    Args:
        most: tokens per round. threshold: of 1 - q(token); before processing where it was chosen.

    **Source:** Transformers, `assistant_confidence_threshold`; Kangaroo 2404.18911, section 3.2.
    """

    kind: DraftLength = "confidence"

    def __init__(self, most: int, threshold: float) -> None:
        super().__init__(most)
        self._threshold = threshold

    def stops(self, row: Row, token: int, law: Law | None) -> float:
        """Return 1 - q if that is above the threshold."""
        doubt = 1.0 - float(row.raw()[token] if law is None else law[token])
        return doubt if doubt > self._threshold else 0.0


class LearnedLength(ChainLength):
    """Stops once at least one rejection has become likely, as a trained network sees it.

    Args:
        most: tokens per round. threshold: of 1 - prod P(accepted). network: gives P(accepted).

    **Source:** SpecDec++ 2405.19715, section 3 and algorithm 1.
    **Deviation:** the network reads the draft's law instead of its hidden state, right after the
    token is drawn, so that no draft pass is spent on the decision; both keep the token.
    """

    kind: DraftLength = "learned"

    def __init__(self, most: int, threshold: float, network: LearnedStop) -> None:
        super().__init__(most)
        self._threshold, self._network = threshold, network
        self._previous, self._kept, self._depth = 1.0, 1.0, 0

    def plan(self) -> int:
        """Begin a chain."""
        self._kept, self._depth = 1.0, 0
        return self.most

    def stops(self, row: Row, token: int, law: Law | None) -> float:
        """Return the chance of at least one rejection so far if that is above the threshold."""
        features = stop_features(row, token, law, self._depth, self._previous)
        self._kept *= self._network.acceptance(features)
        self._depth += 1
        doubt = 1.0 - self._kept
        return doubt if doubt > self._threshold else 0.0

    def observe(self, drafted: int, accepted: int) -> None:
        """Remember how the round went."""
        if drafted:
            self._previous = accepted / drafted

    def state_key(self) -> Hashable | None:
        """Return what the next chain's features depend on."""
        return self._previous


LEAST_LOG = -20.0


def stop_features(
    row: Row, token: int, law: Law | None, depth: int, previous: float
) -> tuple[float, ...]:
    """Return what a learned stop reads of a drafted token, in the order of `models.stops.FEATURES`.

    Args:
        row, law: as in `ChainLength.stops`. depth: tokens drafted before it.
        previous: accepted over drafted in the last round that drafted; 1 at first.
    """
    raw = row.raw()
    likely = raw[raw > 1e-9]
    return (
        0.0 if law is None else _log(law[token]),
        _log(raw[token]),
        _log(likely.max()),
        float(-(likely * np.log(likely)).sum()),
        float(depth),
        previous,
        float(law is None),
    )


def _log(prob: float) -> float:
    return float(np.log(prob)) if prob > np.exp(LEAST_LOG) else LEAST_LOG


KEPT = 0.95
"""Weight of what was seen before, each time a position is tested again."""
NEW_SECONDS = 0.2
"""Weight of a new measurement of seconds."""
FIRST_RATE, FIRST_WEIGHT = 0.7, 1.0
"""Acceptance before anything was tested, and how many tests that counts for."""
LOOK_AROUND = 16
"""Every so many rounds a neighbour of the best length is drafted, so that estimates stay alive."""


class GoodputLength(ChainLength):
    """The length with most expected tokens per second, by estimates from this request's rounds.

    Args:
        most: tokens per round. clock: where seconds come from.

    **Source:** TurboSpec (SmartSpec) 2406.14066, section 4: accepted tokens over the seconds of
    drafting and verifying.
    **Deviation:** batch 1; acceptance is estimated by position; the first rounds try three lengths.
    """

    kind: DraftLength = "goodput"

    def __init__(self, most: int, clock: Clock) -> None:
        super().__init__(most)
        self._clock = clock
        self._accepted, self._tested = [0.0] * most, [0.0] * most
        self._draft_s: float | None = None
        self._target_s: dict[int, float] = {}
        self._rounds = self._drafted = 0
        self._began_s = self._handed_s = 0.0

    def plan(self) -> int:
        """Return the best length; in the first rounds, and now and then, another one."""
        opening = (self.most, 0, (self.most + 1) // 2)
        number, self._rounds = self._rounds, self._rounds + 1
        self._began_s = self._clock.now()
        if number < len(opening):
            return opening[number]
        best = int(np.argmax(self.goodputs()))
        turn, rest = divmod(number, LOOK_AROUND)
        if rest == 0:
            best += 1 if turn % 2 or best == 0 else -1
        return min(self.most, best)

    def drafted(self, count: int) -> None:
        """Note when drafting ended; the rest of the round until `observe` is the target's."""
        self._handed_s, self._drafted = self._clock.now(), count
        if count:
            each = (self._handed_s - self._began_s) / count
            self._draft_s = _moved(self._draft_s, each)

    def observe(self, drafted: int, accepted: int) -> None:
        """Update acceptance by position, and the seconds of a pass of this width."""
        width, seconds = drafted + 1, self._clock.now() - self._handed_s
        self._target_s[width] = _moved(self._target_s.get(width), seconds)
        for place in range(min(drafted, accepted + 1)):
            self._tested[place] = KEPT * self._tested[place] + 1.0
            self._accepted[place] = KEPT * self._accepted[place] + float(place < accepted)

    def rates(self) -> list[float]:
        """Return the chance that each position is accepted once those before it were [most]."""
        rates, before = [], FIRST_RATE
        for accepted, tested in zip(self._accepted, self._tested, strict=True):
            before = (accepted + FIRST_WEIGHT * before) / (tested + FIRST_WEIGHT)
            rates.append(before)
        return rates

    def goodputs(self) -> NDArray[np.float64]:
        """Return the expected tokens per second of a round of each length [most+1].

        Seconds of widths that were not seen yet are interpolated.
        """
        lengths = np.arange(self.most + 1)
        expected = np.concatenate([[1.0], np.cumprod(self.rates())]).cumsum()
        widths = sorted(self._target_s)
        target_s = np.interp(lengths + 1, widths, [self._target_s[width] for width in widths])
        return expected / np.maximum(lengths * (self._draft_s or 0.0) + target_s, 1e-12)

    def state_key(self) -> Hashable | None:
        """Return the estimates where the clock repeats itself; else None: no two runs are alike."""
        if not getattr(self._clock, "repeats", False):
            return None
        seconds = tuple(sorted(self._target_s.items()))
        rates = (tuple(self._accepted), tuple(self._tested))
        return (self._rounds, self._draft_s, seconds, rates)


def _moved(before: float | None, value: float) -> float:
    return value if before is None else (1.0 - NEW_SECONDS) * before + NEW_SECONDS * value


def chain_length(
    kind: DraftLength,
    kit: DraftKit,
    *,
    method: str,
    gamma: int,
    threshold: float,
    most: int | None = None,
) -> ChainLength:
    """Return the state of a draft length for one request.

    Args:
        kind: which policy. kit: the request. method: whose learned stop to use.
        gamma: tokens per round. threshold: of confidence and learned stops.
        most: how far the heuristic may grow; None: `LONGEST`, or gamma where that is more.

    Raises:
        UnsupportedModel: for a learned stop that nobody has trained for this pair and method.
    """
    if kind == "heuristic":
        return HeuristicLength(gamma, max(gamma, LONGEST) if most is None else most)
    if kind == "confidence":
        return ConfidenceStop(gamma, threshold)
    if kind == "learned":
        return LearnedLength(gamma, threshold, _learned(kit, method))
    if kind == "goodput":
        return GoodputLength(gamma, kit.clock or WallClock())
    return ChainLength(gamma)


def _learned(kit: DraftKit, method: str) -> Any:
    if method not in kit.stops:
        raise UnsupportedModel(
            f"No stop was trained for {method} on this pair.",
            "Choose another draft_length, or train one: python -m speclab train draft-stop.",
            code="needs_stop",
            values={"method": method},
        )
    return kit.stops[method]
