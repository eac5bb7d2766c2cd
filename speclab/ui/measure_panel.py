"""One panel of the tab Measure: a gr.HTML with its script, words, answers and streamed work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from speclab.core.errors import BadInput, SpeclabError
from speclab.ui.backend import Lab
from speclab.ui.prove_models import plotly_file
from speclab.ui.prove_panel import ASSETS, Answer, Reply, answering, script
from speclab.ui.prove_running import ProofRunner, Work, to_json
from speclab.ui.running import StopFlag
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_measure import MEASURE
from speclab.ui.texts_prove import PROVE

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
STYLES = ("prove.css", "heads.css", "measure.css")
SHARED = ("prove/plot", "measure/common")
WORDS_OF_ALL = ("ms_", "sweep_methods")

Plan = Callable[[dict[str, Any], StopFlag], tuple[str, Work]]
"""What a click asks for: the pair to load, and the work to do on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel on the page.

    Attributes:
        html: the component. flag: one visitor's wish to stop. plan: of its work; None: it only
            asks for answers.
    """

    html: gr.HTML
    flag: gr.State
    plan: Plan | None


def build_panel(
    lang: str,
    name: str,
    *,
    figure: Mapping[str, Any],
    answers: Mapping[str, Answer] | None = None,
    plan: Plan | None = None,
    parts: Sequence[str] = (),
) -> Panel:
    """Put a panel on the page; what it shows lives in the browser, so visitors never share it.

    Args:
        lang: "en" or "zh". name: of the panel: its script is assets/js/measure/NAME.js, which
            defines `mountMeasure(element, given, call)`; its words begin with NAME_.
        figure: what the panel starts from. answers: what `call` reaches on the server, by name.
        plan: of the work that the event `work` starts. parts: further scripts.
    """
    words = {key: text for key, text in PROVE[lang].items() if key.startswith("no_")}
    prefixes = (*WORDS_OF_ALL, f"{name}_")
    words |= {key: text for key, text in MEASURE[lang].items() if key.startswith(prefixes)}
    given = {"plotly": f"/gradio_api/file={plotly_file()}", **figure}
    start = (
        "const given = JSON.parse(props.figure);\n"
        "mountMeasure(element.querySelector('.pv-root'), given, call);"
    )
    styles = (ASSETS / "css" / style for style in STYLES)
    html = gr.HTML(
        value="",
        labels=json.dumps(words, ensure_ascii=False),
        figure=json.dumps(given, ensure_ascii=False),
        html_template='<div class="pv-root"></div>',
        css_template="\n".join(path.read_text(encoding="utf-8") for path in styles),
        js_on_load=script((*SHARED, *parts, f"measure/{name}"), start),
        apply_default_css=False,
        elem_id=f"measure-{name}",
        elem_classes=["speclab-prove", "speclab-measure"],
        server_functions=[
            answering(answer, key, lang, "Measure") for key, answer in (answers or {}).items()
        ],
    )
    return Panel(html=html, flag=gr.State(StopFlag()), plan=plan)


def bind(panel: Panel, lab: Lab, lang: str) -> None:
    """Bind Run and Stop of a panel to its work."""
    if panel.plan is None:
        return
    plan, runner = panel.plan, ProofRunner(lab, lang)

    def run(flag: StopFlag, event: gr.EventData) -> Iterator[str]:
        try:
            pair, work = plan(dict(event._data or {}), flag)
        except SpeclabError as error:
            yield to_json({"op": "status", "tone": "bad", "text": error_text(error, lang)})
            return
        except (KeyError, TypeError, ValueError, OverflowError):
            yield to_json({"op": "status", "tone": "bad", "text": PROVE[lang]["bad_request"]})
            return
        yield from runner.stream(pair, flag, work)

    def halt(flag: StopFlag) -> None:
        flag.raised = True

    limits = {"concurrency_id": "measure", "concurrency_limit": 32}
    panel.html.work(run, panel.flag, panel.html, **limits, **QUIET)
    panel.html.halt(halt, panel.flag, None, queue=False, **QUIET)


# --- what is typed --------------------------------------------------------------------------------


def read_number(
    given: Mapping[str, Any],
    name: str,
    field: str,
    limits: tuple[float, float],
    *,
    whole: bool = False,
) -> float:
    """Return a number of a request.

    Args:
        given: the request. name: of the number in it. field: its title on the page.
        limits: lowest and highest. whole: whether it must be an integer.

    Raises:
        BadInput: naming the field, the value and the range.
    """
    text = str(given.get(name, "")).strip()[:40]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    low, high = limits
    if low <= value <= high and (not whole or value.is_integer()):
        return value
    ends = tuple(f"{x:,.0f}" if x >= 10 else f"{x:g}" for x in limits)
    raise BadInput(
        f"{field}: from {ends[0]} to {ends[1]} is possible, not {text or '–'}.",
        code="field_range",
        values={"name": field, "low": ends[0], "high": ends[1], "value": text or "–"},
    )


def read_pair(lab: Lab, given: Mapping[str, Any]) -> str:
    """Return the pair of a request.

    Raises:
        BadInput: if there is no such pair.
    """
    name = given.get("pair")
    if name not in lab.pairs:
        known = ", ".join(lab.pairs)
        raise BadInput(
            f"There is no pair {name!r:.80}.",
            f"Pairs: {known}.",
            code="unknown_pair",
            values={"name": str(name)[:80], "known": known},
        )
    return str(name)


def pair_choices(lab: Lab, lang: str) -> list[list[str]]:
    """Return [name, title] of every pair."""
    return [[name, getattr(entry.title, lang)] for name, entry in lab.pairs.items()]


def say(text: str, tone: str = "info", mark: str = "") -> Reply:
    """Return a sentence for the page."""
    return {"text": text, "tone": tone, "mark": mark}
