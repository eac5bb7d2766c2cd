"""Penalties at drafted positions, and drafts whose vocabulary is wider or narrower."""

from __future__ import annotations

import numpy as np
import pytest
from fault_kit import (
    GREEDY,
    Offers,
    begin,
    draft_model,
    law_and_acceptance,
    model_of,
    offers,
    rules_for,
    run,
)
from tiny_models import tiny

from speclab.core.laws import Sampling, overlap, process, residual
from speclab.core.protocols import Proposal
from speclab.core.randomness import Seeded
from speclab.core.trees import TokenTree
from speclab.engine.recording import LawRecorder, record_counts
from speclab.methods import make_method
from speclab.models.toy import ToyModel

CASES = {
    "frequency": (
        (1.0, 0.9, 0.05),
        Sampling(temperature=0, frequency_penalty=0.5),
        [0, 1, 0, 1, 2, 0, 1, 2],
    ),
    "presence": (
        (1.0, 0.9, 0.05),
        Sampling(temperature=0, presence_penalty=0.5),
        [0, 1, 0, 0, 0, 0],
    ),
    "repetition": (
        (1.0, 0.9, 0.6),
        Sampling(temperature=0, repetition_penalty=2.0),
        [0, 1, 2, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("rule", rules_for("chain", "deterministic"))
@pytest.mark.parametrize("gamma", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("case", CASES)
def test_penalties_see_the_path_and_nothing_else(case: str, gamma: int, rule: str) -> None:
    """https://github.com/osaurus-ai/vmlx-swift/issues/357 ; https://github.com/vllm-project/vllm/pull/33251"""
    logits, sampling, want = CASES[case]
    target = model_of(lambda context: logits, 3)
    perfect = Offers(offer=lambda context, rng: want[len(context) - 2 :], gamma=gamma)
    methods = (
        (make_method("autoregressive"), ()),
        (offers([0] * 8, gamma), ()),
        (offers([2] * 8, gamma), ()),
        (perfect, ()),
        (draft_model(gamma), (target,)),
        (make_method("prompt-lookup", {"num_speculative_tokens": gamma}), ()),
    )
    for method, drafts in methods:
        text, _ = run(
            target, (0, 1), method=method, drafts=drafts, rule=rule, sampling=sampling, n=len(want)
        )
        assert text == want, "prompt tokens, rejected drafts or a token twice were counted"


def test_a_penalised_self_draft_is_accepted_whole() -> None:
    """https://github.com/NVIDIA/TensorRT-LLM/pull/17701 : the draft is penalised alike."""
    target = ToyModel.random(1, vocab_size=5)
    sampling = Sampling(frequency_penalty=0.7, repetition_penalty=1.2, temperature=0.8)
    _, rounds = run(target, (0,), method=draft_model(4), drafts=[target], sampling=sampling, n=40)
    assert all(r.num_accepted == r.num_drafted for r in rounds)
    assert sum(r.num_drafted for r in rounds) >= 30


def test_a_penalised_position_is_judged_given_the_drafts_before_it() -> None:
    """https://github.com/vllm-project/vllm/issues/6718 : here in a tree."""
    target = model_of(lambda context: (1.0, 0.9, 0.05), 3)
    tree = TokenTree((0, 1, 0, 1), (-1, -1, 0, 0))
    method = Offers(offer=lambda context, rng: Proposal(tree=tree, draft_probs=(None,) * 4))
    sampling = CASES["frequency"][1]
    text, rounds = run(target, (0,), method=method, sampling=sampling, n=5)
    assert text == CASES["frequency"][2][:5] and rounds[0].verdict.accepted == (0, 3)


WIDE, NARROW = np.full(5, 0.2), np.array([0.5, 0.3, 0.2])


@pytest.mark.parametrize("record", [record_counts, LawRecorder()], ids=["counts", "laws"])
@pytest.mark.parametrize("rule", rules_for("chain", "sampled"))
def test_a_narrower_draft(rule: str, record) -> None:
    """https://github.com/huggingface/transformers/issues/45307"""
    target, draft = ToyModel.constant(WIDE), ToyModel.constant(NARROW)

    def start(rng, gamma=1):
        return begin(
            target,
            (0,),
            method=draft_model(gamma),
            drafts=[draft],
            rule=rule,
            rng=rng,
            n=2,
            record=record,
        )

    law, acceptance = law_and_acceptance(start, 5)
    assert law == pytest.approx(WIDE, abs=1e-12)
    if rule == "token":
        assert acceptance == pytest.approx(0.6) == overlap(WIDE, NARROW)
        assert residual(WIDE, NARROW) == pytest.approx([0, 0, 0, 0.5, 0.5])


@pytest.mark.parametrize("record", [record_counts, LawRecorder()], ids=["counts", "laws"])
@pytest.mark.parametrize("rule", rules_for("chain", "sampled"))
def test_a_wider_draft_is_rejected_where_the_target_has_no_id(rule: str, record) -> None:
    """https://github.com/vllm-project/vllm/issues/5203"""
    target, draft = ToyModel.constant(NARROW), ToyModel.constant(WIDE)

    def start(rng):
        return begin(
            target,
            (0,),
            method=draft_model(1),
            drafts=[draft],
            rule=rule,
            rng=rng,
            n=2,
            record=record,
        )

    law, _ = law_and_acceptance(start, 3)
    assert law == pytest.approx(NARROW, abs=1e-12)


@pytest.mark.parametrize("widths", [(48, 40), (40, 48)], ids=["narrow-draft", "wide-draft"])
@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_padded_vocabularies_of_one_tokenizer(widths: tuple[int, int], penalty: float) -> None:
    """https://github.com/huggingface/transformers/issues/45307 : real models."""
    target = tiny(seed=1, vocab_size=widths[0])
    draft = tiny(seed=2, vocab_size=widths[1], width=widths[0])
    sampling = Sampling(temperature=0, frequency_penalty=penalty)
    plain, _ = run(target, (3, 1, 4), sampling=sampling, n=24)
    assert penalty == 0.0 or max(plain) >= 40 or widths[0] == 40
    for gamma in (1, 3, 8):
        text, rounds = run(
            target, (3, 1, 4), method=draft_model(gamma), drafts=[draft], sampling=sampling, n=24
        )
        assert text == plain
        assert all(token < widths[0] for r in rounds for token in r.tree.tokens)
    row = draft.open((3, 1)).score().row(0)
    assert len(row.raw()) == widths[0] and row.raw().sum() == pytest.approx(1.0)
    sampled, _ = run(
        target,
        (3, 1, 4),
        method=draft_model(4),
        drafts=[draft],
        rng=Seeded(1),
        n=24,
        record=LawRecorder(),
    )
    assert len(sampled) == 24


def test_filters_of_the_target_hold_at_every_drafted_position() -> None:
    """Top-k with penalties: no emitted token is outside the law of its own path."""
    target, draft = ToyModel.random(3, vocab_size=6), ToyModel.random(4, vocab_size=6)
    sampling = Sampling(top_k=2, frequency_penalty=0.4)
    text, _ = run(target, (0,), method=draft_model(3), drafts=[draft], sampling=sampling, n=60)
    for place, token in enumerate(text):
        counts = {t: text[:place].count(t) for t in set(text[:place])}
        assert process(target.logits([0, *text[:place]]), sampling, counts)[token] > 0
    assert run(target, (0,), sampling=GREEDY, n=3)[0] == run(target, (0,), sampling=GREEDY, n=3)[0]
