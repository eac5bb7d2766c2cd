"""Figures of the speed lab: sweeps with theory, predicted against measured, the ladder, batches.

A figure is `{"data": [...], "layout": {...}}` for Plotly, its colours names of the page's colour
variables, as in `figures.prove`. Lines differ by dash and points by shape as well. Every trace has
a `meta` of `{"badge": "measured" | "modelled"}`: filled points are measured, lines are modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from speclab.figures.heads import STYLES
from speclab.figures.plain import TALL_EM, USUAL_EM, Figure, plain_layout

Point = Mapping[str, Any]
Words = Mapping[str, str]
PLAIN = "autoregressive"
RANGED = ("tau", "speedup", "decode_speedup", "seconds_per_token")
"""Numbers of a point that come with `_low` and `_high`."""

MOST_DRAWN = 6
"""Of a sweep's methods: further ones wait in the legend, so that lines can be told apart."""

MOST_NAMED = 8
"""Of a prediction's methods: more are drawn by their kind, with one style each."""

METRICS = (*RANGED, "acceptance_rate", "draft_share", "tokens_per_s", "prefill_share")


def sweep_curves(
    report: Mapping[str, Any],
    metric: str,
    *,
    words: Words,
    names: Mapping[str, str] | None = None,
    theory: bool = True,
) -> Figure:
    """Return the points of a sweep, one colour per method, with theory behind them.

    Args:
        report: of a sweep; it may be on its way. metric: one of METRICS.
        words: `axis`, `metric`, `theory` (slot method), `perfect` (slot method). names: of methods.
        theory: draw S over a gamma sweep's speedups of decoding, and the perfect draft's line of
            the first method. S is of rounds alone, so whole requests, with prefill, get no line.
    """
    names, data = names or {}, []
    points = report["points"]
    lines = report.get("theory", {}) if theory and metric == "decode_speedup" else {}
    methods = [name for name in dict.fromkeys(p["method"] for p in points) if name != PLAIN]
    drawn = fastest(points, methods)
    for place, method in enumerate(sorted(methods, key=lambda name: name not in drawn)):
        colour, dash, symbol = style(place)
        shown = names.get(method, method)
        first = len(data)
        if method in lines:
            curve = lines[method]
            line = {"color": colour, "dash": dash, "width": 2}
            data.append(
                _modelled(
                    curve["gammas"], curve["speedup"], words["theory"].format(method=shown), line
                )
            )
            if place == 0:
                faint = {"color": "--faint", "dash": "dot", "width": 1.5}
                title = words["perfect"].format(method=shown)
                data.append(_modelled(curve["gammas"], curve["perfect"], title, faint))
        own = [point for point in points if point["method"] == method]
        data.append(_measured(own, metric, shown, colour, symbol))
        if method not in drawn:
            for trace in data[first:]:
                trace["visible"] = "legendonly"
    if metric not in ("speedup", "decode_speedup"):
        own = [point for point in points if point["method"] == PLAIN]
        if own and own[0].get(metric) is not None:
            data.append(_measured(own, metric, names.get(PLAIN, PLAIN), "--ink", "line-ew-open"))
    figure = _figure(data, words["axis"], words["metric"])
    layout = figure["layout"]
    layout["meta"] = {"height_em": TALL_EM if len(data) > MOST_DRAWN else USUAL_EM}
    layout["yaxis"]["rangemode"] = "tozero"
    if metric in ("tau", "speedup", "decode_speedup"):
        layout["shapes"] = [_level(1.0)]
    if any(isinstance(point["value"], str) for point in points):
        layout["xaxis"]["type"] = "category"
    if metric in ("acceptance_rate", "draft_share", "prefill_share"):
        layout["yaxis"] |= {"range": [0, 1.03], "tickformat": ".0%"}
    return figure


def fastest(points: Sequence[Point], methods: Sequence[str]) -> list[str]:
    """Return the methods with the greatest speedups at any value, at most MOST_DRAWN."""

    def best(method: str) -> float:
        return max(point.get("speedup") or 0.0 for point in points if point["method"] == method)

    return sorted(methods, key=best, reverse=True)[:MOST_DRAWN]


