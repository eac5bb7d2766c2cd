"""The panel *Sweep*: one thing is varied, methods are measured beside plain decoding at each value.

It opens with a recorded sweep where there is one; a sweep of one's own can be stopped and keeps
what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from speclab.core.errors import BadInput
from speclab.figures.sweep import MOST_DRAWN, sweep_curves
from speclab.lab.labels import parse_label
from speclab.lab.sweep_axes import AXES, axis_named
from speclab.ui.backend import Lab, work_limit_s
from speclab.ui.measure_panel import pair_choices, read_number, read_pair, say
from speclab.ui.measure_reports import (
    day_of,
    interval,
    method_title,
    pair_title,
    percent,
    recorded,
    recorded_report,
    skipped_text,
    time_limit,
    where,
)
from speclab.ui.method_kinds import kind_title
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_running import Message, Work
from speclab.ui.running import StopFlag
from speclab.ui.texts_measure import MEASURE

BASELINE = "autoregressive"
LIMIT_S = work_limit_s(120.0)
LIMITS: dict[str, tuple[float, float]] = {"num_prompts": (1, 24), "max_new_tokens": (8, 128)}
USUAL = {"axis": "gamma", "num_prompts": 9, "max_new_tokens": 32}
USUAL_METHODS = ("draft-model", "prompt-lookup")
MOST_METHODS = 6
METRIC_WORDS = {
    "speedup": "sweep_fig_speedup",
    "decode_speedup": "sweep_fig_decode_speedup",
    "tau": "sweep_tau_chart",
}
COLUMNS = ("value", "method", "tau", "alpha", "speedup", "draft", "tokens")


def options(lab: Lab, lang: str) -> Reply:
    """Return what the panel offers, and the recorded sweep it opens with."""
    words = MEASURE[lang]
    saved = recorded("sweep")
    first = next(iter(saved), "")
    return {
        "usual": USUAL,
        "pairs": pair_choices(lab, lang),
        "axes": [[name, words[f"sweep_axis_{name}"]] for name in AXES],
        "methods": method_choices(lab, lang),
        "chosen": list(USUAL_METHODS),
        "recorded": [[name, _recorded_title(lab, saved[name], lang)] for name in saved],
        "limit": words["sweep_limit"].format(s=f"{LIMIT_S:.0f}", n=MOST_METHODS),
        "view": view_reply(lab, saved[first], lang) if first else None,
    }


def method_choices(lab: Lab, lang: str) -> list[list[str]]:
    """Return [name, title, title of its kind] of every method that drafts."""
    return [
        [name, getattr(method.card.title, lang), kind_title(lab, name, lang)]
        for name, method in lab.methods.items()
        if name != BASELINE
    ]


def _recorded_title(lab: Lab, report: Mapping[str, Any], lang: str) -> str:
    words = MEASURE[lang]
    return words["sweep_recorded_title"].format(
        axis=words[f"sweep_axis_{report['axis']}"],
        pair=pair_title(lab, report["pair"], lang),
        date=day_of(report),
    )


def recorded_reply(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return the view of a recorded sweep.

    Raises:
        BadInput: if there is no such file.
    """
    return view_reply(lab, recorded_report(given, "sweep"), lang)


def view_reply(lab: Lab, report: Mapping[str, Any], lang: str) -> Reply:
    """Return figures, table and sentences of a sweep, whole or not."""
    words = MEASURE[lang]
    facts = {"pair": pair_title(lab, report["pair"], lang), "where": where(report, lang)}
    return {
        "axis": report["axis"],
        "count": len(report["points"]),
        "figure": _figure(lab, report, speed_shown(report["axis"]), lang),
        "tau_figure": _figure(lab, report, "tau", lang),
        "sentences": _sentences(lab, report, lang),
        "table": _table(lab, report, lang),
        "note": words["sweep_note"].format(
            prompts=max(
                (point["num_prompts"] for point in report["points"]),
                default=report["plan"]["num_prompts"],
            ),
            tokens=report["plan"]["max_new_tokens"],
            s=f"{report['seconds']:.0f}",
            **facts,
        ),
        "skipped": [skipped_text(lab, name, why, lang) for name, why in report["skipped"].items()],
        "report": report,
    }


def speed_shown(axis: str) -> str:
    """Return the speedup in the chart: over gamma that of the rounds alone, as S is."""
    return "decode_speedup" if axis == "gamma" else "speedup"


def _figure(lab: Lab, report: Mapping[str, Any], metric: str, lang: str) -> Reply | None:
    """Return a sweep's points over its axis, with the theory of its own numbers for speedups."""
    words, axis = MEASURE[lang], report["axis"]
    if not report["points"]:
        return None
    shown = report
    if axis == "family":
        named = [
            {**each, "value": value_text(axis, each["value"], lang)} for each in report["points"]
        ]
        shown = {**report, "points": named}
    return sweep_curves(
        shown,
        metric,
        words={
            "axis": words[f"sweep_axis_{axis}"],
            "metric": words[METRIC_WORDS[metric]],
            "theory": words["sweep_fig_theory"],
            "perfect": words["sweep_fig_perfect"],
        },
        names={name: method_title(lab, name, lang) for name in lab.methods},
    )


