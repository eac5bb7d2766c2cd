"""Tab Prove: test and prove whether a way of verifying keeps the target's law."""

from __future__ import annotations

import html

import gradio as gr

from speclab.ui.backend import Lab
from speclab.ui.prove_position import one_position
from speclab.ui.texts_prove import PROVE


class Prove:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self.lab, self.lang, self.words = lab, lang, PROVE[lang]
        with (
            gr.Tabs(elem_id="prove-panels"),
            gr.Tab(self.words["panel_position"], id="position"),
        ):
            self._ask("op_question")
            one_position(lang, elem_id="prove-position")

    def _ask(self, key: str) -> None:
        gr.HTML(f'<p class="sl-lesson">{html.escape(self.words[key])}</p>')

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind the events; `blocks` is the page they live on."""
