"""What the tab Heads shows of one pair and one head: facts, figures and the measured table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.figures.heads import acceptance_by_depth, rank_accuracies, training_loss
from speclab.lab.head_files import (
    HeadFacts,
    head_facts,
    head_kinds,
    read_report,
    target_parameters,
    training_curve,
)
from speclab.lab.head_report import chains, depth_rates, ranged, rows_at
from speclab.ui.backend import Lab
from speclab.ui.heads_tree import USUAL, command, percent, tree_reply, where
from speclab.ui.prove_models import plotly_file
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_words import number
from speclab.ui.texts_errors import error_text
from speclab.ui.texts_heads import HEADS

EAGLES = ("eagle-1", "eagle-3")
COLUMNS = ("method", "drafts", "drafted", "share", "rate", "tau", "speed")


def options(lab: Lab, lang: str) -> Reply:
    """Return what can be chosen, and the first view."""
    pairs = [
        {
            "name": name,
            "title": getattr(entry.title, lang),
            "heads": [
                {"kind": kind, "title": _head_title(lab, kind, lang)}
                for kind in head_kinds(_folder(entry))
            ],
        }
        for name, entry in lab.pairs.items()
    ]
    first = next((pair for pair in pairs if pair["heads"]), pairs[0])
    kind = first["heads"][0]["kind"] if first["heads"] else ""
    given = {"pair": first["name"], "head": kind, **USUAL}
    return {
        "pairs": pairs,
        "given": given,
        "first": view_reply(lab, given, lang),
        "plotly": f"/gradio_api/file={plotly_file()}",
    }


def view_reply(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return everything about a head; for a pair without heads, how to train one.

    Raises:
        BadInput: for a head that is not there, though the pair has others.
    """
    entry = _entry(lab, given)
    facts = head_facts(_folder(entry), str(given.get("head", "")))
    table = _table(lab, entry, given, lang)
    if facts is None and head_kinds(_folder(entry)):
        raise _no_head(entry, given)
    if facts is None:
        return {"none": _none(lab, entry, str(given["pair"]), lang), "table": table}
    words = HEADS[lang]
    fig = {key.removeprefix("hd_fig_"): text for key, text in words.items() if "hd_fig_" in key}
    curve = training_curve(entry.heads, facts.kind)
    return {
        "kind": facts.kind,
        "about": _about(lab, entry, facts, lang),
        "ranks": rank_accuracies(
            facts.accuracies[: 1 if facts.same_levels else None], facts.held_out_top1, words=fig
        ),
        "ranks_note": _ranks_note(facts, lang),
        "loss": training_loss(curve, words={"tokens": fig["train_tokens"], "loss": fig["loss"]})
        if curve
        else None,
        "depth": _depth(lab, entry, given, fig, lang),
        "trees": _against(entry, given, lang),
        "table": table,
        "tree": tree_reply(given, facts, entry, lang),
    }


def tree_only(lab: Lab, given: Mapping[str, Any], lang: str) -> Reply:
    """Return the tree of a request.

    Raises:
        BadInput: for a head that is not there.
    """
    entry = _entry(lab, given)
    facts = head_facts(_folder(entry), str(given.get("head", "")))
    if facts is None:
        raise _no_head(entry, given)
    return tree_reply(given, facts, entry, lang)


def _no_head(entry: Any, given: Mapping[str, Any]) -> BadInput:
    pair, head = given.get("pair"), given.get("head")
    known = ", ".join(head_kinds(_folder(entry))) or "–"
    return BadInput(
        f"The pair {pair} has no head {head!r}.",
        f"Its heads: {known}.",
        code="pair_no_head",
        values={"pair": pair, "head": head, "known": known},
    )


def _entry(lab: Lab, given: Mapping[str, Any]) -> Any:
    name = given.get("pair")
    if name not in lab.pairs:
        known = ", ".join(lab.pairs)
        raise BadInput(
            f"There is no pair {name!r}.",
            f"Pairs: {known}.",
            code="unknown_pair",
            values={"name": name, "known": known},
        )
    return lab.pairs[name]


def _folder(entry: Any) -> str:
    return getattr(entry, "heads", "")


