"""The lossless rules: worked examples, exact laws, and what block verification gains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fault_kit import begin, draft_model
from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.laws import Law, Row, Sampling
from speclab.core.protocols import Proposal
from speclab.core.randomness import Exhaustive, Scripted
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules import RULES
from speclab.core.rules.k_seq import price
from speclab.core.trees import TokenTree
from speclab.engine.loop import Limits
from speclab.models.toy import ToyModel
from speclab.stats.counters import acceptance_rate
from speclab.testing import exact_law, largest_difference, target_law
from speclab.testing.conformance import check_chain
from speclab.testing.rule_law import rule_law

LAST = 1.0 - 2.0**-53
LOSSLESS = [rule for rule in RULES.values() if rule.lossless]
P, Q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.6, 0.1, 0.1])


class Given(Row):
    """A row whose processed law is given."""

    def law(self, sampling, counts=None) -> Law:
        return self.logits


def verify(
    name: str, targets: Sequence[Sequence[float]], proposal: Proposal, uniforms: Sequence[float]
) -> Verdict:
    """Judge `proposal` with the target's laws by row (the last one repeats)."""
    laws = [np.array(law, dtype=float) for law in targets]
    rows = TargetRows(
        lambda index: Given(laws[min(index, len(laws) - 1)]), Sampling(), proposal.tree
    )
    return RULES[name].verify(rows, proposal, Scripted(uniforms), 5)


def siblings(tokens: Sequence[int], law: Sequence[float] | None) -> Proposal:
    """Return siblings that all carry one law."""
    q = None if law is None else np.array(law)
    tree = TokenTree(tuple(tokens), (-1,) * len(tokens))
    return Proposal(tree=tree, draft_probs=(q,) * len(tokens))


def test_names_and_what_they_are_called_in_two_languages() -> None:
    assert [rule.name for rule in LOSSLESS] == [
        "token",
        "one-hot",
        "match",
        "block",
        "siblings-iid",
        "siblings-without-replacement",
        "siblings-topk",
        "k-seq",
        "coupled",
    ]
    for rule in LOSSLESS:
        assert rule.title.zh and rule.one_liner.zh and rule.source and rule.verify.__doc__
        assert "Example" in rule.verify.__doc__ and "**Source:**" in rule.verify.__doc__


def test_examples_of_one_candidate() -> None:
    drawn = Proposal(tree=TokenTree.chain([0]), draft_probs=(np.array((0.9, 0.1)),))
    verdict = verify("token", [(0.5, 0.5)], drawn, [LAST, 0.0])
    assert verdict.flips[0].accept_prob == pytest.approx(5 / 9) and verdict.next_token == 1
    chosen = Proposal(tree=TokenTree.chain([0]), draft_probs=(None,))
    for u, token in ((0.0, 1), (0.624, 1), (0.626, 2), (LAST, 2)):
        verdict = verify("one-hot", [(0.2, 0.5, 0.3)], chosen, [LAST, u])
        assert verdict.flips[0].accept_prob == pytest.approx(0.2) and verdict.next_token == token
    law, kept = rule_law(RULES["match"], (0.5, 0.5), (0.9, 0.1), num_candidates=1)
    assert kept == pytest.approx(0.5, abs=1e-15) and law == pytest.approx([0.5, 0.5], abs=1e-15)


def test_example_of_siblings_drawn_independently() -> None:
    verdict = verify("siblings-iid", [(0.5, 0.5)], siblings((0, 0), (0.9, 0.1)), [LAST, 0.0, 0.5])
    assert [flip.accept_prob for flip in verdict.flips] == [pytest.approx(5 / 9), 0.0]
    assert verdict.accepted == () and verdict.next_token == 1


def test_example_of_siblings_without_replacement() -> None:
    drawn = siblings((0, 1), (0.9, 0.1))
    verdict = verify("siblings-without-replacement", [(0.5, 0.5)], drawn, [LAST, LAST, 0.5])
    assert [flip.accept_prob for flip in verdict.flips] == [pytest.approx(5 / 9), 1.0]
    assert verdict.accepted == (1,)


def test_example_of_the_k_most_likely() -> None:
    verdict = verify("siblings-topk", [(0.5, 0.3, 0.2)], siblings((1, 2), None), [LAST, LAST, 0.5])
    assert [flip.accept_prob for flip in verdict.flips] == pytest.approx([0.3, 0.2 / 0.7])
    assert verdict.next_token == 0
    _, kept = rule_law(RULES["siblings-topk"], (0.5, 0.3, 0.2), (0.1, 0.5, 0.4), num_candidates=2)
    assert kept == pytest.approx(0.5, abs=1e-15)


def test_example_of_k_seq() -> None:
    found = price(P, Q, 2)
    assert found.rho == pytest.approx(1.460, abs=5e-4) and found.beta == pytest.approx(
        0.540, abs=5e-4
    )
    assert 1 - (1 - found.beta) ** 2 == pytest.approx(found.rho * found.beta, abs=1e-14)
    assert rule_law(RULES["k-seq"], P, Q, num_candidates=2)[1] == pytest.approx(0.788, abs=5e-4)
    assert price(P, Q, 1).rho == 1.0


