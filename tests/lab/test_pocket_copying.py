"""Copying on the bundled pair: greedy text is the target's own, and where it is fast."""

from __future__ import annotations

import pytest
from greedy_kit import NEAR_TIE, check_greedy_text, greedy

from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.presets import PRESETS
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair
from speclab.stats.counters import block_efficiency


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


@pytest.fixture(scope="module")
def pocket64() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float64")


def test_greedy_suffix_decoding_is_the_targets_own_text(pocket: Pair, pocket64: Pair) -> None:
    ties, accepted = check_greedy_text(pocket, pocket64, "suffix", 20)
    assert ties <= 2 and accepted > 20 * 4


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("suffix", {"mode": "tree", "factor": 2.0}),
        ("prompt-lookup", {"branches": 3, "match": "frequent"}),
    ],
    ids=["suffix-tree", "prompt-lookup-branches"],
)
def test_greedy_trees_of_copies_are_the_targets_own_text(
    pocket: Pair, pocket64: Pair, name: str, params: dict
) -> None:
    accepted = 0
    for _, text in bench_prompts(False, 4):
        plain = greedy(pocket, text, "autoregressive", 24)
        fast = greedy(pocket, text, name, 24, **params)
        accepted += sum(round_.num_accepted for round_ in fast.rounds)
        for place, (mine, want) in enumerate(zip(fast.emitted, plain.emitted, strict=False)):
            if mine != want:
                context = [*plain.prompt_tokens, *plain.emitted[:place]]
                ((row,),) = pocket64.target.evaluate([context], [1])
                assert row.top_gap() < NEAR_TIE
                break
    assert accepted > 4


@pytest.mark.parametrize("name", ["suffix", "prompt-lookup"])
def test_copying_shines_where_the_text_repeats_and_not_in_a_story(pocket: Pair, name: str) -> None:
    taus = {
        preset: block_efficiency(greedy(pocket, PRESETS[preset].prompt, name, 48).rounds)
        for preset in ("copy", "story")
    }
    assert taus["copy"] > 2.0 > taus["story"]