def _sentences(lab: Lab, report: Mapping[str, Any], lang: str) -> list[Reply]:
    """Return, per method, where it is fastest."""
    words, found = MEASURE[lang], []
    if not report["complete"]:
        found.append(say(words["sweep_partly"], "open"))
    drafting = [point for point in report["points"] if point["method"] != BASELINE]
    for method in dict.fromkeys(point["method"] for point in drafting):
        own = [point for point in drafting if point["method"] == method]
        best = max(own, key=lambda point: point["speedup"])
        key = "sweep_best" if best["speedup_low"] > 1.0 else "sweep_best_none"
        if best["num_prompts"] < 2:
            key = "sweep_best_one"
        text = words[key].format(
            method=method_title(lab, method, lang),
            value=value_text(report["axis"], best["value"], lang),
            speedup=f"{best['speedup']:.2f}",
            low=f"{best['speedup_low']:.2f}",
            high=f"{best['speedup_high']:.2f}",
            tau=f"{best['tau']:.2f}",
        )
        found.append(say(text, "good" if key == "sweep_best" else "open"))
    if len(found) > MOST_DRAWN:
        found.append(say(words["sweep_fastest_drawn"].format(shown=MOST_DRAWN)))
    return found


def value_text(axis: str, value: Any, lang: str) -> str:
    """Return a value of an axis for people: `γ = 4`, `T = 0.7`, a family by its name."""
    if axis == "family":
        return MEASURE[lang].get(f"family_{value}", str(value))
    shown = f"{value:g}" if isinstance(value, int | float) else str(value)
    symbol = axis_named(axis).symbol
    return f"{symbol} = {shown}" if symbol else shown


def _table(lab: Lab, report: Mapping[str, Any], lang: str) -> Reply:
    words = MEASURE[lang]
    rows = [
        [
            value_text(report["axis"], point["value"], lang),
            method_title(lab, point["method"], lang),
            interval(point, "tau"),
            "–" if point["acceptance_rate"] is None else f"{point['acceptance_rate']:.2f}",
            interval(point, "speedup"),
            percent(point["draft_share"]),
            f"{point['tokens_per_s']:.0f}",
        ]
        for point in report["points"]
    ]
    return {"head": [words[f"sweep_col_{key}"] for key in COLUMNS], "rows": rows, "words": [1]}


# --- a sweep of one's own -------------------------------------------------------------------------


def sweep_plan(lab: Lab, given: Mapping[str, Any], stop: StopFlag, lang: str) -> tuple[str, Work]:
    """Return the pair of a request and work that sweeps it.

    Raises:
        BadInput: for a value out of range, or a method that is not there.
    """
    from speclab.lab.sweep import SweepPlan

    words = MEASURE[lang]
    name, axis = read_pair(lab, given), axis_named(str(given.get("axis")))
    counts = {
        key: int(read_number(given, key, words[f"sweep_{key}"], limits, whole=True))
        for key, limits in LIMITS.items()
    }
    plan = SweepPlan(axis=axis.name, methods=read_methods(lab, given), **counts)

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.sweep import Sweep

        stopped, late = time_limit(stop, LIMIT_S)
        sweep = Sweep(pair, plan, stopped=stopped)
        yield {"op": "progress", "text": words["sweep_costs"]}
        for step in sweep:
            text = words["sweep_step"].format(
                done=step.done, all=step.total, value=value_text(axis.name, step.value, lang)
            )
            view = {"view": view_reply(lab, sweep.report(), lang)} if step.points else {}
            yield {"op": "progress", "text": text, "share": step.done / step.total, **view}
        report = sweep.report()
        text = words["sweep_done"] if report["complete"] else _ended(report, late(), lang)
        tone = "good" if report["complete"] else "info"
        yield {"op": "done", "text": text, "tone": tone, "view": view_reply(lab, report, lang)}

    return name, work


def _ended(report: Mapping[str, Any], late: bool, lang: str) -> str:
    words = MEASURE[lang]
    key = "sweep_late" if late else "sweep_stopped"
    return words[key].format(n=len(report["points"]), s=f"{LIMIT_S:.0f}")


def read_methods(lab: Lab, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the methods of a request.

    Raises:
        BadInput: for one that is not there, or too many.
    """
    asked = given.get("methods")
    names = [str(name) for name in asked] if isinstance(asked, list) else []
    for name in names:
        if name not in lab.methods:
            known = ", ".join(lab.methods)
            raise BadInput(
                f"There is no method {name!r:.80}.",
                f"Methods: {known}.",
                code="unknown_method",
                values={"name": name[:80], "known": known},
            )
    if not 1 <= len(names) <= MOST_METHODS:
        raise BadInput(
            f"Between 1 and {MOST_METHODS} methods can be measured at once, not {len(names)}.",
            code="sweep_methods",
            values={"limit": MOST_METHODS, "count": len(names)},
        )
    return tuple(parse_label(name)[0] for name in names)
