"""Mistakes that have been made: their exact bias, and that the exact law of the loop shows them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from fault_kit import begin, draft_model, offers

from speclab.core.errors import BadInput
from speclab.core.laws import Law, Row, Sampling, residual
from speclab.core.protocols import Method, Proposal, VerifyRule, provided
from speclab.core.randomness import Seeded
from speclab.core.rows import TargetRows
from speclab.core.rules import RULES, rule_named
from speclab.core.rules.broken import by_raw_law, tempered
from speclab.core.rules.broken_trees import BROKEN
from speclab.core.rules.rejection import Trial, target_again, walk, without
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.core.trees import TokenTree
from speclab.engine.loop import Limits
from speclab.methods import make_method
from speclab.models.toy import ToyModel
from speclab.testing import exact_law, largest_difference, target_law
from speclab.testing.rule_law import exact_bias, rule_law, usual_candidates, usual_sampling

EXACT = {"abs": 1e-12}
NAMES = [rule.name for rule in BROKEN]
TOP_2 = Sampling(top_k=2)


def test_the_table_names_them() -> None:
    assert set(NAMES) == {
        "broken-redraw-after-mismatch",
        "broken-redraw-from-p",
        "broken-softmax-residual",
        "broken-argmax-draft-softmax-q",
        "broken-top-p-one-side",
        "broken-wrong-temperature",
        "broken-undrawing",
        "broken-best-of-samples",
        "broken-naive-multi-draft",
        "broken-sorted-siblings",
        "broken-accept-above-q",
        "broken-shared-noise",
        "broken-redraw-after-race",
    }
    assert [name for name, rule in RULES.items() if rule.kind == "broken"] == NAMES


@pytest.mark.parametrize("rule", BROKEN, ids=NAMES)
def test_each_says_why_and_by_how_much(rule: VerifyRule) -> None:
    assert not rule.lossless and rule.why_not and rule.why_not.en and rule.why_not.zh
    assert "**Source:**" in inspect.getdoc(rule.verify) and rule.source
    assert rule.shipped_by == "" or "https://" in rule.shipped_by
    assert exact_bias(rule) == pytest.approx(rule.bias, abs=5e-5)
    assert rule.bias > 0.01


# --- every figure, by enumeration ----------------------------------------------------------------


def local(
    *needs: str,
    accept: Callable[[Trial], float] | None = None,
    left: Callable[[TargetRows, Proposal, Trial], Law] | None = None,
) -> VerifyRule:
    """Return the ratio rule with another chance or another remainder."""

    def verify(rows, proposal, rng, position):
        more = {} if accept is None else {"accept": accept}
        if left is not None:
            more["left"] = lambda trial: left(rows, proposal, trial)
        return walk(rows, proposal, rng, position, **more)

    return replace(
        RULES["token"], name="local", lossless=False, needs=frozenset(needs), verify=verify
    )


def raw_residual(rows: TargetRows, proposal: Proposal, trial: Trial) -> Law:
    return residual(rows.raw(0), proposal.raw_draft[0]())


def one_hot_residual(rows: TargetRows, proposal: Proposal, trial: Trial) -> Law:
    return without(trial.p, trial.token)


FIGURES: dict[str, tuple[VerifyRule, float]] = {
    "p and draw top-2, raw q in ratio and residual": (RULES["broken-top-p-one-side"], 0.094),
    "drawn at T = 1, q recorded at T = .5": (RULES["broken-wrong-temperature"], 0.107),
    "top-2 in the test, raw p and q in the residual": (
        local("sampled", "raw_draft", left=raw_residual),
        0.054,
    ),
    "argmax draft, softmax q": (RULES["broken-argmax-draft-softmax-q"], 0.200),
    "ratio test, one-hot residual": (local(left=one_hot_residual), 0.059),
    "p(x) test, (p - q)+ residual": (local(accept=lambda trial: trial.target_prob), 0.200),
    "fresh redraw": (RULES["broken-redraw-after-mismatch"], 0.090),
    "argmax match, else p": (rule_named("top-k-membership", {"k": 1}), 0.100),
    "top-2 membership, else p": (RULES["top-k-membership"], 0.360),
    "threshold .5, else p": (RULES["threshold"], 0.350),
    "threshold 1, else p": (rule_named("threshold", {"threshold": 1.0}), 0.105),
    "typical (.09, .3), else p": (RULES["typical"], 0.330),
    "lenience .5": (RULES["lenience"], 0.350),
    "drop a sampled draft with q < .2": (RULES["broken-undrawing"], 0.117),
    "best q of two samples": (RULES["broken-best-of-samples"], 0.120),
    "naive K = 2": (RULES["broken-naive-multi-draft"], 0.125),
    "redraw from p": (RULES["broken-redraw-from-p"], 0.125),
    "softmaxed residual": (RULES["broken-softmax-residual"], 0.193),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_total_variation_on_the_standard_pair(figure: str) -> None:
    rule, want = FIGURES[figure]
    assert exact_bias(rule) == pytest.approx(want, abs=5e-4)


@pytest.mark.parametrize(("count", "want"), enumerate((0.0, 0.125, 0.169, 0.184), start=1))
def test_naive_tests_of_more_drafts_are_worse(count: int, want: float) -> None:
    rule = RULES["broken-naive-multi-draft"]
    assert exact_bias(rule, num_candidates=count) == pytest.approx(want, abs=5e-4)


def test_by_hand() -> None:
    """Laws that fit on a line: written out here, enumerated there."""
    p, q = STANDARD_P, STANDARD_Q
    shared, refused = np.minimum(p, q), 1 - np.minimum(p, q).sum()
    rest = np.maximum(p - q, 0) / np.maximum(p - q, 0).sum()
    cases = {
        "broken-redraw-after-mismatch": p * (q + 1 - p @ q),
        "broken-redraw-from-p": shared + refused * p,
        "broken-undrawing": np.where(q >= 0.2, shared, 0)
        + np.where(q >= 0.2, q - shared, 0).sum() * rest
        + q[q < 0.2].sum() * p,
        "broken-accept-above-q": np.where(p >= q, q, 0) + q[p < q].sum() * rest,
        "broken-argmax-draft-softmax-q": np.array([0, 0.5, 0, 0]) + 0.5 * rest,
        "broken-naive-multi-draft": shared * (1 + refused) + refused**2 * rest,
    }
    for name, want in cases.items():
        assert rule_law(RULES[name], p, q)[0] == pytest.approx(want, **EXACT), name


def test_shared_noise_against_simulated_races() -> None:
    """One race per round: exponential times, the smallest time/q drafts, time/residual corrects."""
    generator, count = np.random.default_rng(0), 400_000
    times = generator.exponential(size=(count, 4))
    drafted = (times / STANDARD_Q).argmin(1)
    kept = generator.random(count) < np.minimum(1, STANDARD_P / STANDARD_Q)[drafted]
    with np.errstate(divide="ignore"):
        corrected = (times / np.maximum(STANDARD_P - STANDARD_Q, 0)).argmin(1)
    seen = np.bincount(np.where(kept, drafted, corrected), minlength=4) / count
    law, acceptance = rule_law(RULES["broken-shared-noise"], STANDARD_P, STANDARD_Q)
    assert np.abs(seen - law).max() < 5 * 0.5 / np.sqrt(count)
    assert acceptance == pytest.approx(0.65, **EXACT)
    assert 0.5 * np.abs(seen - STANDARD_P).sum() > 0.01


# --- where they are right, and why that is no excuse ---------------------------------------------


def test_parameters_at_which_a_rule_is_exact() -> None:
    exact = {
        "broken-wrong-temperature": {"recorded_temperature": 1.0},
        "broken-undrawing": {"min_probability": 0.0},
    }
    for name, values in exact.items():
        assert exact_bias(rule_named(name, values)) < 1e-12 < RULES[name].bias
    nothing_filtered = exact_bias(RULES["broken-top-p-one-side"], sampling=Sampling())
    assert nothing_filtered < 1e-12


@pytest.mark.parametrize("rule", BROKEN, ids=NAMES)
def test_equal_laws_hide_most_of_them(rule: VerifyRule) -> None:
    """A test with p = q passes most mistakes: it proves nothing."""
    visible = {
        "broken-redraw-after-mismatch",
        "broken-argmax-draft-softmax-q",
        "broken-wrong-temperature",
        "broken-undrawing",
        "broken-best-of-samples",
        "broken-sorted-siblings",
    }
    bias = exact_bias(rule, STANDARD_P, STANDARD_P)
    assert (bias > 1e-3) == (rule.name in visible)


def test_tempered_laws() -> None:
    assert tempered(STANDARD_Q, 1.0) == pytest.approx(STANDARD_Q, **EXACT)
    assert tempered(STANDARD_Q, 0.5) == pytest.approx(STANDARD_Q**2 / 0.42, **EXACT)
    assert tempered(np.array([0.5, 0.0, 0.5]), 3.0) == pytest.approx([0.5, 0, 0.5], **EXACT)


def test_a_proposal_without_its_raw_law_is_refused() -> None:
    proposal = Proposal(tree=TokenTree.chain((0,)), draft_probs=(STANDARD_Q,))
    with pytest.raises(BadInput, match="before processing"):
        by_raw_law(proposal, [0])


# --- in the real loop ----------------------------------------------------------------------------

TARGET, DRAFT = ToyModel.random(7), ToyModel.random(8)
PROMPT, LIMITS = (0, 1, 0), Limits(max_new_tokens=3, max_context=100)
PLAIN, FILTERED, HALF = Sampling(), Sampling(top_p=0.7), Sampling(temperature=0.5)


@cache
def wanted(sampling: Sampling) -> dict:
    return target_law(TARGET, PROMPT, sampling, LIMITS)


def distance(rule: VerifyRule, method: Method, sampling: Sampling) -> float:
    """Return how far the exact law of three tokens of the real loop is from the target's."""
    law = exact_law(
        lambda rng: begin(
            TARGET,
            PROMPT,
            method=method,
            drafts=[DRAFT],
            rule=rule,
            sampling=sampling,
            rng=rng,
            n=3,
        ),
        max_leaves=1_000_000,
    )
    assert sum(law.probs.values()) == pytest.approx(1.0, **EXACT)
    return largest_difference(law.probs, wanted(sampling))


