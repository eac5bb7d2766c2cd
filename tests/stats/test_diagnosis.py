"""The limiting factor: each made-up bottleneck is named, with its number, and no other."""

from __future__ import annotations

import json
import string
from dataclasses import replace

import pytest
from speed_kit import OTHER_S, PASS_S, STEP_S, chain_trace, growing

from speclab.core.records import Trace
from speclab.core.trees import TokenTree
from speclab.stats.diagnosis import (
    SENTENCES,
    LimitKey,
    Means,
    diagnose,
    means_of_row,
    means_of_trace,
    means_of_traces,
)

GOOD = Means(
    tau=1 + 0.9 + 0.81,
    tokens=1000.0,
    offered=(1.0, 1.0),
    rates=(0.9, 0.9),
    pass_tokens=3.0,
    draft_s=0.1,
    target_s=1.05,
    other_s=0.01,
    plain_target_s=1.0,
)
"""A run that loses little anywhere."""


@pytest.mark.parametrize(
    ("key", "changed", "value"),
    [
        ("low_acceptance", {"rates": (0.2, 0.1), "tau": 1.22}, (0.2 + 0.02) / 1.2),
        ("expensive_draft", {"draft_s": 2.0}, 2.0),
        ("expensive_verification", {"target_s": 3.0}, 3.0),
        ("round_overhead", {"other_s": 1.5}, 1.5),
        ("nothing_drafted", {"offered": (0.2, 1.0), "tau": 1.342}, 0.8),
        ("prefill", {"prefill_s": 1000.0}, None),
    ],
)
def test_each_bottleneck_is_named(key: LimitKey, changed: dict, value: float | None) -> None:
    found = diagnose(replace(GOOD, **changed))
    assert found.main is not None and found.main.key == key
    if value is not None:
        assert found.main.value == pytest.approx(value)
    healthy = {limit.key: limit.gain for limit in diagnose(GOOD).limits}
    assert found.main.gain > healthy.get(key, 1.0)
    lines = found.sentences()
    assert len(lines) == 3 and f"{found.main.gain:.2f}" in lines[2]
    assert json.loads(json.dumps(found.to_json())) == found.to_json()


def test_gains_are_exact() -> None:
    found = diagnose(replace(GOOD, draft_s=2.0))
    now, half = 2.0 + 1.05 + 0.01, 1.0 + 1.05 + 0.01
    assert found.main.gain == pytest.approx(now / half)
    assert found.speedup == pytest.approx(2.71 / now)
    assert found.verdict == "slower"
    better = 1 + 0.95 + 0.95**2
    gains = {limit.key: limit.gain for limit in found.limits}
    assert gains["low_acceptance"] == pytest.approx(better / 2.71)


def test_verdicts() -> None:
    assert diagnose(GOOD).verdict == "faster"
    even = replace(GOOD, draft_s=GOOD.tau - GOOD.target_s - GOOD.other_s)
    assert diagnose(even).verdict == "same"
    plain = replace(GOOD, offered=(), rates=(), tau=1.0, plain_decoding=True)
    assert diagnose(plain).verdict == "plain" and diagnose(plain).main is None


def test_a_run_that_never_drafted_promises_nothing() -> None:
    idle = replace(GOOD, offered=(), rates=(), tau=1.0, pass_tokens=1.0, target_s=1.0)
    found = diagnose(idle)
    assert found.main.key == "never_drafted"
    assert "times this speed" not in found.sentences()[2]


def test_a_run_without_losses_has_no_limit() -> None:
    perfect = replace(GOOD, rates=(1.0, 1.0), tau=3.0, draft_s=0.0, target_s=1.0, other_s=0.0)
    assert diagnose(perfect).main is None
    assert diagnose(perfect).sentences() == ["3.00 times as fast as plain decoding."]


def test_traces_give_their_means() -> None:
    mine = [chain_trace(n, 60, (0.8, 0.6)) for n in range(30)]
    plain = [chain_trace(n, 60, (), method="autoregressive") for n in range(30)]
    means = means_of_traces(mine, plain)
    assert means.plain_target_s == pytest.approx(STEP_S) and means.tokens == 60.0
    assert means.other_s == pytest.approx(OTHER_S)
    assert means.rates == pytest.approx((0.8, 0.6), abs=0.06)
    total = sum(t.prefill_s + sum(r.timing.total_s for r in t.rounds) for t in mine)
    base = sum(t.prefill_s + sum(r.timing.total_s for r in t.rounds) for t in plain)
    assert means.speedup == pytest.approx(base / total)
    slow = [chain_trace(n, 60, (0.8, 0.6), pass_s=10 * PASS_S) for n in range(30)]
    assert diagnose(means_of_traces(slow, plain)).main.key == "expensive_draft"
    wide = [chain_trace(n, 60, (0.8, 0.6), verify=lambda n: 3 * growing(n)) for n in range(30)]
    assert diagnose(means_of_traces(wide, plain)).main.key == "expensive_verification"
    one = means_of_trace(slow[0], STEP_S)
    assert diagnose(one).main.key == "expensive_draft"
    assert diagnose(means_of_trace(plain[0], STEP_S)).verdict == "plain"


