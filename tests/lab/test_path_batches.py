"""Whole runs on a model that cannot attend to a tree: the same text, and a sentence about it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_heads import write_head
from tiny_models import tiny

from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.runs import generate
from speclab.models.heads.shelf import load_head
from speclab.models.pair import Pair
from speclab.ui.texts_errors import sentence

SHAPE = {"n_head": 4, "n_layer": 2}
CODEC = SimpleNamespace(piece=lambda token: b"%d " % token, chat_by_default=False)
TOLD = "cannot attend to a tree: its root-to-leaf paths are evaluated as a batch"


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A target that takes no mask, a draft that does, and Medusa heads."""
    target = tiny("bloom", seed=1, **SHAPE)
    folder: Path = write_head("medusa", tmp_path_factory.mktemp("head"))
    return Pair(
        name="blind",
        target=target,
        drafts=(tiny(seed=2),),
        codec=CODEC,
        eos_ids=frozenset(),
        dtype="float64",
        heads={"medusa": load_head("medusa", folder, target)},
    )


def greedy(pair: Pair, method: str, **params: Any) -> Trace:
    request = {"sampling": Sampling(temperature=0.0), "max_new_tokens": 30, "params": params}
    rule = "siblings-topk" if method in ("medusa", "draft-tree") else "token"
    return generate(pair, (3, 1, 4, 1, 5), method=method, rule=rule, **request)


def test_trees_give_the_targets_own_text_and_the_trace_says_how(blind: Pair) -> None:
    plain = greedy(blind, "autoregressive")
    assert plain.warnings == ()
    for method, params in (
        ("draft-tree", {"depth": 3, "width": 2, "siblings": "top-k"}),
        ("medusa", {"tree_nodes": 10}),
    ):
        fast = greedy(blind, method, **params)
        assert fast.emitted == plain.emitted and len(fast.emitted) == 30
        assert any(not round_.tree.is_chain for round_ in fast.rounds)
        (told,) = fast.warnings
        assert told.startswith("tiny-bloom cannot attend") and TOLD in told
        assert Trace.from_json(fast.to_json()).warnings == fast.warnings
        assert sentence(told, "zh").startswith("tiny-bloom 无法对一棵树")


def test_a_target_that_attends_to_trees_says_nothing(blind: Pair) -> None:
    seeing = Pair(
        name="seeing",
        target=tiny(seed=1),
        drafts=(tiny("bloom", seed=2, **SHAPE),),
        codec=CODEC,
        eos_ids=frozenset(),
        dtype="float64",
    )
    assert greedy(seeing, "draft-model").warnings == ()
    (told,) = greedy(seeing, "draft-tree", depth=2, width=2, siblings="top-k").warnings
    assert told.startswith("tiny-bloom"), "the draft is the one that needs batches"
