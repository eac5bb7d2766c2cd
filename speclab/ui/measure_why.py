"""The panel *Why slower?*: reads a run or a report and names what limits it, with its number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.records import Trace
from speclab.lab.labels import parse_label
from speclab.stats.diagnosis import (
    SENTENCES,
    Diagnosis,
    Means,
    diagnose,
    means_of_row,
    means_of_trace,
)
from speclab.ui.backend import Lab
from speclab.ui.measure_advice import LIMIT_S
from speclab.ui.measure_best import costed
from speclab.ui.measure_panel import pair_choices, read_number, say
from speclab.ui.measure_reports import label_text, pair_title, percent, reports, where
from speclab.ui.measure_sweep import method_choices, value_text
from speclab.ui.prove_panel import Reply
from speclab.ui.texts_measure import MEASURE
from speclab.ui.texts_measure_panels import ZH_DIAGNOSIS

MOST_CHARS, MOST_ROWS, MOST_NAME = 4_000_000, 500, 120
STEP_MS: tuple[float, float] = (0.001, 1e6)
WORDS = {"en": SENTENCES, "zh": ZH_DIAGNOSIS}
TONES = {"faster": "good", "slower": "bad", "same": "open", "plain": "info"}
READABLE = ("sweep", "heads")
SHARES = ("low_acceptance", "nothing_drafted", "never_drafted", "prefill")
COLUMNS = ("limit", "value", "gain")
ROW_COLUMNS = ("row", "speedup", "limit", "value", "gain")

Fault = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError),
    *(ArithmeticError, RecursionError),
)
"""What a file of the wrong shape does to whoever reads it."""


def options(lab: Lab, lang: str) -> Reply:
    """Return what the panel offers."""
    words = MEASURE[lang]
    saved = [(name, each) for name, each in reports().items() if each.get("kind") in READABLE]
    kinds = {kind: words[f"why_kind_{kind}"] for kind in READABLE}
    titles = [
        [name, f"{kinds[each['kind']]}, {pair_title(lab, each['pair'], lang)}"]
        for name, each in saved
    ]
    return {
        "most": MOST_CHARS,
        "pairs": pair_choices(lab, lang),
        "recorded": titles,
        "methods": method_choices(lab, lang),
        "advice_how": words["why_advice_how"].format(s=f"{LIMIT_S:.0f}"),
        "limit": words["why_limit"].format(mb=f"{MOST_CHARS / 1e6:.0f}", rows=MOST_ROWS),
    }


def why_reply(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return what limits the run or report of a request.

    Args:
        given: `text`, JSON of a trace or a report; or `recorded`, the name of a recorded report.
            `step_ms`: of a plain target step beside a trace; empty: from a recorded report.

    Raises:
        BadInput: for a text that is too long, no JSON, or neither.
    """
    if given.get("recorded"):
        data: Any = reports().get(str(given["recorded"]))
    else:
        data = read_json(str(given.get("text", "")))
    if not isinstance(data, dict):
        raise _unreadable()
    if "rounds" in data:
        return _of_trace(lab, Trace.from_json(json.dumps(data)), given, lang)
    try:
        return _of_report(lab, data, lang)
    except Fault as fault:
        raise _unreadable() from fault


def read_json(text: str) -> Any:
    """Return a parsed text of a visitor.

    Raises:
        BadInput: if it is too long or no JSON; NaN and infinity are none.
    """
    if len(text) > MOST_CHARS:
        raise BadInput(
            f"The text has {len(text):,} characters; {MOST_CHARS:,} fit.",
            "Open a shorter run.",
            code="why_too_large",
            values={"size": f"{len(text):,}", "limit": f"{MOST_CHARS:,}"},
        )
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as fault:
        raise BadInput(
            "This text is not JSON.",
            "Save a trace in the tab Watch or a report here, and open that file.",
            code="why_not_json",
        ) from fault


def _refuse(name: str) -> float:
    raise ValueError(name)


def _unreadable() -> BadInput:
    return BadInput(
        "This is neither a trace nor a report with the seconds of every round.",
        "Open a trace of the tab Watch, a sweep of this tab, or a table of heads.",
        code="why_unreadable",
    )


# --- one run --------------------------------------------------------------------------------------


def _of_trace(lab: Lab, trace: Trace, given: Mapping[str, Any], lang: str) -> Reply:
    words = MEASURE[lang]
    if not trace.rounds:
        raise BadInput("This run has no rounds.", "Let it run longer.", code="why_no_rounds")
    step_s, note = _plain_step(lab, trace, given, lang)
    try:
        means = means_of_trace(trace, step_s)
        found = diagnose(means)
    except Fault as fault:
        raise _unreadable() from fault
    facts = words["why_trace"].format(
        method=_run_title(lab, trace, lang),
        pair=pair_title(lab, trace.spec.pair, lang)[:MOST_NAME],
        rounds=len(trace.rounds),
        tokens=len(trace.emitted),
    )
    return {**_reply(found, means, lang), "notes": [facts, note]}


