"""The bounds of several drafts on real laws: the chain of inequalities, the report, the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from speclab.__main__ import app
from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.lab.multi_draft import (
    CHAINS,
    MultiDraftMeasurement,
    MultiDraftPlan,
    Position,
    laws_at_roots,
    mean_over_prompts,
    quantities,
    report_path,
    violation,
    winner,
)
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair

SMALL = MultiDraftPlan(prompts=1, max_new_tokens=8, positions=2)


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


@pytest.fixture(scope="module")
def report(pocket: Pair) -> dict:
    measurement = MultiDraftMeasurement(pocket, SMALL)
    steps = list(measurement)
    assert steps == [(n, 6) for n in range(1, 7)]
    return measurement.report()


def test_the_chains_of_inequalities_hold_on_real_laws(report: dict) -> None:
    assert report["complete"] and report["largest_violation"] < 1e-9
    for numbers in (*report["families"].values(), report["all"]):
        assert numbers["positions"] >= numbers["prompts"] >= 1
        for values in numbers["counts"].values():
            for chain in CHAINS:
                means = [values[name][0] for name in chain]
                assert numbers["overlap"][0] <= means[0] + 1e-6
                assert means == sorted(means)
        k_seq = [values["k_seq"][0] for values in numbers["counts"].values()]
        assert k_seq == sorted(k_seq), "more candidates help"
    assert json.loads(json.dumps(report)) == report


def test_a_broken_chain_would_show() -> None:
    p, q = np.array([0.52, 0.43, 0.05]), np.array([0.52, 0.31, 0.17])
    values = quantities(p, q, (2,))
    assert values[2, "k_seq"] == pytest.approx(0.9496, abs=5e-5)
    assert values[2, "without_replacement"] == pytest.approx(0.9248, abs=5e-5)
    assert violation(values) < 1e-9
    swapped = values | {(2, "iid"): values[2, "k_seq"], (2, "k_seq"): values[2, "iid"]}
    assert violation(swapped) == pytest.approx(values[2, "k_seq"] - values[2, "iid"])


def test_laws_are_those_of_the_sessions(pocket: Pair) -> None:
    text = pocket.codec.encode("Once upon a time there was a fox")
    roots, sampling = (3, 5, len(text)), Sampling(temperature=0.8)
    for root, laws in zip(roots, laws_at_roots(pocket, text, roots, sampling), strict=True):
        for law, model in zip(laws, (pocket.target, pocket.drafts[0]), strict=True):
            want = model.open(text[:root]).score().row(0).law(sampling)
            assert np.abs(law - want).max() < 1e-5


def test_intervals_are_over_prompts() -> None:
    def at(prompt: int) -> Position:
        return Position(prompt, "story", 0.5, {})

    apart = mean_over_prompts([at(0), at(0), at(1)], [1.0, 1.0, 0.25])
    assert apart[0] == pytest.approx(0.75) and apart[1] == 0.25 and apart[2] == 1.0
    assert [winner(x) for x in ([0.1, 0.01, 0.2], [-0.1, -0.2, -0.01], [0.0, -0.1, 0.1])] == [
        "k_seq",
        "without_replacement",
        "undecided",
    ]


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(BadInput, match="temperature 0 nothing is drawn"):
        MultiDraftPlan(temperature=0.0)
    with pytest.raises(BadInput, match="counts"):
        MultiDraftPlan(counts=(5,))


def test_the_command(tmp_path: Path) -> None:
    place = tmp_path / "report.json"
    arguments = ["multi-draft", "--prompts", "1", "--max-new-tokens", "2", "--positions", "1"]
    done = CliRunner().invoke(app, [*arguments, "--family", "story", "--json", str(place)])
    assert done.exit_code == 0, done.output
    assert "K-SEQ" in done.output and "story" in done.output
    assert json.loads(place.read_text())["plan"]["families"] == ["story"]


@pytest.mark.parametrize("pair", ["pocket", "smollm2-135m"])
def test_the_kept_reports_are_whole(pair: str) -> None:
    kept = json.loads(report_path(pair).read_text(encoding="utf-8"))
    assert kept["complete"] and kept["pair"] == pair and kept["largest_violation"] < 1e-9
    assert len(kept["families"]) == 6 and set(kept["all"]["counts"]) == {"2", "3", "4"}
    for numbers in kept["families"].values():
        assert numbers["prompts"] >= 3
