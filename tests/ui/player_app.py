"""A page with nothing but the player, and a box through which a test pushes messages."""

from __future__ import annotations

import inspect
import json
import os

import gradio as gr

from speclab.core.records import Trace
from speclab.core.rules import rejection
from speclab.ui.player import player
from speclab.ui.texts_player import EN, ZH
from tests.ui.player_traces import (
    chain_trace,
    grown_trace,
    large_trace,
    split_trace,
    tree_trace,
    wide_trace,
)

PROJECTOR = """:root.sd-projector, :root.sd-projector body{--text-xxs:14px;--text-xs:16px;
--text-sm:19px;--text-md:22px;--text-lg:26px;--text-xl:30px;--text-xxl:36px}
.nav-holder, footer{display:none!important}"""
SUMMARY = [
    {
        "name": "num_rounds",
        "symbol": "R",
        "value": 24,
        "unit": "",
        "definition": "Target passes after prefill.",
        "badge": "counted",
    },
    {
        "name": "acceptance_rate",
        "symbol": "alpha",
        "value": 0.612345,
        "unit": "",
        "definition": "Positions accepted / positions tested.",
        "badge": "counted",
    },
    {
        "name": "tpot_s",
        "symbol": "-",
        "value": 0.0123,
        "unit": "s",
        "definition": "(t_last - t_first) / (N - 1).",
        "badge": "measured",
    },
]


def load(trace: Trace, run: str, **more: object) -> str:
    """Return a load message."""
    source = inspect.getsource(rejection.walk).splitlines()
    message = {
        "op": "load",
        "trace": json.loads(trace.to_json()),
        "run": run,
        "live": False,
        "badge": "recorded · toy laws",
        "summary": SUMMARY,
        "rule_source": source,
        "banner": "",
        **more,
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


MAKERS = {
    "chain": lambda: chain_trace(60),
    "match": lambda: chain_trace(40, rule="match"),
    "onehot": lambda: chain_trace(40, one_hot=True),
    "tree": tree_trace,
    "wide": wide_trace,
    "grown": grown_trace,
    "split": split_trace,
    "large": large_trace,
}


def page(labels: dict[str, str]) -> None:
    """Lay out one language."""
    box = gr.Textbox(elem_id="message", visible="hidden")
    send = gr.Button("send", elem_id="send", visible="hidden")
    figure = player(labels=labels, value=None, elem_id="watch")
    send.click(lambda text: text, box, figure, show_progress="hidden", queue=False)

    def start(request: gr.Request) -> str:
        name = request.query_params.get("trace", "chain")
        return load(MAKERS[name](), name, banner=request.query_params.get("banner", ""))

    blocks = gr.context.Context.root_block
    blocks.load(start, None, figure, show_progress="hidden")


with gr.Blocks(title="player") as demo:
    gr.Navbar(visible=False)
    page(EN)
with demo.route("zh", "zh", show_in_navbar=False):
    gr.Navbar(visible=False)
    page(ZH)

if __name__ == "__main__":
    head = """<script>{const q = new URLSearchParams(location.search);
    if (q.get('big') === '1') document.documentElement.classList.add('sd-projector');}</script>"""
    demo.launch(
        server_port=int(os.environ["PORT"]),
        css=PROJECTOR,
        head=head,
        ssr_mode=False,
        run_history=False,
    )
