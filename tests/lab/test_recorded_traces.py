"""The recorded runs that a visitor sees first: made by the bundled weights, and worth showing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speclab.core.records import Trace
from speclab.models.weight_files import ASSETS, bundled_hash
from speclab.stats.counters import acceptance_rate, block_efficiency

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "traces"
INDEX = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))


def load(file: str) -> Trace:
    return Trace.from_json((FOLDER / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"])
def test_made_by_the_weights_that_ship(entry: dict) -> None:
    trace = load(entry["file"])
    assert trace.spec.method == entry["method"]
    for model in (trace.spec.target, *trace.spec.drafts):
        name, _, digest = model.source.removeprefix("bundled:").partition("@")
        assert digest == bundled_hash(ASSETS / name), f"{entry['file']} was made by other weights"
    assert trace.emitted and trace.text.strip()
    assert len(trace.to_json().encode()) <= 3000 * max(24, len(trace.emitted))


def test_the_first_story_shows_speculation_working() -> None:
    trace = load(INDEX[0]["file"])
    assert INDEX[0]["preset"] == "story" and INDEX[0]["method"] == "draft-model"
    alpha, tau = acceptance_rate(trace.rounds), block_efficiency(trace.rounds)
    assert alpha is not None and alpha > 0.5
    assert tau is not None and tau > 2.0
    assert len(trace.rounds) < len(trace.emitted) / 2


def test_copying_is_found_by_lookup() -> None:
    trace = next(load(e["file"]) for e in INDEX if e["preset"] == "copy")
    assert trace.spec.method == "prompt-lookup"
    tau = block_efficiency(trace.rounds)
    assert tau is not None and tau > 2.0