def test_example_of_coupling() -> None:
    law, kept = rule_law(RULES["coupled"], (0.5, 0.5), (0.9, 0.1), num_candidates=1)
    assert kept == pytest.approx(0.6, abs=1e-15) and law == pytest.approx([0.5, 0.5], abs=1e-15)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_what_k_seq_leaves_is_exact(count: int) -> None:
    """p = q, disjoint, one-hot and random laws with zeros: accepted mass + rest = p to 1e-12."""
    generator = np.random.default_rng(count)
    cases = [(P, P), (P, Q), (np.eye(4)[0], np.eye(4)[1]), (np.eye(4)[2], np.eye(4)[2])]
    cases += [(np.eye(4)[1], Q), (P, np.eye(4)[3])]
    for _ in range(300):
        p, q = generator.dirichlet(np.full(5, 0.4), 2)
        p[generator.integers(0, 5)] = 0.0
        q[generator.integers(0, 5)] = 0.0
        cases.append((p / p.sum(), q / q.sum()))
    for p, q in cases:
        found = price(p, q, count)
        refused = (1.0 - found.beta) ** count
        gain = (1.0 - refused) / found.beta if found.beta else 0.0
        kept = np.minimum(q, p / found.rho) * gain
        rest = found.left / found.left.sum() * refused
        assert np.abs(kept + rest - p).max() < 1e-12
        assert 1.0 <= found.rho <= count and (found.left >= 0.0).all()


weights = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)


def normed(numbers: Sequence[int]) -> Law:
    return np.array(numbers) / sum(numbers)


@pytest.mark.parametrize("rule", LOSSLESS, ids=lambda rule: rule.name)
@settings(max_examples=25, deadline=None)
@given(weights, weights, st.integers(1, 3))
def test_the_law_is_p_for_any_p_and_q(rule, p: list[int], q: list[int], count: int) -> None:
    target, draft = normed(p), normed(q)
    count = 1 if "chain" in rule.needs else count
    law, kept = rule_law(rule, target, draft, num_candidates=count, sampling=Sampling())
    assert np.abs(law - target).max() < 1e-12 and -1e-12 < kept < 1 + 1e-12


@pytest.mark.parametrize("name", ["token", "one-hot", "match", "block", "coupled"])
@settings(max_examples=25, deadline=None)
@given(st.lists(weights, min_size=8, max_size=8))
def test_the_law_of_chains_is_the_targets_for_any_tables(name: str, rows: list[list[int]]) -> None:
    contexts = [(), (0,), (1,), (2,)]
    target, draft = (
        ToyModel(dict(zip(contexts, map(normed, part), strict=True)), 1, 3)
        for part in (rows[:4], rows[4:])
    )
    check_chain(RULES[name], target, draft)


def coins_along(name: str, target: ToyModel, draft: ToyModel, path: Sequence[int], u: float):
    """Return the coins of a drafted path, with every uniform equal to `u`."""
    laws = tuple(draft.law((0, *path[:place])) for place in range(len(path)))
    proposal = Proposal(tree=TokenTree.chain(path), draft_probs=laws)
    targets = [target.law((0, *path[:place])) for place in range(len(path) + 1)]
    return verify(name, targets, proposal, [u] * (len(path) + 1)).flips


def expected_accepted(target: ToyModel, draft: ToyModel, gamma: int) -> tuple[float, float]:
    """Return the expected accepted tokens of a round: (token, block), from their coins.

    Token: coins until the first failure; block: until the last success.
    """
    token = block = 0.0
    for path in np.ndindex(*(draft.vocab_size,) * gamma):
        weight = np.prod([draft.law((0, *path[:i]))[x] for i, x in enumerate(path)])
        if weight == 0.0:
            continue
        coins = [flip.accept_prob for flip in coins_along("token", target, draft, path, 0.0)]
        token += weight * np.cumprod(coins).sum()
        coins = [flip.accept_prob for flip in coins_along("block", target, draft, path, LAST)]
        block += weight * (1.0 - np.cumprod(1.0 - np.array(coins)[::-1])).sum()
    return token, block


def test_block_keeps_11_of_9_where_the_ratio_test_keeps_10_of_9() -> None:
    target, draft = ToyModel.constant((1 / 3, 2 / 3)), ToyModel.constant((2 / 3, 1 / 3))
    accepted = {}
    for name in ("token", "block"):
        accepted[name], path = 0.0, []
        while path is not None:
            rng = Exhaustive(path=path)
            decoding = begin(
                target, (0,), method=draft_model(2), drafts=[draft], rule=name, rng=rng, n=3
            )
            first = next(iter(decoding))
            accepted[name] += rng.weight * len(first.verdict.accepted)
            path = rng.next_path()
    assert accepted["token"] == pytest.approx(10 / 9, abs=1e-14)
    assert accepted["block"] == pytest.approx(11 / 9, abs=1e-14)
    assert expected_accepted(target, draft, 2) == pytest.approx((10 / 9, 11 / 9), abs=1e-14)


