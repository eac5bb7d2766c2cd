"""Figures of proof: evidence while sampling, and p-values over many tests.

A figure is `{"data": [...], "layout": {...}}` for Plotly. Colours are names of the page's colour
variables ("--target"), so that one figure serves light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10

from speclab.figures.plain import Figure, plain_layout
from speclab.stats.many import Uniformity

Point = tuple[int, float, float | None]
"""N, p-value of the rule, p-value of the control (None without one)."""

FLOOR = 1e-12
"""Smaller p-values are drawn here: the axis is logarithmic."""

TICKS = (1.0, 1e-3, 1e-6, 1e-9, FLOOR)
TICK_NAMES = ("1", "1e-3", "1e-6", "1e-9", "≤ 1e-12")


def evidence_curve(points: Sequence[Point], *, level: float, words: Mapping[str, str]) -> Figure:
    """Return the anytime-valid p-value over the samples, with the control's and the level.

    Args:
        points: in order of N. level: of the test.
        words: `samples`, `p_value`, `rule`, `control`, `level`.
    """
    ns = [n for n, _, _ in points]
    data = [_line(ns, [p for _, p, _ in points], words["rule"], "--target", "solid")]
    if points and points[-1][2] is not None:
        wrong = [p for _, _, p in points]
        data.append(_line(ns, wrong, words["control"], "--rej", "dot"))
    layout = plain_layout(words["samples"], words["p_value"])
    layout["yaxis"] |= {
        "type": "log",
        "range": [-12.4, 0.4],
        "tickvals": list(TICKS),
        "ticktext": list(TICK_NAMES),
    }
    layout["xaxis"] |= {"rangemode": "tozero"}
    layout["shapes"] = [_level(level)]
    layout["annotations"] = [
        {
            "x": 1,
            "xref": "paper",
            "xanchor": "right",
            "y": _log10(level),
            "yanchor": "bottom",
            "text": f"{words['level']} {level:g}",
            "showarrow": False,
            "font": {"color": "--faint"},
        }
    ]
    return {"data": data, "layout": layout}


def qq_plot(found: Uniformity, *, words: Mapping[str, str]) -> Figure:
    """Return p-values against those of a right sampler, with the band that holds 95 % of each.

    Args:
        found: sorted p-values and their band. words: `expected`, `seen`, `band`, `tests`.
    """
    expected = list(found.expected_quantiles)
    band = {"x": expected, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    data = [
        {**band, "y": list(found.band_low), "showlegend": False},
        {
            **band,
            "y": list(found.band_high),
            "fill": "tonexty",
            "fillcolor": "--shade",
            "name": words["band"],
        },
        {
            "x": expected,
            "y": list(found.quantiles),
            "mode": "markers",
            "marker": {"color": "--target", "size": 8},
            "name": words["tests"],
        },
    ]
    layout = plain_layout(words["expected"], words["seen"])
    for axis in ("xaxis", "yaxis"):
        layout[axis] |= {"range": [0, 1]}
    line = {"color": "--faint", "width": 1, "dash": "dot"}
    layout["shapes"] = [{"type": "line", "x0": 0, "y0": 0, "x1": 1, "y1": 1, "line": line}]
    return {"data": data, "layout": layout}


def _log10(value: float) -> float:
    return log10(max(value, FLOOR))


def _line(x: list[int], y: Sequence[float | None], name: str, colour: str, dash: str) -> Figure:
    return {
        "x": x,
        "y": [None if value is None else max(value, FLOOR) for value in y],
        "mode": "lines+markers" if len(x) < 2 else "lines",
        "line": {"color": colour, "width": 3, "dash": dash},
        "name": name,
    }


def _level(level: float) -> Figure:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": level,
        "y1": level,
        "line": {"color": "--faint", "width": 1.5, "dash": "dash"},
    }
