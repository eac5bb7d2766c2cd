"""The earlier texts of one visitor: one store per pair, in the session and gone with it."""

from __future__ import annotations

import html
from collections.abc import Mapping

import gradio as gr

from speclab.core.earlier_texts import TextStore
from speclab.ui.backend import keeps_texts

MAX_PAIRS = 4
"""Pairs whose texts a session keeps; those unused for longest go first."""


class SessionTexts:
    """One visitor's stores; lives in the visitor's session, never in the lab."""

    def __init__(self) -> None:
        self._stores: dict[str, TextStore] = {}

    def of(self, pair: str) -> TextStore:
        """Return the store of a pair, an empty one at first."""
        store = self._stores.pop(pair, None)
        self._stores[pair] = store = TextStore(pair) if store is None else store
        while len(self._stores) > MAX_PAIRS:
            del self._stores[next(iter(self._stores))]
        return store

    def __len__(self) -> int:
        return sum(map(len, self._stores.values()))

    def forget(self) -> None:
        """Keep nothing; the text of a run that is still on its way is not kept either."""
        self._stores = {}


def kept_html(words: Mapping[str, str], count: int) -> str:
    """Return the line that says how many earlier texts are kept, and for whom."""
    key = "texts_never" if not keeps_texts() else "texts_kept" if count else "texts_none"
    text = words[key].format(n=count)
    return f'<p class="sl-about" role="status">{html.escape(text)}</p>'


def kept_parts(words: Mapping[str, str], method: str) -> tuple[gr.HTML, gr.Button | None]:
    """Place that line and, where texts are kept, the button that forgets them."""
    line = gr.HTML(kept_html(words, 0), elem_id=f"kept-{method}")
    if not keeps_texts():
        return line, None
    button = gr.Button(words["texts_forget"], size="sm", elem_id=f"forget-{method}", min_width=110)
    return line, button