def test_rows_give_their_means() -> None:
    plain = {
        **{"method": "autoregressive", "shape": "plain", "tau": 1.0, "emitted_tokens": 100},
        **{"drafted_per_round": 0.0, "draft_s_per_round": 0.0, "target_s_per_round": 0.01},
        **{"other_s_per_round": 0.0, "rounds": 100},
        **{"acceptance": {"drafting": 0, "conditional": [], "reached": []}},
    }
    row = {
        **plain,
        **{"method": "draft-model", "shape": "chain", "tau": 1.5, "drafted_per_round": 2.0},
        **{"draft_s_per_round": 0.02, "rounds": 66},
        **{"acceptance": {"drafting": 66, "conditional": [[0.5, 0.4, 0.6], None]}},
    }
    found = means_of_row(row, plain)
    assert found.rates == (0.5, 0.0) and found.offered == (1.0, 1.0)
    assert diagnose(found).main.key == "expensive_draft"
    assert diagnose(found).speedup == pytest.approx(1.5 * 0.01 / 0.03)
    assert diagnose(means_of_row(plain, plain)).verdict == "plain"
    assert means_of_row({"tau": 1.0}, plain) is None


def test_sentences_are_a_closed_set_with_known_slots() -> None:
    slots = {"speedup", "value", "gain", "tau", "tokens"}
    for key, sentence in SENTENCES.items():
        used = {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
        assert used <= slots, key
    limits = LimitKey.__args__
    assert set(SENTENCES) == {
        *limits,
        *(f"change_{key}" for key in limits),
        "faster",
        "slower",
        "same",
        "plain",
        "low_acceptance_by_depth",
    }


def reshaped(trace: Trace, tree: TokenTree) -> Trace:
    """Return a run that drafted `tree` in every round; what was accepted stays."""
    return replace(trace, rounds=tuple(replace(each, tree=tree) for each in trace.rounds))


def test_depths_are_not_called_tested_tokens() -> None:
    """One depth of two siblings, half of the rounds pass it: a quarter of the tokens did."""
    chains = [chain_trace(n, 60, (0.5,)) for n in range(20)]
    siblings = TokenTree(tokens=(1, 2), parents=(-1, -1))
    trees = [reshaped(trace, siblings) for trace in chains]
    blocks = [replace(trace, spec=replace(trace.spec, rule="block")) for trace in chains]
    for runs, by_depth in ((chains, False), (trees, True), (blocks, True)):
        limits = {each.key: each for each in diagnose(means_of_traces(runs, chains)).limits}
        limit = limits["low_acceptance"]
        said = SENTENCES[limit.sentence].format(**limit.values)
        assert ("drafted tokens" in said) is not by_depth
        assert ("depths" in said) is by_depth
        assert limit.value == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("changed", "by_depth"),
    [({}, False), ({"shape": "tree"}, True), ({"rule": "block"}, True), ({"rule": "token"}, False)],
)
def test_rows_of_trees_and_blocks_count_depths(changed: dict, by_depth: bool) -> None:
    row = {
        **{"method": "draft-model", "shape": "chain", "tau": 1.2, "emitted_tokens": 100},
        **{"drafted_per_round": 2.0, "draft_s_per_round": 0.001, "target_s_per_round": 0.01},
        **{"other_s_per_round": 0.0, "rounds": 80},
        **{"acceptance": {"drafting": 80, "conditional": [[0.2, 0.1, 0.3], None]}},
        **changed,
    }
    plain = {**row, "method": "autoregressive", "shape": "plain", "tau": 1.0}
    found = diagnose(means_of_row(row, plain))
    assert found.main.key == "low_acceptance"
    assert ("depths" in found.sentences()[1]) is by_depth
    assert ("_by_depth" in found.to_json()["limits"][0]["sentence"]) is by_depth
