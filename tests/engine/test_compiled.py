"""The compiled position against the scalar rule: the same uniforms, the same tokens."""

from __future__ import annotations

import time

import numpy as np
import pytest

from speclab.core.errors import BadInput, TooManyBranches
from speclab.core.races import race_winner, race_winners
from speclab.core.randomness import Place, Scripted
from speclab.core.rules import RULES
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.engine.compiled import compile_rule
from speclab.engine.one_position import OnePosition
from speclab.testing import rule_law


class PlacedScript(Scripted):
    """A script whose places keep their uniform, as the decode loop's do."""

    def __init__(self, uniforms) -> None:
        super().__init__(uniforms)
        self._at: dict[Place, float] = {}

    def draw(self, probs, at=None, noise="inverse") -> int:
        if at is None:
            return super().draw(probs, noise=noise)
        u = self._at[at] if at in self._at else self._uniform()
        self._at[at] = u
        return Scripted([u]).draw(probs, noise=noise)


def laws(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.full(size, 0.7)), generator.dirichlet(np.full(size, 0.7))


@pytest.mark.parametrize("name", RULES)
def test_same_uniforms_same_tokens(name: str) -> None:
    """10,000 cases per rule: five pairs of laws, among them zeros and p = q."""
    zero_p, zero_q = np.array([0.0, 0.6, 0.4, 0.0]), np.array([0.5, 0.5, 0.0, 0.0])
    pairs = [
        (STANDARD_P, STANDARD_Q),
        (STANDARD_P, STANDARD_P),
        (zero_p, zero_q),
        laws(1, 6),
        laws(2, 3),
    ]
    generator = np.random.default_rng(5)
    for p, q in pairs:
        compiled = compile_rule(RULES[name], p, q)
        uniforms = generator.random((compiled.num_uniforms, 2_000))
        uniforms[:, :4] = [0.0, 1.0 - 2.0**-53, 0.5, 0.25]
        fast = compiled.tokens_of(uniforms)
        place = OnePosition(RULES[name], p, q)
        slow = [place.judge(PlacedScript(column))[0] for column in uniforms.T]
        assert fast.tolist() == slow


@pytest.mark.parametrize("name", RULES)
def test_law_and_acceptance_are_the_exact_ones_and_draws_follow_the_law(name: str) -> None:
    p, q = laws(3, 5)
    compiled = compile_rule(RULES[name], p, q)
    law, kept = rule_law(RULES[name], p, q)
    assert np.array_equal(compiled.law, law) and compiled.acceptance == kept
    counts = np.bincount(compiled.draw(100_000, seed=4), minlength=5)
    assert not counts[compiled.law == 0.0].any()
    sigma = np.sqrt(100_000 * compiled.law * (1.0 - compiled.law))
    assert (np.abs(counts - 100_000 * compiled.law) <= 5.0 * sigma + 1e-9).all()


def test_a_wrong_table_would_be_noticed() -> None:
    broken = compile_rule(RULES["broken-redraw-from-p"], STANDARD_P, STANDARD_Q)
    uniforms = np.random.default_rng(0).random((4, 2_000))
    place = OnePosition(RULES["token"], STANDARD_P, STANDARD_Q)
    right = [place.judge(PlacedScript(column))[0] for column in uniforms.T]
    assert broken.tokens_of(uniforms).tolist() != right


@pytest.mark.parametrize("size", [4, 16])
@pytest.mark.parametrize("name", ["token", "block", "match"])
def test_speed(name: str, size: int) -> None:
    compiled = compile_rule(RULES[name], *laws(7, size))
    compiled.draw(100_000, seed=0)
    begun = time.process_time()
    compiled.draw(500_000, seed=1)
    assert time.process_time() - begun < 1.0


def test_races_of_many_noises_are_the_races_of_each() -> None:
    probs = np.array([0.2, 0.0, 0.5, 0.3])
    noises = np.concatenate([[0.0, 1.0 - 2.0**-53], np.random.default_rng(1).random(2_000)])
    assert race_winners(probs, noises).tolist() == [race_winner(probs, float(u)) for u in noises]


def test_one_seed_one_sample() -> None:
    compiled = compile_rule(RULES["token"], STANDARD_P, STANDARD_Q)
    assert np.array_equal(compiled.draw(1_000, 3), compiled.draw(1_000, 3))
    assert not np.array_equal(compiled.draw(1_000, 3), compiled.draw(1_000, 4))


def test_bad_input() -> None:
    compiled = compile_rule(RULES["token"], STANDARD_P, STANDARD_Q)
    for count in (0, -1, 1.5, True):
        with pytest.raises(BadInput):
            compiled.draw(count, 0)
    with pytest.raises(BadInput):
        compiled.draw(1, -1)
    with pytest.raises(BadInput):
        compile_rule(RULES["token"], [0.5, 0.4], [0.5, 0.5])
    with pytest.raises(TooManyBranches):
        flat = np.full(300, 1 / 300)
        compile_rule(RULES["broken-redraw-after-mismatch"], flat, flat)
