"""Figures of what formulas say: marks stand on their curves, plain decoding has its line at 1."""

from __future__ import annotations

import json

from speclab.core.theory import perfect_draft_speedup, walltime_speedup
from speclab.figures.measure import lines_over, speed_over_batch, speed_over_gamma

WORDS = {
    "gamma": "gamma",
    "speedup": "S",
    "speed": "curve",
    "perfect": "perfect",
    "chosen": "chosen",
    "best": "best {n} {speedup}",
    "batch": "batch",
    "x": "x",
    "y": "y",
}


def gamma_figure(best: int):
    gammas = list(range(9))
    speed = [walltime_speedup(0.8, gamma, 0.1) for gamma in gammas]
    perfect = [perfect_draft_speedup(gamma, 0.1) for gamma in gammas]
    return speed, speed_over_gamma(gammas, speed, perfect, chosen=2, best=best, words=WORDS)


def test_the_chosen_and_the_best_gamma_stand_on_the_curve() -> None:
    speed, figure = gamma_figure(best=6)
    by_name = {trace["name"]: trace for trace in figure["data"]}
    assert by_name["chosen"]["x"] == [2] and by_name["chosen"]["y"] == [speed[2]]
    assert by_name[f"best 6 {speed[6]:.2f}"]["y"] == [speed[6]]
    assert all(p >= s for p, s in zip(by_name["perfect"]["y"], speed, strict=True))
    assert [shape["y0"] for shape in figure["layout"]["shapes"]] == [1]
    assert json.loads(json.dumps(figure)) == figure


def test_no_star_where_plain_decoding_is_best() -> None:
    _, figure = gamma_figure(best=0)
    assert [trace["name"] for trace in figure["data"]] == ["perfect", "curve", "chosen"]


def test_published_points_differ_from_the_modelled_line_by_shape() -> None:
    points = [("paper", (2, 4), (1.4, 0.9))]
    figure = speed_over_batch(
        (1, 2, 4), [("model", (2.0, 1.5, 0.8))], points=points, crossing=3.4, words=WORDS
    )
    line, marks = figure["data"]
    assert line["mode"] == "lines" and marks["mode"] == "markers" and marks["y"] == [1.4, 0.9]
    assert figure["layout"]["shapes"][1]["x0"] == 3.4
    below = speed_over_batch((1, 2), [("model", (0.9, 0.8))], crossing=1.0, words=WORDS)
    assert len(below["layout"]["shapes"]) == 1


def test_lines_differ_by_dash_and_shape() -> None:
    figure = lines_over((1, 2), [("a", (1, 2)), ("b", (2, None))], words=WORDS, log_x=True)
    first, second = figure["data"]
    assert first["line"]["dash"] != second["line"]["dash"]
    assert first["marker"]["symbol"] != second["marker"]["symbol"]
    assert figure["layout"]["xaxis"]["tickvals"] == [1, 2]
