"""Recommendations: the best setting of known acceptance and costs, and of a real pair."""

from __future__ import annotations

import json

import pytest
from speed_kit import PASS_S, STEP_S, chain_trace, growing, measured_of

from speclab.core.errors import BadInput
from speclab.core.theory import best_gamma
from speclab.lab.measuring import BASELINE
from speclab.lab.prediction import fit
from speclab.lab.recommend import Candidate, Recommending, RecommendPlan, candidates_of, ranked
from speclab.models.toy_pair import load_toy

TOKENS, ALPHA, GAMMA = 60, 0.75, 8
LABEL = f"draft-model:num_speculative_tokens={GAMMA}"


def best(pass_s: float, alpha: float = ALPHA) -> list[Candidate]:
    numbers = range(60)
    plain = [chain_trace(n, TOKENS, (), method=BASELINE) for n in numbers]
    mine = [chain_trace(n, TOKENS, (alpha,) * GAMMA, pass_s=pass_s) for n in numbers]
    measured = {(BASELINE, 0.0): measured_of(plain), (LABEL, 0.0): measured_of(mine)}
    fitted = fit(measured, {"chain": growing, "tree": growing})
    return ranked(fitted, temperature=0.0, prompt_lengths=[10] * 5, max_new_tokens=400)


@pytest.mark.parametrize("pass_s", [0.1 * PASS_S, PASS_S, 2 * PASS_S])
def test_the_best_gamma_is_that_of_the_closed_form(pass_s: float) -> None:
    found = best(pass_s)
    theory = best_gamma(ALPHA, pass_s / STEP_S, growing, range(1, GAMMA + 1))
    assert len(found) == GAMMA
    assert abs(found[0].gamma - theory) <= 1
    assert found[0].predicted.low <= found[0].predicted.speedup <= found[0].predicted.high
    assert found[0].label == f"draft-model:num_speculative_tokens={found[0].gamma}"
    assert [each.predicted.speedup for each in found] == sorted(
        (each.predicted.speedup for each in found), reverse=True
    )


def test_a_draft_that_costs_too_much_is_not_recommended() -> None:
    assert best(PASS_S)[0].predicted.speedup > 1.0
    assert best(2 * STEP_S, alpha=0.3)[0].predicted.speedup < 1.0


def test_trees_and_chains_are_candidates() -> None:
    labels = candidates_of("eagle-3")
    assert "eagle-3:depth=8:top_k=1:total_tokens=8" in labels
    assert "eagle-3:depth=5:top_k=4:total_tokens=24" in labels
    assert candidates_of("draft-tree") == [
        "draft-tree:depth=2:width=2",
        "draft-tree:depth=3:width=2",
    ]
    assert candidates_of("prompt-lookup")[-1] == "prompt-lookup:num_speculative_tokens=8"


def test_what_cannot_be_recommended_is_refused() -> None:
    with pytest.raises(BadInput, match="nothing to choose"):
        Recommending(load_toy(), BASELINE)
    with pytest.raises(BadInput, match="num_prompts"):
        RecommendPlan(num_prompts=0)


def test_a_real_pair_gets_a_recommendation(pocket) -> None:
    work = Recommending(
        pocket, "draft-model", RecommendPlan(num_prompts=2, max_new_tokens=10, passes=1)
    )
    assert not work.report()["complete"]
    assert list(work) == [(1, 2), (2, 2)]
    report = work.report()
    assert report["complete"]
    assert json.loads(json.dumps(report)) == report
    assert {each["gamma"] for each in report["candidates"]} == set(range(1, 9))
    first = report["candidates"][0]
    assert report["speculate"] == (first["predicted"]["speedup"] > 1.0)
    assert report["best"] == (first if report["speculate"] else None)
