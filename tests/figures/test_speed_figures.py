"""Figures of modelled speed: every number on them is the model's, every colour a variable."""

from __future__ import annotations

import json
import re

import pytest
from figure_kit import colours

from speclab.core.roofline import pass_cost
from speclab.core.theory import best_gamma, draw_rounds, walltime_speedup
from speclab.figures.plain import Figure
from speclab.figures.roofline import pass_terms, published_curve, roof
from speclab.figures.theory import alpha_for_speed, drawn_rounds, equal_speed
from speclab.lab.hardware import usual_setting
from speclab.lab.published_check import check_curve


class Words(dict):
    """Words that are their own keys."""

    def __missing__(self, key: str) -> str:
        return "S = {speedup}" if key == "level" else key


HERE = usual_setting("llama-8b", "h100")
WIDE = [pass_cost(HERE, batch=batch, context=2048) for batch in (1, 64, 512)]


def _terms() -> Figure:
    return pass_terms(WIDE, over="batch", words=Words())


def _roof() -> Figure:
    return roof(HERE, {"plain": WIDE[0], "wide": WIDE[2]}, words=Words())


def _published() -> Figure:
    return published_curve(check_curve("sglang-eagle-3"), words=Words())


def _drawn() -> Figure:
    return drawn_rounds(draw_rounds([0.8] * 4, 5000, seed=0), [0.8] * 4, words=Words())


def _equal() -> Figure:
    drafts = {"A": (0.9, 0.5), "B": (0.5, 0.02)}
    return equal_speed((1.5, 2.0), drafts, words=Words(), costs=(0.0, 0.2, 0.6))


ALL = (_terms, _roof, _published, _drawn, _equal)


@pytest.mark.parametrize("draw", ALL)
def test_figures_are_json_and_name_their_colours(draw) -> None:
    figure = draw()
    assert json.loads(json.dumps(figure)) == figure
    named = [colour for colour in colours(figure) if not colour.startswith("rgba(0,0,0,0)")]
    assert named
    assert all(re.fullmatch(r"--[a-z]+", colour) for colour in named)


def test_the_bars_add_up_to_the_pass() -> None:
    figure = _terms()
    assert [bar["name"] for bar in figure["data"]] == ["weights", "kv", "compute", "overhead"]
    for place, cost in enumerate(WIDE):
        total = sum(bar["y"][place] for bar in figure["data"])
        assert total == pytest.approx(1e3 * cost.seconds)
    assert figure["data"][0]["x"] == ["1", "64", "512"]


def test_no_pass_is_above_the_roof() -> None:
    line, *points = _roof()["data"]
    slope = line["y"][0] / line["x"][0]
    for point in points:
        (x,), (y,) = point["x"], point["y"]
        assert y < min(slope * x, line["y"][1])
    assert line["x"][1] == pytest.approx(HERE.flops / HERE.bandwidth)


def test_published_points_are_the_papers_and_each_stands_once() -> None:
    modelled, fitted, used, left_out = _published()["data"]
    found = check_curve("sglang-eagle-3")
    assert modelled["y"] == list(found.modelled) and fitted["y"] == list(found.fitted)
    together = sorted(zip(used["x"] + left_out["x"], used["y"] + left_out["y"], strict=True))
    assert together == list(zip(found.published.batches, found.published.speedups, strict=True))
    assert left_out["x"] == [4, 16, 32, 56]


def test_drawn_rounds_stand_beside_their_law() -> None:
    bars, points = _drawn()["data"]
    assert sum(bars["y"]) == pytest.approx(1.0)
    assert points["y"] == pytest.approx([0.2, 0.16, 0.128, 0.1024, 0.4096])
    assert bars["y"] == pytest.approx(points["y"], abs=0.03)


@pytest.mark.parametrize("cost", [0.0, 0.1, 0.4])
def test_a_line_of_equal_speed_has_that_speed(cost: float) -> None:
    alpha = alpha_for_speed(1.5, cost)
    assert alpha is not None
    assert walltime_speedup(alpha, best_gamma(alpha, cost), cost) == pytest.approx(1.5, abs=1e-6)


def test_lines_end_where_no_draft_is_good_enough() -> None:
    assert alpha_for_speed(2.0, 0.6) is None
    slow, fast, *drafts = _equal()["data"]
    assert len(slow["x"]) == 3 and fast["x"] == [0.0, 0.2]
    assert slow["name"] == "S = 1.5"
    assert [point["y"] for point in drafts] == [[0.9], [0.5]]
