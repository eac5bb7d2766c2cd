"""The tab's main figure: a static tree of guesses, and what its size brings and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speclab.figures.heads import node_budget
from speclab.lab.head_files import HeadFacts, read_costs, read_report
from speclab.lab.head_shapes import (
    Expected,
    PassCosts,
    TreeNode,
    best_of,
    expected_curve,
    pass_costs,
    tree_nodes,
)
from speclab.methods.rank_trees import MAX_RANKS, search_tree
from speclab.ui.prove_panel import Reply
from speclab.ui.prove_words import Sentence
from speclab.ui.texts_heads import HEADS

MOST_NODES, MOST_DEPTH = 64, 8
USUAL = {"depth": 5, "width": 4, "nodes": 16}
BUDGET_WORDS = (
    *("nodes", "tokens", "cost", "cost_measured", "speedup", "best"),
    *("measured_tokens", "measured_speedup"),
)


def percent(value: float) -> str:
    """Return a share for people: `57 %`, `0.4 %`."""
    return (
        f"{value:.0%}".replace("%", " %") if value >= 0.0995 else f"{value:.1%}".replace("%", " %")
    )


def joined(first: str, second: str, lang: str) -> str:
    """Return two sentences in a row; Chinese puts no space between them."""
    return f"{first}{'' if lang == 'zh' else ' '}{second}"


def command(pair: str) -> str:
    """Return the command that measures the table of a pair."""
    return f"python -m speclab heads --pair {pair} --keep"


def where(report: Mapping[str, Any], lang: str) -> str:
    """Return on what a report was measured, and when."""
    return HEADS[lang]["hd_where"].format(
        processor=report["processor"],
        threads=report["threads"],
        dtype=report["dtype"],
        date=report["created"][:10],
    )


def most_width(facts: HeadFacts) -> int:
    """Return how many guesses after one node a head can offer."""
    ranks = max(map(len, facts.accuracies), default=1)
    return 1 if facts.chain_only else min(MAX_RANKS, ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the sliders say, within what there is."""

    depth: int
    width: int
    nodes: int
    temperature: float

    @classmethod
    def of(cls, given: Mapping[str, Any], facts: HeadFacts) -> Wish:
        """Read a request; values out of range go to the nearest that exists."""
        levels = min(MOST_DEPTH, len(facts.accuracies))
        most = {"depth": levels, "width": most_width(facts), "nodes": MOST_NODES}
        sizes = {name: max(1, min(int(given.get(name, USUAL[name])), most[name])) for name in USUAL}
        return cls(**sizes, temperature=1.0 if given.get("temperature") == 1 else 0.0)


def tree_reply(given: Mapping[str, Any], facts: HeadFacts, pair: Any, lang: str) -> Reply:
    """Return the tree, the figure beside it and what it comes to.

    Args:
        given: depth, width, nodes, temperature. facts: of the head.
        pair: entry of the catalogue.
    """
    wish, words = Wish.of(given, facts), HEADS[lang]
    source = read_costs(pair.heads, pair.dtype)
    costs = pass_costs(source, facts.methods) if source else None
    ranks = facts.accuracies
    points = expected_curve(ranks, costs, depth=wish.depth, width=wish.width, most=MOST_NODES)
    tree = search_tree(ranks, wish.nodes, wish.depth, wish.width)
    best, chosen = best_of(points), points[len(tree)]
    figure = node_budget(
        points,
        chosen=len(tree),
        best=best,
        measured=_measured(pair.heads, facts, wish.temperature),
        widths=costs.widths if costs is not None else (),
        words={key: words[f"hd_fig_{key}"] for key in BUDGET_WORDS},
    )
    limit = best.nodes if best is not None and costs is not None else len(tree)
    return {
        "nodes": [_node_reply(node, limit, len(tree), lang) for node in tree_nodes(tree, ranks)],
        "title": words["hd_chain" if tree.width == 1 else "hd_tree"].format(
            n=len(tree), depth=tree.depth
        ),
        "figure": figure,
        "sentences": _sentences(points, chosen, best, costs, lang),
        "notes": _notes(facts, source, costs, pair.heads, lang),
        "best": best.nodes if best is not None and costs is not None else None,
        "chosen": {"depth": wish.depth, "width": wish.width, "nodes": len(tree)},
        "most": {
            "depth": min(MOST_DEPTH, len(ranks)),
            "width": most_width(facts),
            "nodes": points[-1].nodes,
        },
        "values": {
            "tokens": chosen.tokens,
            "cost": chosen.cost,
            "speedup": chosen.speedup,
        },
    }


