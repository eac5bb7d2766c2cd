"""Kangaroo on `pocket` and early exit on `pocket-skip`: greedy text, laws, what training bought."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from greedy_kit import GREEDY, check_greedy_text, greedy

from speclab.core.laws import Sampling
from speclab.core.protocols import Room
from speclab.core.randomness import Seeded
from speclab.core.records import Trace
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.prove_case import ProveSpec
from speclab.lab.prove_exact import prove_exact
from speclab.lab.runs import open_run
from speclab.models.catalogue import PAIRS, load_pair
from speclab.models.heads.files import read_tensors
from speclab.models.pair import Pair
from speclab.models.weight_files import ASSETS, bundled_hash
from speclab.stats.counters import block_efficiency

ADAPTERS = ("pocket", "smollm2-135m")


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


@pytest.fixture(scope="module")
def pocket64() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def skip() -> Pair:
    return load_pair("pocket-skip", device="cpu")


def test_greedy_text_is_the_targets_own(pocket: Pair, pocket64: Pair) -> None:
    ties, accepted = check_greedy_text(pocket, pocket64, "kangaroo", 20)
    assert ties <= 2 and accepted > 20 * 8


def test_the_adapters_state_is_that_of_a_fresh_request(pocket64: Pair) -> None:
    request: dict[str, Any] = {
        "method": "kangaroo",
        "params": {"min_confidence": 0.3},
        "sampling": GREEDY,
        "max_new_tokens": 48,
        "ignore_eos": True,
    }
    live = open_run(pocket64, "Once upon a time", **request)
    prompt, rounds = live.prompt_tokens, 0
    for _ in live:
        text = (*prompt, *live.emitted)
        if len(live.emitted) >= 40:
            break
        fresh = open_run(pocket64, text, **request)
        room = Room(context=text, max_depth=9, max_nodes=64)
        ours, theirs = (
            r.propose(room, Seeded(0)) for r in (live._decoding.run, fresh._decoding.run)
        )
        assert ours.tree == theirs.tree
        for mine, other in zip(ours.raw_draft, theirs.raw_draft, strict=True):
            assert np.abs(mine() - other()).max() < 1e-9
        rounds += 1
        fresh.close()
    live.close()
    assert rounds > 5


def tau(traces: list[Trace]) -> float:
    value = block_efficiency([round_ for trace in traces for round_ in trace.rounds])
    assert value is not None
    return value


def texts(pair: Pair, name: str, count: int = 2, **params: Any) -> list[Trace]:
    return [greedy(pair, text, name, 24, **params) for _, text in bench_prompts(False, count)]


def test_the_adapter_is_worth_more_than_its_early_layers_alone(pocket: Pair) -> None:
    """The same layers without it, read off through the target's own norm."""
    layer = pocket.heads["kangaroo"].exit_layer
    adapted = texts(pocket, "kangaroo", num_speculative_tokens=4, min_confidence=0.0)
    bare = texts(
        pocket, "early-exit", num_speculative_tokens=4, exit_layer=layer, draft_temperature=0.0
    )
    assert tau(adapted) > 1.3 * tau(bare)


def test_a_higher_threshold_drafts_less_and_is_right_more_often(pocket: Pair) -> None:
    shares, drafted = [], []
    for eta in (0.0, 0.9):
        rounds = [
            round_
            for trace in texts(pocket, "kangaroo", min_confidence=eta)
            for round_ in trace.rounds
        ]
        drafted.append(sum(round_.num_drafted for round_ in rounds))
        shares.append(sum(round_.num_accepted for round_ in rounds) / drafted[-1])
    assert drafted[0] > drafted[1] and shares[0] < shares[1]


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_manifest_says_what_the_files_are(name: str) -> None:
    folder = ASSETS / "heads" / name / "kangaroo"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    parameters = sum(tensor.numel() for tensor in read_tensors(folder).values())
    assert manifest["parameters"] == parameters
    assert manifest["recipe"]["exit_layer"] == config["exit_layer"]
    top1, ranks = manifest["held_out_top1"], manifest["rank_acceptance"]
    assert len(top1) == len(ranks) / 2 == 5 and top1[0] > 0.2 and ranks[0] == max(ranks)
    held_out = [
        line["held_out"]["top1[0]"]
        for line in map(json.loads, (folder / "training.jsonl").open(encoding="utf-8"))
        if "held_out" in line
    ]
    assert held_out[-1] == top1[0]


