"""Record the presets as real runs: `python -m speclab.lab.record_traces [--pair pocket]`.

Every trace says which weights, seed and versions made it; the page shows them before any model is
loaded.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path

from speclab.core.records import Trace
from speclab.lab.presets import PRESETS, Preset

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "traces"
EXTRA = (
    ("copy", "draft-model"),
    ("code-edit", "draft-model"),
    ("story", "autoregressive"),
    ("story", "eagle-3"),
    ("code-edit", "medusa"),
)
"""Further (preset, method) recordings, so that methods can be compared on one prompt; the last two
draft trees."""


def record(pair: object, preset: Preset, method: str) -> Trace:
    """Run one preset on a loaded pair and return its trace.

    Another method than the preset's own runs with its defaults, under the first lossless rule that
    judges what it then proposes.
    """
    from speclab.core.protocols import provided
    from speclab.core.rules import lossless_rules
    from speclab.lab.runs import open_run
    from speclab.methods import make_method

    params, rule = preset.params, preset.rule
    if method != preset.method:
        given = provided(make_method(method), preset.sampling)
        params, rule = {}, lossless_rules(given)[0]
    run = open_run(
        pair,
        preset.prompt,
        method=method,
        params=params,
        rule=rule,
        sampling=preset.sampling,
        seed=preset.seed,
        max_new_tokens=preset.max_new_tokens,
    )
    try:
        for _ in run:
            pass
        return run.trace()
    finally:
        run.close()


def title_of(preset: Preset, method: str) -> dict[str, str]:
    """Return the recording's title in both languages."""
    from speclab.methods import METHODS

    card = METHODS[method].card
    return {
        "en": f"{preset.title.en} · {card.title.en}",
        "zh": f"{preset.title.zh} · {card.title.zh}",
    }


def main() -> None:
    """Record every preset with its own method, then the extra ones, and write the index."""
    from speclab.models.catalogue import load_pair

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="pocket", help="which pair runs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    pair = load_pair(given.pair)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    index = []
    for name, method in [*((p.name, p.method) for p in PRESETS.values()), *EXTRA]:
        preset = PRESETS[name]
        trace = record(pair, preset, method)
        file = f"{given.pair}-{name}-{method}.json"
        (given.folder / file).write_text(trace.to_json() + "\n", encoding="utf-8")
        index.append(
            {
                "file": file,
                "title": title_of(preset, method),
                "method": method,
                "preset": name,
                "date": today,
            }
        )
        print(f"{file}: {len(trace.rounds)} rounds, {len(trace.emitted)} tokens: {trace.text!r}")
    text = json.dumps(index, ensure_ascii=False, indent=2)
    (given.folder / "index.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
