"""The two prompts of a method: where it was measured to pay most, and where least."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any, Literal

import gradio as gr

from speclab.core.laws import Sampling
from speclab.lab.method_examples import Contrast, Example, contrast_of, kept_table
from speclab.ui.backend import Lab
from speclab.ui.measure_reports import interval, where
from speclab.ui.settings import Settings, best_rule, default_params
from speclab.ui.texts import WORDS
from speclab.ui.texts_measure import MEASURE

Side = Literal["best", "worst"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleButtons:
    """Two buttons with a line about them, hidden where nothing was measured."""

    group: gr.Column
    best: gr.Button
    worst: gr.Button
    note: gr.HTML

    def components(self) -> list[Any]:
        """Return them in the order of `example_updates`."""
        return [self.group, self.best, self.worst, self.note]


def example_buttons(lab: Lab, lang: str, method: str, pair: str) -> ExampleButtons:
    """Place the two prompts of a method."""
    texts = example_texts(lab, lang, method, pair)
    best, worst, note = texts or ("", "", "")
    with gr.Column(
        visible=texts is not None, elem_id="examples", elem_classes="sl-examples"
    ) as group:
        return ExampleButtons(
            group=group,
            best=gr.Button(best, size="sm", elem_id="example-best"),
            worst=gr.Button(worst, size="sm", elem_id="example-worst"),
            note=gr.HTML(note, elem_id="example-note"),
        )


def example_updates(lab: Lab, lang: str, method: str, pair: str) -> list[Any]:
    """Return the updates that show the two prompts of a method, or hide them."""
    texts = example_texts(lab, lang, method, pair)
    if texts is None:
        return [gr.update(visible=False), *[gr.skip()] * 3]
    return [gr.update(visible=True), *texts]


def example_settings(lab: Lab, method: str, pair: str, side: Side) -> Settings | None:
    """Return what runs a method's prompt as it was measured; None where nothing was."""
    found = _contrast(lab, method, pair)
    if found is None:
        return None
    example: Example = getattr(found[1], side)
    params = default_params(lab, method)
    params.update({name: value for name, value in example.params.items() if name in params})
    return Settings(
        pair=pair,
        method=method,
        rule=best_rule(lab, method, example.rule),
        prompt=example.prompt,
        params=params,
        sampling=Sampling(temperature=0.0),
        seed=example.seed,
        max_new_tokens=example.max_new_tokens,
    )


def example_texts(lab: Lab, lang: str, method: str, pair: str) -> tuple[str, str, str] | None:
    """Return the words of both buttons and the line about them (HTML); None for nothing to say."""
    found = _contrast(lab, method, pair)
    if found is None:
        return None
    report, contrast = found
    best = _text(contrast.best, f"example_{contrast.best_word}", lang)
    worst = _text(contrast.worst, f"example_{contrast.worst_word}", lang)
    few = contrast.best.numbers["speedup_low"] is None
    note = WORDS[lang]["example_note_few" if few else "example_note"].format(
        prompts=contrast.best.numbers["prompts"],
        tokens=contrast.best.max_new_tokens,
        best=_ranged(contrast.best, lang),
        worst=_ranged(contrast.worst, lang),
        where=where(report, lang),
    )
    return best, worst, f'<p class="sl-about">{html.escape(note)}</p>'


def _contrast(lab: Lab, method: str, pair: str) -> tuple[dict[str, Any], Contrast] | None:
    """Return a pair's kept table and what it says of a method; None for a pair of one's own."""
    report = kept_table(pair) if pair in lab.pairs else None
    contrast = contrast_of(report, method) if report else None
    return (report, contrast) if report and contrast else None


def _text(example: Example, key: str, lang: str) -> str:
    return WORDS[lang][key].format(
        family=_family(example, lang),
        tau=f"{example.numbers['tau']:.2f}",
        speedup=f"{example.speedup:.2f}",
    )


def _ranged(example: Example, lang: str) -> str:
    return f"{_family(example, lang)} {interval(example.numbers, 'speedup')}"


def _family(example: Example, lang: str) -> str:
    return MEASURE[lang].get(f"family_{example.family}", example.family)