def predicted_against_measured(
    rows: Sequence[Point],
    kind: str,
    *,
    words: Words,
    names: Mapping[str, str] | None = None,
    band: float = 0.1,
) -> Figure:
    """Return predicted speedups over measured ones, with the diagonal and a band around it.

    Args:
        rows: of a prediction report. kind: "positions", "iid" or "formula".
        words: `measured`, `predicted`, `band` (slot percent).
        names: of methods; those of one name share colour and shape.
        band: relative error that the band allows.
    """
    names, field = names or {}, predicted_field(kind)
    values = [row["measured"]["speedup"] for row in rows]
    values += [row["predicted"][field] for row in rows]
    top = 1.1 * max(values, default=1.0)
    edges = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "x": [0.0, top]}
    meta = {"meta": {"badge": "modelled"}}
    data: list[Figure] = [
        {**edges, **meta, "y": [0.0, top * (1.0 - band)], "showlegend": False},
        {
            **edges,
            **meta,
            "y": [0.0, top * (1.0 + band)],
            "fill": "tonexty",
            "fillcolor": "--shade",
            "name": words["band"].format(percent=f"{band:.0%}"),
        },
    ]
    groups: dict[str, list[Point]] = {}
    for row in rows:
        groups.setdefault(names.get(row["method"], row["method"]), []).append(row)
    for place, (name, own) in enumerate(groups.items()):
        colour, _, symbol = style(place)
        limits = [_limits(row["measured"], "speedup") for row in own]
        data.append(
            {
                "x": [row["measured"]["speedup"] for row in own],
                "y": [row["predicted"][field] for row in own],
                "text": [f"{row['label']}, T = {row['temperature']:g}" for row in own],
                "mode": "markers",
                "marker": {"color": colour, "symbol": symbol, "size": 9},
                "error_x": _bars(limits, colour) | {"thickness": 0.75, "width": 0},
                "name": name,
                "meta": {"badge": "modelled"},
            }
        )
    figure = _figure(data, words["measured"], words["predicted"])
    figure["layout"]["meta"] = {"height_em": TALL_EM}
    for axis in ("xaxis", "yaxis"):
        figure["layout"][axis] |= {"range": [0, top]}
    line = {"color": "--faint", "width": 1, "dash": "dot"}
    figure["layout"]["shapes"] = [
        {"type": "line", "x0": 0, "y0": 0, "x1": top, "y1": top, "line": line}
    ]
    return figure


def predicted_field(kind: str) -> str:
    """Return the field of a prediction that a kind of error is about."""
    return {"positions": "speedup", "iid": "speedup_iid", "formula": "speedup_formula"}[kind]


def ladder_map(report: Mapping[str, Any], *, words: Words, names: Mapping[str, str]) -> Figure:
    """Return the rungs on axes of cost and acceptance, with lines of equal speed.

    Args:
        report: of a ladder. words: `cost`, `acceptance`, `equal` (slot speedup), `rung`.
        names: of the kinds of rungs, as shown.
    """
    data = [
        _modelled(
            curve["cost_ratios"],
            curve["acceptance_rates"],
            words["equal"].format(speedup=f"{curve['speedup']:g}"),
            {"color": "--faint", "dash": STYLES[place % len(STYLES)][1], "width": 1.5},
        )
        for place, curve in enumerate(report["curves"])
        if curve["cost_ratios"]
    ]
    rungs = report["rungs"]
    widest = max((rung["cost_ratio"] for rung in rungs), default=1.0)
    data.append(
        {
            "x": [rung["cost_ratio"] for rung in rungs],
            "y": [rung["acceptance_rate"] for rung in rungs],
            "text": [names.get(rung["kind"], rung["kind"]) for rung in rungs],
            "mode": "markers+text",
            "textposition": [_beside(rung, rungs, widest) for rung in rungs],
            "cliponaxis": False,
            "marker": {"color": "--target", "symbol": "circle", "size": 12},
            "name": words["rung"],
            "meta": {"badge": "measured"},
        }
    )
    figure = _figure(data, words["cost"], words["acceptance"])
    figure["layout"]["yaxis"] |= {"range": [0, 1.06], "tickformat": ".0%"}
    figure["layout"]["xaxis"] |= {"range": [-0.03, 1.15 * max(widest, 0.3)]}
    return figure


def _beside(rung: Mapping[str, Any], rungs: Sequence[Point], widest: float) -> str:
    """Return where a rung's name stands: above the highest of its neighbours, else below."""
    cost, rate = rung["cost_ratio"], rung["acceptance_rate"]
    near = [each for each in rungs if abs(each["cost_ratio"] - cost) < 0.15 * widest]
    highest = rate < 0.95 and all(each["acceptance_rate"] <= rate for each in near)
    return f"{'top' if highest else 'bottom'} {'left' if cost > 0.7 * widest else 'right'}"


