"""Recorded reports and what the panels of the tab Measure say of any report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from speclab.core.errors import BadInput
from speclab.lab.head_files import BENCHMARKS, read_kept
from speclab.lab.labels import parse_label
from speclab.ui.backend import Lab
from speclab.ui.running import StopFlag
from speclab.ui.texts_errors import ZH_ERRORS
from speclab.ui.texts_measure import MEASURE

LOG = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def reports() -> dict[str, dict[str, Any]]:
    """Return every recorded report by the name of its file; a damaged one is left out."""
    found = {}
    for path in sorted(BENCHMARKS.glob("*.json")):
        try:
            report = read_kept(path)
        except BadInput as error:
            LOG.warning("%s", error)
            continue
        if "pair" in report:
            found[path.stem] = report
    return found


def recorded(kind: str) -> dict[str, dict[str, Any]]:
    """Return the recorded reports of one kind, by the name of their file."""
    return {name: report for name, report in reports().items() if report.get("kind") == kind}


def recorded_report(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the recorded report that a request names.

    Raises:
        BadInput: if there is no such file.
    """
    found = recorded(kind).get(str(given.get("name")))
    if found is None:
        raise BadInput("There is no such recording.", "Reload the page.", code="prove_request")
    return found


def where(report: Mapping[str, Any], lang: str) -> str:
    """Return on what a report was measured, and when."""
    return MEASURE[lang]["ms_where"].format(
        processor=report.get("processor") or report.get("device", "–"),
        threads=report.get("threads", "–"),
        dtype=report.get("dtype", "–"),
        date=day_of(report),
    )


def day_of(report: Mapping[str, Any]) -> str:
    """Return the day a report was made; empty where it does not say."""
    return str(report.get("created", ""))[:10]


def pair_title(lab: Lab, name: str, lang: str) -> str:
    """Return the title of a pair; its name where the lab does not know it."""
    entry = lab.pairs.get(name)
    return getattr(entry.title, lang) if entry else name


def skipped_text(lab: Lab, method: str, why: Mapping[str, Any], lang: str) -> str:
    """Return why a method was left out, in the page's language."""
    code = str(why.get("code", ""))
    text = str(why.get("what", ""))
    if code == "axis_without_effect":
        text = MEASURE[lang]["sweep_no_effect"]
    elif lang == "zh" and code in ZH_ERRORS:
        text = ZH_ERRORS[code][0].format(**why.get("values", {}))
    return MEASURE[lang]["sweep_skipped"].format(
        method=method_title(lab, method, lang), reason=text
    )


def method_title(lab: Lab, name: str, lang: str) -> str:
    """Return a method's title; its name where the lab does not know it."""
    kind = lab.methods.get(name)
    return getattr(kind.card.title, lang) if kind else name


def label_text(lab: Lab, label: str, lang: str) -> str:
    """Return a label for people: the method's title and its parameters in brackets."""
    method, params = parse_label(label)
    kind, title = lab.methods.get(method), method_title(lab, method, lang)
    symbols = {param.name: param.symbol or param.name for param in kind.card.params} if kind else {}
    values = ", ".join(
        f"{symbols.get(name, name)} = {value if isinstance(value, str) else f'{value:g}'}"
        for name, value in params.items()
    )
    return f"{title} ({values})" if values else title


def interval(row: Mapping[str, Any], name: str) -> str:
    """Return a measured number with its 95 % interval: `1.42 (1.31–1.53)`."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if row.get(name) is None:
        return "–"
    if low is None or high is None:
        return f"{row[name]:.2f}"
    return f"{row[name]:.2f} ({low:.2f}–{high:.2f})"


def percent(value: float, digits: int = 0) -> str:
    """Return a share for people: `57 %`."""
    return f"{value:.{digits}%}".replace("%", " %")


def time_limit(stop: StopFlag, seconds: float) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Return whether to stop (the visitor's wish, or the limit reached), and whether it is late."""
    deadline_s = time.monotonic() + seconds

    def late() -> bool:
        return time.monotonic() > deadline_s

    return lambda: stop.raised or late(), late
