"""The panel *Real models*: what is proved, how it is told while it runs, and the verdict."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.rules import RULES, rule_named
from speclab.lab.fitting import fitting_params
from speclab.ui.backend import Lab, work_limit_s
from speclab.ui.measure_reports import time_limit
from speclab.ui.method_kinds import kind_title
from speclab.ui.prove_running import Message
from speclab.ui.prove_words import (
    Sentence,
    chance,
    control_verdict,
    further,
    number,
    rule_facts,
    verdict,
)
from speclab.ui.running import StopFlag
from speclab.ui.settings import MAX_SEED
from speclab.ui.texts_prove import PROVE

if TYPE_CHECKING:
    from speclab.lab.prove import ProveProgress, ProveReport, ProveSpec

USUAL = {
    "method": "draft-model",
    "num_samples": 20_000,
    "length": 4,
    "temperature": 1,
    "top_k": 20,
    "seed": 0,
}
LIMITS: dict[str, tuple[float, float]] = {
    "num_samples": (1, 1_000_000),
    "length": (1, 16),
    "temperature": (0.05, 2.5),
    "top_k": (0, 200),
    "seed": (0, MAX_SEED),
}
LIMIT_S = work_limit_s(120.0)
"""Seconds that one proof may take: other visitors wait in line meanwhile."""
MAX_POINTS = 200
WEAK = 0.02
"""A control whose first token errs by less than this needs another prompt, not more samples."""


def plotly_file() -> str:
    """Return plotly.js of the installed package, and let the server give it out."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    gr.set_static_paths([path])
    return path.as_posix()


def options(lab: Lab, lang: str) -> dict[str, Any]:
    """Return what the panel offers."""
    methods = []
    for name, kind in lab.methods.items():
        rules = [r.name for r in RULES.values() if fitting_params(name, r, Sampling(), {})]
        if rules:
            title, group = getattr(kind.card.title, lang), kind_title(lab, name, lang)
            methods.append({"name": name, "title": title, "group": group, "rules": rules})
    return {
        "pairs": [[name, getattr(entry.title, lang)] for name, entry in lab.pairs.items()],
        "methods": methods,
        "rules": [rule_facts(rule, lang) for rule in RULES.values()],
        "usual": USUAL,
        "limit": PROVE[lang]["rm_limit"].format(limit=f"{LIMIT_S:.0f}"),
        "plotly": plotly_file(),
    }


def _number(given: dict[str, Any], name: str, lang: str) -> float:
    """Return a number that was typed.

    Raises:
        BadInput: naming the field, the value and the range.
    """
    low, high = LIMITS[name]
    text = str(given.get(name, "")).strip()
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    whole = name == "temperature" or value.is_integer()
    if not (low <= value <= high and whole):
        field = PROVE[lang][f"rm_{name}"]
        limits = tuple(f"{x:,.0f}" if x >= 10 else f"{x:g}" for x in (low, high))
        raise BadInput(
            f"{field}: from {limits[0]} to {limits[1]} is possible, not {text or '–'}.",
            code="field_range",
            values={"name": field, "low": limits[0], "high": limits[1], "value": text or "–"},
        )
    return value


def read_spec(lab: Lab, given: dict[str, Any], lang: str) -> ProveSpec:
    """Return what is to be proved.

    Raises:
        BadInput: for a value out of range, or a rule the method cannot serve.
    """
    from speclab.lab.prove import ProveSpec

    values = {name: _number(given, name, lang) for name in LIMITS}
    sampling = Sampling(temperature=values["temperature"], top_k=int(values["top_k"]))
    method, rule = str(given.get("method")), rule_named(str(given.get("rule")))
    params = fitting_params(method, rule, sampling, {}) if method in lab.methods else None
    if params is None:
        raise BadInput(
            f"The rule {rule.name} cannot judge what {method} drafts.",
            "Choose another rule.",
            code="rule_misfit",
            values={"rule": rule.name, "method": method},
        )
    return ProveSpec(
        pair=str(given.get("pair")),
        method=method,
        params=params,
        rule=rule.name,
        sampling=sampling,
        prompt=str(given.get("prompt", "")).strip()[:2_000],
        num_samples=int(values["num_samples"]),
        length=int(values["length"]),
        seed=int(values["seed"]),
    )


def proof_work(spec: ProveSpec, stop: StopFlag, lang: str) -> Callable[[Any], Iterator[Message]]:
    """Return work that draws sequences and tells how the evidence stands, then the verdict.

    What was drawn within `LIMIT_S`, or before the visitor's stop, is judged.
    """

    def work(pair: Any) -> Iterator[Message]:
        from speclab.lab.prove import prove_samples

        words, points = PROVE[lang], []
        stopped, late = time_limit(stop, LIMIT_S)
        yield {"op": "status", "tone": "busy", "text": words["rm_preparing"]}
        try:
            for step in prove_samples(pair, spec, cancelled=stopped):
                points.append((step.num_samples, step.p_value, step.control_p_value))
                figure = _curve(points, spec.alpha, lang)
                if step.report is not None:
                    after = late() and not stop.raised
                    yield _report_message(step.report, figure, lang, late=after)
                    return
                yield _progress_message(step, figure, lang)
        except BadInput as error:
            if error.code != "one_cell" or not points:
                raise
        text = words["stopped"] if stop.raised else words["rm_late_none"]
        if points[-1][0]:
            text = words["rm_few"] if stop.raised else words["rm_late_few"]
        values = {"n": number(points[-1][0]), "p": chance(points[-1][1])}
        said = text.format(limit=f"{LIMIT_S:.0f}", **values)
        yield {"op": "status", "tone": "info", "text": said}

    return work


