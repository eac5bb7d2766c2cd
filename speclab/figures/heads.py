"""Figures of trained heads: node budgets, accuracies, training, acceptance by depth.

A figure is `{"data": [...], "layout": {...}}` for Plotly, its colours names of the page's colour
variables, as in `figures.prove`. Lines differ by dash and points by shape as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from speclab.figures.plain import Figure, plain_layout
from speclab.lab.head_shapes import Expected

Row = Mapping[str, Any]
STYLES = (
    ("--target", "solid", "circle"),
    ("--rej", "dash", "square"),
    ("--res", "dot", "diamond"),
    ("--q", "dashdot", "triangle-up"),
    ("--cor", "longdash", "triangle-down"),
    ("--faint", "solid", "x"),
    ("--both", "dash", "star"),
    ("--ink", "dot", "cross"),
)
"""Colour, dash and shape of the n-th line."""

USUAL_VIEW = 32
"""Nodes that the budget's figure shows, if so many were measured: the best lies well below."""

RANK_FILLS = ("", "/", ".", "x")
"""Patterns of rank 1, 2, 3 and the rest."""


def node_budget(
    points: Sequence[Expected],
    *,
    chosen: int,
    best: Expected | None,
    measured: Sequence[Row] = (),
    widths: Sequence[int] = (),
    words: Mapping[str, str],
) -> Figure:
    """Return what a tree brings and costs over its nodes, with the best budget marked.

    Args:
        points: modelled, from no nodes on. chosen: the budget that is looked at.
        best: the point with the highest speedup; None where no cost is known.
        measured: lines of a table of heads that draft with this head.
        widths: of the target's measured passes, in tokens, the pending one among them; between
            them the cost is interpolated.
        words: `nodes`, `tokens`, `cost`, `cost_measured`, `speedup`, `measured_tokens`,
            `measured_speedup`, and `best` with slots n and speedup. The page draws the legend.
    """
    known = [point for point in points if point.cost is not None]
    data = [_curve(points, "tokens", words["tokens"], "--target", "solid", 3)]
    if len(known) > 1:
        data += [
            _curve(known, "cost", words["cost"], "--rej", "dash", 3),
            _dots([p for p in known if p.nodes + 1 in widths], words["cost_measured"]),
            _curve(known, "speedup", words["speedup"], "--res", "solid", 4),
        ]
    if measured:
        data += [
            _measured(measured, "tau", words["measured_tokens"], "--target", "circle-open"),
            _measured(
                measured, "decode_speedup", words["measured_speedup"], "--res", "diamond-open"
            ),
        ]
    figure = _figure(data, words["nodes"], "")
    layout = figure["layout"]
    layout["showlegend"] = False
    layout["yaxis"]["rangemode"] = "tozero"
    layout["shapes"] = [_upright(chosen), _plain()]
    last = known[-1].nodes if len(known) > 1 else points[-1].nodes
    layout["xaxis"]["range"] = [0, 1.03 * max(chosen, min(last, USUAL_VIEW))]
    if best is not None and best.nodes and len(known) > 1:
        data.append(_star(best, words["best"]))
    return figure


def rank_accuracies(
    accuracies: Sequence[Sequence[float]],
    held_out_top1: Sequence[float],
    *,
    words: Mapping[str, str],
) -> Figure:
    """Return, per position, how often each rank of the head is right.

    Args:
        accuracies: per level, per rank. held_out_top1: per position, on held-out text.
        words: `position`, `share`, `rank` (with a slot n), `ranks` (from, to), `top1`.
    """
    shown = [("rank", 0, 1), ("rank", 1, 2), ("rank", 2, 3), ("ranks", 3, None)]
    levels = [str(level + 1) for level in range(max(len(accuracies), len(held_out_top1)))]
    data: list[Figure] = []
    colours = ("--target", "--q", "--res", "--both")
    for (word, start, stop), colour, fill in zip(shown, colours, RANK_FILLS, strict=True):
        values = [sum(ranks[start:stop]) for ranks in accuracies]
        if not any(values):
            continue
        most = max(len(ranks) for ranks in accuracies)
        data.append(
            {
                "type": "bar",
                "x": levels[: len(values)],
                "y": values,
                "name": words[word].format(n=start + 1, last=most),
                "marker": {
                    "color": colour,
                    "pattern": {"shape": fill, "fillmode": "overlay", "fgcolor": "--ground"},
                },
            }
        )
    if held_out_top1:
        data.append(
            {
                "type": "scatter",
                "x": levels[: len(held_out_top1)],
                "y": list(held_out_top1),
                "mode": "markers",
                "marker": {
                    "color": "--ground",
                    "size": 11,
                    "symbol": "diamond",
                    "line": {"color": "--ink", "width": 2},
                },
                "name": words["top1"],
            }
        )
    figure = _figure(data, words["position"], words["share"])
    figure["layout"] |= {"barmode": "stack", "bargap": 0.45}
    figure["layout"]["yaxis"] |= {"range": [0, 1], "tickformat": ".0%"}
    figure["layout"]["xaxis"] |= {"type": "category"}
    return figure


