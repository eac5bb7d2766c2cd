"""The ladder: its rungs are what they say, and the top one is not the fastest."""

from __future__ import annotations

import json

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.core.theory import walltime_speedup
from speclab.lab.bigrams import BigramLaws, bigram_model, count_pairs
from speclab.lab.draft_ladder import (
    KINDS,
    Ladder,
    LadderPlan,
    equal_speed,
    lower_layers,
    rung_numbers,
    rungs_of,
)
from speclab.lab.measuring import BASELINE
from speclab.models.catalogue import load_pair
from speclab.models.toy_pair import load_toy


def test_bigrams_are_counted() -> None:
    pairs = count_pairs([(0, 1, 2, 1), (1, 2)])
    assert {first: dict(row) for first, row in pairs.items()} == {0: {1: 1}, 1: {2: 2}, 2: {1: 1}}
    laws = BigramLaws(pairs, 4)
    shares = np.array([1.0, 3.0, 3.0, 1.0]) / 8.0
    np.testing.assert_allclose(laws[(1,)], (0.5 * shares + [0, 0, 2, 0]) / 2.5)
    np.testing.assert_allclose(laws[(3,)], shares)
    np.testing.assert_allclose(laws[()], shares)
    assert laws.entries == 3


def test_a_bigram_table_drafts_for_any_pair() -> None:
    model = bigram_model(load_toy(), 2, encode=lambda text: [ord(c) % 4 for c in text])
    session = model.open((0, 1))
    assert session.score().row(0).logits.shape == (4,)
    assert np.exp(session.score().row(0).logits).sum() == pytest.approx(1.0)


def test_all_lower_layers_are_the_target(pocket) -> None:
    whole = lower_layers(pocket.target, pocket.target.model.config.num_hidden_layers)
    half = lower_layers(pocket.target)
    rows = [model.open((5, 6, 7)).score().row(0).logits for model in (pocket.target, whole, half)]
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-3, atol=1e-3)
    assert np.abs(rows[2] - rows[0]).max() > 0.1
    assert half.num_parameters < 0.6 * whole.num_parameters
    assert lower_layers(load_toy().target) == "not_a_llama"


def test_lower_layers_turn_as_the_target_does_in_half_precision() -> None:
    target = load_pair("pocket", dtype="bfloat16").target
    whole = lower_layers(target, target.model.config.num_hidden_layers)
    text = tuple(range(5, 205))
    wanted, got = (model.open(text).score().row(0).logits for model in (target, whole))
    np.testing.assert_array_equal(got, wanted)


def test_a_ladder_on_the_bundled_pair(pocket) -> None:
    plan = LadderPlan(
        rungs=("bigram", "undistilled", "draft", "target"),
        gammas=(3,),
        num_prompts=2,
        max_new_tokens=10,
        documents=60,
        passes=1,
    )
    work = Ladder(pocket, plan)
    assert work.report()["rungs"] == []
    assert list(work) == [(1, 2), (2, 2)]
    report = work.report()
    assert json.loads(json.dumps(report)) == report and report["complete"]
    rungs = {rung["kind"]: rung for rung in report["rungs"]}
    assert list(rungs) == list(plan.rungs)
    assert rungs["target"]["acceptance_rate"] == pytest.approx(1.0)
    assert rungs["bigram"]["acceptance_rate"] < rungs["target"]["acceptance_rate"]
    assert rungs["bigram"]["cost_ratio"] < rungs["target"]["cost_ratio"]
    assert rungs["target"]["parameters"] > rungs["draft"]["parameters"]
    assert all(
        point["greedy_agreement"] == 1.0 for rung in rungs.values() for point in rung["points"]
    )


def test_missing_rungs_say_why() -> None:
    plan = LadderPlan(rungs=("undistilled", "half", "target"))
    rungs, missing = rungs_of(load_toy(), plan)
    assert [rung.kind for rung in rungs] == ["target"]
    assert missing == {"undistilled": "other_target", "half": "not_a_llama"}
    assert set(missing) <= set(KINDS)


def ladder_point(gamma: int, alpha: float, reached: list[int], draft_s: float) -> dict:
    return {
        **{"gamma": gamma, "acceptance_rate": alpha, "speedup": 1.0 + 0.1 * gamma},
        **{"acceptance": {"reached": reached, "drafting": 100}, "rounds": 100},
        **{"drafted_per_round": float(gamma), "draft_s_per_round": draft_s},
    }


def test_a_better_draft_can_be_slower() -> None:
    """Lesson 7: alpha .9 at c .5 loses to alpha .5 at c .02, each at its best gamma."""
    numbers = [
        rung_numbers(
            [ladder_point(g, alpha, [round(100 * alpha)], g * ratio) for g in range(1, 9)],
            1.0,
            lambda n: 1.0,
        )
        for alpha, ratio in ((0.9, 0.5), (0.5, 0.02))
    ]
    assert [each["acceptance_rate"] for each in numbers] == pytest.approx([0.9, 0.5])
    assert [each["cost_ratio"] for each in numbers] == pytest.approx([0.5, 0.02])
    better, cheaper = (max(point["modelled"] for point in each["points"]) for each in numbers)
    assert better == pytest.approx(1.38, abs=0.01) and cheaper == pytest.approx(1.79, abs=0.01)
    assert numbers[0]["best"] == 8


def test_lines_of_equal_speed_lie_where_they_say() -> None:
    even, fast = equal_speed((1.0, 2.0), (0.0, 0.1, 0.9, 1.5), lambda n: 1.0)
    assert even["cost_ratios"] == [0.0, 0.1, 0.9]
    assert even["acceptance_rates"][1] == pytest.approx(0.1, abs=1e-3)
    for ratio, alpha in zip(fast["cost_ratios"], fast["acceptance_rates"], strict=True):
        best = max(walltime_speedup(alpha, gamma, ratio) for gamma in range(1, 17))
        assert best == pytest.approx(2.0, abs=1e-3)


def test_a_bad_plan_names_the_value() -> None:
    for changed, word in (
        ({"rungs": ("attic",)}, "attic"),
        ({"gammas": (40,)}, "40"),
        ({"documents": 0}, "documents"),
    ):
        with pytest.raises(BadInput, match=word):
            LadderPlan(**changed)
    assert BASELINE not in KINDS
