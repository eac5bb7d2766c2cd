"""The app as people start it, with a made-up table of heads: nothing of it was measured."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from speclab.lab import head_files

WIDTHS = (1, 5, 17, 33)


def made_row(method: str, shape: str, budget: int | None, temperature: float) -> dict[str, Any]:
    """Return a line of the table with numbers that are easy to tell apart."""
    tau = 1.0 if shape == "plain" else 2.0 + temperature
    found: dict[str, Any] = {
        "method": method,
        "label": f"{method}:{budget}",
        "shape": shape,
        "budget": budget,
        "temperature": temperature,
        "tokens_per_s": 100.0,
        "drafted_per_round": float(budget or 0),
        "passes_per_round": 1.0 if method == "medusa" else 4.0,
        "draft_share": 0.25,
        "draft_s_per_round": 0.002,
        "other_s_per_round": 0.001,
        "acceptance": {
            "cumulative": [0.8, 0.4],
            "conditional": [[0.8, 0.7, 0.9], [0.5, 0.4, 0.6]],
        },
    }
    for name in ("tau", "speedup", "decode_speedup"):
        found |= {name: tau, f"{name}_low": tau - 0.1, f"{name}_high": tau + 0.1}
    return found


def made_report() -> dict[str, Any]:
    """Return a whole table of `pocket`."""
    settings = [("autoregressive", "plain", None), ("eagle-1", "chain", 5), ("eagle-3", "chain", 5)]
    settings += [(name, "tree", 16) for name in ("medusa", "hydra", "eagle-3")]
    return {
        "pair": "pocket",
        "dtype": "float32",
        "processor": "made up",
        "threads": 1,
        "created": "2026-01-02T03:04:05",
        "num_prompts": 2,
        "plan": {"max_new_tokens": 8},
        "target_parameters": 1,
        "costs": {
            "target_step_s": 0.01,
            "verify_cost": {str(n): 1.0 + (n - 1) / 16 for n in WIDTHS},
        },
        "rows": [made_row(*setting, temp) for temp in (0.0, 1.0) for setting in settings],
        "dynamic_against_static": [
            {"budget": 16, "temperature": 0.0, "ratio": 1.25, "ratio_low": 1.1, "ratio_high": 1.4}
        ],
        "skipped": {
            "mtp": {
                "what": "mtp needs head:mtp, which the pair pocket lacks.",
                "code": "method_needs",
                "values": {"method": "mtp", "missing": "head:mtp", "pair": "pocket"},
            }
        },
    }


def main() -> None:
    """Serve the app on $PORT."""
    from speclab.ui.backend import default_lab
    from speclab.ui.pages import build, launch_options

    folder = Path(tempfile.mkdtemp())
    text = json.dumps(made_report())
    (folder / "heads-pocket.json").write_text(text, encoding="utf-8")
    head_files.BENCHMARKS = folder
    build(default_lab()).launch(server_port=int(os.environ["PORT"]), **launch_options())


if __name__ == "__main__":
    main()
