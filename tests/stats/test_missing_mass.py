"""A group of rare tokens that is never emitted."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.stats.missing_mass import (
    MissingMass,
    _count_law,
    missing_mass_moments,
    missing_mass_test,
)

VOCAB, N, LEVEL = 2_048, 100_000, 1e-3


def brute_moments(law: np.ndarray, n: int) -> tuple[float, float]:
    """Return mean and deviation of the unseen probability from every pair."""
    alone = (1 - law) ** n
    both = np.maximum(1 - law[:, None] - law[None, :], 0.0) ** n - np.outer(alone, alone)
    np.fill_diagonal(both, alone * (1 - alone))
    return float(law @ alone), math.sqrt(max(float((np.outer(law, law) * both).sum()), 0.0))


@pytest.mark.parametrize(
    ("law", "n"),
    [
        ([0.5, 0.3, 0.2], 3),
        ([0.5, 0.5], 1),
        (np.random.default_rng(0).dirichlet(np.full(300, 0.2)), 50),
        (np.random.default_rng(1).dirichlet(np.ones(300)), 5_000),
        (np.random.default_rng(2).dirichlet(np.full(100, 0.1)), 1),
    ],
)
def test_mean_and_spread_of_the_unseen_probability(law, n: int) -> None:
    law = np.asarray(law)
    assert missing_mass_moments(law, n) == pytest.approx(brute_moments(law, n), rel=1e-9, abs=1e-12)


def test_moments_by_every_outcome() -> None:
    law, n = (0.6, 0.3, 0.1), 4
    texts = list(itertools.product(range(3), repeat=n))
    weight = [math.prod(law[token] for token in text) for text in texts]
    missing = [sum(law[t] for t in range(3) if t not in text) for text in texts]
    mean = sum(w * m for w, m in zip(weight, missing))
    spread = math.sqrt(sum(w * (m - mean) ** 2 for w, m in zip(weight, missing)))
    assert missing_mass_moments(law, n) == pytest.approx((mean, spread), rel=1e-12)


def test_law_of_a_count_is_the_convolution() -> None:
    probs = np.random.default_rng(3).random(37)
    expected = np.ones(1)
    for prob in probs:
        expected = np.convolve(expected, [1 - prob, prob])
    assert _count_law(probs) == pytest.approx(expected, abs=1e-15)
    many = np.full(500, 0.3)
    by_formula = [math.comb(500, k) * 0.3**k * 0.7 ** (500 - k) for k in range(501)]
    assert _count_law(many) == pytest.approx(by_formula, abs=1e-14)


def rare_group(seed: int, shape: str) -> np.ndarray:
    """Return a law [2048] whose first 300 tokens have p < 2e-5 and .001 together."""
    rng = np.random.default_rng(seed)
    law = np.empty(VOCAB)
    law[:300] = 0.001 * (
        np.full(300, 1 / 300) if shape != "uneven" else rng.dirichlet(np.full(300, 3))
    )
    size = VOCAB - 300
    rest = {
        "zipf": 1.0 / np.arange(1, size + 1),
        "uneven": 1.0 / np.arange(1, size + 1) ** 1.5,
        "lognormal": np.exp(rng.normal(0.0, 3.0, size)),
        "many-as-rare": np.array([1.0, *np.full(size - 1, 2e-5)]),
    }[shape]
    if shape == "many-as-rare":
        rest[0] = 0.999 - rest[1:].sum()
    law[300:] = 0.999 * rest / rest.sum()
    assert law[:300].max() < 2e-5
    return law


def without(law: np.ndarray, group: np.ndarray) -> np.ndarray:
    wrong = law.copy()
    wrong[group] = 0.0
    return wrong / wrong.sum()


@pytest.mark.parametrize("shape", ["zipf", "uneven", "lognormal", "many-as-rare"])
def test_three_hundred_rare_tokens_never_emitted_are_flagged(shape: str) -> None:
    law, rng = rare_group(1, shape), np.random.default_rng(2)
    test, wrong = MissingMass(law, N), without(law, np.arange(300))
    seen = [test.test(rng.multinomial(N, wrong)).p_value <= LEVEL for _ in range(100)]
    assert np.mean(seen) >= 0.95


@pytest.mark.parametrize("highest", [2e-5, 1e-4, 1e-3])
def test_any_group_of_a_thousandth_is_flagged(highest: float) -> None:
    rng = np.random.default_rng(3)
    law = np.exp(rng.normal(0.0, 2.5, VOCAB))
    law /= law.sum()
    test, seen = MissingMass(law, N), []
    for _ in range(150):
        tokens = rng.permutation(np.flatnonzero(law < highest))
        group = tokens[: np.searchsorted(np.cumsum(law[tokens]), 0.001) + 1]
        seen.append(test.test(rng.multinomial(N, without(law, group))).p_value <= LEVEL)
    assert np.mean(seen) >= 0.8


def test_what_it_says_it_can_see_it_sees() -> None:
    law = np.full(VOCAB, 1.6e-5)
    law[0] = 1 - law[1:].sum()
    test, rng = MissingMass(law, N), np.random.default_rng(4)
    mass = test.smallest_group(level=LEVEL, power=0.8)
    assert 0.001 < mass < 0.0016
    group = np.arange(1, 1 + math.ceil(mass / 1.6e-5))
    wrong = without(law, group)
    seen = [test.test(rng.multinomial(N, wrong)).p_value <= LEVEL for _ in range(200)]
    assert 0.72 <= np.mean(seen) <= 0.97


@pytest.mark.parametrize("shape", ["zipf", "lognormal"])
def test_calibration(shape: str, calibrated) -> None:
    law, rng = rare_group(5, shape), np.random.default_rng(6)
    test = MissingMass(law, N)
    calibrated([test.test(rng.multinomial(N, law)) for _ in range(1_000)])


@pytest.mark.parametrize(("vocab", "n"), [(64, 200), (2_048, 2_000)])
def test_calibration_where_all_tokens_are_rare(vocab: int, n: int, calibrated) -> None:
    rng = np.random.default_rng(7)
    law = rng.dirichlet(np.ones(vocab))
    test = MissingMass(law, n)
    calibrated([test.test(rng.multinomial(n, law)) for _ in range(1_000)])
    wrong = without(law, np.arange(vocab // 5))
    seen = [test.test(rng.multinomial(n, wrong)).p_value <= LEVEL for _ in range(50)]
    assert np.mean(seen) > 0.9


def test_independent_tokens_err_on_the_safe_side(monkeypatch) -> None:
    monkeypatch.setattr("speclab.stats.missing_mass._RARE_SHARE", 1.1)
    rng = np.random.default_rng(7)
    law = rng.dirichlet(np.ones(VOCAB))
    test = MissingMass(law, 2_000)
    found = [test.test(rng.multinomial(2_000, law)).p_value for _ in range(1_000)]
    assert 0.01 <= np.mean(np.array(found) <= 0.05) <= 0.05


def test_result_says_where_it_looked() -> None:
    law = np.array([0.6, 0.39, *np.full(100, 1e-4)])
    law /= law.sum()
    counts = np.array([60_611, 39_389, *np.zeros(100, dtype=int)])
    result = missing_mass_test(counts, law)
    assert result.statistic == pytest.approx(0.01, rel=0.02)
    assert result.p_value < 1e-100
    assert result.detail("band_tokens") == result.detail("band_unseen") == 100
    assert result.detail("missing_mass_mean") < 1e-5


def test_another_number_of_samples_is_refused() -> None:
    with pytest.raises(BadInput) as error:
        MissingMass([0.5, 0.5], 10).test([5, 6])
    assert error.value.code == "counts_total"


@pytest.mark.filterwarnings("error")
def test_moments_stay_finite_at_any_number_of_samples() -> None:
    for n in (10**9, 10**12, 10**15):
        law = np.array([1.0, *np.full(300, 1.0 / n)])
        mean, spread = missing_mass_moments(law / law.sum(), n)
        # 300 tokens, each unseen with probability 1 / e: nearly independent at this N
        assert mean * n == pytest.approx(300 / np.e, rel=1e-4)
        assert spread * n == pytest.approx(np.sqrt(300 * (1 - 1 / np.e) / np.e), rel=1e-4)
        assert missing_mass_moments([0.5, 0.3, 0.2], n) == (0.0, 0.0)
