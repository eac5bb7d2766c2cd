"""Four kinds of drafters by what they need beside the target: pages and lessons sort by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from speclab.core.protocols import LocalText, Method, MethodCard

OF_THE_PASS = frozenset({"tree_mask", "path_batch", "hidden", "rollback"})
"""Needs that say how a pass is made, not what drafts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of drafter.

    Attributes:
        name: key. title: as shown to people. about: what it needs, in a sentence.
    """

    name: str
    title: LocalText
    about: LocalText


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="model",
            title=LocalText("A draft model", "草稿模型"),
            about=LocalText(
                "One or several smaller models that run beside the target.",
                "在目标模型之外运行一个或几个较小的模型。",
            ),
        ),
        Kind(
            name="text",
            title=LocalText("Nothing added", "无需添加"),
            about=LocalText(
                "Only the text and the target's own passes: no weights, no training.",
                "只用文本和目标模型自己的前向：不需要额外的权重，也不需要训练。",
            ),
        ),
        Kind(
            name="self",
            title=LocalText("The target itself", "目标模型自身"),
            about=LocalText(
                "A part or a cheaper form of the target's own weights.",
                "用目标模型自身权重的一部分，或其较廉价的形式。",
            ),
        ),
        Kind(
            name="heads",
            title=LocalText("Trained heads", "训练的头"),
            about=LocalText(
                "Small parts trained on the target's hidden states.",
                "在目标模型的隐藏状态上训练出来的小部件。",
            ),
        ),
    )
}
"""Kinds by name, in the order in which pages show them."""


def kind_of(card: MethodCard) -> str:
    """Return the kind of a method, from the needs on its card.

    A draft model makes it "model"; trained heads alone "heads"; any other need "self", with or
    without a trained part; no need at all "text".
    """
    needs = card.needs - OF_THE_PASS
    if any(need.startswith("draft") for need in needs):
        return "model"
    if not needs:
        return "text"
    return "heads" if all(need.startswith("head:") for need in needs) else "self"


def by_kind(methods: Mapping[str, type[Method]]) -> dict[str, list[str]]:
    """Return the names of the methods of each kind that has any, in their own order."""
    found: dict[str, list[str]] = {name: [] for name in KINDS}
    for name, method in methods.items():
        found[kind_of(method.card)].append(name)
    return {kind: names for kind, names in found.items() if names}


def laws_of(provides: Iterable[str]) -> tuple[str, ...]:
    """Return what q can be: "one_hot" (chosen), "drawn", or both."""
    words = set(provides)
    found = [
        law for word, law in (("deterministic", "one_hot"), ("sampled", "drawn")) if word in words
    ]
    return tuple(found) or ("one_hot", "drawn")


def shapes_of(provides: Iterable[str]) -> tuple[str, ...]:
    """Return what a draft can be: "chain", "tree", or both."""
    words = set(provides)
    return tuple(shape for shape in ("chain", "tree") if shape in words) or ("tree",)
