"""The figures of the lesson on draft trees: a tree to change, and how many nodes pay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.ui.backend import Lab
from speclab.ui.lesson_figures import component, series_of
from speclab.ui.lessons import measured
from speclab.ui.prove_panel import Reply, answering
from speclab.ui.texts_lesson_trees import WORDS_TREES

TOKENS = ("A", "B", "C", "D")


def tree_reply(given: dict[str, Any]) -> Reply:
    """Return what one round does over a tree that the reader shaped.

    Args:
        given: `paths` (rank paths of its nodes) and `siblings`.

    Raises:
        BadInput: if that is no tree, or a larger one than can be enumerated at once.
    """
    from speclab.lab.tree_exact import MAX_NODES, compare_tree

    paths = tuple(tuple(path) for path in given["paths"])
    p, q = tuple(STANDARD_P.tolist()), tuple(STANDARD_Q.tolist())
    found = compare_tree(paths, p, q, given["siblings"])
    tree = found.tree
    return {
        "siblings": found.siblings,
        "paths": found.shape.paths,
        "tokens": [TOKENS[token] for token in tree.tokens],
        "parents": tree.parents,
        "positions": tree.position_offsets,
        "mask": tree.ancestor_mask().tolist(),
        "accepted": found.exact.accepted,
        "labels": TOKENS,
        "p": p,
        "law": found.exact.law,
        "apart": found.exact.texts_apart,
        "misread": {"law": found.misread.law, "bias": found.misread.bias},
        "per_pass": {
            "this_tree": found.exact.tokens_per_pass,
            "chain": found.chain,
            "best": found.best,
            "mistaken": found.misread.tokens_per_pass,
        },
        "limits": {"nodes": MAX_NODES, "children": len(TOKENS)},
    }


def draft_tree_figure(
    lab: Lab, lang: str, *, paths: Sequence[Sequence[int]], siblings: str, caption: str
) -> None:
    """Show a draft tree over the standard pair that the reader may change.

    The mask stands beside it, and below the law of the first token under the right rule and under
    a misread one, both enumerated.
    """
    state = tree_reply({"paths": paths, "siblings": siblings})
    component(
        "tree_law",
        {"state": state, "caption": caption, "words": WORDS_TREES[lang]},
        parts=("tree_shape",),
        server_functions=[answering(tree_reply, "tree", lang, "Learn")],
    )


def head_series(lab: Lab, lang: str, target: str, kind: str, report: str) -> dict[str, Any]:
    """Return the budgets of one bundled head and where its numbers were measured."""
    from speclab.lab.tree_budget import best_budget, head_budgets, head_manifest
    from speclab.methods import METHODS

    manifest, costs = head_manifest(target, kind), measured(report)
    found = head_budgets(manifest, costs["costs"])
    title = getattr(METHODS[kind].card.title, lang)
    return {
        "kind": kind,
        "title": title,
        "detail": WORDS_TREES[lang]["measured_on"].format(
            head=kind.capitalize(),
            target=target,
            positions=manifest["accuracies_measured_on"]["positions"],
            date=manifest["date"],
            report=series_of(costs, lab, lang)["detail"],
        ),
        "best": best_budget(found).nodes,
        "budgets": [
            {
                "paths": budget.shape.paths,
                "parents": budget.shape.parents(),
                "depth": budget.shape.depth,
                "tree": budget.tree,
                "chain": budget.chain,
                "cost": budget.verify_cost,
                "speed": budget.speedup,
            }
            for budget in found
        ],
    }


def tree_budget_figure(
    lab: Lab,
    lang: str,
    *,
    target: str,
    heads: Sequence[str],
    report: str,
    nodes: int,
    caption: str,
) -> None:
    """Show tokens per pass and speed over the number of nodes, for heads that are bundled."""
    series = [head_series(lab, lang, target, kind, report) for kind in heads]
    component(
        "tree_budget",
        {"series": series, "nodes": nodes, "caption": caption, "words": WORDS_TREES[lang]},
        parts=("tree_shape",),
    )


TREE_FIGURES = {"draft-tree": draft_tree_figure, "tree-budget": tree_budget_figure}
"""The figures of this file by the name that lessons give them."""
