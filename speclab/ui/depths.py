"""Acceptance by depth, as the player shows it."""

from __future__ import annotations

from typing import Any

from speclab.core.glossary import NUMBERS
from speclab.core.records import Trace
from speclab.stats.depths import counts_by_depth


def depths(trace: Trace, lang: str) -> dict[str, Any]:
    """Return the counts of a run by depth, each kind with its definition in one language."""
    rate, width = NUMBERS["acceptance_rate_per_position"], NUMBERS["tested_per_level"]
    return {
        "badge": "counted",
        "tree": not all(round_.tree.is_chain for round_ in trace.rounds),
        "about": [
            {
                "title": getattr(number.title, lang),
                "text": f"{getattr(number.definition, lang)} {getattr(number.trap, lang)}".strip(),
            }
            for number in (rate, width)
        ],
        "rows": [
            {
                "depth": row.depth,
                "cumulative": row.cumulative,
                "conditional": row.conditional,
                "tested": row.tested,
                "drafted": row.drafted,
            }
            for row in counts_by_depth(trace.rounds)
        ],
    }
