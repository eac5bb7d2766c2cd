"""What is to be proved, everything looked up for it, and the shape of what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from speclab.core.codec import encode_record
from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, VerifyRule, needed, taps_of
from speclab.core.randomness import Randomness
from speclab.core.rules import rule_named
from speclab.engine.clocks import ScriptedClock
from speclab.engine.loop import Decoding, Limits
from speclab.lab.runs import ParamValue, check_compatible, heads_of, model_id, provenance
from speclab.methods import make_method
from speclab.models.bigrams import bundled_likeliest
from speclab.models.pair import Pair
from speclab.models.skips import bundled_skips
from speclab.models.stops import bundled_stops
from speclab.stats.report import Report, check_level
from speclab.testing import exact_bias

USUAL_PROMPTS = {"toy": "abca"}
USUAL_PROMPT = "Once upon a time"
USUAL_SAMPLING = Sampling(temperature=1.0, top_k=20)
MOST_FORBIDDEN = 20
"""Impossible sequences that are written out per test; all of them are counted."""
MAX_SAMPLES, MAX_LENGTH = 10_000_000, 256
LEAST_ALPHA = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveSpec:
    """What is to be proved.

    Attributes:
        pair: name of the pair; the loaded one is given beside it.
        method, params: what proposes. rule, rule_params: what judges.
        sampling: of the request. prompt: text; empty: the pair's usual one.
        num_samples: sequences to draw. length: most tokens of each; EOS ends one earlier.
        alpha: level of the test. seed: of all randomness.
        control: name of the wrong rule that runs beside; None: the one that errs most here.

    Raises:
        BadInput: for a number out of range.
    """

    pair: str = "pocket"
    method: str = "draft-model"
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    rule: str = "token"
    rule_params: Mapping[str, ParamValue] = field(default_factory=dict)
    sampling: Sampling = USUAL_SAMPLING
    prompt: str = ""
    num_samples: int = 20_000
    length: int = 4
    alpha: float = 1e-3
    seed: int = 0
    control: str | None = None

    def __post_init__(self) -> None:
        check_level(self.alpha)
        if self.alpha < LEAST_ALPHA:
            raise BadInput(
                f"The level must be at least {LEAST_ALPHA:g}, not {self.alpha:g}: the chi-square "
                "approximation is not valid further out.",
                "Choose 1e-3, or 1e-6 at least.",
                code="prove_alpha",
                values={"low": f"{LEAST_ALPHA:g}", "value": f"{self.alpha:g}"},
            )
        for name, value, low, high in (
            ("num_samples", self.num_samples, 1, MAX_SAMPLES),
            ("length", self.length, 1, MAX_LENGTH),
            ("seed", self.seed, 0, 2**63 - 1),
        ):
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not (whole and low <= value <= high):
                raise BadInput(
                    f"{name} must be a whole number between {low} and {high}, not {value!r}.",
                    code="prove_range",
                    values={"name": name, "low": low, "high": high, "value": repr(value)},
                )

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON types, every field included."""
        return {**asdict(self), "sampling": asdict(self.sampling)}


