"""What the tab Compare shows of a race: pure functions from its result to one message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.records import Trace
from speclab.engine.ending import TextStream
from speclab.lab.race import LaneRuns, RaceResult, same_text
from speclab.lab.race_plan import BASELINE, Lane, keeps_law, rule_for
from speclab.stats.pace import (
    Speedup,
    bursts,
    pace_of,
    request_s,
    speedup_over,
)
from speclab.ui.backend import Lab
from speclab.ui.compare_numbers import Line, gaps, milliseconds, table
from speclab.ui.texts_compare import COMPARE
from speclab.ui.texts_errors import error_text

Message = dict[str, Any]
SHOWN_PARAMS = ("num_speculative_tokens", "total_tokens", "tree_nodes", "depth")
"""The parameter that a lane's name always tells, the first it has."""


def variant(lab: Lab, lane: Lane, lang: str) -> str:
    """Return what tells a lane from others of its method: its main parameter, others, its rule."""
    card = lab.methods[lane.method].card
    known = {param.name: param for param in card.params}
    main = next((name for name in SHOWN_PARAMS if name in known), "")
    shown = {main: lane.params.get(main, known[main].default)} if main else {}
    shown |= lane.params
    parts = [f"{known[name].symbol or name} {value}" for name, value in shown.items()]
    if lane.rule != "token":
        parts.append(getattr(lab.rules[lane.rule].title, lang))
    return " · ".join(parts)


def name_of(lab: Lab, lane: Lane, lang: str) -> str:
    """Return a lane's name in a sentence: without what stands in brackets, if that is enough."""

    def short(title: str) -> str:
        return title.split(" (")[0].split("（")[0]

    titles = {name: getattr(method.card.title, lang) for name, method in lab.methods.items()}
    mine = titles[lane.method]
    unique = [short(title) for title in titles.values()].count(short(mine)) == 1
    return f"{short(mine) if unique else mine} {variant(lab, lane, lang)}".strip()


