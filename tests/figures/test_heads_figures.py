"""Figures of heads: what is drawn is what was given, told apart by shape as well as colour."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from figure_kit import colours

from speclab.figures.heads import (
    STYLES,
    acceptance_by_depth,
    node_budget,
    rank_accuracies,
    training_loss,
)
from speclab.lab.head_shapes import PassCosts, best_of, expected_curve

RANKS = ((0.6, 0.2, 0.1, 0.05, 0.05), (0.5, 0.2, 0.1, 0.05, 0.05))
MARKS = ("best", "cost_measured", "measured_tokens", "measured_speedup")
BUDGET = {key: key for key in ("nodes", "tokens", "cost", "speedup", *MARKS)}
BUDGET["best"] = "best: {n}, {speedup}"
RANK_WORDS = {
    "position": "position",
    "share": "share",
    "rank": "rank {n}",
    "ranks": "{n} to {last}",
    "top1": "held out",
}
DEPTH = {key: key for key in ("depth", "cumulative", "conditional")}
NAMES = {"eagle-1": "EAGLE-1"}


def measured(method: str = "eagle-1", **more: Any) -> dict[str, Any]:
    """Return a line of a table of heads."""
    values = {"tau": 2.0, "tau_low": 1.8, "tau_high": 2.3}
    values |= {"decode_speedup": 1.2, "decode_speedup_low": 1.1, "decode_speedup_high": 1.4}
    depths = {"cumulative": [0.7, 0.35], "conditional": [[0.7, 0.6, 0.8], None]}
    return {
        "method": method,
        "label": f"{method}:n",
        "drafted_per_round": 7.5,
        "acceptance": depths,
        **values,
        **more,
    }


def budget(**more: Any) -> dict[str, Any]:
    """Return the figure of node budgets for `RANKS`."""
    costs = PassCosts(widths=(1, 5), verify=(1.0, 1.8))
    points = expected_curve(RANKS, costs, depth=2, width=3, most=12)
    return node_budget(points, chosen=3, best=best_of(points), words=BUDGET, **more)


def test_gain_cost_and_their_ratio_are_one_figure_with_the_best_marked() -> None:
    figure = budget()
    tokens, cost, _, speedup, star = figure["data"]
    assert tokens["x"] == list(range(13)) and tokens["y"][0] == 1.0
    assert cost["x"] == speedup["x"] == list(range(5))
    for gained, paid, ratio in zip(tokens["y"], cost["y"], speedup["y"], strict=False):
        assert ratio == pytest.approx(gained / paid)
    assert star["y"] == [max(speedup["y"])]
    assert speedup["y"][star["x"][0]] == max(speedup["y"])
    assert figure["layout"]["shapes"][0]["x0"] == 3
    assert star["name"] == f"best: {star['x'][0]}, {star['y'][0]:.2f}"


def test_only_measured_widths_are_dots_on_the_interpolated_cost() -> None:
    _, cost, dots, *_ = budget(widths=(1, 5, 99))["data"]
    assert cost["mode"] == "lines" and dots["mode"] == "markers"
    assert dots["x"] == [0, 4] and dots["y"] == [1.0, 1.8]
    assert dots["name"] == "cost_measured"


def test_what_was_measured_stands_beside_what_is_modelled() -> None:
    figure = budget(measured=[measured()])
    points = [each for each in figure["data"] if "error_y" in each]
    assert [each["name"] for each in points] == ["measured_tokens", "measured_speedup"]
    assert points[0]["x"] == [7.5] and points[0]["y"] == [2.0]
    assert points[0]["error_y"]["array"] == pytest.approx([0.3])
    assert points[0]["error_y"]["arrayminus"] == pytest.approx([0.2])
    assert points[0]["marker"]["symbol"] != points[1]["marker"]["symbol"]


def test_without_costs_only_the_tokens_are_drawn() -> None:
    points = expected_curve(RANKS, None, depth=2, width=3, most=12)
    figure = node_budget(points, chosen=1, best=best_of(points), words=BUDGET)
    assert [each["name"] for each in figure["data"]] == ["tokens"]


def test_bars_add_up_to_the_ranks_and_every_rank_has_its_pattern() -> None:
    figure = rank_accuracies(RANKS, (0.6, 0.5, 0.4), words=RANK_WORDS)
    *bars, top1 = figure["data"]
    assert [sum(bar["y"][level] for bar in bars) for level in (0, 1)] == pytest.approx([1.0, 0.9])
    assert bars[-1]["name"] == "4 to 5" and bars[0]["name"] == "rank 1"
    assert len({bar["marker"]["pattern"]["shape"] for bar in bars}) == len(bars)
    assert top1["x"] == ["1", "2", "3"] and top1["y"] == [0.6, 0.5, 0.4]
    assert rank_accuracies((), (), words=RANK_WORDS)["data"] == []


def test_the_loss_is_drawn_over_the_tokens_and_other_lines_are_passed_over() -> None:
    lines = [
        {"step": 0, "held_out": {"top1[0]": 0.1}},
        {"tokens": 10, "loss": 4.0},
        {"tokens": 20, "loss": 2.0},
        {"tokens": 20, "held_out": {"top1[0]": 0.4}, "done": True},
    ]
    (line,) = training_loss(lines, words={"tokens": "tokens", "loss": "loss"})["data"]
    assert line["x"] == [10, 20] and line["y"] == [4.0, 2.0]


@pytest.mark.parametrize("kind", ["cumulative", "conditional"])
def test_depth_keeps_gaps_and_tells_methods_apart(kind: str) -> None:
    rows = [measured(), measured("eagle-3")]
    first, second = acceptance_by_depth(rows, kind, words=DEPTH, names=NAMES)["data"]
    assert first["x"] == [1, 2] and first["y"] == (
        [0.7, 0.35] if kind == "cumulative" else [0.7, None]
    )
    assert (first["name"], second["name"]) == ("EAGLE-1", "eagle-3")
    assert first["line"]["dash"] != second["line"]["dash"]
    assert first["marker"]["symbol"] != second["marker"]["symbol"]
    assert ("error_y" in first) == (kind == "conditional")


def test_every_style_is_one_of_a_kind() -> None:
    assert len({(dash, symbol) for _, dash, symbol in STYLES}) == len(STYLES)
    assert len({symbol for _, _, symbol in STYLES}) == len(STYLES)


def test_figures_are_json_and_name_their_colours() -> None:
    for figure in (
        budget(measured=[measured()]),
        rank_accuracies(RANKS, (0.6,), words=RANK_WORDS),
        acceptance_by_depth([measured()], "conditional", words=DEPTH, names=NAMES),
        training_loss([{"tokens": 1, "loss": 1.0}], words={"tokens": "t", "loss": "l"}),
    ):
        assert json.loads(json.dumps(figure)) == figure
        named = [each for each in colours(figure) if not each.startswith("rgba(0,0,0,0)")]
        assert named and all(re.fullmatch(r"--[a-z]+", each) for each in named)