def _node_reply(node: TreeNode, limit: int, total: int, lang: str) -> Reply:
    """Return what is drawn of a node; it pays if it is among the `limit` likeliest."""
    rank, order, chance = node.rank + 1, node.order + 1, percent(node.chance)
    return {
        "parent": node.parent,
        "rank": rank,
        "depth": node.depth,
        "chance": chance,
        "weight": round(node.chance, 4),
        "order": order,
        "pays": node.order < limit,
        "last": order == total,
        "title": HEADS[lang]["hd_node"].format(
            rank=rank, depth=node.depth, chance=chance, order=order
        ),
    }


def _measured(pair: str, facts: HeadFacts, temperature: float) -> list[dict[str, Any]]:
    report = read_report(pair)
    if report is None:
        return []
    return [
        row
        for row in report["rows"]
        if row["method"] in facts.methods and row["temperature"] == temperature
    ]


def _sentences(
    points: Sequence[Expected],
    chosen: Expected,
    best: Expected | None,
    costs: PassCosts | None,
    lang: str,
) -> list[Sentence]:
    """Return what the tree brings, whether its last node pays, and the best budget."""
    words = HEADS[lang]
    n, tokens = chosen.nodes, f"{chosen.tokens:.2f}"
    if chosen.cost is None or chosen.speedup is None:
        found = [
            {"mark": words["hd_mark"], "text": words["hd_say_tokens"].format(n=n, tokens=tokens)}
        ]
        if costs is not None and costs.widths:
            text = words["hd_unknown"].format(width=n + 1, widest=costs.widths[-1])
            found.append({"text": text, "tone": "open"})
        return [{"tone": "info", **each} for each in found]
    known = costs is not None and costs.measured
    said = words["hd_say" if known else "hd_say_most"].format(
        n=n, tokens=tokens, cost=f"{chosen.cost:.2f}", speedup=f"{chosen.speedup:.2f}"
    )
    top = words["hd_best_none"]
    if best is not None and best.nodes:
        top = words["hd_best" if known else "hd_best_most"].format(
            n=best.nodes, speedup=f"{best.speedup:.2f}"
        )
    return [
        {"mark": words["hd_mark"], "text": joined(said, top, lang), "tone": "info"},
        _step(chosen, best or points[0], lang),
    ]


def _step(chosen: Expected, best: Expected, lang: str) -> Sentence:
    """Return what the nodes beyond the best budget add, or that more would pay."""
    words = HEADS[lang]
    if chosen.nodes <= best.nodes:
        key = "hd_is_best" if chosen.nodes == best.nodes else "hd_more_pays"
        return {"text": words[key].format(n=best.nodes), "tone": "good"}
    text = words["hd_beyond"].format(
        n=chosen.nodes - best.nodes,
        gain=percent(chosen.tokens / best.tokens - 1.0),
        price=percent((chosen.cost or 1.0) / (best.cost or 1.0) - 1.0),
    )
    return {"text": text, "tone": "bad"}


def _notes(
    facts: HeadFacts,
    source: Mapping[str, Any] | None,
    costs: PassCosts | None,
    pair: str,
    lang: str,
) -> list[dict[str, str]]:
    """Return what is modelled and what is measured; a note may carry a command."""
    words = HEADS[lang]
    text = words[f"hd_on_{facts.measured_on}"]
    notes = [{"text": words["hd_model"].format(text=text)}]
    if facts.same_levels:
        notes.append({"text": words["hd_same_chain" if facts.chain_only else "hd_same"]})
    if source is None or costs is None:
        notes.append({"text": words["hd_no_costs"], "command": command(pair)})
    elif costs.measured:
        notes.append({"text": words["hd_time"].format(where=where(source, lang))})
    else:
        text = words["hd_time_target"].format(where=where(source, lang))
        notes.append({"text": text, "command": command(pair)})
    return notes
