"""Tab Deploy: from a method to an engine's configuration, a linter, a reader of its metrics."""

from __future__ import annotations

import html
import json
from pathlib import Path

import gradio as gr

from speclab.ui.backend import Lab
from speclab.ui.deploy_view import config_reply, lint_reply, options, read_reply
from speclab.ui.prove_panel import answering, script
from speclab.ui.texts_deploy import DEPLOY
from speclab.ui.texts_prove import PROVE

CSS = Path(__file__).resolve().parents[2] / "assets" / "css"
PARTS = ("deploy/fields", "deploy/config", "deploy/lint", "deploy/metrics", "deploy/main")
START = (
    "const given = JSON.parse(props.figure);\n"
    "mountDeploy(element.querySelector('.pv-root'), given, call);"
)
QUESTION = "p { margin: 2px 0 0; font-size: var(--text-lg); color: var(--body-text-color); }"


class Deploy:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        gr.HTML(
            f"<p>{html.escape(DEPLOY[lang]['dp_question'])}</p>",
            css_template=QUESTION,
            apply_default_css=False,
            elem_classes="sl-question",
        )
        shared = {key: text for key, text in PROVE[lang].items() if key.startswith("no_")}
        styles = ("prove.css", "deploy.css")
        self.figure = gr.HTML(
            value="",
            labels=json.dumps(shared | DEPLOY[lang], ensure_ascii=False),
            figure=json.dumps(options(lab, lang), ensure_ascii=False),
            html_template='<div class="pv-root"></div>',
            css_template="\n".join((CSS / name).read_text(encoding="utf-8") for name in styles),
            js_on_load=script(PARTS, START),
            apply_default_css=False,
            elem_id="deploy",
            elem_classes=["speclab-prove"],
            server_functions=[
                answering(lambda given: config_reply(given, lang), "config", lang, "Deploy"),
                answering(lambda given: lint_reply(given, lang), "lint", lang, "Deploy"),
                answering(lambda given: read_reply(lab, given, lang), "read", lang, "Deploy"),
            ],
        )

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind no events: the figure asks the server itself."""
