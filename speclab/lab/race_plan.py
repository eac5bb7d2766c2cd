"""What a race holds: its lanes, its prompt, and how much may be asked of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import provided
from speclab.core.rules import RULES, lossless_rules, rule_named
from speclab.methods import METHODS, make_method

ParamValue = float | int | str | bool | None
BASELINE = "autoregressive"
RULE = "token"
"""Judges chains and trees of every kind without loss."""
LOSSY_RULE = "typical"
"""What a lane is offered under as well, so that a race can show a text of another law."""
MAX_LANES = 6
MAX_NEW_TOKENS = 256
MAX_REPEATS = 9
MAX_PROMPT = 2_000
MAX_WORK = 6_000
"""Most tokens of a whole race: lanes x repeats x new tokens."""

GAMMA_NAMES = ("num_speculative_tokens", "total_tokens", "tree_nodes", "depth", "guesses")
"""How much a method drafts per round, by the parameter's name; the first it has is varied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One way of drafting in a race.

    Attributes:
        method: a key of METHODS. params: those that are not at their defaults.
        rule: that judges its drafts.
    """

    method: str
    params: dict[str, ParamValue] = field(default_factory=dict)
    rule: str = RULE

    @property
    def label(self) -> str:
        """The lane in one word: method:name=value/rule; the rule only if it is not the usual."""
        parts = (self.method, *(f"{name}={value}" for name, value in self.params.items()))
        return ":".join(parts) + (f"/{self.rule}" if self.rule != RULE else "")


def read_lane(label: str) -> Lane:
    """Return the lane of a label.

    Raises:
        BadInput: for an unknown method, rule or parameter, or a value out of range.
    """
    words, _, rule = label.strip().partition("/")
    method, *items = words.split(":")
    lane = Lane(method=method, rule=rule_named(rule or RULE).name)
    known = {p.name: p for p in METHODS[method].card.params} if method in METHODS else {}
    for item in items:
        name, _, text = item.partition("=")
        lane.params[name] = _value(text, known[name].kind if name in known else "")
    make_method(method, lane.params)
    return lane


def _value(text: str, kind: str) -> ParamValue:
    if kind == "bool":
        return {"True": True, "False": False}.get(text, text)
    if kind == "optional_float" and text == "None":
        return None
    if kind in ("", "choice"):
        return text
    try:
        return float(text) if kind != "int" else int(text)
    except ValueError:
        return text


def lanes_of(method: str) -> tuple[Lane, ...]:
    """Return the lanes that a method is offered in: its defaults, half and twice as much drafted.

    A chain that is drawn from a draft model is offered under a lossy rule too.
    """
    card = METHODS[method].card
    lanes = [Lane(method=method)]
    gamma = next((p for name in GAMMA_NAMES for p in card.params if p.name == name), None)
    if gamma is not None and isinstance(gamma.default, int):
        for value in (gamma.default // 2, gamma.default * 2):
            fitting = int(min(max(value, gamma.low), gamma.high))
            if fitting != gamma.default:
                lanes.append(Lane(method=method, params={gamma.name: fitting}))
    if card.needs == {"draft_model"}:
        lanes.append(Lane(method=method, rule=LOSSY_RULE))
    return tuple(lanes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RacePlan:
    """What to race.

    Attributes:
        pair: name of the pair. lanes: plain decoding is put first if it is not there.
        prompt: the text. sampling, seed: of every lane and every repeat.
        max_new_tokens: most tokens per lane; a text that ends earlier ends there.
        repeats: how often every lane runs.
    """

    pair: str
    lanes: tuple[Lane, ...]
    prompt: str
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    max_new_tokens: int = 64
    repeats: int = 3

    def __post_init__(self) -> None:
        others = tuple(lane for lane in self.lanes if lane.method != BASELINE)
        object.__setattr__(self, "lanes", (Lane(method=BASELINE), *others))
        labels = [lane.label for lane in self.lanes]
        double = next((label for label in labels if labels.count(label) > 1), "")
        if double:
            raise BadInput(
                f"{double} is in the race twice.",
                "Take one of the two out.",
                code="race_double",
                values={"lane": double},
            )
        if not 1 < len(labels) <= MAX_LANES:
            raise BadInput(
                f"A race has 1 to {MAX_LANES - 1} lanes beside plain decoding, not "
                f"{len(labels) - 1}: more cannot be read side by side.",
                "Choose fewer, or start a second race.",
                code="race_lanes",
                values={"limit": MAX_LANES - 1, "count": len(labels) - 1},
            )
        for name, high in (("max_new_tokens", MAX_NEW_TOKENS), ("repeats", MAX_REPEATS)):
            _check_range(name, getattr(self, name), high)
        if not 0 < len(self.prompt.strip()) <= MAX_PROMPT:
            raise BadInput(
                f"The prompt needs 1 to {MAX_PROMPT} characters; it has "
                f"{len(self.prompt.strip())}.",
                code="prompt_length",
                values={"limit": MAX_PROMPT, "length": len(self.prompt.strip())},
            )
        if self.work > MAX_WORK:
            raise BadInput(
                f"{len(labels)} lanes x {self.repeats} repeats x {self.max_new_tokens} tokens are "
                f"{self.work} tokens; a race takes at most {MAX_WORK}, because everybody else "
                "waits for it.",
                "Take fewer tokens, repeats or lanes.",
                code="race_work",
                values={
                    "lanes": len(labels),
                    "repeats": self.repeats,
                    "tokens": self.max_new_tokens,
                    "work": self.work,
                    "limit": MAX_WORK,
                },
            )

    @property
    def work(self) -> int:
        """Most tokens that the race emits."""
        return len(self.lanes) * self.repeats * self.max_new_tokens


def _check_range(name: str, value: int, high: int) -> None:
    if not 1 <= value <= high:
        raise BadInput(
            f"{name} must be between 1 and {high}, not {value}.",
            code="race_range",
            values={"name": name, "high": high, "value": value},
        )


def rule_for(lane: Lane, sampling: Sampling) -> str:
    """Return the lane's rule, or the first lossless one if the usual one cannot judge it."""
    given = provided(make_method(lane.method, lane.params), sampling)
    if lane.rule != RULE or RULES[RULE].needs <= given:
        return lane.rule
    return lossless_rules(given)[0]


def keeps_law(lane: Lane, sampling: Sampling) -> bool:
    """Whether a lane's text follows the target's law: a lossless rule whose needs are met."""
    rule = RULES[rule_for(lane, sampling)]
    given = provided(make_method(lane.method, lane.params), sampling)
    return rule.lossless and rule.needs <= given
