"""Classic mistakes in block verification, siblings and shared noise: the exact law catches each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fault_kit import begin, draft_model

from speclab.core.laws import Sampling, residual
from speclab.core.randomness import Exhaustive
from speclab.core.rules import RULES, block, k_seq
from speclab.engine.loop import Limits
from speclab.methods import make_method
from speclab.models.toy import ToyModel
from speclab.testing import check_rule, exact_law, largest_difference, target_law

TARGET, DRAFT = ToyModel.random(7), ToyModel.random(8)
PROMPT, LIMITS = (0, 1, 0), Limits(max_new_tokens=3, max_context=100)
BIAS = 5e-5


def distance(rule: Any, method: Any) -> float:
    """Return how far the exact law of three tokens is from the target's."""
    law = exact_law(
        lambda rng: begin(TARGET, PROMPT, method=method, drafts=[DRAFT], rule=rule, rng=rng, n=3)
    )
    return largest_difference(law.probs, target_law(TARGET, PROMPT, Sampling(), LIMITS))


def tree(siblings: str) -> Any:
    return make_method("draft-tree", {"depth": 2, "width": 2, "siblings": siblings})


def test_the_honest_rules_pass() -> None:
    assert distance("block", draft_model(2)) < 1e-12
    assert distance("siblings-iid", tree("iid")) < 1e-12
    assert distance("siblings-without-replacement", tree("without-replacement")) < 1e-12
    assert distance("k-seq", tree("iid")) < 1e-12
    assert distance("coupled", draft_model(2, shared_noise=True)) < 1e-12


def first_failure(coins: list) -> tuple[int, tuple]:
    """Stop at the first coin that fails, as reviewers like to ask for."""
    kept = next((i for i, coin in enumerate(coins) if not coin.accepted), len(coins))
    return kept, tuple(coins)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("settle", first_failure),
        ("residual", lambda p, q: residual(p / p.sum(), q)),
        ("success_probability", lambda joint, surplus: joint),
        ("joint_ratio", lambda before, p, q: min(1.0, p / q)),
    ],
)
def test_mistakes_in_block_verification(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Callable
) -> None:
    monkeypatch.setattr(block, name, broken)
    assert distance("block", draft_model(2)) > BIAS
    with pytest.raises(AssertionError, match="2 drafted"):
        check_rule(RULES["block"])


def test_siblings_judged_by_the_wrong_law() -> None:
    assert distance("siblings-iid", tree("without-replacement")) > BIAS
    assert distance("siblings-without-replacement", tree("iid")) > BIAS
    assert distance("k-seq", tree("without-replacement")) > BIAS


def test_several_tests_at_the_price_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """K independent ratio tests against the whole of p: .125 on the standard pair."""

    def free(p: np.ndarray, q: np.ndarray, count: int) -> k_seq.Price:
        return k_seq.Price(1.0, float(np.minimum(p, q).sum()), residual(p, q))

    monkeypatch.setattr(k_seq, "price", free)
    k_seq._price_again.cache_clear()
    assert distance("k-seq", tree("iid")) > BIAS
    with pytest.raises(AssertionError, match="2 candidates"):
        check_rule(RULES["k-seq"])
    k_seq._price_again.cache_clear()


def test_a_fresh_draw_after_a_shared_mismatch() -> None:
    def redraws(rows, proposal, rng, position):
        verdict = RULES["coupled"].verify(rows, proposal, rng, position)
        if verdict.outcome != "correction":
            return verdict
        again = rng.draw(rows[1 + (verdict.accepted[-1] if verdict.accepted else -1)])
        return replace(verdict, next_token=again)

    broken = replace(RULES["coupled"], verify=redraws)
    assert distance(broken, draft_model(2, shared_noise=True)) > BIAS
    with pytest.raises(AssertionError, match="law"):
        check_rule(broken)


def test_merging_that_forgets_the_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exhaustive, "unspent", lambda self, position: ())
    assert distance("coupled", draft_model(2, shared_noise=True)) > BIAS
