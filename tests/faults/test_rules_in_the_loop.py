"""Every rule, right or wrong, runs in the real loop where its needs are met, and is recorded."""

from __future__ import annotations

import numpy as np
import pytest
from fault_kit import begin, draft_model, run

from speclab.core.laws import Sampling
from speclab.core.protocols import Method, provided
from speclab.core.randomness import Seeded
from speclab.core.records import Round
from speclab.core.rules import RULES
from speclab.engine.recording import LawRecorder
from speclab.methods import make_method
from speclab.models.toy import ToyModel

TARGET, DRAFT = ToyModel.random(1, vocab_size=6), ToyModel.random(2, vocab_size=6)
SAMPLINGS = (Sampling(), Sampling(temperature=0.7, top_p=0.8), Sampling(temperature=0.0))


def tree(siblings: str) -> Method:
    return make_method("draft-tree", {"depth": 3, "width": 2, "siblings": siblings})


METHODS = (
    make_method("autoregressive"),
    make_method("prompt-lookup"),
    draft_model(3),
    draft_model(3, draft_temperature=0.0),
    draft_model(3, shared_noise=True),
    tree("iid"),
    tree("without-replacement"),
    tree("top-k"),
)
RUNS = [
    (rule, method, sampling)
    for rule in RULES
    for method in METHODS
    for sampling in SAMPLINGS
    if RULES[rule].needs <= provided(method, sampling)
]


def check(round_: Round) -> None:
    tokens = round_.tree.tokens
    path = [tokens[node] for node in round_.verdict.accepted]
    full = (*path, round_.verdict.next_token)
    assert round_.emitted == full[: len(round_.emitted)] and round_.emitted
    by_node = {cut.node: cut for cut in round_.slices}  # rounded to five digits
    assert (None in by_node) == (round_.verdict.outcome != "correction")
    for flip in round_.verdict.flips:
        cut = by_node[flip.node]
        place = cut.tokens.index(flip.token)
        assert cut.target[place] == pytest.approx(flip.target_prob, rel=1e-4)
        if cut.deterministic:
            assert flip.draft_prob == 1.0
        else:
            assert cut.draft[place] == pytest.approx(flip.draft_prob, rel=1e-4)


def test_every_rule_has_a_method() -> None:
    assert {rule for rule, _, _ in RUNS} == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_runs_where_its_needs_are_met(rule: str) -> None:
    for name, method, sampling in RUNS:
        if name != rule:
            continue
        decoding = begin(
            TARGET,
            (0, 1, 2, 0, 1),
            method=method,
            drafts=[DRAFT],
            rule=rule,
            sampling=sampling,
            n=25,
            record=LawRecorder("float64"),
        )
        rounds = list(decoding)
        for round_ in rounds:
            check(round_)
        assert len(decoding.emitted) == 25 == sum(len(round_.emitted) for round_ in rounds)


@pytest.mark.parametrize("widths", [(3, 5), (5, 3)], ids=["wide-draft", "narrow-draft"])
@pytest.mark.parametrize("rule", [rule for rule in RULES if "tree" not in RULES[rule].needs])
def test_no_rule_stumbles_over_padded_vocabularies(rule: str, widths: tuple[int, int]) -> None:
    """https://github.com/vllm-project/vllm/issues/5203 ; https://github.com/huggingface/transformers/issues/45307"""
    target, draft = (ToyModel.constant(np.full(width, 1 / width)) for width in widths)
    shared = "shared_noise" in RULES[rule].needs
    deterministic = "deterministic" in RULES[rule].needs
    method = draft_model(2, shared_noise=shared, draft_temperature=0.0 if deterministic else None)
    for seed in range(5):
        text, rounds = run(
            target, (0,), method=method, drafts=[draft], rule=rule, rng=Seeded(seed), n=30
        )
        assert len(text) == 30 and max(text) < widths[0]
        assert any(round_.num_drafted for round_ in rounds)
