"""A distribution test must be able to fail, and must not fail by chance.

https://github.com/deepseek-ai/DeepSpec/pull/48 ; https://github.com/IJHack/QtPass/pull/1660 ;
https://github.com/vllm-project/aibrix/pull/2059
"""

from __future__ import annotations

import numpy as np
import pytest
from fault_kit import begin, draft_model
from scipy import stats

from speclab.core.randomness import Seeded
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.models.toy import ToyModel
from speclab.stats.cells import StatTest, pool, tabulate
from speclab.stats.goodness import chi_square
from speclab.stats.many import holm

P = np.array([0.4, 0.3, 0.2, 0.1])
WRONG = np.array([0.42, 0.3, 0.19, 0.09])


def judged(counts: np.ndarray, law: np.ndarray = P) -> StatTest:
    return chi_square(tabulate(counts, law))


def samples(law: np.ndarray, repeats: int, seed: int, num_samples: int = 20_000) -> np.ndarray:
    """Return counts [repeats, vocab] of `num_samples` draws from `law`."""
    return np.random.default_rng(seed).multinomial(num_samples, law, repeats)


def test_the_wrong_sampler_is_rejected_and_the_right_one_is_not() -> None:
    assert 20_000 * ((WRONG - P) ** 2 / P).sum() == pytest.approx(50.0)
    for level, limit in ((1e-3, 16.27), (1e-6, 30.66), (1e-9, 44.84)):
        assert stats.chi2.isf(level, 3) == pytest.approx(limit, abs=0.01)
    power = stats.ncx2.sf(stats.chi2.isf(1e-3, 3), 3, 50)
    assert power > 0.999
    rejected = [judged(counts).p_value < 1e-3 for counts in samples(WRONG, 200, seed=1)]
    assert np.mean(rejected) > 0.98
    fine = [judged(counts).p_value < 1e-6 for counts in samples(P, 200, seed=2)]
    assert not any(fine)


def test_draws_of_the_package_itself() -> None:
    for law, level in ((P, 1e-6), (WRONG, None)):
        rng = Seeded(1)
        counts = np.bincount([rng.draw(law) for _ in range(20_000)], minlength=4)
        p_value = judged(counts).p_value
        assert p_value > level if level else p_value < 1e-6


def test_right_samplers_raise_as_many_alarms_as_the_level_says() -> None:
    p_values = np.array([judged(counts).p_value for counts in samples(P, 1_000, seed=3)])
    assert (p_values < 1e-3).sum() <= 5, "one is expected"
    assert 30 <= (p_values < 0.05).sum() <= 70, "fifty are expected"


def test_forty_uncorrected_tests_cry_wolf() -> None:
    alone = 1 - 0.95**40
    assert alone == pytest.approx(0.87, abs=0.005)
    p_values = np.array([judged(counts).p_value for counts in samples(P, 40 * 150, seed=4)])
    families = p_values.reshape(150, 40)
    uncorrected = (families.min(1) < 0.05).mean()
    corrected = np.mean([min(holm(family)) < 0.05 for family in families])
    assert 0.78 < uncorrected < 0.95 and corrected < 0.12


def test_rare_tokens_are_pooled_and_lose_their_degrees_of_freedom() -> None:
    law = np.array([0.6, 0.3, 0.09, 0.004, 0.003, 0.003])
    few = judged(samples(law, 1, seed=5, num_samples=500)[0], law)
    many = judged(samples(law, 1, seed=5, num_samples=5_000)[0], law)
    assert (few.num_cells, few.df) == (4, 3) and (many.num_cells, many.df) == (6, 5)
    assert [size for size, _, _ in few.pooled] == [3] and not many.pooled
    for num_samples in (100, 500, 5_000):
        assert min(pool(law, num_samples).probs) * num_samples >= 5


def test_one_impossible_token_is_enough() -> None:
    law = np.array([0.5, 0.3, 0.2, 0.0])
    assert judged(np.array([5_000, 3_000, 2_000, 0]), law).p_value > 0.99
    result = judged(np.array([5_000, 3_000, 1_999, 1]), law)
    assert result.p_value == 0.0 and result.forbidden == ((3, 1),)


def two_tokens(rule: str, num_samples: int) -> np.ndarray:
    """Return counts [16] of the first two tokens of the real loop: a cell is a sequence.

    Every sequence has a seed of its own: noise belongs to (seed, position).
    """
    target, draft = ToyModel.constant(STANDARD_P), ToyModel.constant(STANDARD_Q)
    counts = np.zeros(16, dtype=int)
    for seed in range(num_samples):
        decoding = begin(
            target, (0,), method=draft_model(1), drafts=[draft], rule=rule, rng=Seeded(seed), n=2
        )
        list(decoding)
        first, second = decoding.emitted
        counts[4 * first + second] += 1
    return counts


@pytest.mark.parametrize("control", ["broken-redraw-from-p", "broken-undrawing", "typical"])
def test_the_loop_passes_and_its_negative_control_does_not(control: str) -> None:
    law = np.outer(STANDARD_P, STANDARD_P).ravel()
    assert judged(two_tokens("token", 3_000), law).p_value > 1e-6
    assert judged(two_tokens(control, 3_000), law).p_value < 1e-9
