"""The pages `/` and `/zh`: header, tabs, footer, built twice from one function."""

from __future__ import annotations

import html
from typing import Any

import gradio as gr

from speclab import __version__
from speclab.ui import theme
from speclab.ui.backend import Lab
from speclab.ui.tab_compare import Compare
from speclab.ui.tab_deploy import Deploy
from speclab.ui.tab_heads import Heads
from speclab.ui.tab_learn import Learn
from speclab.ui.tab_measure import Measure
from speclab.ui.tab_prove import Prove
from speclab.ui.tab_watch import Watch
from speclab.ui.texts import WORDS

ICONS = {
    "theme": "M12 3a9 9 0 1 0 0 18V3zm0-2a11 11 0 1 1 0 22 11 11 0 0 1 0-22z",
    "projector": "M2 18 7 5h2l5 13h-2.2l-1.2-3.3H5.4L4.2 18H2zm4-5h4L8 7.6 6 13zm10 5V9h2v9h-2z"
    "m-1-11 2-3 2 3h-4zm5 11v-2h2v2h-2z",
}
DELETE_EVERY_S = 3_600
"""Seconds after which files of visitors are deleted."""
TABS: dict[str, Any] = {
    "watch": Watch,
    "compare": Compare,
    "heads": Heads,
    "measure": Measure,
    "prove": Prove,
    "deploy": Deploy,
    "learn": Learn,
}
"""Every tab by key, in teaching order."""


def header(lang: str) -> str:
    """Return the header: name, one line, language, theme and large type."""
    words = {key: html.escape(text, quote=True) for key, text in WORDS[lang].items()}
    other, path = ("zh", "./zh") if lang == "en" else ("en", "./")
    buttons = "".join(
        f'<button type="button" data-sl="{key}" aria-label="{words[key]}" title="{words[key]}">'
        f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{icon}"/></svg></button>'
        for key, icon in ICONS.items()
    )
    return (
        '<header class="sl-header"><div class="sl-name"><h1>SpecLab</h1>'
        f"<p>{words['tagline']}</p></div>"
        f'<nav class="sl-tools">{buttons}<a id="switch-lang" data-sl="lang" href="{path}" '
        f'data-sveltekit-reload target="_self" lang="{other}" hreflang="{other}">'
        f"{words['other_lang']}</a></nav></header>"
    )


def page(lab: Lab, lang: str, blocks: gr.Blocks) -> None:
    """Build one page inside the open Blocks context."""
    words = WORDS[lang]
    gr.Navbar(visible=False)
    gr.HTML(header(lang), elem_id="header")
    with gr.Tabs(elem_id="tabs"):
        for key, tab in TABS.items():
            with gr.Tab(words[f"tab_{key}"], id=key):
                tab(lab, lang).connect(blocks)
    gr.HTML(
        f'<footer class="sl-footer">{html.escape(words["footer"])} '
        f"<span>SpecLab {__version__} · Apache-2.0</span></footer>"
    )


def build(lab: Lab) -> gr.Blocks:
    """Return the app: English at `/`, Chinese at `/zh`."""
    with gr.Blocks(
        title="SpecLab",
        fill_width=True,
        analytics_enabled=False,
        delete_cache=(DELETE_EVERY_S, DELETE_EVERY_S),
    ) as blocks:
        page(lab, "en", blocks)
    with blocks.route("中文", "zh", show_in_navbar=False):
        page(lab, "zh", blocks)
    blocks.queue(default_concurrency_limit=16, max_size=128)
    return blocks


def launch_options() -> dict[str, Any]:
    """Return everything that `launch()` needs besides host and port."""
    return {
        "theme": theme.theme(),
        "css_paths": theme.css_paths(),
        "head": theme.head(),
        "footer_links": [],
        "run_history": False,
        "ssr_mode": False,
        "show_error": True,
        "max_threads": 80,
        "max_file_size": "25mb",
    }
