"""The round player: one gr.HTML whose figures are drawn in the browser from a trace.

The value is one message as JSON text; clicks, hovers and steps never reach the server.

`load` shows a run: `{"op": "load", "trace": <Trace>, "run": id, "live": bool, "badge": text,
"summary": [{"name", "title", "symbol", "value", "unit", "definition", "badge"}],
"depths": {"rows": [{"depth", "cumulative", "conditional", "tested", "drafted"}], "tree": whether,
"about": [{"title", "text"}], "badge"}, "rule_source": [lines], "banner": text, "stopped": bool,
"warnings": [sentences], "start": {"round": r, "steps": bool}}`; `start` says where to stand first,
in sub-steps. Sent again for the run on show, it adds what is new and keeps the reader's place;
where the rounds on show are not the beginning of its rounds, it replaces them all.

`append` adds rounds to a live run: `{"op": "append", "run": id, "rounds": [<Round>],
"pieces": {id: base64}, "summary": [...], "depths": {...}, "done": bool, "banner": text}`. It is
ignored unless `run` is the run on show; rounds known already are dropped, and after a gap the
player waits for a `load`. A live run ends with a `load` of the whole run.

`clear` shows nothing: `{"op": "clear"}`, until the next `load`.

`?round=` (from 0) and `?node=` (a node id or `next`) in the address pin a token; `?guess=1` starts
with *guess first* on.
"""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr

_ASSETS = Path(__file__).parents[2] / "assets"
_SCRIPTS = (
    "dom",
    "text",
    "tree_model",
    "evidence",
    "model",
    "state",
    "strip",
    "transport",
    "selection",
    "chart",
    "verdict",
    "ruler",
    "guess",
    "card",
    "folds",
    "fold_table",
    "fold_depths",
    "tree_drawing",
    "tree_mask",
    "fold_tree",
    "fold_window",
    "fold_layers",
    "fold_cache",
    "layout",
    "saving",
    "main",
)
"""Parts of the player, in the order in which they are joined; they share one scope."""


def player_script() -> str:
    """Return the player's JavaScript, all parts in one function scope."""
    parts = [
        (_ASSETS / "js" / "player" / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS
    ]
    return "(() => {\n'use strict';\n" + "\n".join(parts) + "})();\n"


def player(
    *, labels: dict[str, str], value: str | None, elem_id: str, embedded: bool = False
) -> gr.HTML:
    """Return a player.

    Args:
        labels: `texts_player.EN` or `texts_player.ZH`.
        value: one message as a JSON string (`load`, `append` or `clear`, see above), or None.
        elem_id: id of the element in the page.
        embedded: one figure among others: it neither reads nor writes the address.
    """
    return gr.HTML(
        value=value or "",
        labels=json.dumps(labels, ensure_ascii=False),
        embedded=embedded,
        html_template='<div class="sp-root"></div>',
        css_template=(_ASSETS / "css" / "player.css").read_text(encoding="utf-8"),
        js_on_load=player_script(),
        apply_default_css=False,
        elem_id=elem_id,
        elem_classes=["speclab-player"],
    )
