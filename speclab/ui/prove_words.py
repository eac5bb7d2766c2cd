"""Verdicts and test results as sentences in the page's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from speclab.core.protocols import VerifyRule
from speclab.ui.texts_prove import PROVE
from speclab.ui.texts_prove_rules import shipped, source

if TYPE_CHECKING:
    from speclab.stats.cells import StatTest
    from speclab.stats.report import Report

Sentence = dict[str, str]
TONES = {"not_rejected": "good", "rejected": "bad", "inconclusive": "open"}


def chance(value: float) -> str:
    """Return a p-value for people: `0.43`, `0.0021`, `3e-12`, `< 1e-300`."""
    if value < 1e-300:
        return "< 1e-300"
    return f"{value:.2g}" if value >= 1e-4 else f"{value:.0e}"


def share(value: float) -> str:
    """Return a probability or a total variation to three figures: `0.125`, `2e-16`, `0`."""
    if value == 0.0:
        return "0"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.1e}"


def number(value: float) -> str:
    """Return a count with separators; a fraction to one decimal."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def verdict(report: Report, rule: str, lang: str, *, unit: str = "draws") -> Sentence:
    """Return the verdict: what was tested, on how many samples, what bias could have been seen.

    Args:
        report: the statistics. rule: title of the rule. lang: "en" or "zh".
        unit: "draws" or "sequences".
    """
    from speclab.stats.report import sentence_facts

    words, facts = PROVE[lang], sentence_facts(report)
    test = words[f"test_{report.main.test}"]
    how = words["how_anytime" if report.decided_by == "anytime" else "how_family"]
    if report.decided_by == "fixed" and len(report.family) == 1:
        how = test
    values = {
        "how": how.format(tests=len(report.family)),
        "rule": rule,
        "n": number(report.main.num_samples),
        "unit": words[f"unit_{unit}"],
        "test": test,
        "cells": report.main.num_cells,
        "p": chance(report.p_value),
        "level": f"{report.level:g}",
        "bias": f"{report.detectable_bias or 0.0:.2g}",
        "forbidden": number(facts["forbidden"] or 0),
    }
    key = report.verdict
    if report.main.forbidden:
        key = "rejected_forbidden"
    if report.main.num_samples == 1:
        key = f"{key}_one" if f"verdict_{key}_one" in words else key
    text = words[f"verdict_{key}"].format(**values)
    if 0.0 < (report.detectable_bias or 0.0) < 1.0 and report.verdict != "rejected":
        key = "verdict_seen_pooled" if report.main.pooled else "verdict_seen"
        text += words[key].format(power=f"{report.power:.0%}", **values)
    return {"mark": words[f"mark_{report.verdict}"], "text": text, "tone": TONES[report.verdict]}


def control_verdict(report: Report, title: str, lang: str) -> Sentence | None:
    """Return what became of the negative control."""
    words, control = PROVE[lang], report.control
    if control is None:
        return None
    p_value = 1.0 if report.control_p_value is None else report.control_p_value
    caught = p_value <= report.level
    text = words["control_caught" if caught else "control_missed"].format(
        control=title, p=chance(p_value), n=number(control.num_samples)
    )
    return {"mark": words["mark_control"], "text": text, "tone": "good" if caught else "open"}


def further(report: Report, lang: str) -> list[Sentence]:
    """Return one sentence per further test, and the total variation with its interval."""
    from speclab.stats.report import REFERENCE_BIAS

    words, sentences = PROVE[lang], []
    for test, adjusted in zip(report.more, report.more_adjusted, strict=True):
        sentences.append(_test(test, adjusted, report.level, lang))
    if report.variation is not None:
        found = report.variation
        text = words["variation"].format(
            estimate=share(found.estimate),
            floor=share(found.noise_floor),
            low=share(found.low),
            high=share(found.high),
        )
        sentences.append({"mark": words["test_variation"], "text": text, "tone": "info"})
    if report.reference_samples is not None:
        text = words["power"].format(
            bias=share(REFERENCE_BIAS),
            power=f"{report.reference_power or 0.0:.0%}",
            n=number(report.reference_samples),
        )
        sentences.append({"mark": words["test_power"], "text": text, "tone": "info"})
    return sentences


def _test(test: StatTest, adjusted: float, level: float, lang: str) -> Sentence:
    words = PROVE[lang]
    text = words["test_result"].format(p=chance(test.p_value), adjusted=chance(adjusted))
    about = words.get(f"about_{test.test}", "")
    tone = "bad" if adjusted <= level else "info"
    return {"mark": words[f"test_{test.test}"], "text": f"{text} {about}".strip(), "tone": tone}


def rule_facts(rule: VerifyRule, lang: str) -> dict[str, Any]:
    """Return what the page says about a rule."""
    words = PROVE[lang]
    return {
        "name": rule.name,
        "title": getattr(rule.title, lang),
        "kind": rule.kind,
        "mark": words[f"kind_{rule.kind}"],
        "does": getattr(rule.one_liner, lang),
        "why": getattr(rule.why_not, lang) if rule.why_not else "",
        "shipped": shipped(rule, lang),
        "source": source(rule, lang),
        "bias": rule.bias,
        "params": [
            {
                "name": param.name,
                "help": getattr(param.help, lang),
                "low": param.low,
                "high": param.high,
                "step": param.step,
                "default": param.default,
            }
            for param in rule.params
        ],
    }