def training_loss(lines: Sequence[Row], *, words: Mapping[str, str]) -> Figure:
    """Return the loss of a training log over the tokens seen.

    Args:
        lines: of the log, in order; those without a loss are passed over.
        words: `tokens`, `loss`.
    """
    steps = [line for line in lines if line.get("loss", 0.0) > 0.0]
    data = [
        {
            "x": [line["tokens"] for line in steps],
            "y": [line["loss"] for line in steps],
            "mode": "lines",
            "line": {"color": "--target", "width": 2},
            "name": words["loss"],
        }
    ]
    figure = _figure(data, words["tokens"], words["loss"])
    figure["layout"] |= {"showlegend": False}
    for axis in ("xaxis", "yaxis"):
        figure["layout"][axis] |= {"rangemode": "tozero"}
    return figure


def acceptance_by_depth(
    rows: Sequence[Row], kind: str, *, words: Mapping[str, str], names: Mapping[str, str]
) -> Figure:
    """Return how often chains of several methods were accepted at each depth.

    Args:
        rows: chains of a table of heads, one per method. kind: "cumulative" or "conditional".
        words: `depth`, `cumulative`, `conditional`. names: of the methods, as shown.
    """
    data = []
    for row, (colour, dash, symbol) in zip(rows, STYLES, strict=False):
        rates = row["acceptance"][kind]
        line: Figure = {
            "x": [depth + 1 for depth in range(len(rates))],
            "y": [rate[0] if isinstance(rate, list) else rate for rate in rates],
            "mode": "lines+markers",
            "line": {"color": colour, "dash": dash, "width": 2.5},
            "marker": {"color": colour, "symbol": symbol, "size": 10},
            "name": names.get(row["method"], row["method"]),
        }
        if kind == "conditional":
            line["error_y"] = _bars([rate or [0.0, 0.0, 0.0] for rate in rates], colour)
        data.append(line)
    figure = _figure(data, words["depth"], words[kind])
    figure["layout"] |= {"showlegend": True}
    figure["layout"]["yaxis"] |= {"range": [0, 1.03], "tickformat": ".0%"}
    figure["layout"]["xaxis"] |= {"dtick": 1}
    return figure


# --- parts ----------------------------------------------------------------------------------------


def _figure(data: list[Figure], x_title: str, y_title: str) -> Figure:
    return {"data": data, "layout": plain_layout(x_title, y_title)}


def _curve(
    points: Sequence[Expected], value: str, name: str, colour: str, dash: str, width: int
) -> Figure:
    return {
        "x": [point.nodes for point in points],
        "y": [getattr(point, value) for point in points],
        "mode": "lines",
        "line": {"color": colour, "dash": dash, "width": width},
        "name": name,
    }


def _dots(points: Sequence[Expected], name: str) -> Figure:
    """Return the costs whose pass was measured, as points on the interpolated line."""
    return {
        "x": [point.nodes for point in points],
        "y": [point.cost for point in points],
        "mode": "markers",
        "marker": {"color": "--rej", "symbol": "square", "size": 9},
        "name": name,
    }


def _measured(rows: Sequence[Row], name: str, title: str, colour: str, symbol: str) -> Figure:
    limits = [[row[name], row[f"{name}_low"], row[f"{name}_high"]] for row in rows]
    return {
        "x": [row["drafted_per_round"] for row in rows],
        "y": [row[name] for row in rows],
        "text": [row["label"] for row in rows],
        "mode": "markers",
        "marker": {"color": colour, "symbol": symbol, "size": 11, "line": {"width": 2.5}},
        "error_y": _bars(limits, colour),
        "name": title,
    }


def _bars(limits: Sequence[Sequence[float]], colour: str) -> Figure:
    """Return error bars from [value, low, high]."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, _, high in limits],
        "arrayminus": [value - low for value, low, _ in limits],
        "color": colour,
        "thickness": 1.5,
        "width": 4,
    }


def _star(best: Expected, name: str) -> Figure:
    return {
        "x": [best.nodes],
        "y": [best.speedup],
        "mode": "markers",
        "marker": {
            "color": "--res",
            "symbol": "star",
            "size": 18,
            "line": {"color": "--ink", "width": 1.5},
        },
        "cliponaxis": False,
        "name": name.format(n=best.nodes, speedup=f"{best.speedup:.2f}"),
    }


def _plain() -> Figure:
    """Return the line of plain decoding: 1 token per pass, at the time of 1 pass."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": 1,
        "y1": 1,
        "line": {"color": "--faint", "width": 1},
    }


def _upright(place: int) -> Figure:
    return {
        "type": "line",
        "x0": place,
        "x1": place,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": "--faint", "width": 1.5, "dash": "dot"},
    }
