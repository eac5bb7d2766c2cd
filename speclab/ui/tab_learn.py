"""Tab Learn: the list of lessons and one lesson, built when it is opened."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import gradio as gr

from speclab.core.errors import SpeclabError
from speclab.ui.backend import Lab
from speclab.ui.lesson_figures import build_figure, component
from speclab.ui.lessons import Block, Code, Figure, Predict, Prose, heads, read_lesson
from speclab.ui.messages import error_status, to_json
from speclab.ui.texts_learn import WORDS_LEARN

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
LIST_WORDS = ("lessons", "welcome", "about", "minutes", "all", "previous", "next")
LATEX = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "$", "right": "$", "display": False},
]


def markdown(text: str, **more: Any) -> gr.Markdown:
    """Return Markdown with formulas."""
    return gr.Markdown(text, latex_delimiters=LATEX, **more)


class Learn:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self.lab, self.lang, self.words = lab, lang, WORDS_LEARN[lang]
        self.tabs = gr.context.Context.block.parent
        with gr.Column(elem_classes="sl-learn"):
            self.list = component(
                "list", self._list_message(0), classes=["sl-lessons"], elem_id="lessons"
            )
            self.number = gr.Number(0, precision=0, visible="hidden", elem_id="lesson-number")
            for head in heads(lang):
                self._place_for(head.number)

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind the events; `blocks` is the page they live on."""
        self.list.open(self._on_open, None, [self.list, self.number], **QUIET)
        blocks.load(self._on_load, None, [self.tabs, self.list, self.number], **QUIET)

    # --- events -----------------------------------------------------------------------------

    def _on_open(self, event: gr.EventData) -> tuple[str, int]:
        number = self._known(getattr(event, "lesson", 0))
        return self._list_value(number), number

    def _on_load(self, request: gr.Request) -> tuple[Any, Any, Any]:
        """Open the lesson that the address names."""
        wanted = request.query_params.get("lesson")
        if wanted is None:
            return gr.skip(), gr.skip(), gr.skip()
        number = self._known(int(wanted) if wanted.isdecimal() and len(wanted) < 6 else -1)
        fault = "" if number or wanted == "0" else self._fault(wanted)
        return gr.Tabs(selected="learn"), self._list_value(number, fault), number

    def _known(self, number: object) -> int:
        """Return the number of a lesson that is there; 0 is the list."""
        return number if number in {head.number for head in heads(self.lang)} else 0

    def _fault(self, wanted: str) -> str:
        return self.words["no_such_lesson"].format(value=wanted[:20])

    # --- layout -----------------------------------------------------------------------------

    def _place_for(self, number: int) -> None:
        """Keep a place of its own for each lesson: Gradio mixes up figures that follow another
        lesson's in the same place."""

        @gr.render(inputs=self.number, triggers=[self.number.change], show_progress="hidden")
        def _(chosen: int) -> None:
            if chosen == number:
                self._lesson(number)

    def _list_message(self, number: int, place: str = "top", fault: str = "") -> dict[str, Any]:
        lessons = [
            {name: value for name, value in asdict(head).items() if name != "sources"}
            for head in heads(self.lang)
        ]
        return {
            "lessons": lessons,
            "current": number,
            "place": place,
            "fault": fault,
            "words": {name: self.words[name] for name in LIST_WORDS},
        }

    def _list_value(self, number: int, fault: str = "") -> str:
        return to_json(self._list_message(number, fault=fault))

    def _lesson(self, number: int) -> None:
        head = next(head for head in heads(self.lang) if head.number == number)
        lesson = read_lesson(head.slug, self.lang)
        place = self.words["lesson_n"].format(n=number)
        minutes = self.words["minutes"].format(n=head.minutes)
        with gr.Column(elem_classes="sl-lesson", elem_id=f"lesson-{number}"):
            markdown(
                f"{place} · {minutes}\n\n# {head.title}\n\n**{head.question}**",
                elem_classes="sl-lesson-head",
            )
            for block in lesson.blocks:
                self._block(block)
            sources = "\n".join(f"- {source}" for source in head.sources)
            markdown(f"## {self.words['sources']}\n\n{sources}", elem_classes="sl-sources")
            foot = component("list", self._list_message(number, place="foot"))
            foot.open(self._on_open, None, [self.list, self.number], **QUIET)

    def _figure(self, block: Figure) -> None:
        """Build a figure; one that cannot be built says why and leaves the lesson readable."""
        try:
            build_figure(self.lab, self.lang, block.name, block.options)
        except SpeclabError as error:
            gr.HTML(error_status(error, self.lang))

    def _block(self, block: Block) -> None:
        match block:
            case Prose():
                markdown(block.text, elem_classes="sl-prose")
            case Figure():
                self._figure(block)
            case Predict():
                choices, answer = block.choices, block.answer
                message = {"question": block.question, "choices": choices, "answer": answer}
                component("predict", message | {"words": self.words})
            case Code():
                with gr.Accordion(self.words["code"], open=False, elem_classes="sl-code"):
                    markdown(f"```python\n{block.text}\n```")
