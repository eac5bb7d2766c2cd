"""The two verbs of chance, and nothing else random anywhere."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from fault_kit import draft_model, run
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from speclab.core.errors import BadInput, NumericalFault
from speclab.core.races import joint_winners, race_winner
from speclab.core.randomness import (
    MAX_LAWS_AT_A_PLACE,
    Exhaustive,
    Noise,
    Scripted,
    Seeded,
    Unplaced,
    invert_cdf,
    uniform_at,
)
from speclab.models.toy import ToyModel

PLACE = ("target", 0)
LAST = 1.0 - 2.0**-53
WEIGHTS = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-300, 1.0), st.just(5e-324)), min_size=1, max_size=8
).filter(lambda weights: sum(weights) > 0)


@given(WEIGHTS, st.one_of(st.just(0.0), st.just(LAST), st.floats(0, LAST)))
def test_a_draw_never_returns_an_impossible_token(weights: list[float], u: float) -> None:
    assert weights[invert_cdf(np.array(weights), u)] > 0


@pytest.mark.parametrize(
    ("probs", "u", "token"),
    [
        ([0.0, 0.4, 0.6], 0.0, 1),
        ([0.4, 0.6, 0.0], LAST, 1),
        ([0.0, 0.5, 0.0, 0.5, 0.0], 0.5, 3),
        ([0.25, 0.25, 0.5], 0.25, 1),
        ([0.25, 0.25, 0.5], np.nextafter(0.25, 0), 0),
        ([2.0, 2.0], 0.49, 0),
        ([0.1] * 10, LAST, 9),
    ],
)
def test_inverse_cdf(probs: list[float], u: float, token: int) -> None:
    assert invert_cdf(np.array(probs), u) == token


@given(WEIGHTS, st.floats(0, LAST), st.floats(0, LAST))
def test_inverse_cdf_is_monotone(weights: list[float], u: float, v: float) -> None:
    low, high = sorted((u, v))
    assert invert_cdf(np.array(weights), low) <= invert_cdf(np.array(weights), high)


@pytest.mark.parametrize("probs", [[0.0, 0.0], [np.nan, 0.5], [0.5, np.nan], [np.inf, 1.0]])
def test_what_is_no_law_cannot_be_drawn_from(probs: list[float]) -> None:
    with pytest.raises(NumericalFault):
        invert_cdf(np.array(probs), 0.5)


def test_a_coin_is_strict() -> None:
    flips = [(0.0, 0.0, False), (0.5, 0.5, False), (0.5, 0.5 - 2**-54, True), (1.0, LAST, True)]
    for prob, u, accepted in flips:
        flip = Scripted([u]).flip(prob)
        assert flip.accepted is accepted and flip.u == u


@given(st.integers(0, 2**70), st.lists(st.booleans(), max_size=10))
def test_a_seed_repeats_itself(seed: int, verbs: list[bool]) -> None:
    law = np.array([0.2, 0.3, 0.5])

    def play() -> list[object]:
        tape: list[float] = []
        rng = Seeded(seed, tape)
        seen = [rng.flip(0.4) if verb else rng.draw(law) for verb in verbs]
        assert len(tape) == len(verbs), "each verb uses exactly one uniform"
        replay = Scripted(tape)
        assert seen == [replay.flip(0.4) if verb else replay.draw(law) for verb in verbs]
        return seen

    assert play() == play()


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(BadInput, match="seed"):
        Seeded(seed)  # type: ignore[arg-type]


def test_noise_of_a_place_does_not_depend_on_the_order_of_calls() -> None:
    law, places = np.full(50, 0.02), [("target", position) for position in range(30)]
    forward = Seeded(3)
    there = [forward.draw(law, at=place) for place in places]
    backward = Seeded(3)
    backward.flip(0.5), backward.draw(law)
    assert there == [backward.draw(law, at=place) for place in reversed(places)][::-1]
    assert forward.flip(0.5) == Seeded(3).flip(0.5), "placed noise used up sequential noise"


def test_noise_of_places_is_uniform_and_independent() -> None:
    """Level 1e-6 per test, fixed seeds: this fails for a bad mixer, not by chance."""
    n = 4000
    by_position = np.array([uniform_at(0, ("target", i)) for i in range(n)])
    by_seed = np.array([uniform_at(seed, ("target", 0)) for seed in range(n)])
    by_stream = np.array([uniform_at(0, (f"stream {i}", 0)) for i in range(n)])
    for numbers in (by_position, by_seed, by_stream):
        assert ((numbers >= 0) & (numbers < 1)).all()
        assert stats.kstest(numbers, "uniform").pvalue > 1e-6
        lag = np.corrcoef(numbers[:-1], numbers[1:])[0, 1]
        assert abs(lag) < 5 / np.sqrt(n)
    next_seed = np.array([uniform_at(1, ("target", i)) for i in range(n)])
    other_stream = np.array([uniform_at(0, ("draft", i)) for i in range(n)])
    sequential = np.random.default_rng(0).random(n)
    for numbers in (next_seed, other_stream, sequential):
        assert abs(np.corrcoef(by_position, numbers)[0, 1]) < 5 / np.sqrt(n)
        assert len(np.intersect1d(by_position, numbers)) == 0


def test_a_middle_model_does_not_spend_the_targets_noise() -> None:
    law = np.full(50, 0.02)
    inner, plain = Unplaced(Seeded(4)), Seeded(4)
    drawn = [inner.draw(law, at=("target", 0)) for _ in range(5)]
    assert drawn == [plain.draw(law) for _ in range(5)]
    assert inner.flip(0.5, at=("target", 0)) == plain.flip(0.5)


def test_a_used_up_script_says_so() -> None:
    rng = Scripted([0.5])
    rng.flip(0.1)
    with pytest.raises(BadInput, match="used up"):
        rng.draw(np.array([1.0]))


def test_a_run_leaves_every_global_generator_alone() -> None:
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    run(ToyModel.random(1), (0,), method=draft_model(3), drafts=[ToyModel.random(2)], n=20)
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert before == after


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.randoms())
def test_exhaustive_visits_every_leaf_once_and_weights_sum_to_one(
    sizes: list[int], source: random.Random
) -> None:
    laws = [np.array([source.random() + 0.01 for _ in range(size)]) for size in sizes]
    seen, total, path = set(), 0.0, []
    while path is not None:
        rng = Exhaustive(path=path)
        leaf = (*tuple(rng.draw(law / law.sum()) for law in laws), rng.flip(0.3).accepted)
        assert leaf not in seen
        seen.add(leaf)
        total += rng.weight
        path = rng.next_path()
    assert len(seen) == 2 * int(np.prod(sizes)) and total == pytest.approx(1.0, abs=1e-12)


def test_exhaustive_skips_impossible_branches() -> None:
    rng = Exhaustive()
    assert rng.flip(1.0).accepted and not rng.flip(0.0).accepted
    assert rng.draw(np.array([0.0, 1.0, 0.0])) == 1
    assert rng.weight == 1.0 and rng.next_path() is None


@pytest.mark.parametrize("noise", ["inverse", "gumbel"])
def test_exhaustive_draws_a_place_once_per_law(noise: Noise) -> None:
    rng = Exhaustive(path=[1])
    law = np.array([0.5, 0.5])
    assert rng.draw(law, PLACE, noise) == rng.draw(law, PLACE, noise) == 1
    assert len(rng.weights) == 1
    laws = [np.array([0.1 * i, 1 - 0.1 * i]) for i in range(1, MAX_LAWS_AT_A_PLACE)]
    for other in laws:
        rng.draw(other, PLACE, noise)
    with pytest.raises(BadInput, match="cannot be enumerated"):
        rng.draw(np.array([0.45, 0.55]), PLACE, noise)


def joint_of_draws(laws: list[np.ndarray], noise: Noise) -> dict[tuple[int, ...], float]:
    """Return the joint law of draws from `laws` at one place, by enumeration."""
    seen: dict[tuple[int, ...], float] = {}
    path: list[int] | None = []
    while path is not None:
        rng = Exhaustive(path=path)
        drawn = tuple(rng.draw(law, PLACE, noise) for law in laws)
        assert drawn not in seen
        seen[drawn] = rng.weight
        path = rng.next_path()
    return seen


def some_laws(count: int, size: int, seed: int) -> list[np.ndarray]:
    """Return random laws, one of them with a token of probability 0."""
    laws = list(np.random.default_rng(seed).dirichlet(np.full(size, 0.6), count))
    laws[0][seed % size] = 0.0
    laws[0] /= laws[0].sum()
    return laws


@pytest.mark.parametrize("noise", ["inverse", "gumbel"])
@pytest.mark.parametrize("count", [2, 3])
def test_draws_that_share_noise_have_their_own_laws_and_the_seeded_joint_law(
    count: int, noise: Noise
) -> None:
    """Marginals to 1e-12 in every order; the joint law against 8,000 seeds within 6 sigma."""
    laws = some_laws(count, 4, seed=3)
    joint = joint_of_draws(laws, noise)
    for k, law in enumerate(laws):
        marginal = np.zeros(4)
        for drawn, weight in joint.items():
            marginal[drawn[k]] += weight
        assert np.abs(marginal - law).max() < 1e-12
    turned = joint_of_draws(laws[::-1], noise)
    for drawn in joint.keys() | turned.keys():
        assert joint.get(drawn, 0.0) == pytest.approx(turned.get(drawn[::-1], 0.0), abs=1e-12)
    n, hits = 8_000, {}
    for seed in range(n):
        drawn = tuple(Seeded(seed).draw(law, PLACE, noise) for law in laws)
        hits[drawn] = hits.get(drawn, 0) + 1
    for drawn in joint.keys() | hits.keys():
        exact = joint.get(drawn, 0.0)
        sigma = np.sqrt(max(exact * (1 - exact), 1 / n) / n)
        assert abs(hits.get(drawn, 0) / n - exact) < 6 * sigma, drawn


def test_one_race_of_two_laws_has_its_closed_form() -> None:
    """P(both draw v) = 1 / sum over w of max(p(w)/p(v), q(w)/q(v)): 2408.07978."""
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.6, 0.1, 0.1])
    for v in range(4):
        want = 1.0 / np.maximum(p / p[v], q / q[v]).sum()
        assert joint_winners([p, q], [v, v]) == pytest.approx(want, abs=1e-15)


def test_noise_of_another_kind_or_place_is_independent() -> None:
    law = np.array([0.5, 0.5])
    rng = Exhaustive()
    rng.draw(law, PLACE, "gumbel"), rng.draw(law, PLACE, "inverse")
    rng.draw(law, ("target", 1), "gumbel"), rng.draw(law, ("draft", 0), "gumbel")
    rng.draw(law, None, "gumbel"), rng.draw(law, None, "gumbel")
    assert rng.arity == [2] * 6
    assert rng.unspent(2) == () and len(rng.unspent(1)) == 1 and len(rng.unspent(0)) == 4


@given(WEIGHTS, st.floats(0, LAST))
def test_a_race_never_returns_an_impossible_token(weights: list[float], u: float) -> None:
    assert weights[race_winner(np.array(weights), u)] > 0


def test_a_race_does_not_depend_on_tokens_that_cannot_win() -> None:
    """Noise belongs to token ids, so that a wider vocabulary changes nothing."""
    generator = np.random.default_rng(0)
    for u in generator.random(200):
        law = generator.dirichlet(np.ones(5))
        assert race_winner(law, u) == race_winner(np.concatenate([law, np.zeros(3)]), u)


def test_races_draw_from_their_law() -> None:
    law = np.array([0.05, 0.5, 0.0, 0.3, 0.15])
    n = 8_000
    drawn = [Seeded(1).draw(law, ("target", i), "gumbel") for i in range(n)]
    counts = np.bincount(drawn, minlength=5)
    assert counts[2] == 0
    assert stats.chisquare(counts[law > 0], n * law[law > 0]).pvalue > 1e-6
    sequential = Seeded(2)
    again = np.bincount([sequential.draw(law, noise="gumbel") for _ in range(n)], minlength=5)
    assert stats.chisquare(again[law > 0], n * law[law > 0]).pvalue > 1e-6


def test_a_race_replays_from_its_tape() -> None:
    tape: list[float] = []
    rng, law = Seeded(5, tape), np.full(20, 0.05)
    drawn = [rng.draw(law, ("target", i % 3), "gumbel") for i in range(9)]
    assert drawn[:3] == drawn[3:6] == drawn[6:] and len(tape) == 9
    replay = Scripted(tape)
    assert drawn == [replay.draw(law, noise="gumbel") for _ in range(9)]
