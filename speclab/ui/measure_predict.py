"""The panel *Predict*: one half of the prompts predicts the speed on the other half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from speclab.figures.sweep import MOST_NAMED, predicted_against_measured, predicted_field
from speclab.ui.backend import Lab, work_limit_s
from speclab.ui.measure_panel import pair_choices, read_number, read_pair, say
from speclab.ui.measure_reports import (
    day_of,
    interval,
    label_text,
    method_title,
    pair_title,
    percent,
    recorded,
    recorded_report,
    skipped_text,
    time_limit,
    where,
)
from speclab.ui.measure_sweep import method_choices, read_methods
from speclab.ui.method_kinds import kind_title
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_running import Message, Work
from speclab.ui.running import StopFlag
from speclab.ui.texts_measure import MEASURE

LIMIT_S = work_limit_s(120.0)
LIMITS: dict[str, tuple[float, float]] = {"num_prompts": (4, 48), "max_new_tokens": (8, 128)}
USUAL = {"num_prompts": 18, "max_new_tokens": 32, "temperature": 0}
USUAL_METHODS = ("draft-model", "prompt-lookup")
KINDS = ("positions", "iid", "formula")
COLUMNS = ("method", "temperature", "measured", *KINDS, "tau", "tau_predicted")
TRUSTED = 0.10
"""Median error below which a prediction is called good."""


def options(lab: Lab, lang: str) -> Reply:
    """Return what the panel offers, and the recorded prediction it opens with."""
    words, saved = MEASURE[lang], recorded("prediction")
    first = next(iter(saved.values()), None)
    return {
        "usual": USUAL,
        "pairs": pair_choices(lab, lang),
        "methods": method_choices(lab, lang),
        "chosen": list(USUAL_METHODS),
        "recorded": [
            [name, f"{pair_title(lab, report['pair'], lang)}, {day_of(report)}"]
            for name, report in saved.items()
        ],
        "limit": words["predict_limit"].format(s=f"{LIMIT_S:.0f}"),
        "view": view_reply(lab, first, lang) if first is not None else None,
    }


def recorded_reply(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return the view of a recorded prediction.

    Raises:
        BadInput: if there is no such file.
    """
    return view_reply(lab, recorded_report(given, "prediction"), lang)


def view_reply(lab: Lab, report: Mapping[str, Any], lang: str) -> Reply:
    """Return figure, table and sentences of a prediction, whole or not."""
    words = MEASURE[lang]
    return {
        "count": len(report["rows"]),
        "figures": {kind: _figure(lab, report, kind, lang) for kind in KINDS},
        "sentences": _sentences(report, lang),
        "table": _table(lab, report, lang),
        "note": words["predict_note"].format(
            pair=pair_title(lab, report["pair"], lang),
            where=where(report, lang),
            prompts=" + ".join(map(str, report["num_requests"])),
            tokens=report["plan"]["max_new_tokens"],
            s=f"{report['seconds']:.0f}",
        ),
        "skipped": [skipped_text(lab, name, why, lang) for name, why in report["skipped"].items()],
        "report": report,
    }


def _figure(lab: Lab, report: Mapping[str, Any], kind: str, lang: str) -> Reply | None:
    words = MEASURE[lang]
    if not report["rows"]:
        return None
    many = len({row["method"] for row in report["rows"]}) > MOST_NAMED
    title = kind_title if many else method_title
    names = {name: title(lab, name, lang) for name in lab.methods}
    keys = ("measured", "predicted", "band")
    figure_words = {key: words[f"predict_fig_{key}"] for key in keys}
    return predicted_against_measured(report["rows"], kind, words=figure_words, names=names)


def _sentences(report: Mapping[str, Any], lang: str) -> list[Reply]:
    words, errors = MEASURE[lang], report["median_error"]
    if errors.get("positions") is None:
        return [say(words["predict_nothing"], "open")]
    shown = {kind: percent(errors[kind], 1) for kind in KINDS}
    good = errors["positions"] <= TRUSTED
    found = [say(words["predict_median"].format(**shown), "good" if good else "open")]
    if errors["iid"] > errors["positions"]:
        found.append(say(words["predict_iid_worse"].format(**shown)))
    if not report["complete"]:
        found.append(say(words["sweep_partly"], "open"))
    return found


def _table(lab: Lab, report: Mapping[str, Any], lang: str) -> Reply:
    words = MEASURE[lang]
    rows = [
        [
            label_text(lab, row["label"], lang),
            f"{row['temperature']:g}",
            interval(row["measured"], "speedup"),
            *(
                f"{row['predicted'][predicted_field(kind)]:.2f} ({_signed(row['error'][kind])})"
                for kind in KINDS
            ),
            f"{row['measured']['tau']:.2f}",
            f"{row['predicted']['tau']:.2f}",
        ]
        for row in report["rows"]
    ]
    return {"head": [words[f"predict_col_{key}"] for key in COLUMNS], "rows": rows}


def _signed(error: float) -> str:
    return f"{error:+.0%}".replace("%", " %").replace("-", "−")


def predict_plan(lab: Lab, given: Mapping[str, Any], stop: StopFlag, lang: str) -> tuple[str, Work]:
    """Return the pair of a request and work that measures it and predicts each half.

    Raises:
        BadInput: for a value out of range, or a method that is not there.
    """
    from speclab.lab.prediction_run import PredictionPlan, labels_of

    words, name = MEASURE[lang], read_pair(lab, given)
    counts = {
        key: int(read_number(given, key, words[f"sweep_{key}"], limits, whole=True))
        for key, limits in LIMITS.items()
    }
    temperature = read_number(given, "temperature", words["predict_temperature"], (0.0, 2.0))
    labels = tuple(label for method in read_methods(lab, given) for label in labels_of(method))
    plan = PredictionPlan(labels=labels, temperatures=(temperature,), **counts)

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.prediction_run import PredictionRun

        stopped, late = time_limit(stop, LIMIT_S)
        run = PredictionRun(pair, plan, stopped=stopped)
        yield {"op": "progress", "text": words["sweep_costs"]}
        for done, total in run:
            text = words["predict_step"].format(done=done, all=total)
            yield {"op": "progress", "text": text, "share": done / total}
        report = run.report()
        key = "done" if report["complete"] else "late" if late() else "stopped"
        text = words[f"predict_{key}"].format(n=len(report["rows"]), s=f"{LIMIT_S:.0f}")
        yield {"op": "done", "text": text, "view": view_reply(lab, report, lang)}

    return name, work
