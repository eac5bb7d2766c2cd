"""Figures of the closed forms: rounds drawn by coin beside their law, and lines of equal speed.

A figure is `{"data": [...], "layout": {...}}` for Plotly, its colours names of the page's colour
variables, as in `figures.prove`. Speed over gamma is drawn by `figures.measure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul

from speclab.core.theory import DrawnRounds, best_gamma, walltime_speedup
from speclab.figures.heads import STYLES
from speclab.figures.plain import Figure, plain_layout

FINEST = 40
"""Halvings of alpha on a line of equal speed: far below a pixel."""


def drawn_rounds(drawn: DrawnRounds, rates: Sequence[float], *, words: Mapping[str, str]) -> Figure:
    """Return the share of rounds by tokens emitted: counted as bars, by formula as points.

    Args:
        drawn: rounds drawn with `rates`, the conditional acceptance by position.
        words: `tokens`, `share`, `drawn`, `formula`.
    """
    reached = [1.0, *accumulate(rates, mul)]
    law = [here - after for here, after in zip(reached, [*reached[1:], 0.0], strict=True)]
    tokens = list(range(1, len(law) + 1))
    data = [
        {
            "type": "bar",
            "x": tokens,
            "y": [count / drawn.num_rounds for count in drawn.counts],
            "name": words["drawn"],
            "marker": {"color": "--both"},
        },
        {
            "type": "scatter",
            "x": tokens,
            "y": law,
            "mode": "markers",
            "marker": {
                "color": "--ground",
                "symbol": "diamond",
                "size": 11,
                "line": {"color": "--ink", "width": 2},
            },
            "name": words["formula"],
        },
    ]
    layout = plain_layout(words["tokens"], words["share"])
    layout["xaxis"] |= {"dtick": 1}
    layout["yaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    layout["bargap"] = 0.4
    return {"data": data, "layout": layout}


def alpha_for_speed(speedup: float, cost_ratio: float) -> float | None:
    """Return the alpha that reaches `speedup` at its best gamma; None where none does."""
    low, high = 0.0, 1.0
    if walltime_speedup(1.0, best_gamma(1.0, cost_ratio), cost_ratio) < speedup:
        return None
    for _ in range(FINEST):
        middle = (low + high) / 2
        best = walltime_speedup(middle, best_gamma(middle, cost_ratio), cost_ratio)
        low, high = (middle, high) if best < speedup else (low, middle)
    return high


def equal_speed(
    levels: Sequence[float],
    drafts: Mapping[str, tuple[float, float]],
    *,
    words: Mapping[str, str],
    costs: Sequence[float] = tuple(i / 50 for i in range(51)),
) -> Figure:
    """Return lines of equal speedup over the draft's cost, and drafts as points among them.

    Args:
        levels: speedups, each a line of the alpha needed at the best gamma with v = 1.
        drafts: (alpha, c) by name.
        words: `cost`, `alpha`, `level` with a slot `speedup`.
        costs: values of c.
    """
    data: list[Figure] = []
    for place, level in enumerate(levels):
        found = [(cost, alpha_for_speed(level, cost)) for cost in costs]
        data.append(
            {
                "x": [cost for cost, alpha in found if alpha is not None],
                "y": [alpha for _, alpha in found if alpha is not None],
                "mode": "lines",
                "line": {"color": "--faint", "dash": STYLES[place % 5][1], "width": 2},
                "name": words["level"].format(speedup=f"{level:g}"),
            }
        )
    for place, (name, (alpha, cost)) in enumerate(drafts.items()):
        colour, _, symbol = STYLES[place % len(STYLES)]
        data.append(
            {
                "x": [cost],
                "y": [alpha],
                "mode": "markers",
                "marker": {"color": colour, "symbol": symbol, "size": 13},
                "name": name,
            }
        )
    layout = plain_layout(words["cost"], words["alpha"])
    layout["yaxis"] |= {"range": [0, 1.03]}
    layout["xaxis"] |= {"rangemode": "tozero"}
    return {"data": data, "layout": layout}
