"""The fingerprint of each wrong verifier: the broken rule leaves exactly the law it is known by.

Beside it stands the right rule on the same draft. p is the target's law after all processing.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from fault_kit import GREEDY, Offers, children, draft_model, one_draft, rows_of

from speclab.core.errors import NumericalFault
from speclab.core.laws import Sampling, process
from speclab.core.protocols import Proposal
from speclab.core.randomness import Scripted, Seeded
from speclab.core.rules import RULES, rule_named
from speclab.core.trees import TokenTree

EXACT = {"abs": 1e-12}


def approx(*values: float):
    return pytest.approx(np.array(values), abs=5e-5)


def certain(tokens: tuple[int, ...], raw: tuple[float, ...]) -> Offers:
    """Offer siblings chosen with certainty by a draft whose softmax is `raw`."""
    law = np.array(raw)
    tree = TokenTree(tokens, (-1,) * len(tokens))
    proposal = Proposal(
        tree=tree, draft_probs=(None,) * len(tokens), raw_draft=(lambda: law,) * len(tokens)
    )
    return Offers(offer=lambda context, rng: proposal)


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ("token", (0.5, 0.3, 0.15, 0.05)),
        ("broken-softmax-residual", (0.2623, 0.3202, 0.2588, 0.1588)),
        ("broken-redraw-from-p", (0.35, 0.35, 0.225, 0.075)),
    ],
)
def test_what_is_drawn_after_a_rejection(rule: str, want: tuple[float, ...]) -> None:
    """https://github.com/huggingface/transformers/pull/28508"""
    law, acceptance = one_draft((0.5, 0.3, 0.15, 0.05), (0.1, 0.2, 0.3, 0.4), rule=rule)
    assert law == approx(*want) and acceptance == pytest.approx(0.5, **EXACT)


def test_a_greedy_draft_judged_by_its_softmax() -> None:
    """https://github.com/huggingface/transformers/issues/32867 : token 0 every time."""
    p, q = (0.5, 0.3, 0.2), (0.4, 0.35, 0.25)
    greedy = draft_model(1, draft_temperature=0.0)
    law, acceptance = one_draft(p, q, rule="token", method=greedy)
    assert law == pytest.approx(p, **EXACT) and acceptance == pytest.approx(0.5, **EXACT)
    law, acceptance = one_draft(p, q, rule="broken-argmax-draft-softmax-q", method=greedy)
    assert law == pytest.approx((1, 0, 0), **EXACT) and acceptance == pytest.approx(1.0, **EXACT)


def test_the_same_in_a_public_demo() -> None:
    """https://github.com/HandsomeSB/Speculative-Decoding : (.80, .10, .10) instead of p."""
    p, q = (0.40, 0.35, 0.25), (0.50, 0.30, 0.20)
    greedy = draft_model(1, draft_temperature=0.0)
    law, _ = one_draft(p, q, rule="broken-argmax-draft-softmax-q", method=greedy)
    assert law == pytest.approx((0.8, 0.1, 0.1), **EXACT)
    assert one_draft(p, q, method=greedy)[0] == pytest.approx(p, **EXACT)


def test_greedy_on_both_sides_hides_it() -> None:
    """https://github.com/jaymody/speculative-sampling/issues/3 : p is one-hot there."""
    for p, q in (((0.5, 0.3, 0.2), (0.4, 0.35, 0.25)), ((0.3, 0.5, 0.2), (0.4, 0.35, 0.25))):
        for rule in ("token", "broken-argmax-draft-softmax-q"):
            law, _ = one_draft(p, q, rule=rule, method=draft_model(1), sampling=GREEDY)
            assert law[np.argmax(p)] == pytest.approx(1.0, **EXACT)


def test_a_filtered_draft_judged_by_its_raw_law() -> None:
    """https://github.com/huggingface/transformers/issues/47932"""
    p, q, top_2 = (0.5, 0.5, 0.0, 0.0), (0.4, 0.3, 0.2, 0.1), Sampling(top_k=2)
    law, acceptance = one_draft(p, q, sampling=top_2)
    assert law == pytest.approx(p, **EXACT)
    assert acceptance == pytest.approx(13 / 14, **EXACT)
    law, acceptance = one_draft(p, q, rule="broken-top-p-one-side", sampling=top_2)
    assert law == pytest.approx((4 / 7, 3 / 7, 0, 0), **EXACT)
    assert acceptance == pytest.approx(1.0, **EXACT)


