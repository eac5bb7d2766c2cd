"""Tab Heads: trained heads, the trees they draft, and why more guesses stop paying."""

from __future__ import annotations

import html
import json
from pathlib import Path

import gradio as gr

from speclab.ui.backend import Lab
from speclab.ui.heads_view import options, tree_only, view_reply
from speclab.ui.prove_panel import answering, script
from speclab.ui.texts_heads import HEADS
from speclab.ui.texts_prove import PROVE

CSS = Path(__file__).resolve().parents[2] / "assets" / "css"
PARTS = ("prove/plot", "heads/tree", "heads/legend", "heads/folds", "heads/main")
START = (
    "const given = JSON.parse(props.figure);\n"
    "mountHeads(element.querySelector('.pv-root'), given, call);"
)
QUESTION = "p { margin: 2px 0 0; font-size: var(--text-lg); color: var(--body-text-color); }"


class Heads:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        gr.HTML(
            f"<p>{html.escape(HEADS[lang]['hd_question'])}</p>",
            css_template=QUESTION,
            apply_default_css=False,
            elem_classes="sl-question",
        )
        shared = {key: text for key, text in PROVE[lang].items() if key.startswith("no_")}
        styles = ("prove.css", "heads.css")
        self.figure = gr.HTML(
            value="",
            labels=json.dumps(shared | HEADS[lang], ensure_ascii=False),
            figure=json.dumps(options(lab, lang), ensure_ascii=False),
            html_template='<div class="pv-root"></div>',
            css_template="\n".join((CSS / name).read_text(encoding="utf-8") for name in styles),
            js_on_load=script(PARTS, START),
            apply_default_css=False,
            elem_id="heads",
            elem_classes=["speclab-prove"],
            server_functions=[
                answering(lambda given: view_reply(lab, given, lang), "view", lang, "Heads"),
                answering(lambda given: tree_only(lab, given, lang), "tree", lang, "Heads"),
            ],
        )

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind no events: the figure asks the server itself."""
