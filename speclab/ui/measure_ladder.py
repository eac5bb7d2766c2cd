"""The panel *Draft ladder*: drafts of one target from a table to the target itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from speclab.figures.sweep import ladder_map, ladder_speeds
from speclab.ui.backend import Lab, work_limit_s
from speclab.ui.measure_panel import read_number, read_pair, say
from speclab.ui.measure_reports import (
    day_of,
    interval,
    pair_title,
    recorded,
    recorded_report,
    time_limit,
    where,
)
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_running import Message, Work
from speclab.ui.prove_words import number
from speclab.ui.running import StopFlag
from speclab.ui.texts_measure import MEASURE

LIMIT_S = work_limit_s(120.0)
LIMITS: dict[str, tuple[float, float]] = {"num_prompts": (1, 24), "max_new_tokens": (8, 128)}
USUAL = {"num_prompts": 9, "max_new_tokens": 32}
COLUMNS = ("rung", "parameters", "alpha", "c", "best", "speedup", "modelled", "tau")
KINDS = ("bigram", "tiny", "undistilled", "draft", "half", "target")


def options(lab: Lab, lang: str) -> Reply:
    """Return what the panel offers, and the recorded ladder it opens with."""
    words, saved = MEASURE[lang], recorded("ladder")
    first = next(iter(saved.values()), None)
    return {
        "usual": USUAL,
        "pairs": [
            [name, getattr(entry.title, lang)]
            for name, entry in lab.pairs.items()
            if name in ("pocket", "smollm2-135m")
        ],
        "recorded": [
            [name, f"{pair_title(lab, report['pair'], lang)}, {day_of(report)}"]
            for name, report in saved.items()
        ],
        "limit": words["ladder_limit"].format(s=f"{LIMIT_S:.0f}"),
        "view": view_reply(lab, first, lang) if first is not None else None,
    }


def recorded_reply(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return the view of a recorded ladder.

    Raises:
        BadInput: if there is no such file.
    """
    return view_reply(lab, recorded_report(given, "ladder"), lang)


def view_reply(lab: Lab, report: Mapping[str, Any], lang: str) -> Reply:
    """Return figures, table and sentences of a ladder, whole or not."""
    words, names = MEASURE[lang], _names(lang)
    rungs = report["rungs"]
    speeds = ("rung", "speedup", "acceptance")
    map_keys = ("cost", "acceptance", "equal", "rung")
    fig = {key: words[f"ladder_fig_{key}"] for key in {*speeds, *map_keys}}
    return {
        "count": len(rungs),
        "speeds": ladder_speeds(report, words=fig, names=names) if rungs else None,
        "map": ladder_map(report, words=fig, names=names) if rungs else None,
        "sentences": _sentences(report, lang),
        "table": {
            "head": [words[f"ladder_col_{key}"] for key in COLUMNS],
            "rows": [_row(rung, names) for rung in rungs],
        },
        "missing": [
            words["ladder_missing"].format(rung=names[kind], why=words[f"ladder_why_{why}"])
            for kind, why in report["missing"].items()
        ],
        "note": words["ladder_note"].format(
            pair=pair_title(lab, report["pair"], lang),
            where=where(report, lang),
            prompts=report["plan"]["num_prompts"],
            tokens=report["plan"]["max_new_tokens"],
            s=f"{report['seconds']:.0f}",
        ),
        "report": report,
    }


def _names(lang: str) -> dict[str, str]:
    return {kind: MEASURE[lang][f"ladder_rung_{kind}"] for kind in KINDS}


def _best_point(rung: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(point for point in rung["points"] if point["gamma"] == rung["best"])


def _row(rung: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    best = _best_point(rung)
    return [
        names[rung["kind"]],
        number(rung["parameters"]),
        f"{rung['acceptance_rate']:.2f}",
        f"{rung['cost_ratio']:.2f}",
        str(rung["best"]),
        interval(best, "speedup"),
        f"{best['modelled']:.2f}",
        f"{best['tau']:.2f}",
    ]


def _sentences(report: Mapping[str, Any], lang: str) -> list[Reply]:
    """Return which rung is fastest, which agrees most, and whether they are the same."""
    words, names, rungs = MEASURE[lang], _names(lang), report["rungs"]
    if not rungs:
        return [say(words["ladder_nothing"], "open")]
    fastest = max(rungs, key=lambda rung: _best_point(rung)["speedup"])
    closest = max(rungs, key=lambda rung: rung["acceptance_rate"])
    best = _best_point(fastest)
    values = {
        "rung": names[fastest["kind"]],
        "speedup": f"{best['speedup']:.2f}",
        "gamma": fastest["best"],
        "alpha": f"{fastest['acceptance_rate']:.2f}",
        "c": f"{fastest['cost_ratio']:.2f}",
    }
    found = [say(words["ladder_fastest"].format(**values), "good", words["ms_measured"])]
    if closest is not fastest:
        slower = _best_point(closest)
        found.append(
            say(
                words["ladder_closest"].format(
                    rung=names[closest["kind"]],
                    speedup=f"{slower['speedup']:.2f}",
                    alpha=f"{closest['acceptance_rate']:.2f}",
                    c=f"{closest['cost_ratio']:.2f}",
                ),
                "open",
            )
        )
    if not report["complete"]:
        found.append(say(words["sweep_partly"], "open"))
    return found


def ladder_plan(lab: Lab, given: Mapping[str, Any], stop: StopFlag, lang: str) -> tuple[str, Work]:
    """Return the pair of a request and work that climbs its ladder.

    Raises:
        BadInput: for a value out of range.
    """
    from speclab.lab.draft_ladder import LadderPlan

    words, name = MEASURE[lang], read_pair(lab, given)
    counts = {
        key: int(read_number(given, key, words[f"sweep_{key}"], limits, whole=True))
        for key, limits in LIMITS.items()
    }
    plan = LadderPlan(**counts)

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.draft_ladder import Ladder

        stopped, late = time_limit(stop, LIMIT_S)
        yield {"op": "progress", "text": words["ladder_building"]}
        ladder = Ladder(pair, plan, stopped=stopped)
        for done, total in ladder:
            text = words["ladder_step"].format(done=done, all=total)
            view = {"view": view_reply(lab, ladder.report(), lang)}
            yield {"op": "progress", "text": text, "share": done / total, **view}
        report = ladder.report()
        key = "done" if report["complete"] else "late" if late() else "stopped"
        text = words[f"ladder_{key}"].format(s=f"{LIMIT_S:.0f}")
        yield {"op": "done", "text": text, "view": view_reply(lab, report, lang)}

    return name, work
