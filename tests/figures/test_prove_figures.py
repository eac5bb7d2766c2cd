"""Figures of proof: what is drawn is what was measured, and every colour is a variable."""

from __future__ import annotations

import json
import re

import pytest
from figure_kit import colours

from speclab.figures.prove import FLOOR, evidence_curve, qq_plot
from speclab.stats.many import uniformity

CURVE = {"samples": "N", "p_value": "p", "rule": "rule", "control": "control", "level": "level"}
QQ = {"expected": "expected", "seen": "seen", "band": "band", "tests": "tests"}


def test_the_curve_holds_every_point_and_keeps_zero_on_the_axis() -> None:
    points = [(500, 1.0, 0.5), (1_000, 0.3, 1e-20), (2_000, 0.3, 0.0)]
    figure = evidence_curve(points, level=1e-3, words=CURVE)
    mine, control = figure["data"]
    assert mine["x"] == control["x"] == [500, 1_000, 2_000]
    assert mine["y"] == [1.0, 0.3, 0.3]
    assert control["y"] == [0.5, FLOOR, FLOOR]
    assert figure["layout"]["shapes"][0]["y0"] == 1e-3
    assert figure["layout"]["annotations"][0]["y"] == pytest.approx(-3.0)


def test_without_a_control_there_is_one_line() -> None:
    assert len(evidence_curve([(500, 1.0, None)], level=1e-3, words=CURVE)["data"]) == 1


def test_an_empty_curve_can_be_drawn() -> None:
    assert evidence_curve([], level=1e-3, words=CURVE)["data"][0]["x"] == []


def test_the_qq_plot_shows_sorted_p_values_inside_their_band() -> None:
    found = uniformity([0.9, 0.1, 0.5])
    low, high, dots = qq_plot(found, words=QQ)["data"]
    assert dots["y"] == [0.1, 0.5, 0.9]
    assert dots["x"] == pytest.approx([0.25, 0.5, 0.75])
    assert all(a < b for a, b in zip(low["y"], high["y"], strict=True))


@pytest.mark.parametrize("drawn", ["curve", "qq"])
def test_figures_are_json_and_name_their_colours(drawn: str) -> None:
    figure = (
        evidence_curve([(1, 1.0, 1.0)], level=0.01, words=CURVE)
        if drawn == "curve"
        else qq_plot(uniformity([0.2, 0.4]), words=QQ)
    )
    assert json.loads(json.dumps(figure)) == figure
    named = [colour for colour in colours(figure) if not colour.startswith("rgba(0,0,0,0)")]
    assert named
    assert all(re.fullmatch(r"--[a-z]+", colour) for colour in named)
