"""What methods and rules promise each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from speclab.core.earlier_texts import EarlierTexts
from speclab.core.errors import BadInput
from speclab.core.laws import Law, Row, Sampling
from speclab.core.needs import completed
from speclab.core.randomness import Randomness
from speclab.core.records import DraftPass, Evidence, Verdict
from speclab.core.sessions import ModelHandle, Session
from speclab.core.trees import EMPTY_TREE, TokenTree


@dataclass(frozen=True, slots=True)
class LocalText:
    """The same words in English and in simplified Chinese."""

    en: str
    zh: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of a method, as sliders and the command line show it."""

    name: str
    symbol: str
    kind: Literal["int", "float", "optional_float", "bool", "choice"]
    default: float | int | bool | str | None
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0
    options: tuple[str, ...] = ()
    unit: str = ""
    help: LocalText

    def check(self, value: object) -> None:
        """Check a value.

        Raises:
            BadInput: naming the parameter, the value and the range.
        """
        if self.kind in ("choice", "bool"):
            self._check_choice(value)
            return
        if value is None:
            fine = self.kind == "optional_float"
        elif isinstance(value, bool) or not isinstance(value, int | float):
            fine = False
        else:
            whole = self.kind != "int" or value % 1 == 0
            fine = whole and self.low <= value <= self.high
        if not fine:
            wanted = "a whole number" if self.kind == "int" else "a number"
            raise BadInput(
                f"{self.name} must be {wanted} between {self.low:g} and {self.high:g}, "
                f"not {value!r}.",
                code="parameter_range",
                values={
                    "name": self.name,
                    "low": f"{self.low:g}",
                    "high": f"{self.high:g}",
                    "value": repr(value),
                },
            )

    def _check_choice(self, value: object) -> None:
        yes_or_no = self.kind == "bool"
        if not (isinstance(value, bool) if yes_or_no else value in self.options):
            options = "true, false" if yes_or_no else ", ".join(self.options)
            raise BadInput(
                f"{self.name} must be one of {options}, not {value!r}.",
                code="parameter_choice",
                values={"name": self.name, "options": options, "value": repr(value)},
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCard:
    """What a method is, for people and for compatibility checks.

    Attributes:
        needs: what must be there: "draft_model", "second_draft", "hidden", "early_exit",
            "tree_mask" (or "path_batch" in its place), ...
        provides: all that its proposals may be, in the words of `core.needs`, which adds what
            follows from them; `provided` says what they are under one request's settings.
        reads_earlier_texts: whether it copies from `DraftKit.store`, where there is one.
    """

    name: str
    title: LocalText
    one_liner: LocalText
    paper: str
    paper_url: str
    needs: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()
    params: tuple[Param, ...] = ()
    colour_token: str = "method-1"
    reads_earlier_texts: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "provides", completed(self.provides))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a method drafts in one round.

    Attributes:
        tree: drafted tokens; empty for plain decoding.
        draft_probs: per node the law [vocab] it was drawn from, given its ancestors and its
            earlier siblings; None for a node chosen deterministically.
        raw_draft: per node the draft's law before processing, made on demand; no right
            rule reads it.
        passengers: a second tree evaluated in the same target pass and never emitted; it shares
            the nodes' room and is no deeper than they may be.
        num_draft_forwards: draft model passes spent.
        draft_passes: each of them in order, where they take several tokens each; else ().
        evidence: what a learner should see.
    """

    tree: TokenTree = EMPTY_TREE
    draft_probs: tuple[Law | None, ...] = ()
    raw_draft: tuple[Callable[[], Law] | None, ...] = ()
    passengers: TokenTree = EMPTY_TREE
    num_draft_forwards: int = 0
    draft_passes: tuple[DraftPass, ...] = ()
    evidence: tuple[Evidence, ...] = ()


NO_PROPOSAL = Proposal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much a method may draft now.

    Attributes:
        context: committed tokens, prompt included; do not modify.
        max_depth: longest path that can still be emitted, >= 0.
        max_nodes: most nodes the target will take in one pass.
    """

    context: Sequence[int]
    max_depth: int
    max_nodes: int

    @property
    def position(self) -> int:
        """Absolute position of the next token."""
        return len(self.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What the target pass showed; independent of what is recorded.

    Attributes:
        proposal: what was drafted.
        verdict: what the rule decided.
        emitted: accepted tokens and the next token.
        features: per tap [accepted+1, hidden]: the pending token, then the accepted path.
        row: target row after node i (-1: after the pending token).
        passenger_row: target row after passenger j.
    """

    proposal: Proposal
    verdict: Verdict
    emitted: tuple[int, ...]
    features: Mapping[str, NDArray] = field(default_factory=dict)
    row: Callable[[int], Row]
    passenger_row: Callable[[int], Row]


class Clock(Protocol):
    """Seconds, from a real or a scripted clock."""

    def now(self) -> float:
        """Seconds since some fixed moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftKit:
    """Everything a method may start from.

    Attributes:
        prompt: prompt token ids.
        sampling: the request's sampling (the target's).
        eos_ids: ids that end the text.
        vocab_size: width of the target's rows.
        drafts: draft models, best first.
        foreign: a `models.foreign.ForeignDraft`: the first draft in its own ids, where its
            tokenizer is not the target's; None: it is.
        target: the target's session, for methods that share its layers or cache; read only.
        prefill_features: per tap in `card.needs`, the prompt's features [len(prompt)-1, hidden].
        heads: trained heads by name.
        stops: learned stops of this pair by method.
        skips: a `models.skips.SkipSet`: sublayers found best to leave out of a draft; None: none.
        likeliest: per token the one that most often follows it in a corpus, -1 where none is known;
            None: no table comes with the pair.
        clock: where the method may read time from.
        store: earlier texts of the session, for methods whose card reads them; None: a cold start.
    """

    prompt: tuple[int, ...]
    sampling: Sampling
    eos_ids: frozenset[int] = frozenset()
    vocab_size: int
    drafts: tuple[ModelHandle, ...] = ()
    foreign: Any = None
    target: Session | None = None
    prefill_features: Mapping[str, NDArray] = field(default_factory=dict)
    heads: Mapping[str, Any] = field(default_factory=dict)
    stops: Mapping[str, Any] = field(default_factory=dict)
    skips: Any = None
    likeliest: Sequence[int] | None = None
    clock: Clock | None = None
    store: EarlierTexts | None = None


class DraftRun(Protocol):
    """All the state of one request of one method."""

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft within `room`; random only through `rng`."""

    def observe(self, feedback: Feedback) -> None:
        """Learn what the target pass decided; called once after every `propose`."""

    def state_key(self) -> Hashable | None:
        """Return a key equal for runs that will behave alike after equal text; None: never."""

    def close(self) -> None:
        """Release everything; called on every way out, cancel included."""


class Method(Protocol):
    """A frozen dataclass whose fields are its parameters; shareable between requests."""

    @property
    def card(self) -> MethodCard:
        """What the method is."""

    @property
    def taps(self) -> tuple[str, ...]:
        """Names of the target features it wants; those of its heads are added by `taps_of`."""

    def start(self, kit: DraftKit) -> DraftRun:
        """Begin one request."""


def taps_of(method: Method, heads: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the target features wanted by `method` and by the `taps` of the `heads` it needs."""
    names = [need.removeprefix("head:") for need in method.card.needs if need.startswith("head:")]
    used = [heads[name] for name in sorted(names) if name in heads]
    return tuple(dict.fromkeys([*method.taps, *(t for h in used for t in getattr(h, "taps", ()))]))


def provided(method: Method, sampling: Sampling) -> frozenset[str]:
    """Return what the proposals of `method` are under the request's `sampling`.

    A method whose parameters or sampling change it defines `provides(sampling)`; for all others it
    is what the card says.
    """
    own = getattr(method, "provides", None)
    return method.card.provides if own is None else completed(own(sampling))


def needed(method: Method) -> frozenset[str]:
    """Return what must be there for `method` with its parameters, in the words of its card.

    A method whose parameters change it defines `needs()`; for all others it is what the card says.
    """
    own = getattr(method, "needs", None)
    return method.card.needs if own is None else own()


VerifyFunction = Callable[..., Verdict]
"""(rows, proposal, rng, position of the next token, **parameters of the rule) -> Verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRule:
    """A way to judge a proposal.

    Attributes:
        name: fixed public name.
        title: as shown to people.
        one_liner: what it does, in a sentence.
        lossless: whether the output law is the target's.
        why_not: if not, why.
        shipped_by: for broken rules, which real software shipped it (with a link).
        bias: total variation from the target on the standard pair; 0 for lossless rules.
        needs: what proposals must be: "chain", "sampled", "iid_siblings", ...
        params: the rule's own parameters; `configured` binds values to them.
        values: the bound values by name; defaults when empty.
        source: paper and equation.
        verify: (rows, proposal, rng, position of the next token) -> Verdict.
    """

    name: str
    title: LocalText
    one_liner: LocalText
    lossless: bool
    why_not: LocalText | None = None
    shipped_by: str = ""
    bias: float = 0.0
    needs: frozenset[str] = frozenset()
    params: tuple[Param, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    source: str
    verify: VerifyFunction

    @property
    def kind(self) -> Literal["lossless", "lossy", "broken"]:
        """Lossless, lossy by design, or broken (a bug that has shipped)."""
        if self.lossless:
            return "lossless"
        return "broken" if self.name.startswith("broken-") else "lossy"

    def configured(self, values: Mapping[str, Any]) -> VerifyRule:
        """Return the rule with `values` bound to its parameters.

        Raises:
            BadInput: for an unknown parameter or a value out of range.
        """
        known = {param.name: param for param in self.params}
        for key, value in values.items():
            if key not in known:
                raise BadInput(
                    f"The rule {self.name} has no parameter {key!r}.",
                    f"Its parameters: {', '.join(known) or 'none'}.",
                    code="unknown_rule_parameter",
                    values={"rule": self.name, "name": key},
                )
            known[key].check(value)
        bound = {**self.values, **values}
        return replace(self, values=bound, verify=partial(_unbound(self.verify), **bound))


def _unbound(verify: VerifyFunction) -> VerifyFunction:
    return verify.func if isinstance(verify, partial) else verify
