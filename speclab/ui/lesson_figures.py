"""The figures that lessons name: each builds its components where it stands on the page.

A figure in the browser is one gr.HTML: its value is JSON text, its script one file of
`assets/js/learn`, and all text enters by textContent.
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import gradio as gr

from speclab.core.errors import BadInput, SpeclabError
from speclab.core.rules import rule_named
from speclab.core.rules.rejection import TOKEN
from speclab.testing.rule_law import rule_law
from speclab.ui import messages
from speclab.ui.backend import Lab, wait
from speclab.ui.lessons import measured
from speclab.ui.player import player
from speclab.ui.prove_position import one_position
from speclab.ui.recorded import Recorded
from speclab.ui.texts import WORDS
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_learn import WORDS_LEARN
from speclab.ui.texts_player import EN as PLAYER_EN
from speclab.ui.texts_player import ZH as PLAYER_ZH

LOG = logging.getLogger(__name__)
SCRIPTS = Path(__file__).resolve().parents[2] / "assets" / "js" / "learn"
LIVE_REPEATS = 15
"""Passes per width in a live measurement: about a second on two CPU cores."""
Builder = Callable[..., None]


def script(name: str, parts: Sequence[str] = ()) -> str:
    """Return the script of one figure after its parts and the building blocks all share."""
    every = ((SCRIPTS / f"{part}.js").read_text(encoding="utf-8") for part in ("dom", *parts, name))
    return "(() => {\n'use strict';\n" + "\n".join(every) + "})();\n"


def component(
    name: str, message: dict[str, Any], *, parts: Sequence[str] = (), **more: Any
) -> gr.HTML:
    """Return the gr.HTML of a script of `assets/js/learn` that shows a message.

    Args:
        name: of the script. message: what it shows. parts: scripts it builds on.
        more: further arguments of gr.HTML; `classes` are added to its own.
    """
    return gr.HTML(
        value=messages.to_json(message),
        html_template='<div class="sl-figure-root"></div>',
        js_on_load=script(name, parts),
        apply_default_css=False,
        elem_classes=["sl-figure", f"sl-{name.replace('_', '-')}", *more.pop("classes", ())],
        **more,
    )


# --- player --------------------------------------------------------------------------------------


def recording(lab: Lab, file: str) -> Recorded:
    """Return a recorded run by file name.

    Raises:
        BadInput: if there is none.
    """
    if file not in lab.recorded:
        raise BadInput(f"There is no recorded trace {file!r}.")
    return lab.recorded[file]


def player_figure(
    lab: Lab, lang: str, *, trace: str, round: int, caption: str, steps: bool = False
) -> None:
    """Show a recorded run in the player, standing on a round (from 0), in sub-steps if wished."""
    item = recording(lab, trace)
    badge = f"{WORDS[lang]['recorded']} · {item.date}"
    message = json.loads(messages.load_message(lab, item.trace, lang, badge=badge))
    message["start"] = {"round": round, "steps": steps}
    with gr.Column(elem_classes="sl-lesson-player"):
        player(
            labels=PLAYER_ZH if lang == "zh" else PLAYER_EN,
            value=messages.to_json(message),
            elem_id=f"lesson-player-{round}",
            embedded=True,
        )
        gr.Markdown(caption, elem_classes="sl-caption")


# --- plain decoding in time ----------------------------------------------------------------------


def plain_timeline(lab: Lab, lang: str, *, trace: str, rounds: int, caption: str) -> None:
    """Show the first passes of a recorded run of plain decoding and how long each took."""
    item, words = recording(lab, trace), WORDS_LEARN[lang]
    run = item.trace
    passes = []
    for each in run.rounds[:rounds]:
        (token,) = each.emitted
        text = base64.b64decode(run.pieces[str(token)]).decode("utf-8", "replace")
        shown = text.replace(" ", "·").replace("\n", "↵")
        passes.append({"text": shown, "ms": 1e3 * each.timing.target_s})
    total = words["passes_total"].format(
        tokens=len(passes), ms=f"{sum(each['ms'] for each in passes):.0f}"
    )
    badge = f"{WORDS[lang]['recorded']} · {item.date} · {words['measured']}"
    component("timeline", {"passes": passes, "total": total, "badge": badge, "caption": caption})


# --- v(n) ----------------------------------------------------------------------------------------


def series_of(report: dict[str, Any], lab: Lab, lang: str) -> dict[str, Any]:
    """Return v(n) of a benchmark report with where and when it was measured."""
    entry = lab.pairs.get(report["pair"])
    detail = WORDS_LEARN[lang]["report"].format(
        dtype=report["dtype"],
        processor=report["processor"],
        threads=report["threads"],
        date=report["created"][:10],
    )
    title = getattr(entry.title, lang) if entry else report["pair"]
    return {"title": title, "detail": detail, "costs": report["costs"]["verify_cost"]}


def in_turn(lab: Lab, lang: str, pair: str) -> Iterator[tuple[str, Any]]:
    """Yield (status, None) while waiting for one's turn and the pair, at last ("", the pair).

    The turn is held until the iterator is closed or ends.

    Raises:
        SpeclabError: if the pair cannot be loaded.
    """
    words, ticket = WORDS[lang], lab.turnstile.join()
    try:
        while ahead := lab.turnstile.ahead(ticket):
            yield words["status_queue"].format(n=ahead), None
            time.sleep(0.25)
        key = "status_loading" if lab.cache.warm else "status_loading_first"
        loading = lab.cache.request(pair)
        title = getattr(lab.pairs[pair].title, lang)
        for waited_s in wait(loading.future):
            yield words[key].format(pair=title, s=f"{waited_s:.0f}"), None
        yield "", loading.future.result()
    finally:
        lab.turnstile.leave(ticket)


def measure_live(lab: Lab, lang: str, pair: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield (status, None) while waiting, at last (status, costs) of the pair on this machine.

    Raises:
        SpeclabError: if the pair cannot be loaded.
    """
    with closing(in_turn(lab, lang, pair)) as turn:
        for status, loaded in turn:
            if loaded is None:
                yield status, None
                continue
            yield WORDS_LEARN[lang]["measuring"], None
            from speclab.lab.pass_costs import measure_costs

            costs = measure_costs(loaded, repeats=LIVE_REPEATS)
            ms = f"{1e3 * costs['target_step_s']:.2f}"
            yield WORDS_LEARN[lang]["measured_done"].format(ms=ms), costs