def _head_title(lab: Lab, kind: str, lang: str) -> str:
    """Return a head's name: that of the methods that draft with it."""
    cards = [method.card for method in lab.methods.values() if f"head:{kind}" in method.card.needs]
    return " · ".join(getattr(card.title, lang) for card in cards) or kind


# --- without a head -------------------------------------------------------------------------------


def _none(lab: Lab, entry: Any, pair: str, lang: str) -> Reply:
    """Return how heads for this target are trained, or for which targets there are recipes."""
    words, folder = HEADS[lang], _folder(entry)
    text, target = words["hd_none_command"], folder
    if not folder:
        targets = list(dict.fromkeys(filter(None, map(_folder, lab.pairs.values()))))
        text = words["hd_none_recipes"].format(targets=", ".join(targets))
        target = targets[0] if targets else pair
    place = f"assets/models/heads/{target}/eagle3"
    line = f"python -m speclab train eagle3 --target {target} --output {place}"
    return {"text": f"{words['hd_none']} {text}", "command": line}


# --- what a head is -------------------------------------------------------------------------------


def _about(lab: Lab, entry: Any, facts: HeadFacts, lang: str) -> list[Reply]:
    """Return what a head is: lines of {term, text, mark}."""
    words = HEADS[lang]
    lines: list[Reply] = []
    for name in facts.methods:
        card = lab.methods[name].card
        title, text = getattr(card.title, lang), getattr(card.one_liner, lang)
        lines.append({"term": title, "text": f"{text} {card.paper}: {card.paper_url}"})
    layout = " · ".join((*facts.files, *facts.architectures))
    lines.append({"term": words["hd_about_layout"], "text": layout})
    total = target_parameters(entry.heads)
    size = words["hd_size"].format(n=number(facts.parameters))
    if total:
        size = words["hd_size_share"].format(
            n=number(facts.parameters), share=percent(facts.parameters / total), total=number(total)
        )
    lines.append({"term": words["hd_about_size"], "text": size, "mark": words["hd_mark_counted"]})
    lines += _training(facts, lang)
    if text := _training_text(facts, lang):
        lines.append({"term": words["hd_about_text"], "text": text})
    if facts.note:
        lines.append({"term": words["hd_about_note"], "text": facts.note})
    return lines


def _training(facts: HeadFacts, lang: str) -> list[Reply]:
    """Return how long a head was trained; a first stage on the frozen target has its own line."""
    words = HEADS[lang]
    stages = [("hd_about_training", facts.training)]
    if facts.frozen_training is not None:
        stages = [
            ("hd_training_frozen", facts.frozen_training),
            ("hd_training_joint", facts.training),
        ]
    return [
        {
            "term": words[term],
            "text": words["hd_training"].format(
                minutes=f"{stage.minutes:.0f}",
                steps=number(stage.steps),
                tokens=number(stage.tokens),
            ),
            "mark": words["hd_mark_measured"],
        }
        for term, stage in stages
    ]


def _training_text(facts: HeadFacts, lang: str) -> str:
    """Return what a head was trained on; empty where the manifest does not count it."""
    words, text = HEADS[lang], facts.text
    if {"corpus", "documents", "tokens"} <= text.keys():
        parts = [
            words["hd_text"].format(
                corpus=text["corpus"],
                documents=number(text["documents"]),
                tokens=number(text["tokens"]),
            )
        ]
        if written := text.get("rows_written_by_target"):
            parts.append(words["hd_text_written"].format(n=number(written)))
        return " · ".join(parts)
    rows = text.get("rows")
    return words["hd_text_chats"].format(n=number(rows)) if rows else ""


def _ranks_note(facts: HeadFacts, lang: str) -> str:
    """Return on what text bars and diamonds were measured."""
    key = "hd_ranks_note" if facts.measured_on == "prompts" else "hd_ranks_note_all"
    if facts.same_levels:
        key = "hd_ranks_note_same"
    return HEADS[lang][key].format(text=HEADS[lang][f"hd_on_{facts.measured_on}"])


# --- what was measured ----------------------------------------------------------------------------


def _temperature(given: Mapping[str, Any]) -> float:
    return 1.0 if given.get("temperature") == 1 else 0.0


def _missing(entry: Any, lang: str) -> Reply:
    """Return that nothing was measured, with the command where a table can be made."""
    return {"text": HEADS[lang]["hd_no_table"], "command": command(_folder(entry))}


