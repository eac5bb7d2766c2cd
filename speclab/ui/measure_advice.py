"""The recommended gamma, width and depth of a method on a pair: a part of *Why slower?*."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from speclab.lab.labels import parse_label
from speclab.ui.backend import Lab, work_limit_s
from speclab.ui.measure_panel import read_pair, say
from speclab.ui.measure_reports import label_text, pair_title, time_limit, where
from speclab.ui.measure_sweep import read_methods
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_running import Message, Work
from speclab.ui.running import StopFlag
from speclab.ui.texts_measure import MEASURE

LIMIT_S = work_limit_s(90.0)
SHOWN = 8
COLUMNS = ("setting", "speedup", "tau", "alpha", "c", "round")


def advice_plan(lab: Lab, given: Mapping[str, Any], stop: StopFlag, lang: str) -> tuple[str, Work]:
    """Return the pair of a request and work that measures a few settings and recommends one.

    Raises:
        BadInput: if there is no such pair or method.
    """
    words, name = MEASURE[lang], read_pair(lab, given)
    (method,) = read_methods(lab, {"methods": [given.get("method")]})

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.recommend import Recommending

        stopped, late = time_limit(stop, LIMIT_S)
        run = Recommending(pair, method, stopped=stopped)
        yield {"op": "progress", "text": words["sweep_costs"]}
        for done, total in run:
            text = words["predict_step"].format(done=done, all=total)
            yield {"op": "progress", "text": text, "share": done / total}
        key = "late" if late() else "stopped" if stop.raised else "done"
        text = words[f"why_advice_{key}"].format(s=f"{LIMIT_S:.0f}")
        yield {"op": "done", "text": text, **advice_view(lab, run.report(), lang)}

    return name, work


def advice_view(lab: Lab, report: Mapping[str, Any], lang: str) -> Reply:
    """Return the recommendation as sentences and a table of the best candidates."""
    words, best = MEASURE[lang], report["best"]
    if best is not None:
        found = best["predicted"]
        text = words["why_advice_best"].format(
            setting=label_text(lab, best["label"], lang),
            speedup=f"{found['speedup']:.2f}",
            low=f"{found['low']:.2f}",
            high=f"{found['high']:.2f}",
        )
        sentences = [say(text, "good", words["ms_modelled"])]
    elif report["candidates"]:
        sentences = [say(words["why_advice_none"], "open", words["ms_modelled"])]
    else:
        sentences = [say(words["why_advice_nothing"], "open")]
    rows = [_row(lab, each, lang) for each in report["candidates"][:SHOWN]]
    note = words["why_advice_note"].format(
        pair=pair_title(lab, report["pair"], lang),
        where=where(report, lang),
        prompts=report["plan"]["num_prompts"],
        tokens=report["plan"]["max_new_tokens"],
        s=f"{report['seconds']:.0f}",
    )
    head = [words[f"why_setting_{key}"] for key in COLUMNS]
    tables = [{"head": head, "rows": rows}] if rows else []
    return {"sentences": [*sentences, say(note)], "tables": tables, "report": report}


def _row(lab: Lab, candidate: Mapping[str, Any], lang: str) -> list[str]:
    found = candidate["predicted"]
    known = parse_label(candidate["label"])[0] in lab.methods
    return [
        label_text(lab, candidate["label"], lang) if known else candidate["label"],
        f"{found['speedup']:.2f} ({found['low']:.2f}–{found['high']:.2f})",
        f"{found['tau']:.2f}",
        f"{found['acceptance_rate']:.2f}",
        f"{found['cost_ratio']:.2f}",
        f"{found['round_cost']:.2f}",
    ]
