"""What all figures share. Importing this loads nothing heavy."""

from __future__ import annotations

from typing import Any

Figure = dict[str, Any]
"""`{"data": [...], "layout": {...}}` for Plotly."""

USUAL_EM, TALL_EM = 17, 30
"""Heights of a figure in the page's letters; a layout that needs another says so in its `meta`."""


def plain_layout(x_title: str, y_title: str) -> Figure:
    """Return axes, margins and colours that all figures share."""
    axis = {"gridcolor": "--line", "zeroline": False, "linecolor": "--faint", "fixedrange": True}
    axis["automargin"] = True
    return {
        "xaxis": {**axis, "title": {"text": x_title}},
        "yaxis": {**axis, "title": {"text": y_title}},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "--ink"},
        "margin": {"l": 40, "r": 16, "t": 10, "b": 40},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
        "dragmode": False,
    }
