"""Tab Watch: choose, run, and see every round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from speclab.core.errors import SpeclabError, TraceFormatError
from speclab.core.records import Trace
from speclab.models.catalogue import CUSTOM
from speclab.ui import messages
from speclab.ui.backend import Lab
from speclab.ui.controls import CUSTOM_CHOICE, Controls
from speclab.ui.custom import facts_html
from speclab.ui.method_examples import Side, example_settings
from speclab.ui.method_kinds import first_of_kind
from speclab.ui.permalink import MAX_LINK_PROMPT, read_query, write_query
from speclab.ui.player import player
from speclab.ui.recorded import Recorded, best_for
from speclab.ui.running import Runner, StopFlag
from speclab.ui.session_texts import SessionTexts, kept_html
from speclab.ui.settings import Settings, best_rule, default_settings, from_preset
from speclab.ui.texts import WORDS, byte_size
from speclab.ui.texts_player import EN as PLAYER_EN
from speclab.ui.texts_player import ZH as PLAYER_ZH

MAX_TRACE_BYTES = 20_000_000
PUSH = "(query) => window.speclab.pushState(query)"
COPY = "(query) => window.speclab.copyLink(query)"
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}


class PageError(TraceFormatError):
    """A file that cannot be read, said in the page's language already."""


class Watch:
    """The tab for one language.

    Args:
        lab: the lab.
        lang: "en" or "zh".
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self.lab, self.lang, self.words = lab, lang, WORDS[lang]
        self.controls = Controls(lab=lab, lang=lang)
        self.runner = Runner(lab, lang)
        self._build()

    # --- layout -----------------------------------------------------------------------------

    def _build(self) -> None:
        words, controls = self.words, self.controls
        controls.build_presets()
        with gr.Row(elem_classes="sl-watch", equal_height=False):
            with gr.Column(scale=0, min_width=320, elem_classes="sl-side"):
                gr.HTML(f"<h2>{words['controls']}</h2>", elem_classes="sl-heading")
                controls.build_prompt()
                with gr.Row(elem_classes="sl-actions"):
                    self.run = gr.Button(
                        words["run"], variant="primary", elem_id="run", min_width=90
                    )
                    self.stop = gr.Button(words["stop"], elem_id="stop", min_width=60)
                    self.reset = gr.Button(words["reset"], elem_id="reset", min_width=60)
                gr.HTML(
                    '<button type="button" data-sl="settings" aria-expanded="false">'
                    f"{words['settings']}</button>",
                    elem_classes="sl-more",
                )
                with gr.Column(elem_classes="sl-settings"):
                    controls.build_method()
                    controls.build_sampling()
                    with gr.Accordion(words["models"], open=False, elem_id="models"):
                        controls.build_models()
                    with gr.Row(elem_classes="sl-share"):
                        self.copy = gr.Button(
                            words["copy_link"], size="sm", elem_id="copy-link", min_width=110
                        )
                        self.upload = gr.UploadButton(
                            words["import"],
                            file_types=[".json"],
                            size="sm",
                            elem_id="import",
                            min_width=110,
                        )
            with gr.Column(scale=1, min_width=340, elem_classes="sl-main"):
                first = best_for(self.lab.recorded, default_settings(self.lab).preset)
                self.status = gr.HTML(self._recorded_status(first), elem_id="status")
                self.player = player(
                    labels=PLAYER_ZH if self.lang == "zh" else PLAYER_EN,
                    value=self._recorded_message(first),
                    elem_id="player",
                )
        self.link = gr.Textbox(visible="hidden", elem_id="link")
        self.flag = gr.State(StopFlag())
        self.texts = gr.State(SessionTexts(), delete_callback=SessionTexts.forget)

    def connect(self, blocks: gr.Blocks) -> None:
        """Bind the events; `blocks` is the page they live on."""
        controls = self.controls
        values, views = controls.components(), controls.views()
        everything = [*values, *views, self.player, self.status]
        started = self.run.click(
            self._on_run,
            [self.flag, self.texts, *values],
            [self.player, self.status, self.link],
            concurrency_id="run",
            concurrency_limit=32,
            **QUIET,
        )
        self.link.change(None, self.link, None, js=PUSH, api_visibility="private")
        self.stop.click(self._on_stop, self.flag, self.status, queue=False, **QUIET)
        self.reset.click(self._on_reset, self.flag, everything, queue=False, **QUIET)
        self._connect_choices(everything)
        self.copy.click(self._on_copy, values, [self.link, self.status], queue=False, **QUIET).then(
            None, self.link, None, js=COPY, api_visibility="private"
        )
        self.upload.upload(
            self._on_import, self.upload, [self.player, self.status], queue=False, **QUIET
        )
        blocks.load(self._on_load, None, everything, queue=False, **QUIET)
        self._connect_texts(started)
        self.started = started

    def _connect_texts(self, started: Any) -> None:
        """Bind the lines that say how many earlier texts are kept, and their buttons."""
        lines = list(self.controls.kept.values())
        if not lines:
            return
        started.then(self._on_kept, self.texts, lines, queue=False, **QUIET)
        for button in self.controls.forget.values():
            button.click(self._on_forget, self.texts, lines, queue=False, **QUIET)

    def _connect_choices(self, everything: list[Any]) -> None:
        """Bind what follows a choice: texts, and the controls that come with it."""
        controls = self.controls
        method_views = [controls.about, controls.rule, controls.rule_about]
        method_views += [*controls.groups.values(), *controls.examples.components()]
        controls.preset.input(
            self._on_preset, [controls.preset, controls.pair], everything, queue=False, **QUIET
        )
        controls.method.input(
            self._on_method,
            [controls.method, controls.rule, controls.pair],
            method_views,
            queue=False,
            **QUIET,
        )
        for side in ("best", "worst"):
            getattr(controls.examples, side).click(
                partial(self._on_example, side),
                [controls.method, controls.pair],
                everything,
                queue=False,
                **QUIET,
            )
        controls.kind.input(
            self._on_kind,
            [controls.kind, controls.rule, controls.pair],
            [controls.method, *method_views],
            queue=False,
            **QUIET,
        )
        for method, view in controls.trees.items():
            inputs = controls.tree_inputs(method)
            gr.on(
                [part.change for part in inputs],
                partial(controls.tree_text, method),
                inputs,
                view,
                queue=False,
                **QUIET,
            )
        controls.rule.input(
            controls.rule_html,
            [controls.method, controls.rule],
            controls.rule_about,
            queue=False,
            **QUIET,
        )
        controls.check.click(
            self._on_check,
            [controls.custom_target, controls.custom_draft],
            controls.facts,
            concurrency_id="check",
            concurrency_limit=4,
            **QUIET,
        )
        controls.pair.input(
            self._on_pair,
            [controls.pair, controls.method],
            [controls.facts, controls.custom, controls.about, *controls.examples.components()],
            queue=False,
            **QUIET,
        )

    # --- recorded runs ----------------------------------------------------------------------

    def _recorded_message(self, item: Recorded | None) -> str | None:
        if item is None:
            return None
        badge = f"{self.words['recorded']} · {item.date}"
        return messages.load_message(self.lab, item.trace, self.lang, badge=badge)

    def _recorded_status(self, item: Recorded | None) -> str:
        if item is None:
            return messages.status(self.words["status_no_recording"])
        entry = self.lab.pairs.get(item.trace.spec.pair)
        pair = getattr(entry.title, self.lang) if entry else item.trace.spec.pair
        return messages.status(self.words["status_recorded"].format(pair=pair, date=item.date))

    def _show_recorded(self, item: Recorded | None) -> tuple[str, str]:
        """Return what player and status line show for a recording; a broken one is reported.

        Without one the player is emptied: the run on show belongs to another example.
        """
        try:
            message = self._recorded_message(item) or messages.clear_message()
            return message, self._recorded_status(item)
        except SpeclabError as error:
            return messages.clear_message(), messages.error_status(error, self.lang)

    # --- events -----------------------------------------------------------------------------

    def _on_run(
        self, flag: StopFlag, texts: SessionTexts, *values: Any
    ) -> Iterator[tuple[Any, Any, Any]]:
        try:
            settings = self.controls.read(values)
        except SpeclabError as error:
            yield gr.skip(), messages.error_status(error, self.lang), gr.skip()
            return
        link: Any = write_query(settings)
        for update in self.runner.stream(settings, flag, texts):
            yield update.player or gr.skip(), update.status, link
            link = gr.skip()

    def _on_kept(self, texts: SessionTexts) -> list[str]:
        return [kept_html(self.words, len(texts))] * len(self.controls.kept)

    def _on_forget(self, texts: SessionTexts) -> list[str]:
        texts.forget()
        return self._on_kept(texts)

    def _on_stop(self, flag: StopFlag) -> Any:
        flag.raised = True
        if flag.running:
            return gr.skip()
        return messages.status(self.words["status_nothing_to_stop"])

    def _on_reset(self, flag: StopFlag) -> list[Any]:
        flag.raised = True
        settings = default_settings(self.lab)
        item = best_for(self.lab.recorded, settings.preset, settings.method)
        shown, _ = self._show_recorded(item)
        status = messages.status(self.words["status_reset"])
        return [*self.controls.write(settings), *self.controls.show(settings), shown, status]

    def _on_preset(self, name: str, pair: str) -> list[Any]:
        settings = from_preset(self.lab, self.lab.presets[name])
        item = best_for(self.lab.recorded, name, settings.method)
        return [*self._keeping_pair(settings, pair), *self._show_recorded(item)]

    def _on_example(self, side: Side, method: str, pair: str) -> list[Any]:
        settings = example_settings(self.lab, method, pair, side)
        if settings is None:
            count = len(self.controls.components()) + len(self.controls.views())
            return [gr.skip()] * (count + 2)
        return [*self._keeping_pair(settings, pair), *self._show_recorded(None)]

    def _keeping_pair(self, settings: Settings, pair: str) -> list[Any]:
        """Return the updates that show the settings and leave the models as they are chosen."""
        chosen = pair == CUSTOM_CHOICE or pair in self.lab.pairs
        updates = self.controls.write(settings)
        views = self.controls.show(replace(settings, pair=pair) if chosen else settings)
        if chosen:
            updates[1:4] = [gr.skip()] * 3
            views[2:4] = [gr.skip()] * 2
        return [*updates, *views]

    def _on_method(self, method: str, rule: str, pair: str) -> list[Any]:
        rule = best_rule(self.lab, method, rule)
        return [
            self.controls.method_html(method, pair),
            gr.update(choices=self.controls.rule_choices(method), value=rule),
            self.controls.rule_html(method, rule),
            *self.controls.group_updates(method),
            *self.controls.example_updates(method, pair),
        ]

    def _on_kind(self, kind: str, rule: str, pair: str) -> list[Any]:
        method = first_of_kind(self.lab, kind)
        return [self.controls.method_update(method), *self._on_method(method, rule, pair)]

    def _on_pair(self, pair: str, method: str) -> list[Any]:
        return [
            self.controls.pair_html(pair),
            gr.update(visible=pair == CUSTOM_CHOICE),
            self.controls.method_html(method, pair),
            *self.controls.example_updates(method, pair),
        ]

    def _on_check(self, target: str, draft: str) -> Iterator[str]:
        """Show what the two models cost; the hub is asked only here and by a run."""
        yield f'<p class="sl-about" role="status">{self.words["checking"]}</p>'
        pair = f"{CUSTOM}{(target or '').strip()}|{(draft or '').strip()}"
        yield facts_html(self.lab, pair, self.lang)

    def _on_copy(self, *values: Any) -> tuple[Any, str]:
        try:
            settings = self.controls.read(values)
        except SpeclabError as error:
            return gr.skip(), messages.error_status(error, self.lang)
        text, tone = self.words["link_copied"], "good"
        if len(settings.prompt) > MAX_LINK_PROMPT:
            text, tone = self.words["long_link"].format(n=MAX_LINK_PROMPT), "warning"
        return write_query(settings), messages.status(text, tone)

    def _on_import(self, path: str) -> tuple[Any, str]:
        try:
            trace = self._read_trace(Path(path))
            spec = trace.spec
            message = messages.load_message(
                self.lab, trace, self.lang, badge=f"{self.words['imported']} · {spec.created}"
            )
        except SpeclabError as error:
            return gr.skip(), messages.error_status(error, self.lang, self.words["kept"])
        finally:
            Path(path).unlink(missing_ok=True)
        text = self.words["status_imported"].format(
            method=spec.method, pair=spec.pair, n=len(trace.rounds)
        )
        return message, messages.status(text, "good")

    def _read_trace(self, path: Path) -> Trace:
        size = path.stat().st_size
        if size > MAX_TRACE_BYTES:
            limits = {"size": byte_size(size), "limit": byte_size(MAX_TRACE_BYTES)}
            raise PageError(self.words["file_too_big"].format(**limits))
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise PageError(self.words["file_not_text"]) from error
        try:
            return Trace.from_json(text)
        except RecursionError as error:
            raise TraceFormatError(
                "This file is nested too deeply to be a trace.", code="trace_too_deep"
            ) from error

    def _on_load(self, request: gr.Request) -> list[Any]:
        """Show what the address says; junk is named and replaced by its default."""
        nothing = [gr.skip()] * (len(self.controls.components()) + len(self.controls.views()))
        settings, faults = read_query(self.lab, dict(request.query_params))
        if settings is None:
            return [*nothing, gr.skip(), gr.skip()]
        item = self._recording_for(settings)
        bare = settings.preset and best_for(self.lab.recorded, settings.preset) is None
        known = item is not None or bare
        shown, status = self._show_recorded(item) if known else (gr.skip(), gr.skip())
        if faults:
            text = self.words["junk_link"].format(values=", ".join(faults))
            status = messages.status(text, "warning")
        return [*self.controls.write(settings), *self.controls.show(settings), shown, status]

    def _recording_for(self, settings: Settings) -> Recorded | None:
        if settings.trace:
            return self.lab.recorded[settings.trace]
        if not settings.preset:
            return None
        preset = self.lab.presets[settings.preset]
        if replace(settings, pair="", preset="") != replace(
            from_preset(self.lab, preset), pair="", preset=""
        ):
            return None
        return best_for(self.lab.recorded, settings.preset, settings.method)
