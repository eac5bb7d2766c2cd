"""Faults of the sampling mathematics: exact laws beside the fingerprint of each wrong version.

p is the target's law after all processing, q the law the draft token was drawn from.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from fault_kit import (
    GREEDY,
    Offers,
    begin,
    children,
    draft_model,
    law_and_acceptance,
    model_of,
    offers,
    one_draft,
    rows_of,
    rules_for,
    run,
)
from tiny_models import tiny

from speclab.core.errors import BadInput, NumericalFault
from speclab.core.laws import Sampling, overlap, process, residual, softmax
from speclab.core.protocols import Proposal
from speclab.core.randomness import Scripted, Seeded
from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.methods import METHODS, make_method
from speclab.models.toy import ToyModel

EXACT = {"abs": 1e-12}


def approx(*values: float):
    return pytest.approx(np.array(values), abs=5e-5)


def test_residual_is_normalised_not_softmaxed() -> None:
    """https://github.com/huggingface/transformers/pull/28508"""
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.1, 0.2, 0.3, 0.4])
    assert residual(p, q) == pytest.approx([0.8, 0.2, 0, 0], **EXACT)
    law, acceptance = one_draft(p, q)
    assert acceptance == pytest.approx(0.5, **EXACT) == overlap(p, q)
    assert law == pytest.approx(p, **EXACT)
    shared, rest = np.minimum(p, q), np.maximum(p - q, 0)
    assert shared + 0.5 * softmax(rest) == approx(0.2623, 0.3202, 0.2588, 0.1588)
    assert shared + 0.5 * p == approx(0.35, 0.35, 0.225, 0.075)


def test_greedy_draft_is_one_hot_whatever_its_softmax_says() -> None:
    """https://github.com/huggingface/transformers/issues/32867"""
    p, q = [0.5, 0.3, 0.2], [0.4, 0.35, 0.25]
    law, acceptance = one_draft(p, q, method=draft_model(1, draft_temperature=0.0))
    assert law == pytest.approx(p, **EXACT) and acceptance == pytest.approx(0.5, **EXACT)


def test_greedy_on_both_sides_is_plain_greedy() -> None:
    """https://github.com/jaymody/speculative-sampling/issues/3"""
    target, draft = ToyModel.random(1, vocab_size=5), ToyModel.random(2, vocab_size=5)
    plain, _ = run(target, (0,), sampling=GREEDY, n=30)
    for gamma in range(1, 9):
        for rule in rules_for("chain", "deterministic"):
            text, _ = run(
                target,
                (0,),
                method=draft_model(gamma),
                drafts=[draft],
                rule=rule,
                sampling=GREEDY,
                n=30,
            )
            assert text == plain


