"""Passes on several texts at once, timed on this machine: a part of *Batch and hardware*."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from speclab.core.theory import expected_tokens
from speclab.figures.sweep import batch_costs, batch_speed
from speclab.lab.batch_passes import BatchPlan, speed_by_batch, stops_helping_at
from speclab.ui.backend import Lab, work_limit_s
from speclab.ui.measure_panel import read_number, read_pair, say
from speclab.ui.measure_reports import pair_title, recorded, recorded_report, time_limit, where
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_running import Message, Work
from speclab.ui.running import StopFlag
from speclab.ui.texts_measure import MEASURE

LIMIT_S = work_limit_s(60.0)
PLAN = BatchPlan(batches=(1, 2, 4, 8, 16, 32), tokens=(1, 2, 3, 4, 5, 6, 8), passes=5)


def offered(lab: Lab, lang: str) -> Reply:
    """Return the recorded curves and the limits of one's own."""
    words, saved = MEASURE[lang], recorded("batch")
    first = next(iter(saved.values()), None)
    return {
        "passes_recorded": [
            [name, f"{pair_title(lab, report['pair'], lang)}, {where(report, lang)}"]
            for name, report in saved.items()
        ],
        "passes_limit": words["batch_passes_limit"].format(n=max(PLAN.batches), s=f"{LIMIT_S:.0f}"),
        "passes_view": passes_view(lab, first, 0.7, lang) if first is not None else None,
    }


def recorded_reply(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return the view of a recorded curve, at the alpha of a request.

    Raises:
        BadInput: if there is no such file, or alpha is out of range.
    """
    return passes_view(lab, recorded_report(given, "batch"), _alpha(given, lang), lang)


def _alpha(given: Mapping[str, Any], lang: str) -> float:
    return read_number(given, "alpha", MEASURE[lang]["best_alpha"], (0.0, 1.0))


def passes_view(lab: Lab, report: Mapping[str, Any], alpha: float, lang: str) -> Reply:
    """Return v(n) at every batch and the speed it leaves, whole or not.

    Args:
        report: of batch passes. alpha: acceptance rate, i.i.d.
    """
    words = MEASURE[lang]

    def tokens(gamma: int) -> float:
        return expected_tokens(alpha, gamma)

    speeds = {
        words["batch_own_draft"]: speed_by_batch(report, tokens) if report["draft_s"] else [],
        words["batch_free"]: speed_by_batch(report, tokens, free=True),
    }
    known = {name: found for name, found in speeds.items() if found}
    fig = {key: words[f"batch_fig_{key}"] for key in ("tokens", "cost", "at", "batch", "speedup")}
    sentences = []
    for name, found in known.items():
        stops = stops_helping_at(found)
        key = "batch_passes_helps" if stops is None else "batch_passes_stops"
        text = words[key].format(draft=name, batch=stops or found[-1].batch, alpha=f"{alpha:.2f}")
        sentences.append(say(text, "good" if stops is None else "open"))
    return {
        "count": len(report["target_s"]),
        "costs": batch_costs(report, words={**fig, "batch": fig["at"]}) if known else None,
        "speeds": batch_speed(known, words=fig) if known else None,
        "sentences": sentences,
        "note": words["batch_passes_note"].format(
            pair=pair_title(lab, report["pair"], lang),
            where=where(report, lang),
            context=report["plan"]["context"],
            s=f"{report['seconds']:.0f}",
        ),
        "report": report,
    }


def passes_plan(lab: Lab, given: Mapping[str, Any], stop: StopFlag, lang: str) -> tuple[str, Work]:
    """Return the pair of a request and work that times its batched passes.

    Raises:
        BadInput: if there is no such pair, or alpha is out of range.
    """
    words, name, alpha = MEASURE[lang], read_pair(lab, given), _alpha(given, lang)

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.batch_passes import BatchPasses

        stopped, late = time_limit(stop, LIMIT_S)
        passes = BatchPasses(pair, PLAN, stopped=stopped)
        for done, total in passes:
            text = words["batch_passes_step"].format(done=done, all=total)
            yield {"op": "progress", "text": text, "share": done / total}
        report = passes.report()
        key = "done" if report["complete"] else "late" if late() else "stopped"
        text = words[f"batch_passes_{key}"].format(s=f"{LIMIT_S:.0f}")
        yield {"op": "done", "text": text, "view": passes_view(lab, report, alpha, lang)}

    return name, work
