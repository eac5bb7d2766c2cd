"""From logits to laws: what every setting promises, for any logits."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from speclab.core.errors import BadInput, NumericalFault
from speclab.core.laws import (
    Row,
    Sampling,
    align,
    overlap,
    penalise,
    process,
    residual,
    softmax,
)
from speclab.core.rows import TargetRows
from speclab.core.trees import TokenTree

LOGIT = st.one_of(
    st.floats(-30, 30, width=32), st.sampled_from([0.0, 1.0, -1.0]), st.just(-math.inf)
)
SETTINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 1e-6, 0.3, 1.0, 1.7, 50.0]),
    top_k=st.integers(0, 9),
    top_p=st.one_of(st.just(1.0), st.floats(1e-9, 1.0)),
    min_p=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
    repetition_penalty=st.sampled_from([0.5, 1.0, 1.3, 2.0]),
    presence_penalty=st.sampled_from([-1.0, 0.0, 0.5]),
    frequency_penalty=st.sampled_from([-0.5, 0.0, 0.5]),
)


@st.composite
def logits(draw: st.DrawFn, size: int | None = None) -> np.ndarray:
    values = draw(st.lists(LOGIT, min_size=size or 1, max_size=size or 7))
    assume(max(values) > -math.inf)
    return np.array(values)


@st.composite
def laws(draw: st.DrawFn, size: int = 4) -> np.ndarray:
    weights = draw(
        st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=size, max_size=size)
    )
    assume(sum(weights) > 0)
    array = np.array(weights)
    return array / array.sum()


@given(logits(), SETTINGS, st.lists(st.integers(0, 9), max_size=6))
def test_every_setting_gives_a_law(x: np.ndarray, sampling: Sampling, seen: list[int]) -> None:
    before = x.copy()
    law = process(x, sampling, Counter(seen))
    assert law.dtype == np.float64 and law.shape == x.shape
    assert (law >= 0).all() and law.sum() == pytest.approx(1.0, abs=1e-12)
    assert (law[np.isneginf(x)] == 0).all()
    assert np.array_equal(before, x), "the model's logits were changed in place"


@given(logits(), st.integers(1, 9))
def test_top_k_keeps_the_k_most_likely_and_ties_go_to_the_lower_id(x: np.ndarray, k: int) -> None:
    whole, law = softmax(x), process(x, Sampling(top_k=k))
    wanted = sorted(range(len(x)), key=lambda token: (-whole[token], token))[:k]
    kept = set(np.flatnonzero(law))
    assert kept == {token for token in wanted if whole[token] > 0}
    masked = np.where(np.isin(range(len(x)), wanted), whole, 0.0)
    assert law == pytest.approx(masked / masked.sum())


@given(logits(), st.floats(1e-9, 0.999999))
def test_top_p_keeps_the_smallest_set_that_reaches_it(x: np.ndarray, top_p: float) -> None:
    whole, law = softmax(x), process(x, Sampling(top_p=top_p))
    kept = np.flatnonzero(law)
    assert len(kept) >= 1
    mass = whole[kept].sum()
    assert mass >= top_p - 1e-12
    assert mass - whole[kept].min() < top_p + 1e-12, "a smaller set reaches top_p"
    if len(kept) < len(x):
        assert whole[kept].min() >= np.delete(whole, kept).max()


@given(logits(), st.floats(0.0, 1.0))
def test_min_p_drops_what_is_far_below_the_best(x: np.ndarray, min_p: float) -> None:
    whole, law = softmax(x), process(x, Sampling(min_p=min_p))
    far = whole < min_p * whole.max() * (1 - 1e-12)
    near = whole > min_p * whole.max() * (1 + 1e-12)
    assert (law[far] == 0).all() and (law[near & (whole > 0)] > 0).all()


@given(logits(), SETTINGS)
def test_filters_keep_the_ratios_of_what_they_keep(x: np.ndarray, sampling: Sampling) -> None:
    assume(not sampling.greedy)
    law, whole = process(x, sampling), process(x, Sampling(temperature=sampling.temperature))
    kept = np.flatnonzero(law)
    assert law[kept] == pytest.approx(whole[kept] / whole[kept].sum(), rel=1e-9)


@given(logits())
def test_greedy_is_one_hot_at_the_lowest_of_the_maxima(x: np.ndarray) -> None:
    law = process(x, Sampling(temperature=0.0))
    winner = min(token for token in range(len(x)) if x[token] == x.max())
    assert law.tolist() == [float(token == winner) for token in range(len(x))]
    assert np.array_equal(law, process(x.astype(np.float64), Sampling(temperature=0.0)))


@given(logits(), st.integers(-50, 50))
def test_a_shift_of_the_logits_changes_nothing(x: np.ndarray, shift: int) -> None:
    assert softmax(x + shift) == pytest.approx(softmax(x), abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_all_dtypes_are_upcast_first(dtype: type) -> None:
    x = np.array([3.0, 1.0, 1.0, -2.0], dtype=dtype)
    for sampling in (Sampling(), Sampling(top_p=0.8, temperature=0.7), Sampling(temperature=0)):
        assert np.array_equal(process(x, sampling), process(x.astype(np.float64), sampling))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_logits_that_are_not_numbers_are_refused(
    bad: float, temperature: float, place: int
) -> None:
    x = np.array([1.0, 2.0, 3.0])
    x[place] = bad
    with np.errstate(invalid="ignore"), pytest.raises(NumericalFault):
        process(x, Sampling(temperature=temperature))


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_logits_that_forbid_everything_are_refused(temperature: float) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(NumericalFault):
        process(np.full(3, -math.inf), Sampling(temperature=temperature))


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_k": 1.5},
        {"top_k": math.nan},
        {"top_k": math.inf},
        {"top_p": 0.0},
        {"top_p": 1.01},
        {"top_p": math.nan},
        {"min_p": -0.1},
        {"min_p": 1.1},
        {"repetition_penalty": 0.0},
        {"repetition_penalty": math.inf},
        {"presence_penalty": math.nan},
        {"frequency_penalty": math.inf},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(BadInput, match=name):
        Sampling(**wrong)


@given(logits(size=5), st.lists(st.integers(0, 4), max_size=6))
def test_penalties_count_each_occurrence(x: np.ndarray, seen: list[int]) -> None:
    x = np.maximum(x, -30.0)
    counts = Counter(seen)
    sampling = Sampling(repetition_penalty=1.5, presence_penalty=0.25, frequency_penalty=0.5)
    want = x.copy()
    for token, times in counts.items():
        want[token] = want[token] / 1.5 if want[token] > 0 else want[token] * 1.5
        want[token] -= 0.25 + 0.5 * times
    assert penalise(x, sampling, counts) == pytest.approx(want)


def test_penalties_of_tokens_outside_a_narrower_vocabulary_are_ignored() -> None:
    sampling = Sampling(presence_penalty=0.5)
    assert penalise(np.zeros(2), sampling, Counter({1: 1, 4: 2})).tolist() == [0.0, -0.5]


def test_penalties_follow_each_nodes_own_path() -> None:
    tree = TokenTree((0, 1, 0, 2), (-1, -1, 0, 1))
    generated = Counter({2: 1})
    rows = TargetRows(
        lambda index: Row(np.zeros(3)), Sampling(frequency_penalty=0.5), tree, generated
    )
    paths = {0: [2], 1: [2, 0], 2: [2, 1], 3: [2, 0, 0], 4: [2, 1, 2]}
    for index, tokens in paths.items():
        assert rows.counts(index) == Counter(tokens)
        want = softmax(np.array([-0.5 * tokens.count(token) for token in range(3)]))
        assert rows[index] == pytest.approx(want)
    assert generated == Counter({2: 1}), "the request's own counter was changed"


def test_a_row_is_processed_once_and_its_raw_law_is_untouched() -> None:
    row = Row(np.array([2.0, 1.0, 0.0]))
    cold = Sampling(temperature=0.0)
    assert row.law(cold) is row.law(cold)
    assert row.raw() == pytest.approx(softmax(np.array([2.0, 1.0, 0.0])))
    assert row.top_gap() == 1.0


@given(laws(), laws())
def test_overlap_and_residual_rebuild_the_target(p: np.ndarray, q: np.ndarray) -> None:
    """min(p, q) + (1 - overlap) * residual = p: the whole proof of the ratio test."""
    shared, rest = overlap(p, q), residual(p, q)
    assert shared == pytest.approx(1 - 0.5 * np.abs(p - q).sum(), abs=1e-12)
    assert np.minimum(p, q) + (1 - shared) * rest == pytest.approx(p, abs=1e-12)
    assert rest.sum() == pytest.approx(1.0, abs=1e-12)
    assert (rest[p == 0] == 0).all()


@given(laws())
def test_overlap_with_itself_is_one_and_leaves_the_law(p: np.ndarray) -> None:
    assert overlap(p, p) == pytest.approx(1.0, abs=1e-12)
    assert np.array_equal(residual(p, p), p)


@given(laws(size=5), laws(size=3))
def test_laws_of_unequal_width(p: np.ndarray, q: np.ndarray) -> None:
    for wide, narrow in ((p, q), (q, p)):
        size = max(len(wide), len(narrow))
        a, b = align(wide, size), align(narrow, size)
        assert overlap(wide, narrow) == pytest.approx(float(np.minimum(a, b).sum()))
        rest = residual(wide, narrow)
        assert len(rest) == len(wide) and rest.sum() == pytest.approx(1.0)


def test_a_residual_of_nan_is_refused() -> None:
    with pytest.raises(NumericalFault):
        residual(np.array([math.nan, 0.5]), np.array([0.5, 0.5]))


def test_a_slider_may_say_two_point_zero() -> None:
    sampling = Sampling(top_k=2.0)  # type: ignore[arg-type]
    assert process(np.zeros(3), sampling).tolist() == [0.5, 0.5, 0.0]