def tree(siblings: str, depth: int = 1) -> Method:
    return make_method("draft-tree", {"depth": depth, "width": 2, "siblings": siblings})


CHAINS = [(draft_model(1), PLAIN), (draft_model(2), PLAIN), (draft_model(2), HALF)]
COPY = (offers((1, 0)), PLAIN)
TREES = [(tree("iid"), PLAIN), (tree("without-replacement", 2), PLAIN)]
RUNS: dict[str, list[tuple[Method, Sampling]]] = {
    "broken-redraw-after-mismatch": [*CHAINS, *TREES, COPY],
    "broken-redraw-from-p": [*CHAINS, *TREES, COPY],
    "broken-softmax-residual": [*CHAINS, *TREES, COPY],
    "broken-accept-above-q": [*CHAINS, *TREES, COPY],
    "broken-argmax-draft-softmax-q": [
        (draft_model(gamma, draft_temperature=0.0), sampling)
        for gamma, sampling in ((1, PLAIN), (2, PLAIN), (2, FILTERED))
    ],
    "broken-top-p-one-side": [(draft_model(1), FILTERED), (draft_model(2), FILTERED)],
    "broken-wrong-temperature": [*CHAINS, *TREES],
    "broken-undrawing": [*CHAINS, *TREES],
    "broken-shared-noise": [
        (draft_model(gamma, shared_noise=True), sampling)
        for gamma, sampling in ((1, PLAIN), (2, PLAIN), (1, HALF))
    ],
    "broken-redraw-after-race": [
        (draft_model(gamma, shared_noise=True), sampling)
        for gamma, sampling in ((1, PLAIN), (2, PLAIN), (1, HALF))
    ],
    "broken-best-of-samples": [(tree("iid"), PLAIN), (tree("iid"), HALF)],
    "broken-naive-multi-draft": [(tree("iid"), PLAIN), (tree("iid"), HALF)],
    "broken-sorted-siblings": [(tree("without-replacement"), PLAIN), TREES[1]],
}


