"""What the parameters of a tree come to, and which pairs have a method's heads, in words."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from speclab.methods.head_tree import TreeSize
from speclab.models.heads.shelf import HeadShelf
from speclab.ui.backend import ASSETS, Lab
from speclab.ui.texts_tree import PAGE

DYNAMIC = {"depth", "top_k", "total_tokens", "draft_sampling"}
STATIC = {"depth", "top_k", "total_tokens"}
RANKED = {"num_heads", "tree_nodes", "top_k"}


def tree_html(card: Any, params: Mapping[str, Any], lang: str) -> str:
    """Return one line that says what a tree's parameters come to; empty for other methods.

    Args:
        card: the method's card.
        params: values by parameter name; a field that is being typed into may hold None.
        lang: "en" or "zh".
    """
    names = {param.name for param in card.params}
    if not (names >= STATIC or names >= RANKED):
        return ""
    ranked = names >= RANKED
    given = [
        params[key] for key in (("num_heads", "top_k", "tree_nodes") if ranked else sorted(STATIC))
    ]
    if not all(isinstance(value, int | float) for value in given):
        return ""
    depth, top_k, total = (int(value) for value in given)
    size = TreeSize(depth=depth, top_k=top_k, total_tokens=total)
    kind = "chain" if size.is_chain else "dynamic" if names >= DYNAMIC else "static"
    nodes = min(total, size.most_candidates if kind == "dynamic" else size.most_places)
    text = PAGE[lang][kind].format(
        depth=depth, top_k=top_k, most=size.most_candidates, nodes=nodes, rows=nodes + 1
    )
    return f'<p class="sl-about">{html.escape(text)}</p>'


def missing_html(lab: Lab, method: str, pair: str, lang: str) -> str:
    """Return why a method cannot run on a pair that lacks its trained heads; empty if it can.

    Args:
        lab: the lab.
        method: name of the method.
        pair: name of a pair, or of none in the table.
        lang: "en" or "zh".
    """
    needs = lab.methods[method].card.needs
    wanted = {need.removeprefix("head:") for need in needs if need.startswith("head:")}
    missing = wanted - heads_there(lab.pairs.get(pair))
    if not missing:
        return ""
    entry = lab.pairs.get(pair)
    others = [
        getattr(other.title, lang) for other in lab.pairs.values() if wanted <= heads_there(other)
    ]
    text = PAGE[lang]["missing" if others else "missing_everywhere"].format(
        pair=getattr(entry.title, lang) if entry else pair,
        head=", ".join(sorted(missing)),
        others=PAGE[lang]["and"].join(others),
    )
    return f'<p class="sl-about sl-lossy sl-no-head" role="status"><b>{html.escape(text)}</b></p>'


def heads_there(entry: Any) -> frozenset[str]:
    """Return the names of the bundled heads of a pair's target; nothing is loaded."""
    folder = getattr(entry, "heads", "")
    return frozenset(HeadShelf(ASSETS / "models" / "heads" / folder if folder else None, None))
