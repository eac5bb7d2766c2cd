"""Drafts from pocket's own layers: its own greedy text, and what they show and cost."""

from __future__ import annotations

import pytest
from greedy_kit import check_greedy_text

from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.prove_case import ProveSpec
from speclab.lab.prove_exact import prove_exact
from speclab.lab.runs import generate
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair
from speclab.models.skips import bundled_skips

METHODS = ("early-exit", "draft-and-verify")


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


@pytest.fixture(scope="module")
def pocket64() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float64")


@pytest.mark.parametrize("name", METHODS)
def test_greedy_text_is_the_targets_own(pocket: Pair, pocket64: Pair, name: str) -> None:
    ties, _ = check_greedy_text(pocket, pocket64, name, 20)
    assert ties <= 2


def test_layers_are_shown_and_survive_the_file(pocket: Pair) -> None:
    request = {"temperature": 1.0, "seed": 3, "max_new_tokens": 12}
    early = generate(pocket, "Once upon a time", method="early-exit", exit_layer=9, **request)
    (fact,) = [one for one in early.rounds[0].evidence if one.kind == "layers"]
    assert fact.value == 9 and fact.values == (1.0,) * 9 + (0.0,) * 3
    skip = generate(pocket, "Once upon a time", method="draft-and-verify", **request)
    (fact,) = [one for one in skip.rounds[0].evidence if one.kind == "layers"]
    found = bundled_skips("pocket")
    assert found is not None and fact.value == 0 and fact.values == found.kept
    for trace in (early, skip):
        assert Trace.from_json(trace.to_json()) == trace


def test_late_exits_are_better_drafts_than_early_ones(pocket: Pair) -> None:
    """On a target that was never trained to exit early."""
    accepted = {}
    for layer in (1, 11):
        trace = generate(
            pocket,
            "Once upon a time",
            method="early-exit",
            exit_layer=layer,
            temperature=0,
            max_new_tokens=48,
            ignore_eos=True,
            record_laws=False,
        )
        accepted[layer] = sum(round_.num_accepted for round_ in trace.rounds)
    assert accepted[1] < accepted[11]


@pytest.mark.parametrize("name", METHODS)
def test_prove_runs_them_on_the_targets_real_cache(pocket64: Pair, name: str) -> None:
    spec = ProveSpec(
        method=name,
        params={"num_speculative_tokens": 1},
        rule="token",
        sampling=Sampling(top_k=2),
        length=2,
    )
    report = prove_exact(pocket64, spec, tree=False)
    assert report.within and report.difference < 1e-9 and report.num_sequences == 4