def told(
    steps: Iterator[tuple[str, dict[str, Any] | None]],
    message: dict[str, Any],
    lang: str,
    add: Callable[[dict[str, Any]], dict[str, Any]],
) -> Iterator[str]:
    """Yield a figure's message with the status of each step of a measurement, faults included.

    Args:
        steps: (status, what was found so far or None). message: of the figure.
        add: what to put into the message for what was found.
    """
    shown = message
    try:
        for status, found in steps:
            shown = message | add(found) if found else shown
            tone = "good" if found else "busy"
            yield messages.to_json(shown | {"status": status, "tone": tone})
    except SpeclabError as error:
        yield messages.to_json(shown | {"status": error_text(error, lang), "tone": "error"})
    except Exception as error:
        LOG.exception("a measurement failed")
        status = WORDS[lang]["error_other"].format(kind=type(error).__name__)
        yield messages.to_json(shown | {"status": status, "tone": "error"})


LIVE: dict[str, Any] = {
    "concurrency_id": "run",
    "concurrency_limit": 32,
    "show_progress": "hidden",
    "api_visibility": "private",
}
"""How buttons start a measurement: in the same line as runs."""


def verify_cost(lab: Lab, lang: str, *, reports: Sequence[str], live: str, caption: str) -> None:
    """Show recorded v(n), and measure it on this machine when asked."""
    words = WORDS_LEARN[lang]
    series = [series_of(measured(name), lab, lang) for name in reports]
    message = {"series": series, "caption": caption, "words": words}
    figure = component("verify_cost", message, elem_id="verify-cost")
    button = gr.Button(words["measure_here"], elem_id="measure", elem_classes="sl-measure")

    def with_mine(costs: dict[str, Any]) -> dict[str, Any]:
        entry = getattr(lab.pairs[live].title, lang)
        mine = {"title": entry, "live": True, "detail": words["this_machine"]}
        return {"series": [*series, mine | {"costs": costs["verify_cost"]}]}

    def measure() -> Iterator[str]:
        yield from told(measure_live(lab, lang, live), message, lang, with_mine)

    button.click(measure, None, figure, **LIVE)