def test_q_in_the_ratio_is_the_filtered_law_that_was_drawn_from() -> None:
    """https://github.com/huggingface/transformers/issues/47932"""
    p, q = [0.5, 0.5, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]
    law, acceptance = one_draft(p, q, sampling=Sampling(top_k=2))
    assert law == pytest.approx(p, **EXACT)
    assert acceptance == pytest.approx(13 / 14, **EXACT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_q_is_drawn_and_divided_in_the_same_numbers(dtype: torch.dtype) -> None:
    """https://github.com/deepseek-ai/DeepSpec/issues/31"""

    class Spy(Seeded):
        drawn: list

        def draw(self, probs, at=None):
            self.drawn.append(probs)
            return super().draw(probs, at)

    target, draft = tiny(seed=1, dtype=dtype), tiny(seed=2, dtype=dtype)
    rng = Spy(0)
    rng.drawn = []
    decoding = begin(
        target,
        (1, 2, 3),
        method=draft_model(4),
        drafts=[draft],
        sampling=Sampling(temperature=0.7, top_p=0.9),
        rng=rng,
    )
    seen = []
    propose = decoding.run.propose
    decoding.run.propose = lambda room, rng: seen.append(propose(room, rng)) or seen[-1]
    next(iter(decoding))
    (proposal,) = seen
    assert len(proposal.draft_probs) == 4
    for law, drawn in zip(proposal.draft_probs, rng.drawn):
        assert law is drawn and law.dtype == np.float64


def test_temperature_reaches_draft_and_verifier() -> None:
    """https://github.com/ohdearquant/lattice/issues/388"""
    p, q = [0.6, 0.3, 0.1], [0.3, 0.4, 0.3]
    sampling = Sampling(temperature=0.5)
    law, acceptance = one_draft(p, q, sampling=sampling)
    assert law == approx(0.7826, 0.1957, 0.0217)
    assert acceptance == pytest.approx(0.4821, abs=5e-5)
    assert process(np.log(q), sampling) == approx(0.2647, 0.4706, 0.2647)


@pytest.mark.parametrize("rule", rules_for())
@pytest.mark.parametrize("draft_temperature", [None, 0.0, 0.3, 1.0, 2.0])
def test_the_targets_temperature_alone_decides_the_law(
    draft_temperature: float | None, rule: str
) -> None:
    """https://github.com/ROCm/ATOM/pull/2318"""
    method = draft_model(1, draft_temperature=draft_temperature)
    sampling = Sampling(temperature=0.5, top_p=0.95, min_p=0.01)
    law, _ = one_draft(
        [0.6, 0.3, 0.1], [0.3, 0.4, 0.3], rule=rule, method=method, sampling=sampling
    )
    assert law == pytest.approx(process(np.log([0.6, 0.3, 0.1]), sampling), **EXACT)


@pytest.mark.parametrize("law", [(1.0, 0.0, 0.0), (0.25, 0.25, 0.25, 0.25), (0.1, 0.2, 0.7)])
def test_equal_laws_leave_no_residual_and_no_nan(law: tuple[float, ...]) -> None:
    """https://github.com/jaymody/speculative-sampling/issues/5"""
    p = np.array(law)
    assert residual(p, p.copy()) == pytest.approx(p, **EXACT)
    got, acceptance = one_draft(p, p)
    assert acceptance == pytest.approx(1.0, **EXACT) and got == pytest.approx(p, **EXACT)
    model = ToyModel.constant(p)
    text, rounds = run(model, (0,), method=draft_model(1), drafts=[model], n=2000)
    assert len(rounds) == 1000
    drafting = [round_ for round_ in rounds if round_.num_drafted]
    assert all(round_.num_accepted == 1 for round_ in drafting)
    assert all(p[token] > 0 for token in text)


def test_nearly_equal_laws_and_a_forced_rejection() -> None:
    """https://github.com/youssofal/MTPLX/issues/82"""
    p = np.array([0.5, 0.5])
    for shift in (1e-9, 1e-16, 5e-324):
        q = np.array([0.5 + shift, 0.5 - shift])
        rest = residual(p, q)
        assert np.isfinite(rest).all() and rest.sum() == pytest.approx(1.0)
        proposal = Proposal(tree=TokenTree.chain((0,)), draft_probs=(q,))
        rows = rows_of(p, proposal.tree)
        verdict = RULES["token"].verify(rows, proposal, Scripted([1 - 2**-53, 0.99]), 1)
        assert p[verdict.next_token] > 0


@pytest.mark.parametrize("rule", rules_for())
@pytest.mark.parametrize("accept", [0.0, 1 - 2**-53])
def test_nan_in_the_target_is_an_error_not_a_token(rule: str, accept: float) -> None:
    """https://github.com/youssofal/MTPLX/issues/82"""
    broken = model_of(lambda context: [math.nan, 0.0, 0.0], 3)
    draft = ToyModel.constant([0.2, 0.3, 0.5])
    for method in (draft_model(2), make_method("autoregressive"), offers((1, 2))):
        with pytest.raises(NumericalFault):
            run(broken, (0,), method=method, drafts=[draft], rule=rule, rng=Scripted([accept] * 9))
    with pytest.raises(NumericalFault):
        run(ToyModel.constant([1.0]), (0,), method=draft_model(2), drafts=[broken], rule=rule)


@pytest.mark.parametrize("rule", rules_for("chain", "sampled"))
def test_u_zero_does_not_accept_the_impossible(rule: str) -> None:
    """https://github.com/sgl-project/sglang/issues/35771"""
    q = np.array([0.3, 0.3, 0.4])
    for p, accepted in (((0.0, 0.4, 0.6), False), ((0.001, 0.399, 0.6), True)):
        proposal = Proposal(tree=TokenTree.chain((0,)), draft_probs=(q,))
        rows = rows_of(np.array(p), proposal.tree)
        verdict = RULES[rule].verify(rows, proposal, Scripted([0.0, 0.0]), 1)
        assert bool(verdict.accepted) == accepted
        assert p[verdict.next_token] > 0


@pytest.mark.parametrize("rule", rules_for("chain", "sampled"))
@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
def test_no_emitted_token_is_ever_impossible(rule: str, u: float) -> None:
    """https://github.com/sgl-project/sglang/pull/35798"""
    sampling = Sampling(top_k=2)
    target, draft = ToyModel.random(3, vocab_size=6), ToyModel.random(4, vocab_size=6)
    text, _ = run(
        target,
        (0,),
        method=draft_model(3, draft_temperature=2.0),
        drafts=[draft],
        rule=rule,
        sampling=sampling,
        rng=Scripted([u] * 400),
        n=40,
    )
    for place, token in enumerate(text):
        assert process(target.logits([0, *text[:place]]), sampling)[token] > 0


def test_matching_emits_the_mismatching_draw_itself() -> None:
    """https://github.com/ml-explore/mlx-swift-lm/pull/459 ; https://github.com/z-lab/dflash/issues/74"""
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    law, acceptance = one_draft(p, q, rule="match")
    assert law == pytest.approx(p, **EXACT) and acceptance == pytest.approx(0.5, **EXACT)
    assert one_draft(p, q, rule="token")[1] == pytest.approx(0.6, **EXACT)
    greedy = draft_model(1, draft_temperature=0.0)
    law, acceptance = one_draft([0.3, 0.7], [0.2, 0.8], rule="match", method=greedy)
    assert acceptance == pytest.approx(0.7, **EXACT) and law == pytest.approx([0.3, 0.7], **EXACT)
    redrawn = p * q + (1 - p @ q) * p
    assert redrawn == pytest.approx([0.7, 0.3]), "the fingerprint of a second draw"


@pytest.mark.parametrize("rule", rules_for("chain", "deterministic"))
def test_a_deterministic_proposal_is_one_hot(rule: str) -> None:
    """https://github.com/apple/ml-recurrent-drafter/issues/6"""
    p = [0.2, 0.5, 0.3]
    law, acceptance = one_draft(p, p, rule=rule, method=offers((0,)))
    assert acceptance == pytest.approx(0.2, **EXACT) and law == pytest.approx(p, **EXACT)
    tree = TokenTree.chain((0,))
    proposal = Proposal(tree=tree, draft_probs=(None,))
    rejected = [
        RULES[rule].verify(rows_of(np.array(p), tree), proposal, Scripted([0.9, u]), 1).next_token
        for u in ([0.0, 0.6249, 0.6251, 0.99] if rule != "match" else [])
    ]
    assert rejected == ([1, 1, 2, 2] if rule != "match" else [])


@pytest.mark.parametrize("top_p", [1e-8, 1e-300, 5e-324])
def test_a_very_small_top_p_keeps_the_best_token(top_p: float) -> None:
    """https://github.com/ml-explore/mlx-lm/pull/1912"""
    logits = torch.log(torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64))
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        row = logits.to(dtype).double().numpy()
        assert process(row, Sampling(top_p=top_p)).tolist() == [1.0, 0.0, 0.0]
        assert process(row, Sampling(top_k=1)).tolist() == [1.0, 0.0, 0.0]
        assert (process(row, Sampling(top_p=1.0)) > 0).all()
        assert process(row, Sampling(top_p=0.85)).sum() == pytest.approx(1.0, **EXACT)