def test_a_verifier_that_ignores_the_temperature() -> None:
    """https://github.com/ohdearquant/lattice/issues/388 ; https://github.com/ROCm/ATOM/pull/2318"""
    p, q, half = (0.6, 0.3, 0.1), (0.3, 0.4, 0.3), Sampling(temperature=0.5)
    law, acceptance = one_draft(p, q, sampling=half)
    assert law == approx(0.7826, 0.1957, 0.0217)
    assert acceptance == pytest.approx(0.4821, abs=5e-5)
    doubled = rule_named("broken-wrong-temperature", {"recorded_temperature": 2.0})
    law, _ = one_draft(p, q, rule=doubled, method=draft_model(1, draft_temperature=0.5))
    assert law == approx(0.5588, 0.3529, 0.0882), "drawn at T = .5, judged by both laws at T = 1"
    assert one_draft(p, q)[0] == pytest.approx(p, **EXACT), "nothing tempered"
    argmax = rule_named("top-k-membership", {"k": 1})
    law, _ = one_draft(p, (1.0, 0.0, 0.0), rule=argmax, sampling=half)
    assert law == pytest.approx((1, 0, 0), **EXACT), "verified by argmax, the draft proposes 0"


def test_equal_laws_are_accepted_whole_also_by_wrong_remainders() -> None:
    """https://github.com/jaymody/speculative-sampling/issues/5 : such a test shows nothing."""
    for p in ((1.0, 0.0, 0.0), (0.25, 0.25, 0.25, 0.25)):
        for rule in ("token", "broken-redraw-from-p", "broken-softmax-residual"):
            law, acceptance = one_draft(p, p, rule=rule)
            assert law == pytest.approx(p, **EXACT)
            assert acceptance == pytest.approx(1.0, **EXACT)


@pytest.mark.parametrize("rule", RULES)
def test_nan_is_an_error_under_every_rule(rule: str) -> None:
    """https://github.com/youssofal/MTPLX/issues/82"""
    q, p = np.array([0.3, 0.3, 0.4]), np.array([math.nan, 0.5, 0.5])
    given = None if "deterministic" in RULES[rule].needs else q
    tree = TokenTree.chain((0,))
    proposal = Proposal(tree=tree, draft_probs=(given,), raw_draft=(lambda: q,))
    with pytest.raises(NumericalFault):
        RULES[rule].verify(rows_of(p, tree), proposal, Seeded(1), 1)


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_accepts_the_impossible_at_u_zero(rule: str) -> None:
    """https://github.com/sgl-project/sglang/issues/35771 ; p(0) = 0 and u = 0."""
    q, p = np.array([0.3, 0.3, 0.4]), np.array([0.0, 0.4, 0.6])
    given = None if "deterministic" in RULES[rule].needs else q
    tree = TokenTree.chain((0,))
    proposal = Proposal(tree=tree, draft_probs=(given,), raw_draft=(lambda: q,))
    verdict = RULES[rule].verify(rows_of(p, tree), proposal, Scripted([0.0, 0.0]), 1)
    assert verdict.accepted == ()
    impossible = verdict.next_token == 0
    assert impossible == (rule == "broken-softmax-residual")


def test_matching_is_exact_until_the_mismatch_is_drawn_again() -> None:
    """https://github.com/ml-explore/mlx-swift-lm/pull/459 ; https://github.com/z-lab/dflash/issues/74"""
    p, q = (0.5, 0.5), (0.9, 0.1)
    for rule, want in (("match", p), ("broken-redraw-after-mismatch", (0.7, 0.3))):
        law, acceptance = one_draft(p, q, rule=rule)
        assert law == pytest.approx(want, **EXACT)
        assert acceptance == pytest.approx(0.5, **EXACT)
    assert one_draft(p, q, rule="token")[1] == pytest.approx(0.6, **EXACT)


def test_a_certain_proposal_judged_as_a_draw() -> None:
    """https://github.com/apple/ml-recurrent-drafter/issues/6 : token 0 every time."""
    p, method = (0.2, 0.5, 0.3), certain((0,), (0.2, 0.5, 0.3))
    law, acceptance = one_draft(p, p, method=method)
    assert law == pytest.approx(p, **EXACT) and acceptance == pytest.approx(0.2, **EXACT)
    law, acceptance = one_draft(p, p, method=method, rule="broken-argmax-draft-softmax-q")
    assert law == pytest.approx((1, 0, 0), **EXACT) and acceptance == pytest.approx(1.0, **EXACT)


def test_the_first_of_the_best_children_is_over_accepted() -> None:
    """https://github.com/SafeAILab/EAGLE/issues/110 : by the soft q always, by right 51 %."""
    p, method = (0.51, 0.49), certain((0, 1), (0.51, 0.49))
    assert one_draft(p, p, method=method)[0] == pytest.approx(p, **EXACT)
    law, _ = one_draft(p, p, method=method, rule="broken-argmax-draft-softmax-q")
    assert law == pytest.approx((1, 0), **EXACT)