def _depth(
    lab: Lab, entry: Any, given: Mapping[str, Any], fig: Mapping[str, str], lang: str
) -> Reply:
    """Return acceptance by depth: figures by methods and kind of rate, and sentences."""
    report, words = read_report(entry.heads), HEADS[lang]
    if report is None:
        return {"missing": _missing(entry, lang)}
    every = [row for row in chains(report, _temperature(given)) if row["method"] in lab.methods]
    every.sort(key=lambda row: EAGLES.index(row["method"]) if row["method"] in EAGLES else 9)
    names = {name: getattr(method.card.title, lang) for name, method in lab.methods.items()}
    two = [row for row in every if row["method"] in EAGLES]
    sets = {"eagles": two, "all": every} if two else {"all": every}
    kinds = ("conditional", "cumulative")
    return {
        "figures": {
            name: {kind: acceptance_by_depth(rows, kind, words=fig, names=names) for kind in kinds}
            for name, rows in sets.items()
        },
        "sentences": [
            {"mark": words["hd_mark_counted"], "text": _fall(row, names, lang), "tone": "info"}
            for row in two
        ],
        "note": words["hd_depth_note"].format(gamma=every[0]["budget"]) if every else "",
    }


def _fall(row: Mapping[str, Any], names: Mapping[str, str], lang: str) -> str:
    """Return the first and the last conditional rate of a chain."""
    rates = [rate for rate in depth_rates(row, "conditional") if rate is not None]
    return HEADS[lang]["hd_fall"].format(
        method=names[row["method"]],
        first=percent(rates[0]),
        last=percent(rates[-1]),
        depth=len(rates),
    )


def _against(entry: Any, given: Mapping[str, Any], lang: str) -> Reply:
    """Return EAGLE-2's tree against EAGLE-1's at equal budgets, as sentences."""
    report, words = read_report(entry.heads), HEADS[lang]
    if report is None:
        return {"missing": _missing(entry, lang)}
    found = [
        item
        for item in report["dynamic_against_static"]
        if item["temperature"] == _temperature(given)
    ]
    sentences = [
        {
            "mark": words["hd_mark_counted"],
            "text": words["hd_more"].format(
                budget=item["budget"],
                ratio=f"{item['ratio']:.2f}",
                low=f"{item['ratio_low']:.2f}",
                high=f"{item['ratio_high']:.2f}",
            ),
            "tone": "info",
        }
        for item in found
    ]
    return {"sentences": sentences or [{"text": words["hd_no_trees"], "tone": "open"}]}


def _table(lab: Lab, entry: Any, given: Mapping[str, Any], lang: str) -> Reply:
    """Return the whole table at one temperature, and why some methods are not in it."""
    report = read_report(_folder(entry)) if _folder(entry) else None
    if report is None:
        return {"missing": _missing(entry, lang)} if _folder(entry) else {}
    words, rows = HEADS[lang], rows_at(report, _temperature(given))
    names = {name: getattr(method.card.title, lang) for name, method in lab.methods.items()}
    plan = report["plan"]
    return {
        "table": {
            "head": [words[f"hd_col_{name}"] for name in COLUMNS],
            "rows": [
                [
                    names.get(row["method"], row["method"]),
                    words[f"hd_shape_{row['shape']}"].format(n=row["budget"]),
                    f"{row['drafted_per_round']:.1f}",
                    percent(row["draft_share"]),
                    f"{row['tokens_per_s']:.0f}",
                    ranged(row, "tau"),
                    ranged(row, "speedup"),
                ]
                for row in rows
            ],
        },
        "note": words["hd_table_note"].format(
            prompts=report["num_prompts"],
            tokens=plan["max_new_tokens"],
            where=where(report, lang),
        ),
        "skipped": _skipped(report["skipped"], names, lang),
    }


def _skipped(
    reasons: Mapping[str, Mapping[str, Any]], names: Mapping[str, str], lang: str
) -> Sequence[str]:
    """Return, per method that was not run, the reason in the page's language."""
    return [
        HEADS[lang]["hd_skipped"].format(
            method=names.get(name, name),
            reason=error_text(
                UnsupportedModel(reason["what"], code=reason["code"], values=reason["values"]), lang
            ),
        )
        for name, reason in reasons.items()
    ]
