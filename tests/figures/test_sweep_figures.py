"""Figures of the speed lab: what is drawn is what the reports hold, badges and colours included."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from figure_kit import colours

from speclab.figures.sweep import (
    MOST_DRAWN,
    batch_costs,
    batch_speed,
    ladder_map,
    ladder_speeds,
    predicted_against_measured,
    sweep_curves,
)
from speclab.lab.batch_passes import BatchSpeed

WORDS = {
    name: name
    for name in (
        *("axis", "metric", "measured", "predicted", "cost", "acceptance", "rung", "speedup"),
        *("tokens", "batch"),
    )
} | {
    "theory": "theory {method}",
    "perfect": "perfect {method}",
    "band": "within {percent}",
    "equal": "S = {speedup}",
}


def point(method: str, value: Any, speedup: float) -> dict[str, Any]:
    return {
        **{"method": method, "label": f"{method}:x", "value": value},
        **{"speedup": speedup, "speedup_low": speedup - 0.2, "speedup_high": speedup + 0.3},
        **{"decode_speedup": speedup, "decode_speedup_low": speedup - 0.2},
        **{"decode_speedup_high": speedup + 0.3},
        **{"tau": 2.0, "tau_low": 1.5, "tau_high": 2.5, "acceptance_rate": None},
    }


LINES = {"gammas": [0, 1, 2], "speedup": [1.0, 1.2, 1.3], "perfect": [1.0, 1.8, 2.4]}
SWEEP = {
    "points": [
        *(point("autoregressive", value, 1.0) for value in (1, 2)),
        *(point("draft-model", value, 1.0 + value / 10) for value in (1, 2)),
        *(point("prompt-lookup", value, 1.1) for value in (1, 2)),
    ],
    "theory": {"draft-model": LINES},
}
ROWS = [
    {
        **{"method": method, "label": method, "temperature": 0.0},
        "measured": {"speedup": 1.5, "speedup_low": 1.4, "speedup_high": 1.7},
        "predicted": {"speedup": 1.6, "speedup_iid": 1.8, "speedup_formula": 2.0},
    }
    for method in ("draft-model", "medusa")
]
LADDER = {
    "curves": [
        {"speedup": 1.0, "cost_ratios": [0.0, 0.1], "acceptance_rates": [0.1, 0.2]},
        {"speedup": 9.0, "cost_ratios": [], "acceptance_rates": []},
    ],
    "rungs": [
        {
            **{"kind": kind, "cost_ratio": ratio, "acceptance_rate": alpha, "best": 2},
            "points": [{"gamma": 1, **point("d", 1, 1.0)}, {"gamma": 2, **point("d", 2, speed)}],
        }
        for kind, ratio, alpha, speed in (("bigram", 0.01, 0.2, 1.2), ("target", 1.0, 1.0, 0.6))
    ],
}
BATCH = {"target_s": {"1": {"1": 0.1, "2": 0.12}, "8": {"1": 0.2, "2": 0.4}, "16": {}}}
SPEEDS = [
    BatchSpeed(
        batch=batch,
        gammas=(1, 2),
        speedup=speedup,
        best_gamma=2,
        cost_ratio=0.1,
        plain_tokens_per_s=10.0,
        tokens_per_s=12.0,
    )
    for batch, speedup in ((1, (1.2, 1.5)), (8, (0.9, 0.7)))
]


def test_a_sweep_draws_points_with_intervals_over_theory() -> None:
    drawn = sweep_curves(SWEEP, "decode_speedup", words=WORDS)["data"]
    theory, perfect, draft, lookup = drawn
    assert (theory["x"], theory["y"]) == ([0, 1, 2], [1.0, 1.2, 1.3])
    assert perfect["y"][-1] == 2.4 and perfect["name"] == "perfect draft-model"
    assert draft["y"] == [1.1, 1.2] and draft["error_y"]["array"] == pytest.approx([0.3, 0.3])
    assert draft["error_y"]["arrayminus"] == pytest.approx([0.2, 0.2])
    assert lookup["marker"]["symbol"] != draft["marker"]["symbol"]
    badges = [trace["meta"]["badge"] for trace in (theory, perfect, draft, lookup)]
    assert badges == ["modelled", "modelled", "measured", "measured"]
    whole = sweep_curves(SWEEP, "speedup", words=WORDS)["data"]
    assert [trace["meta"]["badge"] for trace in whole] == ["measured", "measured"]


def test_other_metrics_have_no_theory_and_show_plain_decoding() -> None:
    data = sweep_curves(SWEEP, "tau", words=WORDS, names={"autoregressive": "plain"})["data"]
    assert [trace["name"] for trace in data] == ["draft-model", "prompt-lookup", "plain"]
    nothing = sweep_curves(SWEEP, "acceptance_rate", words=WORDS)["data"]
    assert all(trace["y"] == [] for trace in nothing)
    words = {"points": [point("medusa", "copy", 1.2)]}
    assert sweep_curves(words, "speedup", words=WORDS)["layout"]["xaxis"]["type"] == "category"
    assert sweep_curves({"points": []}, "speedup", words=WORDS)["data"] == []


@pytest.mark.parametrize(("kind", "value"), [("positions", 1.6), ("iid", 1.8), ("formula", 2.0)])
def test_predictions_stand_over_measurements(kind: str, value: float) -> None:
    figure = predicted_against_measured(ROWS, kind, words=WORDS)
    low, high, first, second = figure["data"]
    assert first["x"] == [1.5] and first["y"] == second["y"] == [value]
    top = figure["layout"]["xaxis"]["range"][1]
    assert high["y"][1] / top == pytest.approx(1.1) and low["y"][1] / top == pytest.approx(0.9)
    assert high["name"] == "within 10%"


def test_a_crowd_of_methods_is_drawn_by_its_fastest_and_the_others_wait_in_the_legend() -> None:
    points = [point(f"m{place}", 4, 1.0 + place / 10) for place in range(MOST_DRAWN + 2)]
    figure = sweep_curves({"points": points}, "tau", words=WORDS)
    waiting = {trace["name"] for trace in figure["data"] if trace.get("visible") == "legendonly"}
    assert waiting == {"m0", "m1"}
    assert len(figure["data"]) == len(points)
    assert figure["layout"]["meta"]["height_em"] > 17


def test_predictions_of_one_name_share_colour_and_shape() -> None:
    names = {row["method"]: "heads" for row in ROWS}
    _, _, together = predicted_against_measured(ROWS, "iid", words=WORDS, names=names)["data"]
    assert together["name"] == "heads" and len(together["x"]) == len(ROWS) > 1


def test_the_ladder_is_drawn_both_ways() -> None:
    curve, rungs = ladder_map(LADDER, words=WORDS, names={"bigram": "table"})["data"]
    assert curve["name"] == "S = 1" and rungs["text"] == ["table", "target"]
    assert rungs["x"] == [0.01, 1.0] and rungs["y"] == [0.2, 1.0]
    assert rungs["textposition"] == ["top right", "bottom left"]
    crowded = {
        **LADDER,
        "rungs": [{**LADDER["rungs"][0], "acceptance_rate": 0.3}, *LADDER["rungs"]],
    }
    named = ladder_map(crowded, words=WORDS, names={})["data"][-1]["textposition"]
    assert named == ["top right", "bottom right", "bottom left"]
    bars, line = ladder_speeds(LADDER, words=WORDS, names={})["data"]
    assert bars["y"] == [1.2, 0.6] and line["y"] == [0.2, 1.0] and bars["text"] == ["γ 2", "γ 2"]


def test_batches_are_drawn_as_cost_and_as_speed() -> None:
    alone, crowd = batch_costs(BATCH, words={**WORDS, "batch": "B = {n}"})["data"]
    assert alone["y"] == pytest.approx([1.0, 1.2]) and crowd["y"] == pytest.approx([1.0, 2.0])
    assert crowd["name"] == "B = 8"
    (line,) = batch_speed({"draft model": SPEEDS}, words=WORDS)["data"]
    assert line["x"] == [1, 8] and line["y"] == [1.5, 0.9] and line["text"] == ["γ 2", "γ 1"]
    assert line["meta"]["badge"] == "modelled"


@pytest.mark.parametrize("drawn", range(6))
def test_figures_are_json_and_name_their_colours(drawn: int) -> None:
    figure = (
        lambda: sweep_curves(SWEEP, "speedup", words=WORDS),
        lambda: predicted_against_measured(ROWS, "iid", words=WORDS),
        lambda: ladder_map(LADDER, words=WORDS, names={}),
        lambda: ladder_speeds(LADDER, words=WORDS, names={}),
        lambda: batch_costs(BATCH, words=WORDS),
        lambda: batch_speed({"x": SPEEDS}, words=WORDS),
    )[drawn]()
    assert json.loads(json.dumps(figure)) == figure
    named = [colour for colour in colours(figure) if not colour.startswith("rgba(0,0,0,0)")]
    assert named and all(re.fullmatch(r"--[a-z]+", colour) for colour in named)
    assert all(trace["meta"]["badge"] in ("measured", "modelled") for trace in figure["data"])