def ladder_speeds(report: Mapping[str, Any], *, words: Words, names: Mapping[str, str]) -> Figure:
    """Return every rung's speedup at its best gamma beside its acceptance rate.

    Args:
        words: `rung`, `speedup`, `acceptance`. names: of the kinds of rungs, as shown.
    """
    rungs = report["rungs"]
    best = [
        next(point for point in rung["points"] if point["gamma"] == rung["best"]) for rung in rungs
    ]
    shown = [names.get(rung["kind"], rung["kind"]) for rung in rungs]
    data = [
        {
            "type": "bar",
            "x": shown,
            "y": [point["speedup"] for point in best],
            "text": [f"γ {point['gamma']}" for point in best],
            "textposition": "inside",
            "insidetextanchor": "start",
            "marker": {"color": "--res"},
            "error_y": _bars([_limits(point, "speedup") for point in best], "--ink"),
            "name": words["speedup"],
            "meta": {"badge": "measured"},
        },
        {
            "x": shown,
            "y": [rung["acceptance_rate"] for rung in rungs],
            "mode": "lines+markers",
            "line": {"color": "--target", "dash": "dash", "width": 2},
            "marker": {"color": "--target", "symbol": "diamond", "size": 10},
            "name": words["acceptance"],
            "meta": {"badge": "measured"},
        },
    ]
    figure = _figure(data, words["rung"], words["speedup"])
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    figure["layout"]["xaxis"]["type"] = "category"
    figure["layout"]["shapes"] = [_level(1.0)]
    return figure


def batch_costs(report: Mapping[str, Any], *, words: Words) -> Figure:
    """Return v(n) at every batch: a pass on n tokens of each text over one on a single token.

    Args:
        report: of batch passes. words: `tokens`, `cost`, `batch` (slot n).
    """
    data = []
    for place, (batch, row) in enumerate(report["target_s"].items()):
        if "1" not in row:
            continue
        colour, dash, symbol = style(place)
        data.append(
            {
                "x": [int(n) for n in row],
                "y": [seconds / row["1"] for seconds in row.values()],
                "mode": "lines+markers",
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {"color": colour, "symbol": symbol, "size": 8},
                "name": words["batch"].format(n=batch),
                "meta": {"badge": "measured"},
            }
        )
    figure = _figure(data, words["tokens"], words["cost"])
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    return figure


def batch_speed(speeds: Mapping[str, Sequence[Any]], *, words: Words) -> Figure:
    """Return the speed that speculation leaves at every batch, at its best gamma there.

    Args:
        speeds: by what is shown in the legend, `lab.batch_passes.BatchSpeed` in order of batch.
        words: `batch`, `speedup`.
    """
    data = []
    for place, (name, own) in enumerate(speeds.items()):
        colour, dash, symbol = style(place)
        data.append(
            {
                "x": [each.batch for each in own],
                "y": [max(each.speedup, default=1.0) for each in own],
                "text": [f"γ {each.gammas[each.speedup.index(max(each.speedup))]}" for each in own],
                "mode": "lines+markers",
                "line": {"color": colour, "dash": dash, "width": 2.5},
                "marker": {"color": colour, "symbol": f"{symbol}-open", "size": 9},
                "name": name,
                "meta": {"badge": "modelled"},
            }
        )
    figure = _figure(data, words["batch"], words["speedup"])
    figure["layout"]["xaxis"] |= {"type": "log", "dtick": 0.30103}
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    figure["layout"]["shapes"] = [_level(1.0)]
    return figure


def style(place: int) -> tuple[str, str, str]:
    """Return colour, dash and shape of the n-th line; they repeat after the last."""
    return STYLES[place % len(STYLES)]


# --- parts ----------------------------------------------------------------------------------------


def _figure(data: list[Figure], x_title: str, y_title: str) -> Figure:
    return {"data": data, "layout": plain_layout(x_title, y_title)}


def _modelled(x: Sequence[float], y: Sequence[float], name: str, line: Figure) -> Figure:
    return {
        "x": list(x),
        "y": list(y),
        "mode": "lines",
        "line": line,
        "name": name,
        "meta": {"badge": "modelled"},
    }


def _measured(points: Sequence[Point], metric: str, name: str, colour: str, symbol: str) -> Figure:
    shown = [point for point in points if point.get(metric) is not None]
    figure: Figure = {
        "x": [point["value"] for point in shown],
        "y": [point[metric] for point in shown],
        "text": [point["label"] for point in shown],
        "mode": "markers",
        "marker": {"color": colour, "symbol": symbol, "size": 10},
        "name": name,
        "meta": {"badge": "measured"},
    }
    if metric in RANGED:
        figure["error_y"] = _bars([_limits(point, metric) for point in shown], colour)
    return figure


def _limits(point: Point, name: str) -> tuple[float, float, float]:
    return point[name], point[f"{name}_low"], point[f"{name}_high"]


def _bars(limits: Sequence[Sequence[float]], colour: str) -> Figure:
    """Return error bars from (value, low, high)."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, _, high in limits],
        "arrayminus": [value - low for value, low, _ in limits],
        "color": colour,
        "thickness": 1.5,
        "width": 4,
    }


def _level(value: float) -> Figure:
    """Return a thin line across: plain decoding."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": value,
        "y1": value,
        "line": {"color": "--faint", "width": 1},
    }
