"""What is asked of an engine, and what comes back: a configuration or an honest refusal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import LocalText, MethodCard, provided
from speclab.deploy.verification import Verification
from speclab.methods import METHODS, make_method

Family = Literal[
    "plain",
    "draft-model",
    "draft-tree",
    "string-match",
    "token-intersection",
    "n-gram",
    "suffix",
    "medusa",
    "hydra",
    "eagle-1",
    "eagle-2",
    "eagle-3",
    "mtp",
    "parallel-mtp",
    "early-exit",
    "other",
]
"""What engines tell apart; a method of SpecLab belongs to one, by what it needs."""

LENGTHS = ("method", "load", "acceptance")
"""Who decides how much is drafted: the method, the number of requests, or recent acceptance."""
RULES = ("usual", "block")
MOST_NAME_CHARS = 300
ABOVE_ZERO = Sampling(temperature=1.0)
_HEADS: dict[str, Family] = {
    "head:medusa": "medusa",
    "head:hydra": "hydra",
    "head:eagle3": "eagle-3",
    "head:mtp": "mtp",
    "head:parallel_mtp": "parallel-mtp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a configuration is wanted for; made by `make_wish`, which checks it.

    Attributes:
        card: of the method.
        params: every parameter of the method by name, defaults included.
        family: what engines call such a method.
        target, draft, head: hub ids or folders; GGUF files for llama.cpp.
        length: one of LENGTHS.
        rule: one of RULES; "usual" is the engine's exact rule for such drafts.
        draws: whether drafts are drawn from the draft's law above temperature 0, not chosen.
    """

    card: MethodCard
    params: Mapping[str, Any]
    family: Family
    target: str
    draft: str
    head: str
    length: str = "method"
    rule: str = "usual"
    draws: bool = False

    @property
    def length_name(self) -> str:
        """What the method calls the length of a draft; empty if it drafts nothing."""
        names = ("num_speculative_tokens", "depth", "num_heads")
        return next((name for name in names if name in self.params), "")

    @property
    def drafted(self) -> int:
        """How many tokens deep a draft is."""
        if not self.length_name:
            return 0
        depth = int(self.params[self.length_name])
        return depth if "width" in self.params else min(depth, self.nodes)

    @property
    def width(self) -> int:
        """At most how many candidates follow one token."""
        names = ("top_k", "width", "branches")
        named = next((int(self.params[name]) for name in names if name in self.params), 1)
        return self.drafted if self.params.get("mode") == "tree" else named

    @property
    def nodes(self) -> int:
        """How many candidates the target judges in a round."""
        for name in ("total_tokens", "tree_nodes"):
            if name in self.params:
                return int(self.params[name])
        if "width" in self.params:
            return sum(self.width**level for level in range(1, int(self.params["depth"]) + 1))
        return int(self.params.get(self.length_name, 0)) * int(self.params.get("branches", 1))

    @property
    def is_chain(self) -> bool:
        """Whether no token of a draft has a sibling."""
        return self.width == 1 or self.nodes == 1

    @property
    def follows(self) -> str:
        """Who decides the length, one of LENGTHS; a heuristic of the method follows acceptance."""
        heuristic = self.params.get("draft_length") == "heuristic"
        return "acceptance" if heuristic and self.length == "method" else self.length

    @property
    def least_confidence(self) -> float:
        """The draft's probability of a token below which drafting stops; 0: never."""
        floor = float(self.params.get("min_confidence", 0.0))
        if self.params.get("draft_length") == "confidence":
            floor = max(floor, round(1.0 - float(self.params["stop_threshold"]), 6))
        return floor

    @property
    def temperature_kept(self) -> bool:
        """Whether drafting at the request's temperature, or greedily, is what is wanted."""
        return self.params.get("draft_temperature") in (None, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One text to copy: a command line, a file or a program."""

    kind: Literal["shell", "json", "yaml", "python"]
    title: LocalText
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """One setting under its name here and its name there.

    Attributes:
        ours: SpecLab's parameter. theirs: the engine's flag or key. value: as it is written there.
        note: what differs; may be empty.
    """

    ours: str
    theirs: str
    value: str
    note: LocalText = field(default_factory=lambda: LocalText("", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How an engine is told to run a method.

    Attributes:
        engine: its key. version: that it was checked against.
        blocks: what to copy, the command first.
        flags: every option or key in the blocks, as the engine spells it.
        names: settings here and there.
        verification: how the engine judges these drafts.
        notes: what differs from SpecLab's method, and what is left out.
        differs: whether what is drafted has another shape or law than here.
    """

    engine: str
    version: str
    blocks: tuple[Block, ...]
    flags: tuple[str, ...]
    names: tuple[Renamed, ...]
    verification: Verification
    notes: tuple[LocalText, ...] = ()
    differs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an engine cannot be told to run a method, and what to do instead."""

    engine: str
    version: str
    reason: LocalText
    instead: LocalText


def family_of(card: MethodCard) -> Family:
    """Return what engines call such a method, from what it needs and from its parameters."""
    params = {param.name for param in card.params}
    for need, family in _HEADS.items():
        if need in card.needs:
            return family
    if "head:eagle1" in card.needs:
        return "eagle-2" if "draft_sampling" in params else "eagle-1"
    if any(need.startswith("head:") for need in card.needs):
        return "other"
    if {"early_exit"} == card.needs and {"exit_layer", "num_speculative_tokens"} <= params:
        return "early-exit"
    if "draft_model" in card.needs:
        return _drafted(card, params)
    if card.reads_earlier_texts and not card.needs:
        return "suffix"
    if {"max_ngram", "num_speculative_tokens"} <= params and not card.needs:
        return "n-gram"
    return "plain" if not card.needs and not params else "other"


def _drafted(card: MethodCard, params: set[str]) -> Family:
    if "retokenised" in card.provides:
        return "string-match"
    if "shared_tokens" in card.provides:
        return "token-intersection"
    if "nested" in card.provides:
        return "other"
    if "num_speculative_tokens" in params and "tree" not in card.provides:
        return "draft-model"
    return "draft-tree" if {"depth", "width"} <= params else "other"


def make_wish(
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    target: str = "",
    draft: str = "",
    head: str = "",
    length: str = "method",
    rule: str = "usual",
) -> Wish:
    """Check what is asked and return it; empty names become placeholders.

    Raises:
        BadInput: for an unknown method, parameter or choice, or a name that no model can have.
    """
    made = make_method(method, dict(params or {}))
    card = METHODS[method].card
    for name, value, options in (("length", length, LENGTHS), ("rule", rule, RULES)):
        if value not in options:
            raise BadInput(
                f"{name} must be one of {', '.join(options)}, not {value!r}.",
                code="deploy_choice",
                values={"name": name, "options": ", ".join(options), "value": repr(value)},
            )
    return Wish(
        card=card,
        params={param.name: getattr(made, param.name) for param in card.params},
        family=family_of(card),
        target=checked_name(target) or "TARGET",
        draft=checked_name(draft) or "DRAFT",
        head=checked_name(head) or "HEAD",
        length=length,
        rule=rule,
        draws="sampled" in provided(made, ABOVE_ZERO),
    )


def checked_name(name: str) -> str:
    """Return a model's name without surrounding space.

    Raises:
        BadInput: for control or invisible characters, a leading hyphen, or too many characters.
    """
    plain = name.strip()
    hidden = [char for char in plain if unicodedata.category(char) in HIDDEN]
    if hidden:
        raise BadInput(
            f"A model's name cannot contain the character U+{ord(hidden[0]):04X}.",
            "Type the hub id or the folder again.",
            code="deploy_name_hidden",
            values={"code": f"U+{ord(hidden[0]):04X}"},
        )
    if plain.startswith("-"):
        raise BadInput(
            f"An engine would read the name {plain[:60]!r} as an option.",
            "Write a folder as ./name.",
            code="deploy_name_option",
            values={"name": plain[:60]},
        )
    if len(plain) > MOST_NAME_CHARS:
        raise BadInput(
            f"The name has {len(plain)} characters; at most {MOST_NAME_CHARS} are taken.",
            "Use a shorter path.",
            code="deploy_name_long",
            values={"length": len(plain), "limit": MOST_NAME_CHARS},
        )
    return plain


HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that people cannot see."""
