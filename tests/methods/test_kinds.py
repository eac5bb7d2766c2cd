"""Kinds of drafters: read from the needs on the cards, every method in exactly one."""

from __future__ import annotations

import pytest

from speclab.core.protocols import LocalText, MethodCard
from speclab.methods import METHODS
from speclab.methods.kinds import KINDS, by_kind, kind_of, laws_of, shapes_of

TEXT = LocalText("x", "x")


def card(*needs: str) -> MethodCard:
    return MethodCard(
        name="x", title=TEXT, one_liner=TEXT, paper="", paper_url="", needs=frozenset(needs)
    )


@pytest.mark.parametrize(
    ("needs", "kind"),
    [
        ((), "text"),
        (("tree_mask",), "text"),
        (("draft_model",), "model"),
        (("draft_model", "tree_mask"), "model"),
        (("hidden", "head:medusa", "tree_mask"), "heads"),
        (("early_exit",), "self"),
        (("early_exit", "hidden", "head:kangaroo"), "self"),
        (("skip_layers",), "self"),
        (("quantised_draft",), "self"),
    ],
)
def test_needs_decide(needs: tuple[str, ...], kind: str) -> None:
    assert kind_of(card(*needs)) == kind


def test_every_method_stands_in_one_kind_and_keeps_its_place() -> None:
    found = by_kind(METHODS)
    assert list(found) == list(KINDS)
    assert sorted(name for names in found.values() for name in names) == sorted(METHODS)
    for names in found.values():
        assert names == [name for name in METHODS if name in names]
    assert found["model"][0] == "draft-model" and "prompt-lookup" in found["text"]
    assert {"medusa", "eagle-3", "mtp"} <= set(found["heads"])


def test_kinds_without_a_method_are_left_out() -> None:
    few = {name: METHODS[name] for name in ("autoregressive", "medusa")}
    assert by_kind(few) == {"text": ["autoregressive"], "heads": ["medusa"]}


def test_laws_and_shapes_are_words_of_the_card() -> None:
    assert laws_of({"deterministic"}) == ("one_hot",)
    assert laws_of({"sampled", "deterministic"}) == ("one_hot", "drawn")
    assert shapes_of({"chain", "tree"}) == ("chain", "tree")
    assert shapes_of(METHODS["draft-model"].card.provides) == ("chain",)
    assert shapes_of(METHODS["draft-tree"].card.provides) == ("chain", "tree")