OF_ROWS = frozenset({"draft_model", "second_draft", "tree_mask", "path_batch", "rollback"})
"""Needs that a memo over a target meets, or that are no business of the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A spec with everything looked up: what both proofs start from.

    Attributes:
        pair: loaded models. method, rule: ready to use. tokens: the prompt's ids.
        limits: when a sequence ends.
    """

    pair: Pair
    spec: ProveSpec
    method: Method
    rule: VerifyRule
    tokens: tuple[int, ...]
    limits: Limits

    @property
    def heads(self) -> dict[str, Any]:
        """Return the trained heads that the method needs, by name."""
        return {name: self.pair.heads[name] for name in heads_of(self.method)}

    @property
    def taps(self) -> tuple[str, ...]:
        """Return the target features that method and heads read; a memo has none."""
        return taps_of(self.method, self.heads)

    @property
    def on_cache(self) -> bool:
        """Return whether the method reads more of the target than rows: features, or its layers."""
        own = {need for need in needed(self.method) - OF_ROWS if not need.startswith("head:")}
        return bool(self.taps or own)

    def begin(self, rng: Randomness, pair: Pair, rule: VerifyRule | None = None) -> Decoding:
        """Open a run of the unmodified decode loop on the models of `pair`.

        Its drafter's clock ticks once per reading: a proof runs the loop again and again.
        """
        session = pair.target.open(self.tokens, self.taps)
        kit = DraftKit(
            prompt=self.tokens,
            sampling=self.spec.sampling,
            eos_ids=self.limits.eos_ids,
            vocab_size=pair.target.vocab_size,
            drafts=pair.drafts,
            foreign=pair.foreign,
            target=session,
            prefill_features=session.prefill_features if self.taps else {},
            heads=self.heads,
            stops=bundled_stops(pair.name),
            skips=bundled_skips(pair.name),
            likeliest=bundled_likeliest(pair.name),
            clock=ScriptedClock(),
        )
        return Decoding(
            session=session,
            run=self.method.start(kit),
            rule=rule or self.rule,
            rng=rng,
            sampling=self.spec.sampling,
            limits=self.limits,
            piece=self.pair.codec.piece,
        )

    def about(self) -> dict[str, Any]:
        """Return what ran: versions, models with their sources, device and dtype."""
        pair = self.pair
        models = (pair.target, *pair.drafts_for(needed(self.method)))
        return {
            "versions": provenance(),
            "pair": pair.name,
            "target": encode_record(model_id(models[0], pair.dtype)),
            "drafts": [encode_record(model_id(model, pair.dtype)) for model in models[1:]],
            "device": pair.device,
            "notes": list(pair.notes),
        }

    def piece(self, token: int) -> str:
        """Return a token as people read it."""
        return self.pair.codec.piece(token).decode("utf-8", "replace")


def look_up(pair: Pair, spec: ProveSpec) -> Case:
    """Return the case of a spec.

    Raises:
        BadInput: for an unknown name, a value out of range or a rule that the method cannot serve.
        UnsupportedModel: if the pair lacks what the method needs.
    """
    method = make_method(spec.method, dict(spec.params))
    rule = rule_named(spec.rule, spec.rule_params)
    check_compatible(method, rule, pair, spec.sampling)
    prompt = spec.prompt or USUAL_PROMPTS.get(pair.name, USUAL_PROMPT)
    tokens = pair.codec.encode(prompt, chat=None)
    room = pair.target.max_context - len(tokens)
    if room < spec.length:
        raise BadInput(
            f"The prompt has {len(tokens)} tokens: {max(room, 0)} of {spec.length} more fit.",
            "Shorten the prompt.",
            code="prove_room",
            values={"tokens": len(tokens), "room": max(room, 0), "length": spec.length},
        )
    limits = Limits(
        max_new_tokens=spec.length, max_context=pair.target.max_context, eos_ids=pair.eos_ids
    )
    return Case(pair=pair, spec=spec, method=method, rule=rule, tokens=tokens, limits=limits)


