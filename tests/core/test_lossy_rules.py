"""Rules that are lossy by design: what they accept, their exact bias, and their parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.rules import RULES, rule_named
from speclab.core.rules.lossy import LOSSY, entropy, rank
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.testing import check_rule
from speclab.testing.rule_law import exact_bias, rule_law

EXACT = {"abs": 1e-12}
NAMES = [rule.name for rule in LOSSY]


def law(name: str, p=STANDARD_P, q=STANDARD_Q, **values: float) -> np.ndarray:
    return rule_law(rule_named(name, values), p, q)[0]


def test_the_table_names_them() -> None:
    assert NAMES == [
        "typical",
        "lenience",
        "threshold",
        "threshold-log-ratio",
        "top-k-membership",
        "relaxed-greedy",
    ]
    assert [name for name, rule in RULES.items() if rule.kind == "lossy"] == NAMES


@pytest.mark.parametrize("rule", LOSSY, ids=NAMES)
def test_each_says_why_and_by_how_much(rule) -> None:
    assert not rule.lossless and rule.why_not and rule.why_not.en and rule.why_not.zh
    assert exact_bias(rule) == pytest.approx(rule.bias, abs=5e-5)
    assert rule.bias > 0.05


@pytest.mark.parametrize("rule", LOSSY, ids=NAMES)
def test_u_zero_and_nan_are_handled_as_in_the_exact_rules(rule) -> None:
    check_rule(rule)


@pytest.mark.parametrize("rule", LOSSY, ids=NAMES)
def test_at_temperature_zero_only_relaxed_greedy_leaves_the_greedy_text(rule) -> None:
    greedy = Sampling(temperature=0.0)
    got, _ = rule_law(rule, (0.45, 0.4, 0.15), (0.2, 0.7, 0.1), sampling=greedy)
    want = [0.0, 1.0, 0.0] if rule.name == "relaxed-greedy" else [1.0, 0.0, 0.0]
    assert got == pytest.approx(want, **EXACT)


def test_typical_threshold_falls_with_entropy() -> None:
    assert entropy(STANDARD_P) == pytest.approx(1.1421, abs=1e-4)
    flat = np.full(8, 1 / 8)
    assert entropy(flat) == pytest.approx(math.log(8), **EXACT)
    q = np.array([1, 0, 0, 0.0])
    assert law("typical", q=q) == pytest.approx(q, **EXACT)
    last = np.array([0, 0, 0, 1.0])
    assert law("typical", q=last) == pytest.approx(STANDARD_P, **EXACT), "p(x) = .05 is refused"
    assert law("typical", q=last, epsilon=0.04) == pytest.approx(last, **EXACT)
    assert law("typical", q=last, delta=0.1) == pytest.approx(last, **EXACT), ".1 exp(-H) = .032"


@pytest.mark.parametrize("lenience", [0.05, 0.3, 0.5, 0.8, 1.0])
def test_lenience_never_emits_more_than_p_over_l(lenience: float) -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        p, q = generator.dirichlet(np.full(4, 0.6), size=2)
        got, kept = rule_law(rule_named("lenience", {"lenience": lenience}), p, q)
        assert (got <= p / lenience + 1e-12).all()
        assert kept == pytest.approx(np.minimum(q, p / lenience).sum(), **EXACT)
        if lenience == 1.0:
            assert got == pytest.approx(p, **EXACT)


def test_lenience_on_a_certain_proposal() -> None:
    """l q takes the place of a one-hot q: accepted with p/l, the rest is p without l of x."""
    rule = rule_named("lenience", {"lenience": 0.5})
    got, kept = rule_law(rule, (0.2, 0.5, 0.3), (1.0, 0.0, 0.0))
    assert kept == pytest.approx(0.4, **EXACT)
    assert got == pytest.approx([0.4, 0.6 * 0.625, 0.6 * 0.375], **EXACT)


@pytest.mark.parametrize(
    ("name", "values", "kept"),
    [
        ("threshold", {"threshold": 0.5}, (0, 1, 2, 3)),
        ("threshold", {"threshold": 1.0}, (0, 2)),
        ("threshold", {"threshold": 2.0}, (0,)),
        ("threshold-log-ratio", {"slack": 0.0}, (0, 2)),
        ("threshold-log-ratio", {"slack": 0.7}, (0, 1, 2, 3)),
        ("top-k-membership", {"k": 1}, (0,)),
        ("top-k-membership", {"k": 3}, (0, 1, 2)),
        ("relaxed-greedy", {"top_n": 2}, (0, 1)),
        ("relaxed-greedy", {"delta": 0.36}, (0, 1, 2)),
        ("relaxed-greedy", {"delta": 0.0}, (0,)),
    ],
)
def test_what_is_accepted(name: str, values: dict[str, float], kept: tuple[int, ...]) -> None:
    passed = np.isin(np.arange(4), kept)
    refused = STANDARD_Q[~passed].sum()
    want = STANDARD_Q * passed + refused * STANDARD_P
    assert law(name, **values) == pytest.approx(want, **EXACT)


def test_ranks_break_ties_by_the_lower_id() -> None:
    tied = np.array([0.2, 0.3, 0.3, 0.2])
    assert [rank(tied, token) for token in range(5)] == [2, 0, 1, 3, 4]


def test_parameters_are_checked() -> None:
    with pytest.raises(BadInput, match="between"):
        rule_named("lenience", {"lenience": 0.0})
    with pytest.raises(BadInput, match="whole number"):
        rule_named("top-k-membership", {"k": 1.5})
    with pytest.raises(BadInput, match="no parameter"):
        rule_named("typical", {"k": 1})


@pytest.mark.parametrize(
    ("p", "q", "more"),
    [
        ((0.5, 0.4), (0.5, 0.5), {}),
        ((1.2, -0.2), (0.5, 0.5), {}),
        ((math.nan, 1.0), (0.5, 0.5), {}),
        ((), (0.5, 0.5), {}),
        ((0.5, 0.5), (0.5, 0.25, 0.25), {}),
        ((0.5, 0.5), (0.5, 0.5), {"num_candidates": 0}),
        ((0.5, 0.5), (0.5, 0.5), {"num_candidates": True}),
    ],
)
def test_what_is_no_law_is_refused(p, q, more) -> None:
    with pytest.raises(BadInput):
        rule_law(RULES["typical"], p, q, **more)


def test_laws_rounded_by_hand_are_scaled() -> None:
    got, _ = rule_law(RULES["token"], (0.3333333, 0.6666666), (0.5, 0.5))
    assert got.sum() == pytest.approx(1.0, **EXACT) and got == pytest.approx([1 / 3, 2 / 3])
