"""The bundled EAGLE heads: greedy text, features and caches over rounds, and what a slip costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from greedy_kit import GREEDY, check_greedy_text, greedy

from speclab.core.laws import Sampling
from speclab.core.protocols import Room
from speclab.core.randomness import Seeded
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.prove_case import ProveSpec
from speclab.lab.prove_exact import prove_exact
from speclab.lab.runs import open_run
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair
from speclab.models.weight_files import ASSETS, bundled_hash
from speclab.stats.counters import block_efficiency

HEADS = {"eagle-1": "eagle1", "eagle-2": "eagle1", "eagle-3": "eagle3"}
CHAIN = {"depth": 5, "top_k": 1, "total_tokens": 5}


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


@pytest.fixture(scope="module")
def pocket64() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float64")


@pytest.mark.parametrize("name", HEADS)
def test_greedy_text_is_the_targets_own(pocket: Pair, pocket64: Pair, name: str) -> None:
    ties, accepted = check_greedy_text(pocket, pocket64, name, 20)
    assert ties <= 2 and accepted > 0


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_heads_state_is_that_of_a_fresh_request(
    pocket: Pair, pocket64: Pair, name: str, dtype: str
) -> None:
    pair, within = (pocket, 1e-4) if dtype == "float32" else (pocket64, 1e-6)
    request = {"method": name, "sampling": GREEDY, "max_new_tokens": 48, "ignore_eos": True}
    live = open_run(pair, "Once upon a time", **request)
    prompt, same = live.prompt_tokens, 0
    for _ in live:
        text = (*prompt, *live.emitted)
        if len(live.emitted) >= 40:
            break
        fresh = open_run(pair, text, **request)
        ours, theirs = live._decoding.run, fresh._decoding.run
        roots = [run.session.root() for run in (ours, theirs)]
        gap = (roots[0].logits - roots[1].logits).norm() / roots[1].logits.norm()
        assert gap < within
        room = Room(context=text, max_depth=9, max_nodes=64)
        trees = [run.propose(room, Seeded(0)).tree for run in (ours, theirs)]
        same += trees[0] == trees[1]
        assert dtype == "float32" or trees[0] == trees[1]
        assert ours.session.length == len(text) - 1
        fresh.close()
    live.close()
    assert same > 3


def tau(pair: Pair, name: str, count: int = 6, tokens: int = 48, **params: Any) -> float:
    rounds = []
    for _, text in bench_prompts(False, count):
        rounds += greedy(pair, text, name, tokens, **params).rounds
    value = block_efficiency(rounds)
    assert value is not None
    return value


def test_a_feature_of_the_wrong_layer_is_silent_but_costs_acceptance(pocket: Pair) -> None:
    """Wrong taps give no error and no wrong text: only the head's guesses get worse."""
    head = pocket.heads["eagle3"]
    shifted = replace(head, taps=("hidden[0]", "hidden[4]", "hidden[7]"))
    wrong = replace(pocket, heads={"eagle3": shifted})
    assert tau(wrong, "eagle-3", **CHAIN) < 0.8 * tau(pocket, "eagle-3", **CHAIN)


def test_a_tree_is_worth_more_than_a_chain(pocket: Pair) -> None:
    assert tau(pocket, "eagle-3") > tau(pocket, "eagle-3", **CHAIN) > 2.5


@pytest.mark.parametrize("name, kind", HEADS.items())
def test_the_trace_names_the_head_and_the_manifest_its_numbers(
    pocket: Pair, name: str, kind: str
) -> None:
    trace = greedy(pocket, "Once upon a time", name, 8)
    used = {model.name: model for model in trace.spec.drafts}
    where, _, digest = used[kind].source.removeprefix("bundled:").partition("@")
    assert where == f"heads/pocket/{kind}" and digest == bundled_hash(ASSETS / where)
    assert 0 < used[kind].num_parameters < 1_000_000
    ranks = np.array(pocket.heads[kind].rank_acceptance)
    assert ranks[0] > 0.4 and (np.diff(ranks) < 0.02).all() and ranks.sum() < 1


@pytest.mark.parametrize("name", HEADS)
def test_a_method_of_heads_is_proved_on_the_real_model(pocket64: Pair, name: str) -> None:
    """A memo has no features, so every branch runs through the real caches."""
    small = {"depth": 2, "top_k": 2, "total_tokens": 2}
    spec = ProveSpec(method=name, params=small, sampling=Sampling(top_k=2), length=2)
    assert prove_exact(pocket64, spec).difference < 1e-9
