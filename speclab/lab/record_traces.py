"""Record real runs: `python -m speclab.lab.record_traces [presets|race] [--pair pocket]`.

`presets` runs every preset once; `race` runs several methods on a few of them, several times,
interleaved, for the tab Compare: start it on an idle machine, its seconds are shown.

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

RACES: dict[str, tuple[float, int, str]] = {
    "story": (
        0.0,
        64,
        "draft-model draft-model:num_speculative_tokens=8 prompt-lookup medusa eagle-3",
    ),
    "code-edit": (0.0, 96, "draft-model prompt-lookup draft-tree eagle-2"),
    "json": (0.8, 64, "draft-model draft-model/typical draft-tree hydra eagle-1"),
}
"""Preset -> temperature, most new tokens, and the lanes beside plain decoding."""
RACE_REPEATS = 5


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


def record_races(pair_name: str, folder: Path, repeats: int = RACE_REPEATS) -> None:
    """Race on the presets of RACES and write one file each."""
    from speclab.core.laws import Sampling
    from speclab.lab.race import run_race
    from speclab.lab.race_files import race_file, race_to_json
    from speclab.lab.race_plan import RacePlan, read_lane
    from speclab.models.catalogue import load_pair

    pair = load_pair(pair_name)
    for name, (temperature, tokens, labels) in RACES.items():
        plan = RacePlan(
            pair=pair_name,
            lanes=tuple(map(read_lane, labels.split())),
            prompt=PRESETS[name].prompt,
            sampling=Sampling(temperature=temperature),
            seed=PRESETS[name].seed,
            max_new_tokens=tokens,
            repeats=repeats,
        )
        for step in run_race(pair, plan):
            print(f"{name}: {step.done} of {step.total} runs", end="\r")
        file = race_file(pair_name, name, folder)
        file.write_text(race_to_json(step.result) + "\n", encoding="utf-8")
        print(f"{file.name}: {len(step.result.runs)} lanes, load {step.result.load_average}")


def main() -> None:
    """Record what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", default="presets", choices=("presets", "race"))
    parser.add_argument("--pair", default="pocket", help="which pair runs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where to write")
    parser.add_argument("--repeats", type=int, default=RACE_REPEATS, help="of a race")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.part == "race":
        record_races(given.pair, given.folder, given.repeats)
    else:
        record_presets(given.pair, given.folder)


def record_presets(pair_name: str, folder: Path) -> None:
    """Record every preset with its own method, then the extra ones, and write the index."""
    from speclab.models.catalogue import load_pair

    pair = load_pair(pair_name)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    index = []
    for name, method in [*((p.name, p.method) for p in PRESETS.values()), *EXTRA]:
        preset = PRESETS[name]
        trace = record(pair, preset, method)
        file = f"{pair_name}-{name}-{method}.json"
        (folder / file).write_text(trace.to_json() + "\n", encoding="utf-8")
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
    (folder / "index.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
