"""The player without Gradio: a routed page that offers what gr.HTML offers to `js_on_load`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from speclab.core.records import Trace
from speclab.ui.player import player_script
from speclab.ui.texts_player import EN

ADDRESS = "http://player.test/"
CSS = (Path(__file__).parents[2] / "assets" / "css" / "player.css").read_text(encoding="utf-8")
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<style>:root{--text-lg:16px;--body-text-color:#1f2937;--background-fill-primary:#fff;
--border-color-primary:#d9dde3;--font-mono:monospace}
body{margin:12px;font-family:sans-serif;background:var(--background-fill-primary)}
.dark{--body-text-color:#f3f4f6;--background-fill-primary:#111318;--border-color-primary:#3a404b}
:root.sd-projector{--text-lg:26px}
</style><style>#host { STYLE }</style>
<body class="BODY"><div id="host"><div class="sp-root"></div></div>
<script>
const watchers = [];
window.props = {value: '', labels: LABELS};
window.push = (text) => { props.value = text; watchers.forEach((each) => each()); };
const boot = new Function('element', 'props', 'trigger', 'watch', SCRIPT);
boot(document.getElementById('host'), props, () => { throw new Error('no server event'); },
     (name, callback) => watchers.push(callback));
</script></body></html>"""

FRAME = (
    "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r))))"
)
"""Resolves when the page has been painted."""


def html(labels: dict[str, str], body: str = "") -> str:
    """Return the page."""
    script = json.dumps(player_script()).replace("</", "<\\/")
    words = json.dumps(json.dumps(labels)).replace("</", "<\\/")
    page = PAGE.replace("STYLE", CSS).replace("BODY", body)
    return page.replace("LABELS", words).replace("SCRIPT", script)


def load_message(trace: Trace, run: str = "one", **more: Any) -> str:
    """Return a `load` message as the shell sends it."""
    message = {
        "op": "load",
        "trace": json.loads(trace.to_json()),
        "run": run,
        "live": False,
        "badge": "recorded",
        "summary": [],
        "rule_source": [],
        "banner": "",
        **more,
    }
    return json.dumps(message, ensure_ascii=False)


def append_message(trace: Trace, first: int, last: int, run: str = "one", **more: Any) -> str:
    """Return an `append` message with the rounds [first, last)."""
    data = json.loads(trace.to_json())
    message = {
        "op": "append",
        "run": run,
        "rounds": data["rounds"][first:last],
        "pieces": data["pieces"],
        "summary": [],
        "done": False,
        "banner": "",
        **more,
    }
    return json.dumps(message, ensure_ascii=False)


def open_player(
    browser, message: str | None, *, query: str = "", labels: dict[str, str] = EN, **options: Any
):
    """Open a fresh page with the player and push one message; returns the page."""
    body = options.pop("body", "")
    settings = {"viewport": {"width": 1280, "height": 900}, **options}
    page = browser.new_context(**settings).new_page()
    page.set_default_timeout(20_000)
    text = html(labels, body)
    page.route(
        "**/*",
        lambda route: (
            route.fulfill(body=text, content_type="text/html; charset=utf-8")
            if route.request.url.startswith(ADDRESS)
            else route.abort()
        ),
    )
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on(
        "console",
        lambda entry: page.problems.append(entry.text) if entry.type == "error" else None,
    )
    page.goto(ADDRESS + query, wait_until="domcontentloaded")
    if message is not None:
        page.evaluate("(text) => window.push(text)", message)
        page.wait_for_selector("#host[data-ready]:not([data-ready=''])")
    return page


def written(value: float) -> str:
    """Return a number as the page writes it: three digits, no last zero."""
    text = f"{value:.3f}"
    return text[:-1] if text.endswith("0") else text
