"""Figures of the roofline: where a pass spends its time, the roof itself, published curves on it.

A figure is `{"data": [...], "layout": {...}}` for Plotly, its colours names of the page's colour
variables, as in `figures.prove`. Speed over batch and gamma is drawn by `figures.measure`. Every
line here is modelled; points of `published_curve` are published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from speclab.core.roofline import LIMITS, PassCost, Setting
from speclab.figures.heads import STYLES
from speclab.figures.plain import Figure, plain_layout
from speclab.lab.published_check import CurveCheck

TERM_STYLES = {
    "weights": ("--target", ""),
    "kv": ("--q", "/"),
    "compute": ("--rej", "x"),
    "overhead": ("--both", "."),
}
"""Colour and hatching of each term, so that they differ without colour too."""


def pass_terms(costs: Sequence[PassCost], *, over: str, words: Mapping[str, str]) -> Figure:
    """Return the milliseconds of passes, stacked by what is waited for.

    Args:
        costs: one per bar. over: "batch", "tokens" or "context", the attribute on the x axis.
        words: `weights`, `kv`, `compute`, `overhead`, `milliseconds` and the one named by `over`.
    """
    names = [f"{getattr(cost, over):,}" for cost in costs]
    data = []
    for limit in LIMITS:
        colour, shape = TERM_STYLES[limit]
        values = [1e3 * cost.terms[limit] for cost in costs]
        if any(values):
            data.append(
                {
                    "type": "bar",
                    "x": names,
                    "y": values,
                    "name": words[limit],
                    "marker": {
                        "color": colour,
                        "pattern": {"shape": shape, "fillmode": "overlay", "fgcolor": "--ground"},
                    },
                }
            )
    layout = plain_layout(words[over], words["milliseconds"])
    layout |= {"barmode": "stack", "bargap": 0.35}
    layout["xaxis"] |= {"type": "category"}
    layout["yaxis"] |= {"rangemode": "tozero"}
    return {"data": data, "layout": layout}


def roof(setting: Setting, passes: Mapping[str, PassCost], *, words: Mapping[str, str]) -> Figure:
    """Return the roof of a device and passes under it: operations per byte against operations/s.

    Args:
        passes: by name, as the legend shows them. Each lies below the roof by its overhead and by
            groups that wait for different things.
        words: `intensity`, `performance` (in tera-operations per second), `roof`.
    """
    ridge = setting.flops / setting.bandwidth
    spots = {name: cost.num_flops / cost.num_bytes for name, cost in passes.items()}
    low = min([0.3, *(0.7 * x for x in spots.values())])
    high = max([4.0 * ridge, *(1.5 * x for x in spots.values())])
    data: list[Figure] = [
        {
            "x": [low, ridge, high],
            "y": [low * setting.bandwidth / 1e12, setting.flops / 1e12, setting.flops / 1e12],
            "mode": "lines",
            "line": {"color": "--ink", "width": 3},
            "name": words["roof"],
        }
    ]
    for place, (name, cost) in enumerate(passes.items()):
        colour, _, symbol = STYLES[place % len(STYLES)]
        data.append(
            {
                "x": [spots[name]],
                "y": [cost.num_flops / cost.seconds / 1e12],
                "mode": "markers",
                "marker": {"color": colour, "symbol": symbol, "size": 13},
                "name": name,
            }
        )
    layout = plain_layout(words["intensity"], words["performance"])
    for axis in ("xaxis", "yaxis"):
        layout[axis] |= {"type": "log"}
    return {"data": data, "layout": layout}


def published_curve(found: CurveCheck, *, words: Mapping[str, str]) -> Figure:
    """Return a published batch curve as points, with the model before and after its fit.

    Args:
        words: `batch`, `speedup`, `published` (used in the fit), `held_out` (published, left out),
            `modelled`, `fitted`.
    """
    sizes, printed = found.published.batches, found.published.speedups
    parts = (
        (False, words["published"], "circle"),
        (True, words["held_out"], "circle-open"),
    )
    data: list[Figure] = [
        {
            "x": list(sizes),
            "y": list(values),
            "mode": "lines",
            "line": {"color": colour, "dash": dash, "width": 3},
            "name": name,
        }
        for values, colour, dash, name in (
            (found.modelled, "--both", "dash", words["modelled"]),
            (found.fitted, "--target", "solid", words["fitted"]),
        )
    ]
    for left_out, name, symbol in parts:
        shown = [i for i, out in enumerate(found.held_out) if out is left_out]
        data.append(
            {
                "x": [sizes[i] for i in shown],
                "y": [printed[i] for i in shown],
                "mode": "markers",
                "marker": {"color": "--rej", "symbol": symbol, "size": 11, "line": {"width": 2.5}},
                "name": name,
            }
        )
    layout = plain_layout(words["batch"], words["speedup"])
    layout["yaxis"] |= {"rangemode": "tozero"}
    layout["shapes"] = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": 1,
            "y1": 1,
            "line": {"color": "--faint", "width": 1.5, "dash": "dash"},
        }
    ]
    return {"data": data, "layout": layout}
