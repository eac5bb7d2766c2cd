"""The figure *One position*: bars in the browser, exact laws and draws from the server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from speclab.core.errors import BadInput
from speclab.core.protocols import VerifyRule
from speclab.core.rules import RULES
from speclab.ui.prove_panel import Reply, panel
from speclab.ui.prove_words import (
    Sentence,
    chance,
    control_verdict,
    further,
    number,
    rule_facts,
    share,
    verdict,
)
from speclab.ui.texts_prove import PROVE

if TYPE_CHECKING:
    from speclab.lab.position_draws import PositionDraws, PositionLaw

STANDARD = {"p": [0.5, 0.3, 0.15, 0.05], "q": [0.2, 0.6, 0.1, 0.1]}
THIRD, TWO_THIRDS = 1 / 3, 2 / 3
PRESETS: dict[str, dict[str, Any]] = {
    "standard": {**STANDARD, "rule": "token"},
    "block": {"p": [THIRD, TWO_THIRDS], "q": [TWO_THIRDS, THIRD], "rule": "token"},
    "top_p": {**STANDARD, "rule": "broken-top-p-one-side"},
    "equal": {"p": STANDARD["p"], "q": STANDARD["p"]},
    "far": {
        "p": [0.04, 0.06, 0.1, 0.16, 0.24, 0.4],
        "q": [0.4, 0.24, 0.16, 0.1, 0.06, 0.04],
    },
}
"""Bars worth a look; the standard pair is the one on which every rule states its bias."""
ENTRIES = re.compile(r"[\s,;]+")


def one_position(
    lang: str,
    *,
    elem_id: str,
    state: dict[str, Any] | None = None,
    rules: Sequence[str] = tuple(RULES),
    parts: Sequence[str] = ("presets", "rule", "draw", "control", "more"),
) -> gr.HTML:
    """Return the figure; each visitor's bars and draws live in the browser only.

    Args:
        lang: "en" or "zh". elem_id: id in the page.
        state: {"p", "q", "tokens", "rule", "values"}; None: the standard pair under `token`.
        rules: names to choose from. parts: what is shown besides the bars.
    """
    options = {
        "rules": [rule_facts(RULES[name], lang) for name in rules],
        "presets": [
            {"name": name, "title": PROVE[lang][f"preset_{name}"], **preset}
            for name, preset in PRESETS.items()
        ],
        "parts": list(parts),
    }
    start = (
        "const player = () => [...document.querySelectorAll('#player, #player *')]"
        ".find((node) => node.pinnedLaws);\n"
        "const pinned = () => player()?.pinnedLaws() ?? null;\n"
        "mount(element.querySelector('.pv-root'), given.state, {...given.options, call, pinned: "
        "given.options.parts.includes('presets') ? pinned : null});"
    )
    return panel(
        lang,
        elem_id=elem_id,
        parts=("prove/one_position",),
        start=start,
        figure={"state": state or {**STANDARD, "rule": "token"}, "options": options},
        answers={
            "law": lambda given: law_reply(given, lang),
            "draw": lambda given: draw_reply(given, lang),
            "numbers": numbers_reply,
        },
    )


def law_reply(given: dict[str, Any], lang: str) -> Reply:
    """Return the exact law of a rule on p and q, and that of its control."""
    from speclab.lab.position_draws import control_for, position_law

    found = position_law(given["p"], given["q"], given["rule"], given["values"])
    control = control_for(given["p"], given["q"], given["rule"])
    return {
        "law": found.law,
        "target": found.target,
        "sentence": law_sentence(found, RULES[found.rule], lang),
        "control": {"law": control.law, "title": getattr(RULES[control.rule].title, lang)},
    }


def law_sentence(found: PositionLaw, rule: VerifyRule, lang: str) -> Sentence:
    """Return by how much the exact law misses the target, and how often a draft is kept."""
    words = PROVE[lang]
    gap = max(abs(a - b) for a, b in zip(found.law, found.target, strict=True))
    exact = gap <= 1e-12
    key = ("law_exact" if exact else "law_off") + ("_filtered" if found.filtered else "")
    text = words[key].format(gap=share(gap), bias=share(found.bias), kept=f"{found.acceptance:.1%}")
    if found.num_candidates > 1:
        text += words["law_candidates"].format(n=found.num_candidates)
    if found.bound is not None:
        text += words["law_bound"].format(bound=f"{found.bound:.1%}")
    if exact and not rule.lossless:
        return {"mark": words["mark_law"], "text": f"{text} {words['law_luck']}", "tone": "open"}
    return {"mark": words["mark_law"], "text": text, "tone": "good" if exact else "bad"}


def draw_reply(given: dict[str, Any], lang: str) -> Reply:
    """Draw under a rule and under its control; return counts, verdicts and every cell."""
    from speclab.lab.position_draws import control_for, position_draws

    p, q, name = given["p"], given["q"], given["rule"]
    drawn = position_draws(
        p,
        q,
        name,
        given["values"],
        count=given["count"],
        seed=int(given["seed"]),
        earlier=given["counts"],
        control_earlier=given["control"],
    )
    control = getattr(RULES[control_for(p, q, name).rule].title, lang)
    title, words = getattr(RULES[name].title, lang), PROVE[lang]
    reply: Reply = {
        "counts": drawn.counts,
        "control_counts": drawn.control_counts,
        "snapshots": drawn.snapshots,
    }
    if drawn.report is None:
        return {**reply, "sentence": {"text": words["draw_certain"], "tone": "info"}}
    return {
        **reply,
        "sentence": verdict(drawn.report, title, lang),
        "control_sentence": control_verdict(drawn.report, control, lang),
        "cells": _cells(drawn),
        "more": [
            *further(drawn.report, lang),
            {
                "mark": words["test_anytime"],
                "text": words["about_anytime"].format(p=chance(drawn.anytime_p)),
                "tone": "bad" if drawn.anytime_p <= drawn.report.level else "info",
            },
        ],
    }


def _cells(drawn: PositionDraws) -> list[list[str]]:
    """Return per token: expected, observed, control, contribution."""
    rows = zip(drawn.expected, drawn.counts, drawn.control_counts, drawn.contributions, strict=True)
    return [[number(round(e, 1)), number(o), number(c), share(x)] for e, o, c, x in rows]


def numbers_reply(given: dict[str, Any]) -> Reply:
    """Return typed numbers as bars.

    Raises:
        BadInput: naming what is not a number, or bars that cannot be a law.
    """
    from speclab.lab.position_draws import bars

    laws = {name: bars(_typed(given[name], name), name).tolist() for name in ("p", "q")}
    if len(laws["p"]) != len(laws["q"]):
        raise BadInput(
            f"p has {len(laws['p'])} entries and q has {len(laws['q'])}.",
            "Give both for the same tokens.",
            code="unequal_laws",
            values={"p": len(laws["p"]), "q": len(laws["q"])},
        )
    return laws


def _typed(text: str, name: str) -> list[Any]:
    entries = [entry for entry in ENTRIES.split(str(text)[:500].strip()) if entry]
    values: list[Any] = []
    for entry in entries:
        try:
            values.append(float(entry))
        except ValueError:
            values.append(entry)
    return values
