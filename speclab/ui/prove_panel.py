"""One panel of the tab Prove: a gr.HTML with its script, words and functions on the server."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from speclab.core.errors import SpeclabError
from speclab.ui.texts import WORDS
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_prove import PROVE

LOG = logging.getLogger(__name__)
ASSETS = Path(__file__).parents[2] / "assets"
SHARED = ("player/dom", "prove/reply", "prove/bars", "prove/panel")
SHARED_WORDS = ("op_", "no_", "f_", "mean_prompt", "mean_started")
CALL = (
    "const call = async (name, payload) => JSON.parse(await server[name](JSON.stringify(payload)));"
)

Reply = dict[str, Any]
Answer = Callable[[dict[str, Any]], Reply]


def script(parts: Sequence[str], start: str) -> str:
    """Return JavaScript parts (under assets/js, without suffix) in one scope, then `start`."""
    text = "\n".join(
        (ASSETS / "js" / f"{part}.js").read_text(encoding="utf-8") for part in (*SHARED, *parts)
    )
    return f"(() => {{\n'use strict';\n{text}\n{CALL}\n{start}\n}})();\n"


def answering(function: Answer, name: str, lang: str, tab: str = "Prove") -> Callable[[str], str]:
    """Return a function that the browser can call: JSON in, JSON out, faults as a sentence.

    Args:
        function: that answers. name: it is called by. lang: "en" or "zh".
        tab: that shows the answer, for the log.
    """

    def ask(payload: str) -> str:
        try:
            reply = function(json.loads(payload))
        except SpeclabError as error:
            reply = {"error": error_text(error, lang)}
        except (KeyError, TypeError, ValueError, OverflowError):
            reply = {"error": PROVE[lang]["bad_request"]}
        except Exception as error:
            LOG.exception("%r of the tab %s failed", name, tab)
            kind = type(error).__name__
            reply = {"error": WORDS[lang]["error_other"].format(kind=kind)}
        return json.dumps(reply, ensure_ascii=False)

    ask.__name__ = name
    return ask


def panel(
    lang: str,
    *,
    elem_id: str,
    parts: Sequence[str],
    start: str,
    prefixes: Sequence[str] = (),
    answers: Mapping[str, Answer] | None = None,
    figure: Mapping[str, Any] | None = None,
) -> gr.HTML:
    """Return a panel; what it shows lives in the browser, so visitors never share it.

    Args:
        lang: "en" or "zh". elem_id: id in the page.
        parts: scripts besides the shared ones. start: JavaScript that mounts the panel; it sees
            `element`, `given` (the figure), `call(name, payload)` and what the parts define.
        prefixes: of the words it needs, besides the shared ones.
        answers: what `call` reaches on the server, by name. figure: what the panel starts from.
    """
    words = {
        key: text for key, text in PROVE[lang].items() if key.startswith((*SHARED_WORDS, *prefixes))
    }
    given = "const given = JSON.parse(props.figure);\n"
    return gr.HTML(
        value="",
        labels=json.dumps(words, ensure_ascii=False),
        figure=json.dumps(figure or {}, ensure_ascii=False),
        html_template='<div class="pv-root"></div>',
        css_template=(ASSETS / "css" / "prove.css").read_text(encoding="utf-8"),
        js_on_load=script(parts, given + start),
        apply_default_css=False,
        elem_id=elem_id,
        elem_classes=["speclab-prove"],
        server_functions=[answering(f, name, lang) for name, f in (answers or {}).items()],
    )