# --- one position --------------------------------------------------------------------------------


def one_position_figure(
    lab: Lab,
    lang: str,
    *,
    p: Sequence[float],
    q: Sequence[float],
    labels: Sequence[str],
    caption: str,
) -> None:
    """Show p and q as bars to drag, under the exact rule."""
    state = {"p": list(p), "q": list(q), "tokens": list(labels), "rule": TOKEN.name}
    with gr.Column(elem_classes="sl-lesson-position"):
        one_position(
            lang,
            elem_id="lesson-position",
            state=state,
            rules=(TOKEN.name,),
            parts=("draw",),
        )
        gr.Markdown(caption, elem_classes="sl-caption")


# --- the exact law under several rules -----------------------------------------------------------


def rule_law_figure(
    lab: Lab,
    lang: str,
    *,
    p: Sequence[float],
    q: Sequence[float],
    labels: Sequence[str],
    rules: Sequence[dict[str, Any]],
    caption: str,
) -> None:
    """Show what each rule makes of one position, every coin enumerated."""
    shown = []
    for given in rules:
        rule = rule_named(given["rule"], given.get("values"))
        law, accepted = rule_law(rule, p, q)
        distance = float(abs(law - p).sum() / 2)
        about = getattr(rule.one_liner, lang)
        if not rule.lossless:
            about = f"{about} {getattr(rule.why_not, lang)}"
        shown.append(
            {
                "name": rule.name,
                "title": given.get("title", {}).get(lang) or getattr(rule.title, lang),
                "about": about,
                "lossless": distance < 1e-9,
                "law": [round(float(x), 12) for x in law],
                "distance": round(distance, 12),
                "accepted": round(accepted, 12),
            }
        )
    component(
        "rule_law",
        {
            "p": list(p),
            "labels": list(labels),
            "rules": shown,
            "caption": caption,
            "words": WORDS_LEARN[lang],
        },
    )


FIGURES: dict[str, Builder] = {
    "player": player_figure,
    "plain-timeline": plain_timeline,
    "verify-cost": verify_cost,
    "one-position": one_position_figure,
    "rule-law": rule_law_figure,
}
"""The figures of this file; options are the builder's keyword arguments."""


def every_figure() -> dict[str, Builder]:
    """Return every figure that a lesson may name."""
    from speclab.ui.lesson_draft_figures import DRAFT_FIGURES
    from speclab.ui.lesson_map_figures import MAP_FIGURES
    from speclab.ui.lesson_speed_figures import SPEED_FIGURES
    from speclab.ui.lesson_tree_figures import TREE_FIGURES

    return FIGURES | TREE_FIGURES | SPEED_FIGURES | DRAFT_FIGURES | MAP_FIGURES


def build_figure(lab: Lab, lang: str, name: str, options: dict[str, Any]) -> None:
    """Build one figure of a lesson inside the open Gradio context.

    Raises:
        BadInput: if there is no such figure.
    """
    figures = every_figure()
    if name not in figures:
        raise BadInput(f"There is no figure {name!r}.", f"Figures: {', '.join(figures)}.")
    figures[name](lab, lang, **options)