def test_block_is_never_below_the_ratio_test() -> None:
    """1,000 random tables, exact expectations per round."""
    gains = []
    for seed in range(1_000):
        gamma, size = (2, 3) if seed % 4 else (3, 2)
        target = ToyModel.random(seed, vocab_size=size)
        draft = ToyModel.random(seed + 5_000, vocab_size=size)
        token, block = expected_accepted(target, draft, gamma)
        assert block >= token - 1e-12, seed
        gains.append(block - token)
    assert np.mean(gains) > 0.02 and np.max(gains) > 0.2


def test_block_keeps_a_token_whose_own_coin_failed() -> None:
    p, q = (1 / 3, 2 / 3), np.array((2 / 3, 1 / 3))
    proposal = Proposal(tree=TokenTree.chain((0, 1)), draft_probs=(q, q))
    verdict = verify("block", [p], proposal, [0.0, LAST, 0.0])
    first, second = verdict.flips
    assert not first.accepted and first.overruled and first.accept_prob == 0.0
    assert second.accepted and not second.overruled and second.accept_prob == 1.0
    assert (first.carried, second.carried) == (1.0, pytest.approx(0.5))
    assert verdict.accepted == (0, 1) and verdict.outcome == "bonus"


def test_block_corrects_from_what_the_path_leaves() -> None:
    p, q = (0.2, 0.8), np.array((0.8, 0.2))
    proposal = Proposal(tree=TokenTree.chain((0, 0)), draft_probs=(q, q))
    verdict = verify("block", [p], proposal, [LAST, LAST, 0.999])
    assert verdict.accepted == () and verdict.next_token == 1 and verdict.outcome == "correction"
    assert [flip.overruled for flip in verdict.flips] == [False, False]
    p, q = (0.5, 0.2, 0.3), np.array((0.1, 0.3, 0.6))
    proposal = Proposal(tree=TokenTree.chain((2, 2)), draft_probs=(q, q))
    verdict = verify("block", [p], proposal, [0.0, LAST, 0.999])
    left = 0.5 * 0.5 - 0.1
    assert verdict.flips[0].accept_prob == pytest.approx(left / (left + 0.5))
    assert verdict.accepted == (0,) and verdict.next_token == 0, "only token 0 is left of p / 2"


def test_block_equals_the_ratio_test_for_one_hot_drafts() -> None:
    limits = Limits(max_new_tokens=3, max_context=100)
    target, draft = ToyModel.random(7), ToyModel.random(8)
    laws = {}
    for name in ("token", "block"):
        laws[name] = exact_law(
            lambda rng, name=name: begin(
                target,
                (0, 1, 0),
                method=draft_model(2, draft_temperature=0.0),
                drafts=[draft],
                rule=name,
                rng=rng,
                n=3,
            )
        )
    assert largest_difference(laws["token"].probs, laws["block"].probs) < 1e-12
    want = target_law(target, (0, 1, 0), Sampling(), limits)
    assert largest_difference(laws["block"].probs, want) < 1e-12


@pytest.mark.parametrize("nodes", ["sampled, chosen", "chosen, sampled"])
def test_block_judges_mixed_chains(nodes: str) -> None:
    """One node drawn, one chosen: the joint law of two tokens stays the target's."""
    target, draft = ToyModel.random(3), ToyModel.random(4)
    found, path = np.zeros((3, 3)), []
    while path is not None:
        rng = Exhaustive(path=path)
        tokens, laws = [], []
        for kind in nodes.split(", "):
            law = draft.law((0, *tokens))
            tokens.append(rng.draw(law) if kind == "sampled" else int(law.argmax()))
            laws.append(law if kind == "sampled" else None)
        proposal = Proposal(tree=TokenTree.chain(tokens), draft_probs=tuple(laws))
        targets = [target.law((0, *tokens[:place])) for place in range(3)]
        rows = TargetRows(lambda i, laws=targets: Given(laws[i]), Sampling(), proposal.tree)
        verdict = RULES["block"].verify(rows, proposal, rng, 1)
        text = [tokens[node] for node in verdict.accepted] + [verdict.next_token]
        if len(text) == 1:
            text.append(rng.draw(target.law((0, *text))))
        found[text[0], text[1]] += rng.weight
        path = rng.next_path()
    want = np.array([target.law((0,))[x] * target.law((0, x)) for x in range(3)])
    assert np.abs(found - want).max() < 1e-12


def test_a_rate_per_position_is_not_given_for_whole_paths() -> None:
    target, draft = ToyModel.random(1), ToyModel.random(2)
    rates = {}
    for name in ("token", "block"):
        decoding = begin(target, (0,), method=draft_model(3), drafts=[draft], rule=name, n=60)
        rates[name] = acceptance_rate(list(decoding))
    assert 0.0 < rates["token"] < 1.0 and rates["block"] is None
