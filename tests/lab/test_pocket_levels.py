"""Methods of several levels and several drafts on the bundled pair."""

from __future__ import annotations

import pytest
from greedy_kit import GREEDY, greedy

from speclab.core.errors import UnsupportedModel
from speclab.core.records import Trace
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.ledger import memory_of
from speclab.lab.runs import generate
from speclab.methods import METHODS
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


TWO = {
    "staged": {"inner": "draft-model"},
    "cascade": {"drafters": 2, "tokens_per_level": 2},
    "multi-draft": {"models": "two", "num_drafts": 3},
}


def test_greedy_text_is_the_targets_own(pocket: Pair) -> None:
    """Texts may part only where float64 makes them equal again: a near tie."""
    parted, accepted = [], dict.fromkeys(TWO, 0)
    for _, text in bench_prompts(False, 20):
        plain = greedy(pocket, text, "autoregressive", 20)
        for name in TWO:
            fast = greedy(pocket, text, name, 20)
            accepted[name] += sum(round_.num_accepted for round_ in fast.rounds)
            parted += [(name, text)] if fast.emitted != plain.emitted else []
    assert len(parted) <= 3 and min(accepted.values()) > 20 * 5
    for name, text in parted:
        exact = load_pair("pocket", device="cpu", dtype="float64")
        both = [greedy(exact, text, each, 20).emitted for each in (name, "autoregressive")]
        assert both[0] == both[1]


@pytest.mark.parametrize("name", TWO)
def test_two_drafts_draft_the_targets_own_text(pocket: Pair, name: str) -> None:
    request = {"sampling": GREEDY, "max_new_tokens": 24, "record_laws": False}
    plain = generate(pocket, "Once upon a time", method="autoregressive", **request)
    fast = generate(pocket, "Once upon a time", method=name, params=TWO[name], **request)
    assert fast.emitted == plain.emitted and len(fast.rounds) < len(plain.rounds)
    assert [model.name for model in fast.spec.drafts] == ["pocket/draft", "pocket-tiny"]
    levels = {v for r in fast.rounds for item in r.evidence for v in item.values}
    assert {0.0, 1.0} <= levels
    assert Trace.from_json(fast.to_json()) == fast


def test_methods_of_one_draft_name_one_draft(pocket: Pair) -> None:
    for name in ("draft-model", "autoregressive", "prompt-lookup", "staged"):
        trace = generate(pocket, "Once", method=name, max_new_tokens=2)
        assert [model.name for model in trace.spec.drafts] == ["pocket/draft"]
    one, tiny = pocket.drafts
    needs = METHODS["staged"].card.needs
    assert memory_of(pocket, needs)["parameters"] == one.num_parameters
    both = memory_of(pocket, needs | {"second_draft"})
    assert both["parameters"] == one.num_parameters + tiny.num_parameters


def test_a_pair_with_one_draft_says_what_is_missing() -> None:
    pair = load_pair("pocket-undistilled", device="cpu")
    with pytest.raises(UnsupportedModel, match="staged needs second_draft"):
        generate(pair, "Once", method="staged", inner="draft-model")
    assert generate(pair, "Once", method="cascade", max_new_tokens=3).emitted
