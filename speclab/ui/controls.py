"""The controls of tab Watch: built from the tables, read back as one `Settings`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import Param
from speclab.lab.presets import ParamValue
from speclab.models.catalogue import CUSTOM
from speclab.ui.choice_words import ChoiceWords
from speclab.ui.method_examples import ExampleButtons, example_buttons
from speclab.ui.method_kinds import kind_choices, method_choices
from speclab.ui.session_texts import kept_parts
from speclab.ui.settings import (
    CHAT,
    LIMITS,
    SAMPLING_FIELDS,
    Settings,
    best_rule,
    default_settings,
)
from speclab.ui.tree_words import tree_html

CUSTOM_CHOICE = "custom"


@dataclass(slots=True, kw_only=True)
class Controls(ChoiceWords):
    """The components of one page; no values of any visitor.

    Attributes:
        examples: two prompts of the method, by what was measured.
        params: one component per (method, parameter).
        groups: one group of parameters per method.
        folds: the folded part of a group, where there is one.
        trees: what a tree's parameters come to, for the methods that draft one.
        kept: how many earlier texts there are, for the methods that copy from them.
        forget: what forgets those texts; nothing where none are kept.
    """

    preset: gr.Radio = field(init=False)
    lesson: gr.HTML = field(init=False)
    kind: gr.Radio = field(init=False)
    method: gr.Radio = field(init=False)
    about: gr.HTML = field(init=False)
    examples: ExampleButtons = field(init=False)
    params: dict[tuple[str, str], Any] = field(default_factory=dict)
    groups: dict[str, gr.Column] = field(default_factory=dict)
    folds: dict[str, gr.Accordion] = field(default_factory=dict)
    trees: dict[str, gr.HTML] = field(default_factory=dict)
    kept: dict[str, gr.HTML] = field(default_factory=dict)
    forget: dict[str, gr.Button] = field(default_factory=dict)
    prompt: gr.Textbox = field(init=False)
    sampling: dict[str, Any] = field(default_factory=dict)
    rule: gr.Dropdown = field(init=False)
    rule_about: gr.HTML = field(init=False)
    pair: gr.Dropdown = field(init=False)
    facts: gr.HTML = field(init=False)
    custom: gr.Group = field(init=False)
    custom_target: gr.Textbox = field(init=False)
    custom_draft: gr.Textbox = field(init=False)
    check: gr.Button = field(init=False)
    chat: gr.Radio = field(init=False)
    max_new_tokens: gr.Slider = field(init=False)
    seed: gr.Number = field(init=False)

    # --- building ---------------------------------------------------------------------------

    def build_presets(self) -> None:
        """Place the row of examples with the lesson under it."""
        first = next(iter(self.lab.presets.values()))
        choices = [(getattr(p.title, self.lang), p.name) for p in self.lab.presets.values()]
        self.preset = gr.Radio(
            choices,
            value=first.name,
            label=self.words["presets"],
            container=False,
            elem_id="preset",
            elem_classes="sl-chips",
        )
        self.lesson = gr.HTML(self.lesson_html(first.name), elem_id="lesson")

    def build_prompt(self) -> None:
        """Place the prompt."""
        self.prompt = gr.Textbox(
            default_settings(self.lab).prompt,
            lines=3,
            max_lines=8,
            label=self.words["prompt"],
            placeholder=self.words["prompt_hint"],
            elem_id="prompt",
        )

    def build_method(self) -> None:
        """Place the kinds of methods, those of one kind, and the parameters of each.

        All but the first parameter are folded.
        """
        words, start = self.words, default_settings(self.lab)
        kind = self.kind_of(start.method)
        self.kind = gr.Radio(
            kind_choices(self.lab, self.lang),
            value=kind,
            label=words["kind"],
            elem_id="kind",
            elem_classes="sl-kinds",
        )
        self.method = gr.Radio(
            method_choices(self.lab, kind, self.lang),
            value=start.method,
            label=words["method"],
            elem_id="method",
            elem_classes="sl-list",
        )
        self.about = gr.HTML(self.method_html(start.method, start.pair), elem_id="method-about")
        self.examples = example_buttons(self.lab, self.lang, start.method, start.pair)
        for name, item in self.lab.methods.items():
            visible = name == start.method and bool(item.card.params)
            with gr.Column(visible=visible, elem_classes="sl-params") as group:
                self._build_params(name, item.card.params, start)
            self.groups[name] = group

    def _build_params(self, method: str, params: Sequence[Param], start: Settings) -> None:
        """Place the first parameter of a method, and the others folded."""
        values = start.params if method == start.method else {}
        for param in params[:1]:
            value = values.get(param.name, param.default)
            self.params[method, param.name] = self._param(method, param, value)
        defaults = {param.name: param.default for param in params}
        if about := tree_html(self.lab.methods[method].card, {**defaults, **values}, self.lang):
            self.trees[method] = gr.HTML(about, elem_id=f"tree-about-{method}")
        if self.lab.methods[method].card.reads_earlier_texts:
            self.kept[method], forget = kept_parts(self.words, method)
            if forget is not None:
                self.forget[method] = forget
        if params[1:]:
            title = self.words["more_params"]
            with gr.Accordion(title, open=False, elem_id=f"more-{method}") as fold:
                for param in params[1:]:
                    value = values.get(param.name, param.default)
                    self.params[method, param.name] = self._param(method, param, value)
            self.folds[method] = fold

    def build_sampling(self) -> None:
        """Place sampling, rule, length and seed."""
        words, start = self.words, default_settings(self.lab)
        self._slider("temperature", start, 0.05, maximum=2.5)
        with gr.Accordion(words["more"], open=False, elem_id="more-sampling"):
            self._slider("top_k", start, 1)
            self._slider("top_p", start, 0.01)
            self._slider("min_p", start, 0.01)
            self._slider("repetition_penalty", start, 0.05)
            self._slider("presence_penalty", start, 0.1)
            self._slider("frequency_penalty", start, 0.1)
            self.rule = gr.Dropdown(
                self.rule_choices(start.method),
                value=start.rule,
                label=words["rule"],
                elem_id="rule",
                filterable=False,
            )
            self.rule_about = gr.HTML(
                self.rule_html(start.method, start.rule), elem_id="rule-about"
            )
        with gr.Row(elem_classes="sl-pairrow"):
            self.max_new_tokens = gr.Number(
                start.max_new_tokens,
                precision=0,
                label=words["max_new_tokens"],
                elem_id="max-new-tokens",
                min_width=110,
            )
            self.seed = gr.Number(
                start.seed,
                precision=0,
                label=words["seed"],
                elem_id="seed",
                min_width=110,
            )

    def build_models(self) -> None:
        """Place the choice of the pair, what it costs, and the two free fields."""
        words, start = self.words, default_settings(self.lab)
        choices = [
            (getattr(entry.title, self.lang), name) for name, entry in self.lab.pairs.items()
        ]
        self.pair = gr.Dropdown(
            [*choices, (words["custom_pair"], CUSTOM_CHOICE)],
            value=start.pair,
            label=words["pair"],
            elem_id="pair",
            filterable=False,
        )
        self.facts = gr.HTML(self.pair_html(start.pair), elem_id="pair-facts")
        hint = words["custom_hint" if self.lab.allow_local else "custom_hint_hub"]
        with gr.Group(visible=False, elem_id="custom-pair") as self.custom:
            self.custom_target = gr.Textbox(
                label=words["custom_target"], placeholder=hint, elem_id="custom-target"
            )
            self.custom_draft = gr.Textbox(
                label=words["custom_draft"], placeholder=hint, elem_id="custom-draft"
            )
            self.check = gr.Button(words["check"], size="sm", elem_id="custom-check")
        self.chat = gr.Radio(
            [(words[f"chat_{key}"], key) for key in CHAT],
            value="auto",
            label=words["chat"],
            elem_id="chat",
            elem_classes="sl-list",
        )

    def _slider(
        self, name: str, start: Settings, step: float, maximum: float | None = None
    ) -> None:
        low, high = LIMITS[name]
        info = self.words.get(f"{name}_info")
        self.sampling[name] = gr.Slider(
            low,
            maximum or high,
            value=getattr(start.sampling, name),
            step=step,
            label=self.words[name],
            info=info,
            buttons=[],
            elem_id=name.replace("_", "-"),
        )

    def _param(self, method: str, param: Param, value: ParamValue) -> Any:
        """Return the component that fits one parameter's kind."""
        help_text = getattr(param.help, self.lang)
        title = f"{param.symbol} · {param.name}" if param.symbol else param.name
        common: dict[str, Any] = {
            "label": title,
            "info": help_text,
            "elem_id": f"p-{method}-{param.name}".replace("_", "-"),
        }
        if param.kind == "bool":
            return gr.Checkbox(bool(value), **common)
        if param.kind == "choice":
            return gr.Dropdown(list(param.options), value=value, **common)
        if param.kind == "optional_float":
            return gr.Textbox(
                _shown(value),
                placeholder=self.words["same_as_target"],
                **common,
            )
        return gr.Slider(param.low, param.high, value=value, step=param.step, buttons=[], **common)

    # --- reading and writing ---------------------------------------------------------------

    def tree_inputs(self, method: str) -> list[Any]:
        """Return the components of a method's parameters, in the card's order."""
        return [part for (owner, _), part in self.params.items() if owner == method]

    def components(self) -> list[Any]:
        """Return every component that holds a choice, in the order of `read`."""
        return [
            self.preset,
            self.pair,
            self.custom_target,
            self.custom_draft,
            self.method,
            self.rule,
            self.prompt,
            self.seed,
            self.max_new_tokens,
            self.chat,
            *(self.sampling[name] for name in SAMPLING_FIELDS),
            *self.params.values(),
        ]

    def views(self) -> list[Any]:
        """Return what only shows something about a choice, in the order of `show`."""
        views = [self.lesson, self.about, self.facts, self.custom, self.rule_about]
        views += [*self.groups.values(), *self.folds.values(), self.kind]
        return [*views, *self.examples.components()]

    def read(self, values: Sequence[Any]) -> Settings:
        """Return the settings behind the values of `components()`.

        Raises:
            BadInput: naming the field that does not hold what it should.
        """
        preset, pair, target, draft, method, rule, prompt, seed, max_new, chat = values[:10]
        if pair == CUSTOM_CHOICE:
            pair = f"{CUSTOM}{(target or '').strip()}|{(draft or '').strip()}"
        count = len(SAMPLING_FIELDS)
        numbers = dict(zip(SAMPLING_FIELDS, values[10 : 10 + count], strict=True))
        sampling = {name: self._number(name, value) for name, value in numbers.items()}
        sampling["top_k"] = int(sampling["top_k"])
        given = dict(zip(self.params, values[10 + count :], strict=True))
        return Settings(
            pair=pair,
            method=method,
            rule=best_rule(self.lab, method, rule),
            prompt=prompt or "",
            params={
                param.name: self._param_value(param, given[method, param.name])
                for param in self.lab.methods[method].card.params
            },
            sampling=Sampling(**sampling),
            seed=int(self._number("seed", seed)),
            max_new_tokens=int(self._number("max_new_tokens", max_new)),
            chat=CHAT[chat],
            preset=preset or "",
        )

    def _number(self, name: str, value: Any) -> float:
        low, high = LIMITS[name]
        if not isinstance(value, int | float) or not low <= value <= high:
            text = self.words["error_number"].format(name=self.words[name], low=low, high=high)
            raise BadInput(text)
        return value

    def _param_value(self, param: Param, value: Any) -> ParamValue:
        if param.kind == "bool":
            return bool(value)
        if param.kind == "choice":
            param.check(value)
            return str(value)
        if param.kind == "optional_float":
            if value is None or not str(value).strip():
                return None
            value = _number_in(str(value))
        if not isinstance(value, int | float) or not param.low <= value <= param.high:
            text = self.words["error_number"]
            raise BadInput(text.format(name=param.name, low=param.low, high=param.high))
        return int(value) if param.kind == "int" else float(value)

    def write(self, settings: Settings) -> list[Any]:
        """Return the updates of `components()` that show the settings."""
        custom = settings.pair.startswith(CUSTOM)
        ids = settings.pair.removeprefix(CUSTOM) if custom else "|"
        target, _, draft = ids.partition("|")
        params = [
            _shown(settings.params[name]) if method == settings.method else gr.skip()
            for method, name in self.params
        ]
        chat = next(key for key, value in CHAT.items() if value is settings.chat)
        return [
            settings.preset or None,
            CUSTOM_CHOICE if custom else settings.pair,
            target,
            draft,
            self.method_update(settings.method),
            gr.update(choices=self.rule_choices(settings.method), value=settings.rule),
            settings.prompt,
            settings.seed,
            settings.max_new_tokens,
            chat,
            *(getattr(settings.sampling, name) for name in SAMPLING_FIELDS),
            *params,
        ]

    def show(self, settings: Settings) -> list[Any]:
        """Return the updates of `views()` for the settings."""
        return [
            self.lesson_html(settings.preset),
            self.method_html(settings.method, settings.pair),
            self.pair_html(settings.pair),
            gr.update(visible=settings.pair.startswith(CUSTOM)),
            self.rule_html(settings.method, settings.rule),
            *self.group_updates(settings.method),
            *(gr.update(open=self._tuned(method, settings)) for method in self.folds),
            self.kind_of(settings.method),
            *self.example_updates(settings.method, settings.pair),
        ]

    def _tuned(self, method: str, settings: Settings) -> bool:
        """Whether a folded parameter of the method is not at its default."""
        params = self.lab.methods[method].card.params[1:]
        return method == settings.method and any(
            settings.params[param.name] != param.default for param in params
        )

    def group_updates(self, method: str) -> list[Any]:
        """Return which parameter groups to show for a method."""
        return [
            gr.update(visible=name == method and bool(self.lab.methods[name].card.params))
            for name in self.groups
        ]


def _shown(value: ParamValue) -> ParamValue | str:
    """Return a parameter's value as its component shows it: empty for None."""
    return "" if value is None else value


def _number_in(text: str) -> float | None:
    """Return the number a text field holds, None if it holds something else."""
    try:
        return float(text)
    except ValueError:
        return None
