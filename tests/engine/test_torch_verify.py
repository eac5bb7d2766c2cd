"""The torch mirror decides as the numpy rule does, given the same uniforms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_pairs import tiny_handle

from speclab.core.errors import NumericalFault
from speclab.core.laws import Row, Sampling, process
from speclab.core.protocols import Proposal
from speclab.core.randomness import Scripted
from speclab.core.rows import TargetRows
from speclab.core.rules import RULES
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.engine.torch_verify import MIRRORS, process_rows
from speclab.models.transformer import TransformerHandle

SAMPLINGS = (
    Sampling(),
    Sampling(temperature=0.0),
    Sampling(temperature=0.7, top_k=5),
    Sampling(temperature=1.3, top_p=0.8),
    Sampling(top_k=6, top_p=0.9, min_p=0.05),
)


class FakeScores:
    def __init__(self, logits: np.ndarray) -> None:
        self.target_logits = torch.from_numpy(logits)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_laws_agree(sampling: Sampling) -> None:
    logits = np.random.default_rng(1).normal(0, 3, (6, 40))
    logits[2, 5] = logits[2, 9] = logits[2].max() + 1.0
    laws = process_rows(torch.from_numpy(logits), sampling).numpy()
    want = np.array([process(row, sampling) for row in logits])
    assert np.abs(laws - want).max() < 1e-14
    assert ((laws > 0) == (want > 0)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
@pytest.mark.parametrize("name", MIRRORS)
def test_verdicts_agree(name: str, sampling: Sampling, dtype: type) -> None:
    generator = np.random.default_rng(2)
    for _ in range(60):
        gamma = int(generator.integers(0, 4))
        logits = generator.normal(0, 2, (gamma + 1, 12)).astype(dtype)
        laws = [process(generator.normal(0, 2, 12), sampling) for _ in range(gamma)]
        tokens = [int(generator.choice(12, p=law)) for law in laws]
        sampled = sampling.temperature > 0 and generator.random() < 0.7
        proposal = Proposal(
            tree=TokenTree.chain(tokens) if gamma else EMPTY_TREE,
            draft_probs=tuple(laws) if sampled else (None,) * gamma,
        )
        uniforms = list(generator.random(gamma + 1))
        rows = TargetRows(lambda i, x=logits: Row(x[i]), sampling, proposal.tree)
        want = RULES[name].verify(rows, proposal, Scripted(uniforms), 7)
        got = MIRRORS[name](FakeScores(logits), proposal, sampling, Scripted(uniforms), 7)
        assert got is not None
        near = [abs(f.u - f.accept_prob) < 1e-6 for f in want.flips if f.u is not None]
        if dtype is np.float64 or not any(near):
            assert (got.accepted, got.next_token, got.outcome) == (
                want.accepted,
                want.next_token,
                want.outcome,
            )
            for left, right in zip(got.flips, want.flips, strict=True):
                assert (left.node, left.token, left.accepted) == (
                    right.node,
                    right.token,
                    right.accepted,
                )


def random_law(generator: np.random.Generator, size: int) -> np.ndarray:
    """Return a law that may have zeros, be one-hot, or be narrower than `size`."""
    law = generator.dirichlet(np.full(size, 0.5))
    kind = generator.integers(0, 5)
    if kind == 0:
        law = np.eye(size)[generator.integers(0, size)]
    elif kind == 1:
        law[generator.integers(0, size, 2)] = 0.0
        law = law / law.sum() if law.any() else np.eye(size)[0]
    return law


@pytest.mark.parametrize(("name", "cases"), [("block", 10_000), ("token", 1_000)])
def test_ten_thousand_chains_token_for_token(name: str, cases: int) -> None:
    """Zeros, one-hot laws on either side, nodes without a law, equal laws, narrower drafts."""
    generator = np.random.default_rng(7)
    outcomes, overruled = set(), 0
    for case in range(cases):
        gamma, size = int(generator.integers(0, 4)), int(generator.integers(2, 6))
        targets = [random_law(generator, size) for _ in range(gamma + 1)]
        drafts = [random_law(generator, size) for _ in range(gamma)]
        if gamma and case % 7 == 0:
            drafts[0] = targets[0]
        tokens = [int(generator.choice(size, p=law)) for law in drafts]
        given = [None if generator.random() < 0.15 else law for law in drafts]
        if gamma and case % 11 == 0 and max(tokens) < size - 1:
            given = [law if law is None else law[:-1] for law in given]
        tree = TokenTree.chain(tokens)
        proposal = Proposal(tree=tree, draft_probs=tuple(given))
        with np.errstate(divide="ignore"):
            logits = np.log(np.array(targets))
        uniforms = list(generator.random(gamma + 1))
        rows = TargetRows(lambda i, x=logits: Row(x[i]), Sampling(), tree)
        want = RULES[name].verify(rows, proposal, Scripted(uniforms), 7)
        got = MIRRORS[name](FakeScores(logits), proposal, Sampling(), Scripted(uniforms), 7)
        assert got is not None, case
        assert (got.accepted, got.next_token, got.outcome) == (
            want.accepted,
            want.next_token,
            want.outcome,
        ), case
        assert [f.u for f in got.flips] == [f.u for f in want.flips]
        outcomes.add((want.outcome, len(want.accepted)))
        overruled += sum(flip.overruled for flip in want.flips)
    assert len(outcomes) == 7, outcomes
    assert (overruled > 100) == (name == "block")


def test_u_zero_does_not_accept_the_impossible() -> None:
    logits = np.log(np.array([[1e-300, 0.5, 0.5], [0.3, 0.3, 0.4]]))
    logits[0, 0] = -np.inf
    proposal = Proposal(tree=TokenTree.chain([0]), draft_probs=(np.array([0.5, 0.25, 0.25]),))
    got = MIRRORS["token"](FakeScores(logits), proposal, Sampling(), Scripted([0.0, 0.0]), 3)
    assert got is not None and got.accepted == () and got.next_token == 1


def test_trees_and_foreign_scores_are_left_to_numpy() -> None:
    tree = Proposal(tree=TokenTree((0, 1), (-1, -1)), draft_probs=(None, None))
    assert MIRRORS["token"](FakeScores(np.zeros((3, 4))), tree, Sampling(), Scripted([]), 0) is None
    assert MIRRORS["token"](object(), Proposal(), Sampling(), Scripted([]), 0) is None


def test_ids_of_the_models_own_are_left_to_numpy() -> None:
    handle = tiny_handle(0, dtype=torch.float32)
    same = handle.open((1, 2)).score()
    assert same.target_logits is not None
    wider = TransformerHandle(model=handle.model, name="padded", vocab_size=40)
    assert wider.open((1, 2)).score().target_logits is None
    short = (np.array([0.5, 0.5]),)
    proposal = Proposal(tree=TokenTree.chain([3]), draft_probs=short)
    assert (
        MIRRORS["token"](FakeScores(np.zeros((2, 4))), proposal, Sampling(), Scripted([]), 0)
        is None
    )


def test_nan_is_refused() -> None:
    logits = np.full((1, 4), np.nan)
    with pytest.raises(NumericalFault):
        MIRRORS["token"](FakeScores(logits), Proposal(), Sampling(), Scripted([0.5]), 0)