def test_top_p_zero_is_a_clear_error() -> None:
    """https://github.com/ml-explore/mlx-lm/pull/1912"""
    with pytest.raises(BadInput, match="top_p"):
        Sampling(top_p=0.0)


def test_temperatures_zero_and_one_side_by_side() -> None:
    """https://github.com/vllm-project/vllm/pull/27077"""
    target, draft = ToyModel.random(1, vocab_size=4), ToyModel.random(2, vocab_size=4)
    plain, _ = run(target, (0,), sampling=GREEDY, n=20)
    for draft_temperature in (None, 0.0, 1.0):
        both = [
            begin(
                target,
                (0,),
                method=draft_model(3, draft_temperature=draft_temperature),
                drafts=[draft],
                sampling=Sampling(temperature=temperature),
                n=20,
            )
            for temperature in (0.0, 1.0)
        ]
        rounds = [iter(decoding) for decoding in both]
        done = [False, False]
        while not all(done):
            for which, iterator in enumerate(rounds):
                round_ = next(iterator, None)
                done[which] = round_ is None
                if round_ is not None:
                    assert 0 <= round_.num_accepted <= round_.num_drafted <= 3
        assert both[0].emitted == plain and len(both[1].emitted) == 20


@pytest.mark.parametrize("temperature", [1e-6, 1e-300, 5e-324])
def test_a_tiny_temperature_is_finite(temperature: float) -> None:
    """https://github.com/sgl-project/sglang/pull/23296"""
    with np.errstate(over="ignore"):
        law = process(np.array([10.0, 9.9, 0.0]), Sampling(temperature=temperature))
    assert law.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("temperature", [-1.0, -1e-9, math.nan, math.inf])
def test_a_temperature_below_zero_is_refused(temperature: float) -> None:
    """https://github.com/vllm-project/vllm/pull/27077"""
    with pytest.raises(BadInput, match="temperature"):
        Sampling(temperature=temperature)
    with pytest.raises(BadInput, match="draft_temperature"):
        make_method("draft-model", {"draft_temperature": temperature})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", rules_for())
