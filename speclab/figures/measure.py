"""Figures of the tab Measure: what the formulas say over gamma, batch and load.

A figure is `{"data": [...], "layout": {...}}` for Plotly, its colours names of the page's colour
variables, as in `figures.prove`. Lines differ by dash and points by shape as well; where a line at
1 is drawn, it is plain decoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from speclab.figures.heads import STYLES
from speclab.figures.plain import Figure, plain_layout

Words = Mapping[str, str]


def speed_over_gamma(
    gammas: Sequence[int],
    speed: Sequence[float],
    perfect: Sequence[float],
    *,
    chosen: int,
    best: int,
    words: Words,
) -> Figure:
    """Return S over gamma with the perfect draft's line; the chosen and the best gamma are marked.

    Args:
        speed: S per gamma. perfect: S if every draft were kept. chosen, best: values of gamma.
        words: `gamma`, `speedup`, `speed`, `perfect`, `chosen`, `best` (with slots n, speedup).
    """
    data = [
        _line(gammas, perfect, words["perfect"], "--faint", "dash", 2),
        _line(gammas, speed, words["speed"], "--target", "solid", 4),
        _mark(chosen, speed[chosen], words["chosen"], "circle", "--ground", 13),
    ]
    if best:
        name = words["best"].format(n=best, speedup=f"{speed[best]:.2f}")
        data.append(_mark(best, speed[best], name, "star", "--res", 18))
    figure = _figure(data, words["gamma"], words["speedup"])
    figure["layout"]["xaxis"] |= {"dtick": 2}
    top = max(max(speed), min(max(perfect), 2.2 * max(speed)))
    figure["layout"]["yaxis"] |= {"range": [0, 1.08 * max(top, 1.2)]}
    return figure


def speed_over_batch(
    batches: Sequence[int],
    series: Sequence[tuple[str, Sequence[float]]],
    *,
    points: Sequence[tuple[str, Sequence[float], Sequence[float]]] = (),
    crossing: float | None = None,
    words: Words,
) -> Figure:
    """Return speedups over the batch size, on a logarithmic axis.

    Args:
        series: (name, speedup per batch), modelled. points: (name, batches, speedups), published or
            measured. crossing: where the first series meets 1.
        words: `batch`, `speedup`.
    """
    data = [
        _line(batches, values, name, colour, dash, 3)
        for (name, values), (colour, dash, _) in zip(series, STYLES, strict=False)
    ]
    for (name, xs, ys), (colour, _, symbol) in zip(points, STYLES[1:], strict=False):
        data.append(_points(xs, ys, name, colour, symbol))
    figure = _figure(data, words["batch"], words["speedup"])
    figure["layout"]["xaxis"] |= {"type": "log", "tickvals": list(batches)}
    figure["layout"]["yaxis"] |= {"rangemode": "tozero"}
    if crossing is not None and crossing > batches[0]:
        figure["layout"]["shapes"].append(_upright(crossing))
    return figure


def lines_over(
    xs: Sequence[float],
    series: Sequence[tuple[str, Sequence[float | None]]],
    *,
    words: Words,
    one: bool = False,
    log_x: bool = False,
    log_y: bool = False,
) -> Figure:
    """Return several lines with points over one axis.

    Args:
        series: (name, values). words: `x`, `y`. one: whether to draw plain decoding's line at 1.
    """
    data = []
    for (name, values), (colour, dash, symbol) in zip(series, STYLES, strict=False):
        line = _line(xs, values, name, colour, dash, 3)
        line |= {"mode": "lines+markers", "marker": {"color": colour, "symbol": symbol, "size": 9}}
        data.append(line)
    figure = _figure(data, words["x"], words["y"], one=one)
    if log_x:
        figure["layout"]["xaxis"] |= {"type": "log", "tickvals": list(xs)}
    figure["layout"]["yaxis"] |= {"type": "log"} if log_y else {"rangemode": "tozero"}
    return figure


# --- parts ----------------------------------------------------------------------------------------


def _figure(data: list[Figure], x_title: str, y_title: str, *, one: bool = True) -> Figure:
    layout = plain_layout(x_title, y_title)
    layout["shapes"] = [_plain()] if one else []
    layout["showlegend"] = True
    return {"data": data, "layout": layout}


def _line(
    xs: Sequence[Any], ys: Sequence[float | None], name: str, colour: str, dash: str, width: int
) -> Figure:
    line = {"color": colour, "dash": dash, "width": width}
    return {"x": list(xs), "y": list(ys), "mode": "lines", "line": line, "name": name}


def _points(xs: Sequence[Any], ys: Sequence[float], name: str, colour: str, symbol: str) -> Figure:
    marker = {"color": colour, "symbol": symbol, "size": 11, "line": {"color": "--ink", "width": 1}}
    return {"x": list(xs), "y": list(ys), "mode": "markers", "marker": marker, "name": name}


def _mark(x: float, y: float, name: str, symbol: str, colour: str, size: int) -> Figure:
    line = {"color": "--ink", "width": 2}
    marker = {"color": colour, "symbol": symbol, "size": size, "line": line}
    trace = {"x": [x], "y": [y], "mode": "markers", "marker": marker, "name": name}
    return trace | {"cliponaxis": False}


def _plain() -> Figure:
    """Return the line of plain decoding."""
    line = {"color": "--faint", "width": 1.5, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": line}


def _upright(place: float) -> Figure:
    line = {"color": "--rej", "width": 1.5, "dash": "dash"}
    return {
        "type": "line",
        "x0": place,
        "x1": place,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": line,
    }