def test_siblings_without_replacement_judged_as_independent_ones() -> None:
    """https://github.com/SafeAILab/EAGLE/issues/74 : q without the first must be renormalised."""
    p, q = (0.6, 0.3, 0.1), np.array([0.05, 0.15, 0.8])

    def offer(context, rng) -> Proposal:
        one = rng.draw(q)
        rest = np.where(np.arange(3) == one, 0.0, q)
        rest /= rest.sum()
        two = rng.draw(rest)
        return Proposal(tree=TokenTree((one, two), (-1, -1)), draft_probs=(q, rest))

    method = Offers(offer=offer)
    for rule in ("token", "siblings-without-replacement"):
        assert one_draft(p, p, rule=rule, method=method)[0] == pytest.approx(p, **EXACT)
    law, _ = one_draft(p, p, rule="siblings-iid", method=method)
    assert law == approx(0.225, 0.675, 0.1), "the right rule for another draft"


def test_children_chosen_by_rank_in_any_order() -> None:
    """https://github.com/SafeAILab/EAGLE/issues/183"""
    p = (0.5, 0.3, 0.2)
    for tokens in ((1, 2), (2, 1), (0, 2)):
        method = children(tokens, (None, None))
        for rule in ("token", "siblings-topk", "match"):
            law, acceptance = one_draft(p, p, rule=rule, method=method)
            assert law == pytest.approx(p, **EXACT)
            assert acceptance == pytest.approx(sum(p[token] for token in tokens), **EXACT)


def test_undrawing_biases_the_law() -> None:
    """https://github.com/ikawrakow/ik_llama.cpp/pull/1820 : harmless there, as it matches."""
    p, q = (0.5, 0.5), (0.9, 0.1)
    law, _ = one_draft(p, q, rule="broken-undrawing")
    assert law == pytest.approx((0.55, 0.45), **EXACT)
    kept = draft_model(1, min_confidence=0.2)
    assert one_draft(p, q, method=kept)[0] == pytest.approx(p, **EXACT)


def test_accepting_only_above_q_and_redrawing_from_p() -> None:
    """https://github.com/vllm-project/vllm-project.github.io/pull/80 ; https://github.com/eth-sri/language-model-arithmetic/issues/14"""
    p, q = (0.5, 0.5), (0.9, 0.1)
    law, acceptance = one_draft(p, q, rule="broken-accept-above-q")
    assert acceptance == pytest.approx(0.1, **EXACT) and law == pytest.approx((0, 1), **EXACT)
    law, acceptance = one_draft(p, q, rule="broken-redraw-from-p")
    assert acceptance == pytest.approx(0.6, **EXACT) and law == pytest.approx((0.7, 0.3), **EXACT)


@pytest.mark.parametrize("top_p", [1e-8, 1e-300])
@pytest.mark.parametrize("rule", ["token", "one-hot", "match", "typical", "broken-redraw-from-p"])
def test_a_very_small_top_p_is_greedy_under_any_rule(rule: str, top_p: float) -> None:
    """https://github.com/ml-explore/mlx-lm/pull/1912"""
    sampling = Sampling(top_p=top_p)
    law, _ = one_draft((0.7, 0.2, 0.1), (0.1, 0.8, 0.1), rule=rule, sampling=sampling)
    assert law == pytest.approx((1, 0, 0), **EXACT)
    assert process(np.log([0.7, 0.2, 0.1]), sampling).tolist() == [1.0, 0.0, 0.0]


def test_temperatures_zero_and_one_mixed() -> None:
    """https://github.com/vllm-project/vllm/pull/27077 ; https://github.com/sgl-project/sglang/pull/23296"""
    p, q = (0.3, 0.6, 0.1), (0.5, 0.2, 0.3)
    greedy_draft, hot_draft = (draft_model(1, draft_temperature=t) for t in (0.0, 1.0))
    law, _ = one_draft(p, q, method=greedy_draft, sampling=Sampling())
    assert law == pytest.approx(p, **EXACT)
    law, _ = one_draft(p, q, method=hot_draft, sampling=GREEDY)
    assert law == pytest.approx((0, 1, 0), **EXACT)
    law, _ = one_draft(
        p, q, method=greedy_draft, sampling=Sampling(), rule="broken-argmax-draft-softmax-q"
    )
    assert law == pytest.approx((0.6, 0.4, 0), abs=1e-12), "min(1, .3/.5) on token 0, rest to 1"
