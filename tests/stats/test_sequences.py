"""The unit is the sequence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.stats.cells import tabulate
from speclab.stats.goodness import chi_square
from speclab.stats.sequences import END, prefix_tests, sequence_counts

EOS = 2


def chain_law(length: int = 3) -> dict[tuple[int, ...], float]:
    """Return stopped sequences of three tokens; token 2 ends one."""
    law: dict[tuple[int, ...], float] = {}
    frontier = {(): 1.0}
    for step in range(length):
        following = {}
        for text, weight in frontier.items():
            last = text[-1] if text else 0
            for token, prob in enumerate(((0.6, 0.3, 0.1), (0.2, 0.5, 0.3))[last]):
                longer = (*text, token)
                ends = token == EOS or step == length - 1
                (law if ends else following)[longer] = weight * prob
        frontier = following
    return law


LAW = chain_law()
TEXTS = sorted(LAW)
PROBS = np.array([LAW[text] for text in TEXTS])


def draw(n: int, rng: np.random.Generator, probs: np.ndarray = PROBS) -> dict:
    return dict(zip(TEXTS, rng.multinomial(n, probs).tolist()))


def wrong_third_token() -> np.ndarray:
    """Return a law that is right but for the third token after (0, 1)."""
    law = dict(LAW)
    law[0, 1, 0] += 0.25 * LAW[0, 1, 1]
    law[0, 1, 1] *= 0.75
    return np.array([law[text] for text in TEXTS])


def test_sequences_become_cells() -> None:
    counts = sequence_counts([(2,), [0, 0, 0], (2,), (0, 2, 1)], LAW)
    assert counts.labels == (*TEXTS, (0, 2, 1))
    assert counts.probs[-1] == 0.0 and sum(counts.probs) == pytest.approx(1.0)
    assert counts.observed[TEXTS.index((2,))] == 2
    assert sequence_counts({(2,): 2, (0, 0, 0): 1, (0, 2, 1): 1}, LAW) == counts
    with pytest.raises(BadInput) as error:
        sequence_counts([], LAW)
    assert error.value.code == "no_samples"


def test_joint_calibration(calibrated) -> None:
    rng, results = np.random.default_rng(0), []
    for _ in range(1_000):
        counts = sequence_counts(draw(2_000, rng), LAW)
        results.append(chi_square(tabulate(counts.observed, counts.probs)))
    calibrated(results)


def test_per_prefix_calibration(calibrated) -> None:
    rng = np.random.default_rng(1)
    reports = [prefix_tests(draw(2_000, rng), LAW) for _ in range(1_000)]
    alarms = np.mean([report.p_value <= 0.05 for report in reports])
    assert 0.03 <= alarms <= 0.07
    for prefix in ((), (0,), (0, 1)):
        calibrated(
            [
                next(test.result for test in report.tests if test.prefix == prefix)
                for report in reports
            ]
        )


def test_tokens_pooled_over_one_sequence_are_not_calibrated(calibrated) -> None:
    """Why tokens are not the unit: pooled as if separate, a right sampler fails the check."""
    rng, results = np.random.default_rng(2), []
    per_text = np.array([[text.count(token) for token in range(3)] for text in TEXTS])
    share = PROBS @ per_text
    share /= share.sum()
    for _ in range(1_000):
        counts = rng.multinomial(2_000, PROBS) @ per_text
        results.append(chi_square(tabulate(counts, share)))
    with pytest.raises(AssertionError):
        calibrated(results)


def test_the_prefix_that_is_wrong_is_named() -> None:
    rng = np.random.default_rng(3)
    report = prefix_tests(draw(20_000, rng, wrong_third_token()), LAW)
    assert report.p_value < 1e-3
    worst = min(report.tests, key=lambda test: test.adjusted_p)
    assert (worst.position, worst.prefix) == (2, (0, 1))
    assert all(test.adjusted_p > 1e-3 for test in report.tests if test is not worst)


def test_unlikely_prefixes_are_left_out_and_counted() -> None:
    report = prefix_tests(draw(500, np.random.default_rng(4)), LAW)
    tested = {test.prefix for test in report.tests}
    assert () in tested and (1, 0) not in tested
    assert report.num_untested == 7 - len(tested)
    assert report.share_tested[0] == 1.0 > report.share_tested[2] > 0.0
    assert len({test.result.num_samples for test in report.tests}) == len(report.tests)


def test_an_impossible_sequence_is_named_at_its_first_wrong_token() -> None:
    sample = draw(2_000, np.random.default_rng(5)) | {(0, 2, 1): 1}
    report = prefix_tests(sample, LAW)
    # (0, 2) ended, so nothing may follow it
    assert (report.p_value, report.forbidden) == (0.0, (((0, 2, 1), 1),))
    short = prefix_tests(draw(2_000, np.random.default_rng(5)) | {(0, 1): 3}, LAW)
    assert (short.p_value, short.forbidden) == (0.0, (((0, 1, END), 3),))


def test_a_law_that_may_stop_anywhere_tests_the_stopping_too() -> None:
    law = {(): 0.2, (0,): 0.3, (0, 1): 0.5}
    right = {(): 200, (0,): 300, (0, 1): 500}
    wrong = {(): 200, (0,): 500, (0, 1): 300}
    assert prefix_tests(right, law).p_value == 1.0
    report = prefix_tests(wrong, law)
    assert report.tests[1].prefix == (0,) and report.tests[1].adjusted_p < 1e-9
    assert report.tests[0].result.p_value == pytest.approx(1.0)


def test_too_few_sequences_are_refused() -> None:
    with pytest.raises(BadInput) as error:
        prefix_tests({(2,): 3}, LAW)
    assert error.value.code == "no_prefix"
    assert math.isclose(sum(LAW.values()), 1.0)
