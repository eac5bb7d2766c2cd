"""The app as people start it, with a made-up table of families: nothing of it was measured."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from speclab.ui import lesson_map_figures


def cell(tau: float, share: float = 0.0) -> dict[str, Any]:
    """Return one family of a line."""
    return {"tau": tau, "speedup": tau / 2, "copied_share": share}


def line(method: str, temperature: float = 0.0, tau: float = 2.0) -> dict[str, Any]:
    """Return a line of the table with numbers that are easy to tell apart."""
    return {
        "method": method,
        "temperature": temperature,
        "draft_passes": 0.0,
        "memory": {"parameters": 0},
        "families": {"story": cell(1.2), "copy": cell(tau, 0.5)},
    }


REPORT: dict[str, Any] = {
    "pair": "pocket",
    "dtype": "float32",
    "processor": "made up",
    "threads": 1,
    "created": "2026-01-02T03:04:05",
    "families": ["story", "copy"],
    "rows": [
        line("prompt-lookup", tau=4.0),
        line("prompt-lookup", 1.0, tau=3.0),
        line("draft-model:num_speculative_tokens=6"),
    ],
}


def main() -> None:
    """Serve the app on $PORT."""
    from speclab.ui.backend import default_lab
    from speclab.ui.pages import build, launch_options

    lesson_map_figures.kept_report = lambda pair: REPORT if pair == "pocket" else None
    build(default_lab()).launch(server_port=int(os.environ["PORT"]), **launch_options())


if __name__ == "__main__":
    main()