def median_run(traces: Sequence[Trace]) -> Trace:
    """Return the run of median time; of two middle ones the faster."""
    ordered = sorted(traces, key=request_s)
    return ordered[(len(ordered) - 1) // 2]


def replay(trace: Trace) -> list[list[Any]]:
    """Return the bursts of a run as [seconds, accepted text, own text, tokens, parts...].

    The parts are the seconds of drafting, of the target pass, and of rule and cache. A character
    that is split over tokens belongs to the token that completes it, so no text shows half of one.
    """
    stream = TextStream(trace.spec.stop_strings if trace.stop_reason == "stop_string" else ())
    lines: list[list[Any]] = []
    rounds = [round_ for round_ in trace.rounds if round_.emitted]
    for burst, round_ in zip(bursts(trace), rounds, strict=True):
        pieces = [stream.feed(trace.piece(token)) for token in round_.emitted]
        drafts = min(round_.num_accepted, len(pieces))
        timing = round_.timing
        lines.append(
            [
                round(burst.at_s, 6),
                "".join(pieces[:drafts]),
                "".join(pieces[drafts:]),
                burst.count,
                round(timing.draft_s, 6),
                round(timing.target_s, 6),
                round(timing.verify_s + timing.commit_s, 6),
            ]
        )
    if lines:
        lines[-1][2] += stream.finish()
    return lines


# --- one message ----------------------------------------------------------------------------------


class RaceView:
    """A race in one language.

    Args:
        lab: the lab. result: of the race. lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, result: RaceResult, lang: str) -> None:
        self.lab, self.result, self.lang = lab, result, lang
        self.words = COMPARE[lang]
        self.ran = [runs for runs in result.runs if runs.traces]
        self.paces = {runs.lane.label: pace_of(runs.traces) for runs in self.ran}
        base = next((r.traces for r in self.ran if r.lane.method == BASELINE), ())
        self.base = base
        self.speedups = {r.lane.label: speedup_over(base, r.traces) for r in self.ran}

    def message(self, badge: str) -> Message:
        """Return everything that the page shows."""
        plan = self.result.plan
        lanes = [self._lane(runs) for runs in self.result.runs]
        return {
            "op": "race",
            "badge": badge,
            "facts": self._facts(),
            "prompt": plan.prompt,
            "sentences": self.sentences(),
            "end_s": max((lane["end_s"] for lane in lanes), default=0.0),
            "lanes": lanes,
            "table": table(self.lines(), self.lang),
            "gaps": gaps(self.lines(), self.lang),
            "chosen": chosen(self.result),
        }

    def lines(self) -> list[Line]:
        """Return the lanes that ran, for tables."""
        return [
            Line(
                name=self._name(runs.lane),
                traces=runs.traces,
                pace=self.paces[runs.lane.label],
                speedup=self.speedups[runs.lane.label],
            )
            for runs in self.ran
        ]

    def _name(self, lane: Lane) -> str:
        return name_of(self.lab, lane, self.lang)

    def _facts(self) -> str:
        plan, first = self.result.plan, self.ran[0].traces[0].spec if self.ran else None
        entry, threads = self.lab.pairs.get(plan.pair), self.result.threads
        count = self.words["cp_thread" if threads == 1 else "cp_threads"].format(n=threads or "?")
        return self.words["cp_facts"].format(
            pair=getattr(entry.title, self.lang) if entry else plan.pair,
            dtype=first.target.dtype if first else "–",
            device=first.device if first else "–",
            processor=self.result.processor or "?",
            threads=count,
            load=f"{self.result.load_average:g}",
            created=self.result.created[:16].replace("T", " "),
            temperature=f"{plan.sampling.temperature:g}",
            seed=plan.seed,
            repeats=self.result.repeats,
        )

    def _lane(self, runs: LaneRuns) -> Message:
        lane, card = runs.lane, self.lab.methods[runs.lane.method].card
        shown: Message = {
            "label": lane.label,
            "title": getattr(card.title, self.lang),
            "variant": variant(self.lab, lane, self.lang),
            "law": self._law(lane),
            "end_s": 0.0,
        }
        if not runs.traces:
            shown["refusal"] = self._refusal(runs)
            return shown
        trace, pace = median_run(runs.traces), self.paces[lane.label]
        lines = replay(trace)
        return shown | {
            "end_s": lines[-1][0] if lines else 0.0,
            "prefill_s": round(trace.prefill_s, 6),
            "tau": f"{pace.block_efficiency:.2f}" if pace.block_efficiency else "–",
            "tpot": milliseconds(pace.tpot_s, self.lang),
            "bursts": lines,
        }

    def _refusal(self, runs: LaneRuns) -> str:
        refusal = runs.refusal
        if refusal is None:
            return self.words["cp_left_out"]
        error = BadInput(refusal.what, refusal.hint, code=refusal.code, values=refusal.values)
        return error_text(error, self.lang)

    def _law(self, lane: Lane) -> Message:
        """Return whether the lane's text follows the target's law, and by what."""
        sampling = self.result.plan.sampling
        same, rule = keeps_law(lane, sampling), self.lab.rules[rule_for(lane, sampling)]
        why = self.words["cp_law_yes"].format(rule=getattr(rule.title, self.lang))
        if lane.method == BASELINE:
            why = self.words["cp_law_plain"]
        elif not same and rule.why_not:
            why = getattr(rule.why_not, self.lang)
        word = self.words["cp_yes" if same else "cp_no"]
        return {"same": same, "text": word, "why": why}

    # --- sentences ------------------------------------------------------------------------------

    def sentences(self) -> list[Message]:
        """Return who was first, what surprises, and what the texts have in common."""
        found = self._fastest()
        plan = self.result.plan
        found += self._greedy() if plan.sampling.greedy else [self._sampled()]
        for runs in self.ran:
            law = self._law(runs.lane)
            if not law["same"]:
                text = self.words["cp_not_same_law_text"].format(
                    lane=self._name(runs.lane), why=law["why"]
                )
                found.append(_say(self.words["cp_not_same_law"], text, "bad"))
        return found

    def _ranked(self) -> list[tuple[LaneRuns, Speedup]]:
        """Return the lanes beside plain decoding, the fastest first."""
        pairs = [
            (runs, speedup)
            for runs in self.ran
            if runs.lane.method != BASELINE
            and (speedup := self.speedups[runs.lane.label]) is not None
        ]
        return sorted(pairs, key=lambda pair: -pair[1].ratio)

    def _fastest(self) -> list[Message]:
        ranked, words = self._ranked(), self.words
        if not ranked:
            return []
        best, speedup = ranked[0]
        faster = speedup.ratio > 1.0
        text = words["cp_fastest" if faster else "cp_none_faster"].format(
            lane=self._name(best.lane), speedup=f"{speedup.ratio:.2f}", spread=self._spread(speedup)
        )
        measured = words["cp_mark_measured"]
        tie = len(ranked) > 1 and ranked[1][1].high >= speedup.low
        if tie:
            close = words["cp_tie"].format(lane=self._name(ranked[1][0].lane))
            text += close if self.lang == "zh" else f" {close}"
        found = [_say(measured, text, "good" if faster and not tie else "open")]
        most = max(ranked, key=lambda pair: self.paces[pair[0].lane.label].block_efficiency or 0.0)
        tau = self.paces[most[0].lane.label].block_efficiency or 0.0
        if most[0] is not best and tau > (self.paces[best.lane.label].block_efficiency or 0.0):
            first, second = self._round_ms(best), self._round_ms(most[0])
            text = words["cp_more_slower"].format(
                lane=self._name(most[0].lane),
                tau=f"{tau:.2f}",
                first=self._name(best.lane),
                first_cost=f"{first:.3g}",
                cost=f"{second:.3g}",
            )
            found.append(_say(measured, text, "info"))
        slow = [self._name(runs.lane) for runs, speed in ranked[1:] if speed.ratio < 1.0]
        if slow and faster:
            lanes = ("、" if self.lang == "zh" else ", ").join(slow)
            found.append(_say(measured, words["cp_slower"].format(lanes=lanes), "open"))
        return found

    def _round_ms(self, runs: LaneRuns) -> float:
        pace = self.paces[runs.lane.label]
        return 1e3 * pace.decode_s / max(pace.num_rounds, 1)

    def _spread(self, speedup: Speedup) -> str:
        if speedup.num_pairs == 1:
            return self.words["cp_spread_one"]
        return self.words["cp_spread"].format(
            low=f"{speedup.low:.2f}", high=f"{speedup.high:.2f}", n=speedup.num_pairs
        )

    def _greedy(self) -> list[Message]:
        """Return whether greedy texts agree token for token with plain decoding's."""
        if not self.base:
            return []
        words, wanted, found = self.words, self.base[0].emitted, []
        for runs in self.ran:
            place = same_text(wanted, runs.traces[0].emitted)
            if place is not None:
                same = self._law(runs.lane)["same"]
                text = words["cp_greedy_differs" if same else "cp_greedy_lossy"].format(
                    lane=self._name(runs.lane), place=place + 1
                )
                found.append(_say(words["cp_greedy"], text, "open" if same else "bad"))
        if found:
            return found
        text = words["cp_greedy_same"].format(n=len(self.ran), tokens=len(wanted))
        return [_say(words["cp_greedy"], text, "good")]

    def _sampled(self) -> Message:
        temperature = f"{self.result.plan.sampling.temperature:g}"
        text = self.words["cp_sampled_text"].format(temperature=temperature)
        return _say(self.words["cp_sampled"], text, "info")


def _say(mark: str, text: str, tone: str) -> Message:
    return {"mark": mark, "text": text, "tone": tone}


def chosen(result: RaceResult) -> Message:
    """Return the choices that lead to a race, as the page's controls hold them."""
    plan = result.plan
    return {
        "pair": plan.pair,
        "prompt": plan.prompt,
        "temperature": plan.sampling.temperature,
        "max_new_tokens": plan.max_new_tokens,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "lanes": [lane.label for lane in plan.lanes if lane.method != BASELINE],
    }
