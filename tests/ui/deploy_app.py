"""The tab Deploy alone, in both languages: nothing else of the app is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import gradio as gr

from speclab.ui import theme
from speclab.ui.backend import default_lab
from speclab.ui.pages import launch_options
from speclab.ui.tab_deploy import Deploy


def main() -> None:
    """Serve the tab on $PORT."""
    lab = default_lab(allow_fetch=True)
    with gr.Blocks(fill_width=True, analytics_enabled=False) as blocks:
        Deploy(lab, "en")
    with blocks.route("中文", "zh", show_in_navbar=False):
        Deploy(lab, "zh")
    assert theme.css_paths()
    blocks.launch(server_port=int(os.environ["PORT"]), **launch_options())


if __name__ == "__main__":
    main()