def test_the_trace_names_the_adapter(pocket: Pair) -> None:
    trace = greedy(pocket, "Once upon a time", "kangaroo", 8)
    used = {model.name: model for model in trace.spec.drafts}["kangaroo"]
    where, _, digest = used.source.removeprefix("bundled:").partition("@")
    assert where == "heads/pocket/kangaroo" and digest == bundled_hash(ASSETS / where)
    shown = [item for round_ in trace.rounds for item in round_.evidence if item.kind == "layers"]
    layer = pocket.heads["kangaroo"].exit_layer
    assert shown[0].value == layer and sum(shown[0].values) == layer
    assert Trace.from_json(trace.to_json()) == trace


# --- the target that was trained to be left early -------------------------------------------------


def manifest_of_skip() -> dict[str, Any]:
    return json.loads((ASSETS / "pocket-skip" / "manifest.json").read_text(encoding="utf-8"))


def test_every_exit_is_measured_before_and_after() -> None:
    manifest = manifest_of_skip()
    before, after = manifest["start"], manifest["models"]["target"]
    assert before["weights"] == f"bundled:pocket/target@{bundled_hash(ASSETS / 'pocket/target')}"
    for said in (before, after):
        for text in ("held_out", "fresh"):
            losses, agreement = (said["exits"][text][what] for what in ("loss", "agreement"))
            assert len(losses) == len(agreement) == 9
            for family, by_exit in losses.items():
                assert len(by_exit) == len(agreement[family]) == 12
                assert by_exit[-1] == said[f"{text}_loss"][family]
                assert agreement[family][-1] == 1.0
            assert said["perplexity"][text] > 1.0
    for text in ("held_out", "fresh"):
        early = (np.array(said["exits"][text]["mean"][:11]) for said in (before, after))
        earlier, later = early
        assert (later[1:] < earlier[1:]).all()


def test_the_whole_model_kept_what_it_knew_of_words_it_has_seen() -> None:
    """On text made of words that were not trained on it is a tenth worse, and says so."""
    manifest = manifest_of_skip()
    before, after = manifest["start"], manifest["models"]["target"]
    for text, most in (("fresh", 1.01), ("held_out", 1.15)):
        assert after["perplexity"][text] < most * before["perplexity"][text]


def test_it_drafts_better_when_left_early(pocket: Pair, skip: Pair) -> None:
    params = {"exit_layer": 5, "num_speculative_tokens": 4, "draft_temperature": 0.0}
    bought = [tau(texts(pair, "early-exit", **params)) for pair in (pocket, skip)]
    assert bought[1] > 1.2 * bought[0]


def test_early_exit_on_it_is_lossless_relative_to_itself(skip: Pair) -> None:
    skip64 = load_pair("pocket-skip", device="cpu", dtype="float64")
    ties, accepted = check_greedy_text(skip, skip64, "early-exit", 2)
    assert ties <= 1 and accepted > 0
    spec = ProveSpec(
        method="early-exit",
        params={"num_speculative_tokens": 2, "exit_layer": 4},
        sampling=Sampling(top_k=2),
        length=2,
    )
    assert prove_exact(skip64, spec).difference < 1e-9


def test_the_pair_is_in_the_catalogue(skip: Pair) -> None:
    entry = PAIRS["pocket-skip"]
    assert entry.bundled and entry.draft == PAIRS["pocket"].draft
    assert skip.target.source.startswith("bundled:pocket-skip/target@")
    other = replace(skip, target=load_pair("pocket", device="cpu").target)
    text = "Once upon a time"
    assert greedy(skip, text, "autoregressive", 24) != greedy(other, text, "autoregressive", 24)
