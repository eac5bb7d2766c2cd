"""The tab Measure alone, English at `/` and Chinese at `/zh`, over the real lab."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gradio as gr

sys.path.insert(0, str(Path(__file__).parents[2]))

from speclab.ui.backend import default_lab
from speclab.ui.pages import launch_options
from speclab.ui.tab_measure import Measure


def main() -> None:
    """Serve the tab on $PORT."""
    lab = default_lab()
    with gr.Blocks(title="SpecLab", fill_width=True, analytics_enabled=False) as blocks:
        Measure(lab, "en").connect(blocks)
    with blocks.route("中文", "zh", show_in_navbar=False):
        Measure(lab, "zh").connect(blocks)
    blocks.queue(default_concurrency_limit=16)
    blocks.launch(server_port=int(os.environ["PORT"]), **launch_options())


if __name__ == "__main__":
    main()
