"""Tab Measure: predict, measure and explain the speed of speculation on this machine."""

from __future__ import annotations

import html

import gradio as gr

from speclab.ui import (
    measure_advice,
    measure_arrivals,
    measure_batch,
    measure_best,
    measure_ladder,
    measure_passes,
    measure_predict,
    measure_sweep,
    measure_why,
)
from speclab.ui.backend import Lab
from speclab.ui.measure_panel import Panel, bind, build_panel
from speclab.ui.texts_measure import MEASURE

QUESTION = "p { margin: 2px 0 0; font-size: var(--text-lg); color: var(--body-text-color); }"


class Measure:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self.lab, self.lang, self.words = lab, lang, MEASURE[lang]
        builders = {
            "best": self._best,
            "sweep": self._sweep,
            "predict": self._predict,
            "ladder": self._ladder,
            "batch": self._batch,
            "why": self._why,
        }
        with gr.Tabs(elem_id="measure-panels"):
            self.panels: list[Panel] = []
            for name, build in builders.items():
                with gr.Tab(self.words[f"panel_{name}"], id=name):
                    gr.HTML(
                        f"<p>{html.escape(self.words[f'{name}_question'])}</p>",
                        css_template=QUESTION,
                        apply_default_css=False,
                        elem_classes="sl-question",
                    )
                    self.panels.append(build())

    def _best(self) -> Panel:
        return build_panel(
            self.lang,
            "best",
            figure=measure_best.options(self.lab, self.lang),
            answers={"best": lambda given: measure_best.best_reply(given, self.lang)},
            plan=lambda given, stop: measure_best.measure_plan(self.lab, given, stop, self.lang),
        )

    def _sweep(self) -> Panel:
        lab, lang = self.lab, self.lang
        return build_panel(
            lang,
            "sweep",
            figure=measure_sweep.options(lab, lang),
            answers={"recorded": lambda given: measure_sweep.recorded_reply(lab, given, lang)},
            plan=lambda given, stop: measure_sweep.sweep_plan(lab, given, stop, lang),
        )

    def _predict(self) -> Panel:
        lab, lang = self.lab, self.lang
        return build_panel(
            lang,
            "predict",
            figure=measure_predict.options(lab, lang),
            answers={"recorded": lambda given: measure_predict.recorded_reply(lab, given, lang)},
            plan=lambda given, stop: measure_predict.predict_plan(lab, given, stop, lang),
        )

    def _ladder(self) -> Panel:
        lab, lang = self.lab, self.lang
        return build_panel(
            lang,
            "ladder",
            figure=measure_ladder.options(lab, lang),
            answers={"recorded": lambda given: measure_ladder.recorded_reply(lab, given, lang)},
            plan=lambda given, stop: measure_ladder.ladder_plan(lab, given, stop, lang),
        )

    def _batch(self) -> Panel:
        lab, lang = self.lab, self.lang
        return build_panel(
            lang,
            "batch",
            figure=measure_batch.options(lab, lang)
            | measure_arrivals.OFFERED
            | measure_passes.offered(lab, lang),
            answers={
                "roofline": lambda given: measure_batch.roofline_reply(given, lang),
                "arrivals": lambda given: measure_arrivals.arrivals_reply(given, lang),
                "published": lambda given: measure_batch.published_reply(given, lang),
                "passes": lambda given: measure_passes.recorded_reply(lab, given, lang),
            },
            plan=lambda given, stop: measure_passes.passes_plan(lab, given, stop, lang),
        )

    def _why(self) -> Panel:
        lab, lang = self.lab, self.lang
        return build_panel(
            lang,
            "why",
            figure=measure_why.options(lab, lang),
            answers={"why": lambda given: measure_why.why_reply(lab, given, lang)},
            plan=lambda given, stop: measure_advice.advice_plan(lab, given, stop, lang),
        )

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind Run and Stop of every panel; `blocks` is the page they live on."""
        for panel in self.panels:
            bind(panel, self.lab, self.lang)
