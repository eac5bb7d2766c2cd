"""The panel *All outcomes*: the exact law of the real loop on a toy pair, and its tree."""

from __future__ import annotations

import time
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.rules import RULES, rule_named
from speclab.lab.fitting import fitting_params
from speclab.ui.backend import Lab
from speclab.ui.method_kinds import kind_title
from speclab.ui.prove_words import number, rule_facts, share
from speclab.ui.texts_prove import PROVE

PAIR = "toy"
DEPTH = ("num_speculative_tokens", "depth")
"""How methods call the length of a draft."""
SMALL = range(1, 4)
TREE_LEAVES = 200
SHOWN = 32
WAIT_S = 30.0


def choices(lab: Lab, lang: str) -> list[dict[str, Any]]:
    """Return the methods that draft by themselves, each with the rules that can judge it."""
    found = []
    for name, kind in lab.methods.items():
        if kind.card.needs - {"draft_model"} or not kind.card.params:
            continue
        rules = [r.name for r in RULES.values() if fitting_params(name, r, Sampling(), {})]
        found.append(
            {
                "name": name,
                "title": getattr(kind.card.title, lang),
                "group": kind_title(lab, name, lang),
                "rules": rules,
            }
        )
    return found


def options(lab: Lab, lang: str) -> dict[str, Any]:
    """Return what the panel offers."""
    return {
        "methods": choices(lab, lang),
        "rules": [rule_facts(rule, lang) for rule in RULES.values()],
    }


def outcomes_reply(lab: Lab, given: dict[str, Any], lang: str) -> dict[str, Any]:
    """Enumerate one case; return bars, the sentence and, if it is small, the tree.

    Raises:
        BadInput: for a method, rule or number that is not offered.
        TooManyBranches: for a case above the budget.
    """
    from speclab.lab.prove import ProveSpec
    from speclab.lab.prove_exact import prove_exact
    from speclab.models.catalogue import load_pair

    method, rule = str(given["method"]), rule_named(str(given["rule"]))
    gamma, tokens = int(given["gamma"]), int(given["tokens"])
    if method not in lab.methods or gamma not in SMALL or tokens not in SMALL:
        raise BadInput(PROVE["en"]["bad_request"], code="prove_request")
    card = lab.methods[method].card
    depth = {param.name: gamma for param in card.params if param.name in DEPTH}
    params = fitting_params(method, rule, Sampling(), depth)
    if params is None:
        raise BadInput(
            f"The rule {rule.name} cannot judge what {method} drafts.",
            "Choose another rule.",
            code="rule_misfit",
            values={"rule": rule.name, "method": method},
        )
    ticket, begun = lab.turnstile.join(), time.monotonic()
    try:
        while lab.turnstile.ahead(ticket):
            if time.monotonic() - begun > WAIT_S:
                raise BadInput(
                    "Other work keeps this machine busy.", "Try again soon.", code="machine_busy"
                )
            time.sleep(0.05)
        spec = ProveSpec(
            pair=PAIR,
            method=method,
            params=params,
            rule=rule.name,
            sampling=Sampling(),
            length=tokens,
        )
        report = prove_exact(load_pair(PAIR), spec)
    finally:
        lab.turnstile.leave(ticket)
    return described(report, lang)


def described(report: Any, lang: str) -> dict[str, Any]:
    """Return an `ExactReport` as the page shows it."""
    words, rule = PROVE[lang], RULES[report.rule["name"]]
    title = getattr(rule.title, lang)
    values = {
        "rule": title,
        "leaves": number(report.num_leaves),
        "sequences": number(report.num_sequences),
        "gap": share(report.difference),
        "tv": share(report.total_variation),
        "s": f"{report.seconds:.2g}",
    }
    key = "out_exact" if report.within else "out_off"
    if report.within and not rule.lossless:
        key = "out_luck"
    sequences = report.sequences[:SHOWN]
    shown = words["out_shown"].format(n=len(sequences), all=number(report.num_sequences))
    small = report.tree is not None and len(report.tree) <= TREE_LEAVES
    return {
        "sentence": {
            "mark": words["mark_law"],
            "text": words[key].format(**values),
            "tone": "good" if report.within else "bad",
        },
        "difference": report.difference,
        "leaves": report.num_leaves,
        "shown": shown if len(sequences) < report.num_sequences else "",
        "sequences": [
            {"text": "".join(each["pieces"]), "law": each["law"], "target": each["target"]}
            for each in sequences
        ],
        "tree": _tree(report.tree, words) if small else None,
    }


def _tree(nodes: Any, words: dict[str, str]) -> list[dict[str, Any]]:
    """Return the nodes with what stands on their edges."""
    letters = "abcd"
    shown = []
    for node in nodes:
        flip = node["kind"] == "flip"
        name = words["out_yes" if node["label"] else "out_no"] if flip else ""
        if node["kind"] == "draw":
            name = letters[node["label"]]
        emitted = node["emitted"]
        shown.append(
            {
                "parent": node["parent"],
                "kind": node["kind"],
                "yes": bool(node["label"]) if flip else True,
                "name": name,
                "chance": node["probability"],
                "weight": node["weight"],
                "emitted": None if emitted is None else "".join(letters[t] for t in emitted),
            }
        )
    return shown
