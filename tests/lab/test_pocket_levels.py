"""Methods of several levels and several drafts on the bundled pair."""

from __future__ import annotations

import pytest
from greedy_kit import GREEDY, check_greedy_text

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.ledger import memory_of
from speclab.lab.runs import generate
from speclab.methods import METHODS
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair


@pytest.fixture(scope="module")
def pocket64() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


@pytest.mark.parametrize("name", ["staged", "cascade", "multi-draft"])
def test_greedy_text_is_the_targets_own(pocket: Pair, pocket64: Pair, name: str) -> None:
    ties, accepted = check_greedy_text(pocket, pocket64, name, 20)
    assert ties <= 2 and accepted > 20 * 8


TWO = {
    "staged": {"inner": "draft-model"},
    "cascade": {"drafters": 2, "tokens_per_level": 2},
    "multi-draft": {"models": "two", "num_drafts": 3},
}


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


def test_staged_saves_passes_of_its_draft_model(pocket: Pair) -> None:
    text = "Repeat: red, green, blue, red, green, blue, red, green,"
    request = {"sampling": Sampling(temperature=0.0), "max_new_tokens": 24, "record_laws": False}
    staged = generate(pocket, text, method="staged", **request)
    one = generate(pocket, text, method="draft-model", num_speculative_tokens=4, **request)
    passes = [sum(r.num_draft_forwards for r in trace.rounds) for trace in (staged, one)]
    assert staged.emitted == one.emitted and passes[0] < passes[1]


def test_a_pair_with_one_draft_says_what_is_missing() -> None:
    pair = load_pair("pocket-undistilled", device="cpu")
    with pytest.raises(UnsupportedModel, match="staged needs second_draft"):
        generate(pair, "Once", method="staged", inner="draft-model")
    assert generate(pair, "Once", method="cascade", max_new_tokens=3).emitted