def _curve(points: list[Any], level: float, lang: str) -> dict[str, Any]:
    from speclab.figures.prove import evidence_curve

    words = PROVE[lang]
    keys = ("samples", "p_value", "rule", "control", "level")
    thin = points[:: len(points) // MAX_POINTS + 1]
    drawn = thin if thin[-1] == points[-1] else [*thin, points[-1]]
    return evidence_curve(drawn, level=level, words={key: words[f"rm_axis_{key}"] for key in keys})


def _progress_message(step: ProveProgress, figure: dict[str, Any], lang: str) -> Message:
    text = PROVE[lang]["rm_running"].format(
        n=number(step.num_samples),
        all=number(step.num_planned),
        s=f"{step.seconds:.0f}",
        p=chance(step.p_value),
    )
    return {
        "op": "progress",
        "text": text,
        "share": step.num_samples / step.num_planned,
        "num_samples": step.num_samples,
        "figure": figure,
    }


def _report_message(
    report: ProveReport, figure: dict[str, Any], lang: str, *, late: bool
) -> Message:
    """Return the verdict; `late`: the limit of seconds was passed when it came."""
    words = PROVE[lang]
    title = getattr(RULES[report.rule["name"]].title, lang)
    control = getattr(RULES[report.control["name"]].title, lang) if report.control else ""
    found = [
        verdict(report.report, title, lang, unit="sequences"),
        control_verdict(report.report, control, lang),
    ]
    if report.control is None:
        found.append({"text": words["rm_no_control"], "tone": "open"})
    elif report.verdict == "inconclusive" and (report.control["exact_bias"] or 0.0) < WEAK:
        found.append({"text": words["rm_weak"], "tone": "open"})
    key = ("rm_late" if late else "rm_cancelled") if report.cancelled else "rm_done"
    values = {
        "limit": f"{LIMIT_S:.0f}",
        "n": number(report.num_samples),
        "s": f"{report.seconds:.1f}",
        "rate": number(round(report.sequences_per_s)),
        "rounds": number(report.rounds),
        "laws": number(report.num_laws),
        "passes": number(report.num_passes),
        "texts": number(report.num_texts),
        "p": chance(report.anytime_p),
    }
    return {
        "op": "report",
        "verdict": report.verdict,
        "text": words[key].format(**values),
        "sentences": [sentence for sentence in found if sentence],
        "facts": words["rm_facts"].format(**values),
        "figure": figure,
        "groups": _groups(report, lang),
        "tables": _tables(report, lang),
        "qq": _qq(report, lang),
    }


def _groups(report: ProveReport, lang: str) -> list[dict[str, Any]]:
    """Return the other tests: of whole texts, of the first token, of each position."""
    words = PROVE[lang]
    groups = [{"title": words["rm_group_texts"], "sentences": further(report.report, lang)}]
    if report.first is not None:
        main = report.first.main
        text = words["rm_first"].format(p=chance(main.p_value), cells=main.num_cells)
        tone = "bad" if main.p_value <= report.first.level else "info"
        first = {"mark": words["test_chi-square"], "text": text, "tone": tone}
        sentences = [first, *further(report.first, lang)]
        groups.append({"title": words["rm_group_first"], "sentences": sentences})
    prefixes = report.report.prefixes
    if prefixes is not None:
        text = words["rm_prefixes"].format(
            n=number(len(prefixes.tests)), p=chance(prefixes.p_value)
        )
        tone = "bad" if prefixes.p_value <= report.report.level else "info"
        sentence: Sentence = {"mark": words["test_chi-square"], "text": text, "tone": tone}
        groups.append({"title": words["rm_group_prefixes"], "sentences": [sentence]})
    return groups


def _tables(report: ProveReport, lang: str) -> list[dict[str, Any]]:
    """Return the first token's cells and the pooled cells of whole sequences."""
    words = PROVE[lang]
    first = [
        [
            cell["piece"] if cell["token"] is not None else words["rm_others"],
            number(round(cell["expected"], 1)),
            number(cell["observed"]),
            "–" if cell["control"] is None else number(cell["control"]),
        ]
        for cell in report.cells
    ]
    pooled = [
        [words["rm_texts"].format(n=number(n)), number(round(expected, 1)), number(observed)]
        for n, expected, observed in report.report.main.pooled
    ]
    keys = ("expected", "observed", "control")
    head = [words["op_col_token"], *(words[f"op_col_{key}"] for key in keys)]
    return [
        {"caption": words["rm_cells_first"], "head": head, "rows": first},
        {
            "caption": words["rm_cells_pooled"],
            "head": [words["rm_cell"], *(words[f"op_col_{key}"] for key in keys[:2])],
            "rows": pooled,
        },
    ]


def _qq(report: ProveReport, lang: str) -> dict[str, Any] | None:
    """Return the p-values of every position given its prefix against those of a right sampler."""
    from speclab.figures.prove import qq_plot
    from speclab.stats.many import randomised, uniformity

    prefixes = report.report.prefixes
    if prefixes is None or not prefixes.tests:
        return None
    found = uniformity(randomised([test.result for test in prefixes.tests]))
    keys = ("expected", "seen", "band", "tests")
    return qq_plot(found, words={key: PROVE[lang][f"qq_{key}"] for key in keys})