def rule_facts(rule: VerifyRule) -> dict[str, Any]:
    """Return what must always be said of a rule: its kind, and if it is not lossless why.

    `bias` is on the standard pair, with the rule's own parameters.
    """
    defaults = {param.name: param.default for param in rule.params}
    changed = {**defaults, **rule.values} != defaults
    return {
        "name": rule.name,
        "kind": rule.kind,
        "lossless": rule.lossless,
        "title": encode_record(rule.title),
        "why_not": encode_record(rule.why_not) if rule.why_not else None,
        "shipped_by": rule.shipped_by,
        "bias": exact_bias(rule) if changed else rule.bias,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactReport:
    """What the loop emits, over every outcome of every coin. JSON-ready by `to_data`.

    Attributes:
        rule: as `rule_facts`.
        difference: largest difference of any sequence's probability from the target's.
        within: whether that is at most `tolerance`. total_variation: of whole sequences.
        num_leaves: branches run. num_sequences: possible sequences.
        first: the first token: {token, piece, law, target}, most likely first.
        sequences: the most likely ones: {tokens, pieces, law, target}.
        tree: every outcome of a tiny case, as nodes {id, parent, kind, label, probability, weight,
            emitted}; kind is the choice that led here ("flip", "draw" or "start"), weight the
            probability of the whole path, emitted a list of tokens at leaves and else None. None
            where there are too many.
    """

    spec: Mapping[str, Any]
    rule: Mapping[str, Any]
    difference: float
    tolerance: float
    within: bool
    total_variation: float
    num_leaves: int
    num_sequences: int
    first: tuple[Mapping[str, Any], ...]
    sequences: tuple[Mapping[str, Any], ...]
    tree: tuple[Mapping[str, Any], ...] | None
    seconds: float
    about: Mapping[str, Any]

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {"schema_version": 1, "kind": "exact", **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveReport:
    """The verdict of many samples. JSON-ready by `to_data`.

    Attributes:
        rule: as `rule_facts`. control: the same of the control, with `exact_bias`, its total
            variation on the first token here; None where the method can serve no wrong rule.
        report: the tests; its main test is the joint law of whole sequences in pooled cells.
        first: the tests of the first token; None where it is certain. verdict: the report's.
        num_samples: drawn; fewer than asked for when it was cancelled.
        num_texts: different sequences. cells: as in `ProveProgress`, at the end.
        anytime_p: valid however often it was watched; control_anytime_p: the control's.
        rounds: propose-verify rounds of the sampled sequences. path: "together" where many
            sequences are decoded together, "loop" where each is by itself.
        hit_rate: laws found in the memo. num_laws: laws evaluated; num_passes: in so many passes.
        cpu_s: processor seconds. seconds: by the clock, control and tests included.
    """

    spec: Mapping[str, Any]
    rule: Mapping[str, Any]
    control: Mapping[str, Any] | None
    verdict: Literal["rejected", "not_rejected", "inconclusive"]
    report: Report
    first: Report | None
    num_samples: int
    num_texts: int
    cancelled: bool
    anytime_p: float
    control_anytime_p: float | None
    rounds: int
    path: Literal["together", "loop"]
    hit_rate: float | None
    num_laws: int
    num_passes: int
    seconds: float
    cpu_s: float
    sequences_per_s: float
    cells: tuple[Mapping[str, Any], ...]
    about: Mapping[str, Any]

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON types; of the impossible sequences only the first few."""
        data = asdict(self)
        for report in (data["report"], data["first"]):
            for test in [report["main"], report["control"], *report["more"]] if report else ():
                if test is not None:
                    test["num_forbidden"] = sum(count for _, count in test["forbidden"])
                    test["forbidden"] = test["forbidden"][:MOST_FORBIDDEN]
        return {
            "schema_version": 1,
            "kind": "samples",
            "smallest_detectable_bias": self.report.detectable_bias,
            **data,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveProgress:
    """Where sampling stands. JSON-ready by `dataclasses.asdict`, the report apart.

    Attributes:
        num_samples: sequences so far, of `num_planned`. seconds: by the clock.
        p_value: valid at any time. e_value: the evidence against the sampler.
        control_p_value: the same of the control.
        variation, control_variation: total variation of the first token from the target's so far.
        noise_floor: what a right sampler shows on average at this N.
        cells: first tokens, most likely first: {token, piece, expected, observed, control}, in
            counts; the last one, with token None, is all the others.
        report: at the end.
    """

    num_samples: int
    num_planned: int
    seconds: float
    p_value: float
    e_value: float
    control_p_value: float | None
    variation: float
    control_variation: float | None
    noise_floor: float
    cells: tuple[Mapping[str, Any], ...]
    report: ProveReport | None = None
