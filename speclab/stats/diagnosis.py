"""Why is mine slower? Names what limits the speed of a run, with its number.

A round loses against the best it could be in several places at once, so the places are compared on
one scale: by how much would the run speed up if *half* of that loss went away? Half of the
refusals, half of the drafting, half of what a wider pass costs more, half of the bookkeeping, half
of the extra prefill, half of the rounds without a draft. The place with the largest answer is the
limit. What was measured goes in; every gain is modelled.

Keys of sentences are a closed set, `SENTENCES`, with English; pages bring other languages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from speclab.core.records import Round, Trace
from speclab.stats.counters import ratio

LimitKey = Literal[
    "low_acceptance",
    "never_drafted",
    "nothing_drafted",
    "expensive_draft",
    "expensive_verification",
    "round_overhead",
    "prefill",
]
VerdictKey = Literal["faster", "slower", "same", "plain"]

SAME = 0.02
"""Speedups within 2 % of 1 are called the same."""

NO_GAIN = 1.005
"""A limit whose halving would gain less than half a per cent is not worth naming."""

BLOCK_RULE = "block"
"""The rule that judges a chain as a whole: a token that its coin refused may still be kept."""

SENTENCES: dict[str, str] = {
    "faster": "{speedup:.2f} times as fast as plain decoding.",
    "slower": "Slower than plain decoding: {speedup:.2f} times its speed.",
    "same": "As fast as plain decoding ({speedup:.2f} times its speed).",
    "plain": "Plain decoding: there is nothing to diagnose.",
    "low_acceptance": "Low acceptance: of the drafted tokens that were tested, {value:.0%} passed, "
    "and a pass emits {tau:.2f} tokens.",
    "low_acceptance_by_depth": "Low acceptance: of the depths reached with a candidate, "
    "{value:.0%} were passed, and a pass emits {tau:.2f} tokens.",
    "never_drafted": "Nothing drafted: no round had a draft to check.",
    "nothing_drafted": "Few drafts: {value:.0%} of the rounds had no draft to check.",
    "expensive_draft": "Expensive draft: drafting for one round takes {value:.2f} plain passes.",
    "expensive_verification": "Expensive verification: a pass on {tokens:.1f} tokens takes "
    "{value:.2f} plain passes.",
    "round_overhead": "Overhead: rule and caches take {value:.2f} plain passes more per round.",
    "prefill": "Short text: reading the prompt costs {value:.0%} of the time, more than plain "
    "decoding pays.",
    "change_low_acceptance": "A draft that knows the target better (distilled, or a head), a lower "
    "temperature, or fewer drafted tokens. Half the refusals: {gain:.2f} times this speed.",
    "change_never_drafted": "Another method, or text in which this one finds something to draft.",
    "change_nothing_drafted": "A method that always drafts, or text that repeats itself. Half the "
    "empty rounds: {gain:.2f} times this speed.",
    "change_expensive_draft": "A smaller draft, a head, or fewer drafted tokens. Half the cost: "
    "{gain:.2f} times this speed.",
    "change_expensive_verification": "Fewer drafted tokens, a smaller batch, or hardware that "
    "waits for memory. Half the extra cost: {gain:.2f} times this speed.",
    "change_round_overhead": "A larger target, for which the same bookkeeping is a smaller share. "
    "Half of it: {gain:.2f} times this speed.",
    "change_prefill": "Longer answers, or a method without a draft that reads the prompt too. Half "
    "of the extra: {gain:.2f} times this speed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What runs did on average, beside plain decoding.

    Attributes:
        tau: tokens emitted per target pass. tokens: emitted per request.
        offered: P(a candidate at depth d | d - 1 accepted). rates: P(accepted | a candidate).
        pass_tokens: tokens of a target pass, the pending one included.
        draft_s, target_s, other_s: of a round. plain_target_s, plain_other_s: of a plain round.
        prefill_s, plain_prefill_s: of a request.
        plain_decoding: whether this is plain decoding itself.
        by_depth: whether `rates` say how often a depth was passed, not how often a tested token
            was accepted: candidates have siblings, or the rule judges the chain as one block.
    """

    tau: float
    tokens: float
    offered: tuple[float, ...]
    rates: tuple[float, ...]
    pass_tokens: float
    draft_s: float
    target_s: float
    other_s: float
    plain_target_s: float
    plain_other_s: float = 0.0
    prefill_s: float = 0.0
    plain_prefill_s: float = 0.0
    plain_decoding: bool = False
    by_depth: bool = False

    @property
    def expected_tokens(self) -> float:
        """Return E[N] by position."""
        total = reached = 1.0
        for offered, rate in zip(self.offered, self.rates, strict=True):
            reached *= offered * rate
            total += reached
        return total

    @property
    def speedup(self) -> float:
        """Return seconds of plain decoding / of the method, prefill included."""
        plain_round = self.plain_target_s + self.plain_other_s
        plain = self.plain_prefill_s + self.tokens * plain_round
        return plain / self.total_s

    @property
    def total_s(self) -> float:
        """Return the seconds of a request."""
        return self.prefill_s + self.tokens / self.tau * (
            self.draft_s + self.target_s + self.other_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One place where time is lost.

    Attributes:
        key: of SENTENCES; what would change it is at "change_" + key. value: its number.
        gain: speed with half of the loss gone / speed now. values: everything the sentences need.
        sentence: of SENTENCES, what is said of it; `key` unless what was counted differs.
    """

    key: LimitKey
    value: float
    gain: float
    values: Mapping[str, float]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What limits a run.

    Attributes:
        verdict: of SENTENCES. speedup: over plain decoding. limits: largest gain first.
    """

    verdict: VerdictKey
    speedup: float
    limits: tuple[Limit, ...]

    @property
    def main(self) -> Limit | None:
        """The limiting factor; None if halving none would gain half a per cent."""
        return self.limits[0] if self.limits else None

    def sentences(self, words: Mapping[str, str] = SENTENCES) -> list[str]:
        """Return the verdict, the limiting factor and what would change it."""
        lines = [words[self.verdict].format(speedup=self.speedup)]
        if self.main is not None:
            lines += [
                words[key].format(**self.main.values)
                for key in (self.main.sentence, f"change_{self.main.key}")
            ]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return JSON types: `verdict`, `speedup`, `limits` with `key`, `sentence` and `values`."""
        return {
            "verdict": self.verdict,
            "speedup": self.speedup,
            "limits": [
                {"key": each.key, "sentence": each.sentence, "values": dict(each.values)}
                for each in self.limits
            ],
        }


def diagnose(means: Means) -> Diagnosis:
    """Return what limits a run, by what halving each loss would gain."""
    if means.plain_decoding:
        return Diagnosis(verdict="plain", speedup=means.speedup, limits=())
    limits = [
        _limit(key, means, halved)
        for key, halved in _halved(means).items()
        if means.total_s / halved.total_s > NO_GAIN
    ]
    if not any(means.offered):
        limits = [_nothing_at_all(means), *limits]
    speedup = means.speedup
    verdict: VerdictKey = (
        "same" if abs(speedup - 1.0) <= SAME else "faster" if speedup > 1.0 else "slower"
    )
    ordered = sorted(limits, key=lambda limit: (limit.key != "never_drafted", -limit.gain))
    return Diagnosis(verdict=verdict, speedup=speedup, limits=tuple(ordered))


def _halved(means: Means) -> dict[LimitKey, Means]:
    """Return the means with half of each loss gone."""
    share = means.offered[0] if means.offered else 0.0
    often = (1.0 + share) / 2.0
    more = often / share if share else 1.0
    better = replace(means, rates=tuple((1.0 + rate) / 2.0 for rate in means.rates))
    fuller = replace(means, offered=(often, *means.offered[1:])) if share else means
    extra_pass = max(means.target_s - means.plain_target_s, 0.0)
    extra_other = max(means.other_s - means.plain_other_s, 0.0)
    extra_prefill = max(means.prefill_s - means.plain_prefill_s, 0.0)
    return {
        "low_acceptance": replace(means, tau=_scaled(means, better)),
        "nothing_drafted": replace(
            means,
            tau=_scaled(means, fuller),
            draft_s=means.draft_s * more,
            target_s=means.target_s + extra_pass * (more - 1.0),
        ),
        "expensive_draft": replace(means, draft_s=means.draft_s / 2.0),
        "expensive_verification": replace(means, target_s=means.target_s - extra_pass / 2.0),
        "round_overhead": replace(means, other_s=means.other_s - extra_other / 2.0),
        "prefill": replace(means, prefill_s=means.prefill_s - extra_prefill / 2.0),
    }


def _scaled(means: Means, changed: Means) -> float:
    """Return tau changed as the expected tokens by position change."""
    return means.tau * changed.expected_tokens / means.expected_tokens


def _limit(key: LimitKey, means: Means, halved: Means) -> Limit:
    tested = accepted = 0.0
    reached = 1.0
    for offered, rate in zip(means.offered, means.rates, strict=True):
        tested += reached * offered
        reached *= offered * rate
        accepted += reached
    step = means.plain_target_s
    numbers: dict[str, float] = {
        "low_acceptance": ratio(accepted, tested) or 0.0,
        "nothing_drafted": 1.0 - (means.offered[0] if means.offered else 0.0),
        "expensive_draft": means.draft_s / step,
        "expensive_verification": means.target_s / step,
        "round_overhead": (means.other_s - means.plain_other_s) / step,
        "prefill": means.prefill_s / means.total_s,
    }
    gain, value = means.total_s / halved.total_s, numbers[key]
    values = {"value": value, "gain": gain, "tau": means.tau, "tokens": means.pass_tokens}
    by_depth = key == "low_acceptance" and means.by_depth
    sentence = "low_acceptance_by_depth" if by_depth else key
    return Limit(key=key, value=value, gain=gain, values=values, sentence=sentence)


def _nothing_at_all(means: Means) -> Limit:
    """Return the limit of a run that never drafted: what a draft would gain is not known."""
    values = {"value": 1.0, "gain": 1.0, "tau": means.tau, "tokens": means.pass_tokens}
    key: LimitKey = "never_drafted"
    return Limit(key=key, value=1.0, gain=1.0, values=values, sentence=key)


# --- where means come from ------------------------------------------------------------------------


def means_of_traces(traces: Sequence[Trace], plain: Sequence[Trace]) -> Means:
    """Return the means of runs beside plain runs of the same prompts.

    Args:
        traces: of one method. plain: of plain decoding.
    """
    base = [round_ for trace in plain for round_ in trace.rounds]
    return replace(
        _means(traces, _mean(round_.timing.target_s for round_ in base)),
        plain_other_s=_mean(r.timing.verify_s + r.timing.commit_s for r in base),
        plain_prefill_s=_mean(trace.prefill_s for trace in plain),
    )


def means_of_trace(trace: Trace, target_step_s: float) -> Means:
    """Return the means of one run beside a measured plain target pass.

    Plain decoding's prefill is taken to cost the same, and its bookkeeping nothing.

    Args:
        trace: of the run. target_step_s: `costs["target_step_s"]` of a report.
    """
    return replace(_means([trace], target_step_s), plain_prefill_s=trace.prefill_s)


def means_of_row(row: Mapping[str, Any], plain: Mapping[str, Any]) -> Means | None:
    """Return the means of a line of a report beside its plain line; None if it lacks seconds.

    Args:
        row: a point of a sweep, or a line of a table of heads. plain: plain decoding's.
    """
    names = ("draft_s_per_round", "target_s_per_round", "other_s_per_round", "acceptance")
    if any(name not in each for name in names for each in (row, plain)):
        return None
    tokens = float(row.get("max_new_tokens", row["emitted_tokens"]))
    acceptance = row["acceptance"]
    rates = [0.0 if rate is None else rate[0] for rate in acceptance["conditional"]]
    drafting = row.get("drafting_rounds", acceptance["drafting"] if row["drafted_per_round"] else 0)
    share = min(1.0, drafting / row["rounds"]) if row["rounds"] else 0.0
    prefill, plain_prefill = (
        each.get("prefill_share", 0.0) * each.get("seconds_per_token", 0.0) * tokens
        for each in (row, plain)
    )
    return Means(
        tau=row["tau"],
        tokens=tokens,
        offered=tuple([share] + [1.0] * (len(rates) - 1))[: len(rates)],
        rates=tuple(rates),
        pass_tokens=1.0 + row["drafted_per_round"],
        draft_s=row["draft_s_per_round"],
        target_s=row["target_s_per_round"],
        other_s=row["other_s_per_round"],
        plain_target_s=plain["target_s_per_round"],
        plain_other_s=plain["other_s_per_round"],
        prefill_s=prefill,
        plain_prefill_s=plain_prefill,
        plain_decoding=row.get("shape") == "plain",
        by_depth=row.get("shape") == "tree" or row.get("rule") == BLOCK_RULE,
    )


def _means(traces: Sequence[Trace], plain_target_s: float) -> Means:
    rounds = [round_ for trace in traces for round_ in trace.rounds]
    offered, rates = _by_position(rounds)
    emitted = sum(len(round_.emitted) for round_ in rounds)
    return Means(
        tau=ratio(emitted, len(rounds)) or 1.0,
        tokens=emitted / len(traces),
        offered=offered,
        rates=rates,
        pass_tokens=1.0 + _mean(round_.num_drafted + round_.num_passengers for round_ in rounds),
        draft_s=_mean(round_.timing.draft_s for round_ in rounds),
        target_s=_mean(round_.timing.target_s for round_ in rounds),
        other_s=_mean(round_.timing.verify_s + round_.timing.commit_s for round_ in rounds),
        plain_target_s=plain_target_s,
        prefill_s=_mean(trace.prefill_s for trace in traces),
        plain_decoding=not any(trace.spec.params for trace in traces) and not rates,
        by_depth=any(trace.spec.rule == BLOCK_RULE for trace in traces)
        or not all(round_.tree.is_chain for round_ in rounds),
    )


def _by_position(rounds: Sequence[Round]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return how often a reached depth had a candidate, and how often it was then passed."""
    deepest = max((round_.tree.max_depth for round_ in rounds), default=0)
    offered, rates = [], []
    for depth in range(1, deepest + 1):
        before = [round_ for round_ in rounds if round_.num_accepted >= depth - 1]
        there = [round_ for round_ in before if round_.tree.max_depth >= depth]
        offered.append(ratio(len(there), len(before)) or 0.0)
        rates.append(ratio(sum(r.num_accepted >= depth for r in there), len(there)) or 0.0)
    return tuple(offered), tuple(rates)


def _mean(values: Any) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
