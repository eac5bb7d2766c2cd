"""The map of drafters: what every method needs, what it gives, and what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.protocols import MethodCard
from speclab.methods.kinds import KINDS, OF_THE_PASS, by_kind, laws_of, shapes_of
from speclab.ui.backend import Lab
from speclab.ui.lesson_figures import component, series_of
from speclab.ui.lessons import measured
from speclab.ui.texts_lesson_map import WORDS_MAP
from speclab.ui.texts_measure import MEASURE

MEASURES = ("tau", "speedup", "copied_share")
"""What the dots of the map can show."""


def needs_of(card: MethodCard, lang: str) -> list[str]:
    """Return what a method needs beside the target, in words; a need without words by its name."""
    words, found = WORDS_MAP[lang], []
    for need in sorted(card.needs - OF_THE_PASS):
        key = "head" if need.startswith("head:") else need
        found.append(words.get(f"need_{key}", need))
    return list(dict.fromkeys(found))


def kept_report(pair: str) -> dict[str, Any] | None:
    """Return the kept table of families of a pair; None where none was measured yet."""
    try:
        return measured(f"families-{pair}")
    except BadInput:
        return None


def greedy_rows(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the greedy lines of a table by method; of several settings the first."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in report["rows"]:
        if row["temperature"] == 0.0:
            found.setdefault(row["method"].partition(":")[0], row)
    return found


def method_of(lab: Lab, name: str, lang: str, row: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return one line of the map: from the card, and from the measured line where there is one."""
    card, words = lab.methods[name].card, WORDS_MAP[lang]
    found: dict[str, Any] = {
        "name": name,
        "title": getattr(card.title, lang),
        "about": getattr(card.one_liner, lang),
        "needs": needs_of(card, lang),
        "laws": [words[f"law_{law}"] for law in laws_of(card.provides)],
        "shapes": [words[f"shape_{shape}"] for shape in shapes_of(card.provides)],
        "drafts": bool(card.params),
        "measured": None,
    }
    if row is not None:
        found["measured"] = {
            "passes": row["draft_passes"],
            "parameters": row["memory"]["parameters"],
            "cells": {
                family: {key: cell[key] for key in MEASURES}
                for family, cell in row["families"].items()
            },
        }
    return found


def map_view(lab: Lab, lang: str, report: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return every method under its kind, and the families that were measured."""
    rows = greedy_rows(report) if report else {}
    families = report["families"] if report else []
    return {
        "kinds": [
            {
                "name": kind,
                "title": getattr(KINDS[kind].title, lang),
                "about": getattr(KINDS[kind].about, lang),
                "methods": [method_of(lab, name, lang, rows.get(name)) for name in names],
            }
            for kind, names in by_kind(lab.methods).items()
        ],
        "families": [[name, MEASURE[lang].get(f"family_{name}", name)] for name in families],
    }


def family_map(lab: Lab, lang: str, *, pair: str, caption: str, dots: str) -> None:
    """Show every method of the lab by what it needs, with what was measured of it per family.

    Args:
        pair: whose table gives the dots. caption: about the lines.
        dots: about the dots; said only where there are some.
    """
    words, report = WORDS_MAP[lang], kept_report(pair)
    component(
        "family_map",
        {
            **map_view(lab, lang, report),
            "measures": [[name, words[f"measure_{name}"]] for name in MEASURES],
            "detail": detail_of(report, lab, lang) if report else words["map_none"],
            "caption": f"{caption} {dots}" if report else caption,
            "words": words,
        },
        parts=("axes",),
    )


def detail_of(report: Mapping[str, Any], lab: Lab, lang: str) -> str:
    """Return which pair was measured, and on what."""
    about = series_of({**report, "costs": {"verify_cost": {}}}, lab, lang)
    return f"{about['title']} · {about['detail']}"


MAP_FIGURES = {"family-map": family_map}
"""The figures of this file by the name that lessons give them."""
