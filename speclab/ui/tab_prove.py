"""Tab Prove: test and prove whether a way of verifying keeps the target's law."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import gradio as gr

from speclab.core.errors import SpeclabError
from speclab.ui import prove_meanings, prove_models, prove_outcomes
from speclab.ui.backend import Lab
from speclab.ui.prove_panel import panel
from speclab.ui.prove_position import one_position
from speclab.ui.prove_running import ProofRunner, to_json
from speclab.ui.running import StopFlag
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_prove import PROVE

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

QUESTION = "p { margin: 2px 0 0; font-size: var(--text-lg); color: var(--body-text-color); }"


class Prove:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self.lab, self.lang, self.words = lab, lang, PROVE[lang]
        self.runner = ProofRunner(lab, lang)
        with gr.Tabs(elem_id="prove-panels"):
            with gr.Tab(self.words["panel_position"], id="position"):
                self._ask("op_question")
                one_position(lang, elem_id="prove-position")
            with gr.Tab(self.words["panel_outcomes"], id="outcomes"):
                self._ask("out_question")
                self._outcomes()
            with gr.Tab(self.words["panel_models"], id="models"):
                self._ask("rm_question")
                self.models = self._models()
            with gr.Tab(self.words["panel_meanings"], id="meanings"):
                self._ask("mean_question")
                self.meanings = self._meanings()
        self.models_flag, self.meanings_flag = gr.State(StopFlag()), gr.State(StopFlag())

    def _ask(self, key: str) -> None:
        gr.HTML(
            f"<p>{html.escape(self.words[key])}</p>",
            css_template=QUESTION,
            apply_default_css=False,
            elem_classes="sl-question",
        )

    def _outcomes(self) -> None:
        panel(
            self.lang,
            elem_id="prove-outcomes",
            parts=("prove/outcomes",),
            prefixes=("out_",),
            start="mountOutcomes(element.querySelector('.pv-root'), given, call);",
            figure=prove_outcomes.options(self.lab, self.lang),
            answers={
                "outcomes": lambda given: prove_outcomes.outcomes_reply(self.lab, given, self.lang)
            },
        )

    def _models(self) -> gr.HTML:
        return panel(
            self.lang,
            elem_id="prove-models",
            parts=("prove/plot", "prove/models"),
            prefixes=("rm_",),
            start="mountModels(element.querySelector('.pv-root'), given);",
            figure=prove_models.options(self.lab, self.lang),
        )

    def _meanings(self) -> gr.HTML:
        return panel(
            self.lang,
            elem_id="prove-meanings",
            parts=("prove/meanings",),
            prefixes=("mean_",),
            start="mountMeanings(element.querySelector('.pv-root'), call);",
            answers={"gaps": lambda given: prove_meanings.gaps_reply(self.lang)},
        )

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind the events; `blocks` is the page they live on."""
        self.models.prove(
            self._on_prove,
            self.models_flag,
            self.models,
            concurrency_id="prove",
            concurrency_limit=32,
            **QUIET,
        )
        self.models.halt(self._on_halt, self.models_flag, None, queue=False, **QUIET)
        self.meanings.measure(
            self._on_measure,
            self.meanings_flag,
            self.meanings,
            concurrency_id="prove",
            concurrency_limit=32,
            **QUIET,
        )

    def _on_prove(self, flag: StopFlag, event: gr.EventData) -> Iterator[str]:
        """Draw sequences of a real pair and judge them."""
        try:
            spec = prove_models.read_spec(self.lab, dict(event._data or {}), self.lang)
        except SpeclabError as error:
            text = error_text(error, self.lang)
            yield to_json({"op": "status", "tone": "bad", "text": text})
            return
        work = prove_models.proof_work(spec, flag, self.lang)
        yield from self.runner.stream(spec.pair, flag, work)

    def _on_halt(self, flag: StopFlag) -> None:
        flag.raised = True

    def _on_measure(self, flag: StopFlag, event: gr.EventData) -> Iterator[str]:
        """Measure bits or noise on the pocket pair."""
        given = dict(event._data or {})
        what = "noise" if given.get("what") == "noise" else "bits"
        try:
            work = (
                prove_meanings.noise_work(given, self.lang)
                if what == "noise"
                else prove_meanings.bits_work(self.lang)
            )
        except SpeclabError as error:
            text = error_text(error, self.lang)
            yield to_json({"op": "status", "what": what, "tone": "bad", "text": text})
            return
        yield from self.runner.stream(prove_meanings.PAIR, flag, work, what=what)
