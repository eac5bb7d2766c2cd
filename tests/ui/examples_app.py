"""The pages over a made-up model with a made-up table of families: nothing of it was measured."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from speclab.lab import head_files
from speclab.lab.families import SCHEMA_VERSION, TEXT_FAMILIES
from speclab.ui.pages import build, launch_options
from tests.ui.fake_lab import fake_lab


def line(method: str, speeds: tuple[float, ...], spread: float | None = 0.1) -> dict[str, Any]:
    """Return a line of the table with numbers that are easy to tell apart."""
    return {
        "method": method,
        "temperature": 0.0,
        "families": {
            name: {
                "prompts": 6 if spread else 1,
                "tau": speed + 1.0,
                "speedup": speed,
                "speedup_low": speed - spread if spread else None,
                "speedup_high": speed + spread if spread else None,
            }
            for name, speed in zip(TEXT_FAMILIES, speeds, strict=True)
        },
    }


REPORT: dict[str, Any] = {
    "schema_version": SCHEMA_VERSION,
    "kind": "families",
    "pair": "pocket",
    "dtype": "float32",
    "processor": "made up <b>",
    "threads": 2,
    "created": "2026-01-02T03:04:05",
    "rule": "token",
    "plan": {"prompts": 6, "sampled_prompts": 0, "max_new_tokens": 24},
    "families": list(TEXT_FAMILIES),
    "rows": [
        line("autoregressive", (1.0,) * 6),
        line("draft-model", (0.9, 1.25, 1.5, 1.25, 1.25, 1.25)),
        line("prompt-lookup:num_speculative_tokens=5", (0.75, 1.0, 1.25, 3.5, 2.5, 1.0)),
        line("suffix", (0.5, 0.6, 0.7, 0.9, 0.8, 0.6)),
        line("lookahead", (1.25, 1.3, 1.4, 2.0, 1.5, 1.3), spread=None),
    ],
}


def main() -> None:
    """Serve the pages on $PORT."""
    folder = Path(tempfile.mkdtemp())
    (folder / "families-pocket.json").write_text(json.dumps(REPORT), encoding="utf-8")
    head_files.BENCHMARKS = folder
    build(fake_lab()).launch(server_port=int(os.environ["PORT"]), **launch_options())


if __name__ == "__main__":
    main()