def test_a_tie_at_temperature_zero_goes_to_the_lowest_id(method: str, rule: str) -> None:
    """https://github.com/sgl-project/sglang/pull/23296"""
    target = model_of(lambda context: [0.0, 5.0, 5.0, 5.0], 4)
    draft = model_of(lambda context: [0.0, 0.0, 7.0, 7.0], 4)
    text, _ = run(
        target, (0, 3, 3), method=make_method(method), drafts=[draft], rule=rule, sampling=GREEDY
    )
    assert text == [1] * 8


@pytest.mark.parametrize("rule", rules_for("tree", "deterministic", "top_k_siblings"))
def test_children_chosen_by_rank_are_one_hot(rule: str) -> None:
    """https://github.com/SafeAILab/EAGLE/issues/110 , https://github.com/SafeAILab/EAGLE/issues/183"""
    p = [0.51, 0.49]
    target = ToyModel.constant(p)
    for tokens in ((0, 1), (1, 0)):
        law, _ = law_and_acceptance(
            lambda rng, tokens=tokens: begin(
                target, (0,), method=children(tokens, (None, None)), rule=rule, rng=rng, n=2
            ),
            2,
        )
        assert law == pytest.approx(p, **EXACT)
    law, acceptance = one_draft(p, p, rule=rule, method=offers((0,)))
    assert acceptance == pytest.approx(0.51, **EXACT), (
        "the first child is accepted 51 %, not always"
    )
    p3 = [0.5, 0.3, 0.2]
    law, _ = one_draft(p3, p3, rule=rule, method=children((1, 2), (None, None)))
    assert law == pytest.approx(p3, **EXACT)
    _, acceptance = one_draft(p3, p3, rule=rule, method=offers((1,)))
    assert acceptance == pytest.approx(0.3, **EXACT)


def two_children_without_replacement(renormalise: bool) -> Offers:
    """Draw two siblings; the second's claimed q either excludes the first or (wrong) does not."""
    q = np.array([0.05, 0.15, 0.8])

    def offer(context, rng) -> Proposal:
        one = rng.draw(q)
        rest = q.copy()
        rest[one] = 0.0
        rest /= rest.sum()
        two = rng.draw(rest)
        laws = (q, rest if renormalise else q)
        return Proposal(tree=TokenTree((one, two), (-1, -1)), draft_probs=laws)

    return Offers(offer=offer)


def test_the_second_sibling_is_judged_by_a_law_without_the_first() -> None:
    """https://github.com/SafeAILab/EAGLE/issues/74"""
    p = [0.6, 0.3, 0.1]
    law, _ = one_draft(p, p, method=two_children_without_replacement(True))
    assert law == pytest.approx(p, **EXACT)
    law, _ = one_draft(p, p, method=two_children_without_replacement(False))
    assert law == approx(0.225, 0.675, 0.1)


def test_duplicate_siblings_are_tested_once_each() -> None:
    """https://github.com/SafeAILab/EAGLE/issues/183"""
    p = [0.5, 0.3, 0.2]
    for rule in rules_for("tree", "deterministic"):
        law, _ = one_draft(p, p, rule=rule, method=children((1, 1, 0), (None,) * 3))
        assert law == pytest.approx(p, **EXACT)


def test_dropping_a_token_because_q_was_small_biases_the_law_keeping_it_does_not() -> None:
    """https://github.com/ikawrakow/ik_llama.cpp/pull/1820"""
    p, q = [0.5, 0.5], [0.9, 0.1]
    law, _ = one_draft(p, q, method=draft_model(1, min_confidence=0.2))
    assert law == pytest.approx(p, **EXACT)


def test_greedy_rejects_what_a_ratio_of_raw_laws_would_accept() -> None:
    """https://github.com/jaymody/speculative-sampling/issues/9"""
    p, q = [0.3, 0.5, 0.2], [0.2, 0.1, 0.7]
    law, acceptance = one_draft(p, q, sampling=GREEDY, method=offers((0,)))
    assert law.tolist() == [0.0, 1.0, 0.0] and acceptance == 0.0


def test_redrawing_from_the_target_counts_shared_tokens_twice() -> None:
    """https://github.com/eth-sri/language-model-arithmetic/issues/14"""
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    assert np.minimum(p, q) + (1 - overlap(p, q)) * p == pytest.approx([0.7, 0.3])
    assert residual(p, q).tolist() == [0.0, 1.0]
    assert one_draft(p, q)[0] == pytest.approx(p, **EXACT)


def test_settings_can_differ_in_one_field_only() -> None:
    """A copied setting keeps its checks (`dataclasses.replace` runs them again)."""
    with pytest.raises(BadInput, match="temperature"):
        replace(Sampling(), temperature=-1.0)