@pytest.mark.parametrize("name", NAMES)
def test_the_exact_law_of_the_loop_shows_the_bias(name: str) -> None:
    for method, sampling in RUNS[name]:
        assert RULES[name].needs <= provided(method, sampling) or method is COPY[0]
        assert distance(RULES[name], method, sampling) > 1e-3, (method, sampling)


LOSSY = [rule.name for rule in RULES.values() if rule.kind == "lossy"]


@pytest.mark.parametrize("name", LOSSY)
def test_the_exact_law_of_the_loop_shows_a_lossy_rule(name: str) -> None:
    for method, sampling in [CHAINS[0], CHAINS[1], *TREES, COPY]:
        assert distance(RULES[name], method, sampling) > 1e-3, (method, sampling)


def test_the_same_runs_with_an_exact_rule_show_nothing() -> None:
    """The negative control of the controls."""
    for method, sampling in [*CHAINS, *TREES, COPY]:
        assert distance(RULES["token"], method, sampling) < 1e-12


# --- what they record ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, *LOSSY])
def test_coins_and_noted_laws_are_those_the_test_used(name: str) -> None:
    rule = RULES[name]
    generator = np.random.default_rng(5)
    laws = generator.dirichlet(np.full(5, 0.7), size=5)
    nodes = TokenTree((0, 1, 2, 3), (-1, -1, 0, 1))
    deterministic = "deterministic" in rule.needs
    q = tuple(None if deterministic else laws[node] for node in range(4))
    raw = tuple(lambda node=node: laws[3 - node] for node in range(4))
    proposal = Proposal(tree=nodes, draft_probs=q, raw_draft=raw)
    for seed in range(40):
        rows = TargetRows(lambda index: Row(np.log(laws[4 - index])), Sampling(), nodes)
        verdict = rule.verify(rows, proposal, Seeded(seed), 9)
        assert list(rows.used) == [flip.node for flip in verdict.flips]
        for flip in verdict.flips:
            p, used = rows.used[flip.node]
            assert flip.token == nodes.tokens[flip.node]
            assert flip.target_prob == p[flip.token]
            assert flip.draft_prob == (1.0 if used is None else used[flip.token])
            assert 0.0 <= flip.accept_prob <= 1.0 and not flip.overruled
            assert flip.drawn_token is not None or flip.accepted == (flip.u < flip.accept_prob)
        kept = [flip.node for flip in verdict.flips if flip.accepted]
        assert tuple(kept) == verdict.accepted


def test_usual_settings_follow_from_needs() -> None:
    several = {name for name in NAMES if usual_candidates(RULES[name]) == 2}
    assert several == {
        "broken-best-of-samples",
        "broken-naive-multi-draft",
        "broken-sorted-siblings",
    }
    filtered = [name for name in NAMES if usual_sampling(RULES[name]) != Sampling()]
    assert filtered == ["broken-top-p-one-side"]
    assert usual_sampling(RULES["broken-top-p-one-side"]) == TOP_2
    assert target_again(Trial(STANDARD_P, STANDARD_Q, 0)) is STANDARD_P


@pytest.mark.parametrize("name", [rule.name for rule in RULES.values() if rule.lossless])
def test_lossless_rules_have_no_bias_here(name: str) -> None:
    for count in (1, 2, 3):
        if "chain" in RULES[name].needs and count > 1:
            continue
        assert exact_bias(RULES[name], num_candidates=count) < 1e-12
