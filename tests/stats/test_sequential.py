"""A p-value that may be watched."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from speclab.stats.cells import pool
from speclab.stats.sequential import EProcess

EVEN = np.full(16, 1 / 16)
UNEVEN = np.random.default_rng(0).dirichlet(np.ones(16))
FIRST_HALF = np.arange(16) < 8


def moved(law: np.ndarray, bias: float) -> np.ndarray:
    """Return the law with `bias` moved in proportion from one half of the mass to the other."""
    order = np.argsort(law)
    up = np.zeros(law.size, dtype=bool)
    up[order] = np.cumsum(law[order]) <= 0.5 + 1e-9
    mass = law[up].sum()
    return np.where(up, law * (1 + bias / mass), law * (1 - bias / (1 - mass)))


def first_alarms(process, law, *, n: int, batch: int, runs: int, seed: int) -> list[float]:
    """Return the N of the first alarm at 5 % per run, looking after every batch; inf if none."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(runs):
        watch, at = process(), math.inf
        for counts in rng.multinomial(batch, law, n // batch):
            state = watch.update(counts)
            if state.p_value <= 0.05:
                at = state.num_samples
                break
        found.append(at)
    return found


@pytest.mark.parametrize("law", [EVEN, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize("members", [None, FIRST_HALF], ids=["general", "directed"])
def test_watching_after_every_batch_rarely_alarms(law, members) -> None:
    found = first_alarms(
        lambda: EProcess(law, members=members), law, n=20_000, batch=500, runs=200, seed=1
    )
    assert np.mean(np.isfinite(found)) <= 0.071


def test_watching_after_every_sample_of_two_tokens_rarely_alarms() -> None:
    law = np.array([0.5, 0.5])
    found = first_alarms(lambda: EProcess(law), law, n=100, batch=1, runs=200, seed=2)
    assert np.mean(np.isfinite(found)) <= 0.071


def test_a_chi_square_watched_the_same_way_alarms_far_more_often() -> None:
    rng, alarms = np.random.default_rng(3), 0
    for _ in range(200):
        total = np.cumsum(rng.multinomial(500, EVEN, 40), axis=0)
        expected = total.sum(1, keepdims=True) / 16
        alarms += bool((((total - expected) ** 2 / expected).sum(1) > 24.9958).any())
    assert alarms / 200 > 0.15


@pytest.mark.parametrize("law", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_a_bias_of_a_tenth_is_rejected_before_twenty_thousand(law) -> None:
    found = first_alarms(
        lambda: EProcess(law), moved(law, 0.1), n=20_000, batch=200, runs=100, seed=4
    )
    assert np.mean(np.array(found) < 20_000) >= 0.9
    assert np.quantile(found, 0.9) < 3_000


def test_a_bet_on_the_right_set_wins_sooner() -> None:
    wrong = EVEN + np.where(FIRST_HALF, 0.03, -0.03) / 8
    medians = [
        np.median(
            first_alarms(
                lambda members=members: EProcess(EVEN, members=members),
                wrong,
                n=20_000,
                batch=200,
                runs=40,
                seed=5,
            )
        )
        for members in (None, FIRST_HALF)
    ]
    assert medians[1] < medians[0] < 20_000


def test_the_e_value_is_fair() -> None:
    """Its mean over every outcome of three samples is 1."""
    law, members = np.array([0.5, 0.3, 0.2]), np.array([True, False, False])
    mean = 0.0
    for text in np.ndindex(3, 3, 3):
        counts = np.bincount(text, minlength=3)
        state = EProcess(law, members=members, concentrations=(2.0, 9.0)).update(counts)
        mean += math.prod(law[list(text)]) * state.e_value
    assert mean == pytest.approx(1.0, rel=1e-12)


def test_batches_add_up_and_p_never_rises() -> None:
    rng = np.random.default_rng(6)
    batches = rng.multinomial(300, moved(UNEVEN, 0.05), 20)
    watch, p_values = EProcess(UNEVEN), []
    for counts in batches:
        last = watch.update(counts)
        p_values.append(last.p_value)
        assert last.p_value <= min(1.0, 1 / last.e_value) + 1e-12
    assert p_values == sorted(p_values, reverse=True)
    assert EProcess(UNEVEN).update(batches.sum(0)).e_value == pytest.approx(last.e_value)


def test_pooled_cells_bet_on_fewer_things_but_still_see_the_impossible() -> None:
    law = np.array([0.4, 0.3, 0.2, 0.06, 0.04, 0.0])
    cells = pool(law, 100)
    counts = np.array([40, 30, 20, 3, 7, 0])
    pooled = EProcess(law, cells=pool(law, 100, max_cells=3)).update(counts)
    assert pooled.e_value != pytest.approx(EProcess(law, cells=cells).update(counts).e_value)
    watch = EProcess(law, cells=cells)
    watch.update(counts)
    found = watch.update([0, 0, 0, 0, 0, 1])
    assert (found.p_value, found.forbidden) == (0.0, ((5, 1),))
    json.dumps(asdict(found), allow_nan=False)
    assert watch.update(counts).p_value == 0.0
