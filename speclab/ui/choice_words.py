"""What the page says about a choice: a lesson, a method, a pair, a rule, a tree's parameters."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import gradio as gr

from speclab.methods.kinds import kind_of
from speclab.ui.backend import Lab
from speclab.ui.method_examples import example_updates
from speclab.ui.method_kinds import method_choices
from speclab.ui.settings import is_lossless, rules_for
from speclab.ui.texts import WORDS, byte_size
from speclab.ui.tree_words import missing_html, tree_html


@dataclass(slots=True, kw_only=True)
class ChoiceWords:
    """The words of one page about what can be chosen on it.

    Attributes:
        lab: the lab. lang: "en" or "zh".
    """

    lab: Lab
    lang: str

    @property
    def words(self) -> dict[str, str]:
        """The page's words."""
        return WORDS[self.lang]

    def lesson_html(self, preset: str) -> str:
        """Return the lesson of a preset."""
        item = self.lab.presets.get(preset)
        text = getattr(item.lesson, self.lang) if item else ""
        return f'<p class="sl-lesson">{html.escape(text)}</p>'

    def method_html(self, method: str, pair: str) -> str:
        """Return one line about a method with a link to its paper; and why a pair cannot run it."""
        card = self.lab.methods[method].card
        text = html.escape(getattr(card.one_liner, self.lang))
        paper = html.escape(card.paper)
        link = html.escape(card.paper_url, quote=True)
        if link:
            paper = f'<a href="{link}" target="_blank" rel="noopener noreferrer">{paper}</a>'
        missing = missing_html(self.lab, method, pair, self.lang)
        return f'<p class="sl-about">{text} <cite>{paper}</cite></p>{missing}'

    def example_updates(self, method: str, pair: str) -> list[Any]:
        """Return the updates of the two prompts of a method: where it pays, and where not."""
        return example_updates(self.lab, self.lang, method, pair)

    def kind_of(self, method: str) -> str:
        """Return the kind of a method."""
        return kind_of(self.lab.methods[method].card)

    def method_update(self, method: str) -> Any:
        """Return the update that shows the methods of one kind, `method` chosen."""
        choices = method_choices(self.lab, self.kind_of(method), self.lang)
        return gr.update(choices=choices, value=method)

    def tree_text(self, method: str, *values: Any) -> str:
        """Return what the values of `tree_inputs` come to."""
        card = self.lab.methods[method].card
        names = [param.name for param in card.params]
        return tree_html(card, dict(zip(names, values, strict=True)), self.lang)

    def pair_html(self, pair: str) -> str:
        """Return what a pair is and what it costs to load."""
        words, entry = self.words, self.lab.pairs.get(pair)
        if entry is None:
            return f'<p class="sl-about">{html.escape(words["custom_about"])}</p>'
        size = words["bundled"] if entry.bundled else byte_size(entry.download_bytes)
        facts = (
            (words["size"], size),
            (words["memory"], byte_size(entry.memory_bytes)),
            (words["licence"], entry.licence),
        )
        rows = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts)
        about = html.escape(getattr(entry.about, self.lang))
        return f'<p class="sl-about">{about}</p><dl class="sl-facts">{rows}</dl>'

    def rule_choices(self, method: str) -> list[tuple[str, str]]:
        """Return the rules that can judge a method, as choices; the lossy ones say so."""
        choices = []
        for name in rules_for(self.lab, method):
            title = getattr(self.lab.rules[name].title, self.lang)
            if self.lab.rules[name].kind == "lossy":
                title = f"{title} · {self.words['lossy']}"
            choices.append((title, name))
        return choices

    def rule_html(self, method: str, rule: str) -> str:
        """Return what a rule does, and whether the output keeps the target's law under it."""
        item, fine = self.lab.rules[rule], is_lossless(self.lab, method, rule)
        mark = self.words["lossless" if fine else "lossy_mark"]
        why = self.words["lossless_why" if fine else "lossy_why"]
        if not fine and item.why_not:
            why = getattr(item.why_not, self.lang)
        text = html.escape(getattr(item.one_liner, self.lang))
        kind = "sl-lossless" if fine else "sl-lossy"
        return (
            f'<p class="sl-about">{text}</p><p class="sl-about {kind}">'
            f"<b>{html.escape(mark)}</b> {html.escape(why)}</p>"
        )