def _run_title(lab: Lab, trace: Trace, lang: str) -> str:
    """Return a run's method with its numbers; what the lab does not know only by name."""
    method = trace.spec.method
    if method not in lab.methods:
        return method[:MOST_NAME]
    numbers = [
        f"{name}={value}"
        for name, value in trace.spec.params.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    try:
        return label_text(lab, ":".join((method, *numbers[:4])), lang)
    except BadInput:
        return method


def _plain_step(lab: Lab, trace: Trace, given: Mapping[str, Any], lang: str) -> tuple[float, str]:
    """Return the seconds of a plain target step, and where they come from.

    Raises:
        BadInput: if none is known.
    """
    words = MEASURE[lang]
    if str(given.get("step_ms") or "").strip():
        step_ms = read_number(given, "step_ms", words["why_step"], STEP_MS)
        return step_ms / 1e3, words["why_step_given"].format(ms=f"{step_ms:g}")
    dtype = trace.spec.target.dtype
    known = [each for each in costed().values() if each["pair"] == trace.spec.pair]
    known.sort(key=lambda each: each["dtype"] != dtype)
    if not known:
        raise BadInput(
            f"No plain step of the pair {trace.spec.pair[:80]} was measured.",
            "Type the milliseconds of a plain target step.",
            code="why_no_step",
            values={"pair": trace.spec.pair[:80]},
        )
    step_s = float(known[0]["costs"]["target_step_s"])
    note = words["why_step_recorded"].format(ms=f"{1e3 * step_s:.2f}", where=where(known[0], lang))
    return step_s, note


def _reply(found: Diagnosis, means: Means, lang: str) -> Reply:
    """Return the verdict, the limiting factor and the others in order."""
    words = MEASURE[lang]
    lines = found.sentences(WORDS[lang])
    sentences = [say(lines[0], TONES[found.verdict], words["ms_modelled"])]
    sentences += [say(line, "open" if i == 0 else "info") for i, line in enumerate(lines[1:])]
    rows = [
        [
            words[f"why_limit_{limit.sentence}"],
            _value(limit.key, limit.value),
            f"{limit.gain:.2f}×",
        ]
        for limit in found.limits
    ]
    table = {"head": [words[f"why_col_{key}"] for key in COLUMNS], "rows": rows}
    return {
        "factor": found.main.key if found.main else "",
        "sentences": sentences,
        "tables": [table] if rows else [],
        "notes": [],
    }


def _value(key: str, value: float) -> str:
    return percent(value) if key in SHARES else f"{value:.2f}"


# --- a report -------------------------------------------------------------------------------------


def _of_report(lab: Lab, report: Mapping[str, Any], lang: str) -> Reply:
    """Return what limits every line of a report; in full for the fastest."""
    words = MEASURE[lang]
    rows = list(report.get("points") or report.get("rows") or ())[:MOST_ROWS]
    diagnosed = [(row, means, diagnose(means)) for row, means in _means_of(rows)]
    if not diagnosed:
        raise _unreadable()
    row, means, found = max(diagnosed, key=lambda each: each[2].speedup)
    table = {
        "head": [words[f"why_col_{key}"] for key in ROW_COLUMNS],
        "rows": [
            [
                _row_title(lab, row, lang),
                f"{found.speedup:.2f}",
                words[f"why_limit_{found.main.sentence}"] if found.main else "–",
                _value(found.main.key, found.main.value) if found.main else "–",
                f"{found.main.gain:.2f}×" if found.main else "–",
            ]
            for row, _, found in diagnosed
        ],
        "words": [2],
    }
    reply = _reply(found, means, lang)
    text = words["why_fastest"].format(row=_row_title(lab, row, lang))
    reply["sentences"] = [say(text), *reply["sentences"]]
    return {**reply, "tables": [*reply["tables"], table]}


def _means_of(rows: list[Any]) -> Iterator[tuple[Mapping[str, Any], Means]]:
    """Yield the drafting lines whose seconds are known, with their means."""
    for row in rows:
        plain = next((each for each in rows if _is_plain_of(each, row)), None)
        means = means_of_row(row, plain) if plain is not None else None
        if means is not None and not means.plain_decoding:
            yield row, means


def _is_plain_of(plain: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    same = all(plain.get(name) == row.get(name) for name in ("temperature", "value"))
    return plain.get("shape") == "plain" and same


def _row_title(lab: Lab, row: Mapping[str, Any], lang: str) -> str:
    label = str(row["label"])[:MOST_NAME]
    known = parse_label(label)[0] in lab.methods
    title = label_text(lab, label, lang) if known else label
    if "axis" in row and "value" in row:
        return f"{title}, {value_text(str(row['axis']), row['value'], lang)[:MOST_NAME]}"
    return f"{title}, T = {row['temperature']:g}"
