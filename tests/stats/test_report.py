"""A verdict counts only beside a control that fails."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.stats.cells import tabulate
from speclab.stats.directed import directed_test
from speclab.stats.goodness import chi_square
from speclab.stats.missing_mass import missing_mass_test
from speclab.stats.report import battery, judge, sentence_facts, sequence_battery, watched

P, Q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.2, 0.6, 0.1, 0.1])
FRESH_REDRAW = np.array([0.44, 0.39, 0.12, 0.05])


def counts(law: np.ndarray, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).multinomial(n, law)


def result(law: np.ndarray, n: int, seed: int = 0):
    return chi_square(tabulate(counts(law, n, seed), P))


def test_the_three_verdicts() -> None:
    right, wrong = result(P, 5_000), result(FRESH_REDRAW, 5_000)
    assert judge(right, wrong).verdict == "not_rejected"
    assert judge(wrong, wrong).verdict == "rejected"
    assert judge(wrong, None).verdict == "rejected"
    assert judge(right, right).verdict == "inconclusive"
    assert judge(right, None).verdict == "inconclusive"
    small = judge(result(P, 60), result(FRESH_REDRAW, 60))
    assert small.verdict == "inconclusive"
    assert small.detectable_bias > 0.3 and small.reference_samples > 10_000


def test_a_control_must_be_like_the_test() -> None:
    for control in (result(Q, 100), missing_mass_test(counts(Q, 5_000, 0), P)):
        with pytest.raises(BadInput) as error:
            judge(result(P, 5_000), control)
        assert error.value.code == "control_differs"
    with pytest.raises(BadInput) as error:
        judge(result(P, 100), None, level=0.0)
    assert error.value.code == "test_level"


def test_each_test_states_the_bias_it_can_state() -> None:
    sample = counts(P, 20_000, 1)
    assert judge(directed_test(sample, P, Q), None).detectable_bias == pytest.approx(
        0.016, abs=1e-3
    )
    assert judge(missing_mass_test(sample, P), None).detectable_bias is None
    assert judge(chi_square(tabulate(sample, P)), None).detectable_bias < 0.03
    impossible = chi_square(tabulate([99, 1], [1.0, 0.0]))
    assert judge(impossible, None).verdict == "rejected"


def test_battery_of_a_right_and_of_a_wrong_sampler() -> None:
    control = counts(FRESH_REDRAW, 20_000, 2)
    right = battery(counts(P, 20_000, 3), P, control=control, draft_probs=Q)
    assert right.verdict == "not_rejected" and min(right.more_adjusted) > 0.05
    assert [test.test for test in right.more] == ["g-test", "missing-mass", "directed"]
    assert right.variation.low == 0.0
    wrong = battery(counts(FRESH_REDRAW, 20_000, 4), P, control=control, draft_probs=Q)
    assert wrong.verdict == "rejected" and wrong.more_adjusted[2] < 1e-10
    assert 0.07 < wrong.variation.low < 0.09 < wrong.variation.high
    facts = sentence_facts(right)
    assert (facts["verdict"], facts["num_samples"], facts["num_cells"]) == (
        "not_rejected",
        20_000,
        4,
    )
    assert facts["control_p_value"] < 1e-10 and 0.01 < facts["detectable_bias"] < 0.03
    for report in (right, wrong):
        json.dumps([asdict(report), sentence_facts(report)], allow_nan=False)


def test_battery_without_a_directed_test_when_the_draft_is_the_target() -> None:
    report = battery(counts(P, 1_000, 5), P, control=None, draft_probs=P)
    assert [test.test for test in report.more] == ["g-test", "missing-mass"]
    assert report.verdict == "inconclusive"


def test_an_impossible_token_is_carried_to_the_sentence() -> None:
    law = np.array([0.6, 0.4, 0.0])
    report = battery([60, 39, 1], law, control=counts(law, 100, 0))
    assert report.verdict == "rejected" and report.variation is None
    assert sentence_facts(report)["forbidden"] == 1
    json.dumps([asdict(report), sentence_facts(report)], allow_nan=False)


def test_battery_of_sequences() -> None:
    law = {(a, b): P[a] * P[b] for a in range(4) for b in range(4)}
    texts = sorted(law)
    rng = np.random.default_rng(6)

    def sample(first: np.ndarray, n: int = 20_000) -> list[tuple[int, ...]]:
        a, b = rng.choice(4, n, p=first), rng.choice(4, n, p=P)
        return list(zip(a.tolist(), b.tolist()))

    right = sequence_battery(sample(P), law, control=sample(FRESH_REDRAW))
    assert right.verdict == "not_rejected" and right.prefixes.p_value > 1e-3
    assert right.main.num_cells <= len(texts) and right.main.num_samples == 20_000
    wrong = sequence_battery(sample(FRESH_REDRAW), law, control=sample(FRESH_REDRAW))
    assert wrong.verdict == "rejected" and wrong.prefixes.p_value <= 1e-3
    assert min(wrong.prefixes.tests, key=lambda test: test.adjusted_p).prefix == ()
    odd = [*sample(P, 19_999), (0, 1, 2)]
    strange = sequence_battery(odd, law, control=[*sample(P, 19_999), (3,)])
    assert strange.main.forbidden == (((0, 1, 2), 1),)
    assert strange.control.forbidden == (((3,), 1),)
    few = sequence_battery(sample(P, 60), law, control=None)
    assert few.prefixes is None and few.verdict == "inconclusive"


def test_a_small_bias_in_a_known_direction_decides() -> None:
    """The directed test is in the family: a bias too small for the chi-square is not waved on."""
    vocab, size = 400, 20_000
    p = np.full(vocab, 1.0 / vocab)
    q = np.concatenate([np.full(200, 0.5 / vocab), np.full(200, 1.5 / vocab)])
    biased = np.concatenate([np.full(200, 0.94 / vocab), np.full(200, 1.06 / vocab)])
    rng = np.random.default_rng(0)
    decisions = []
    for _ in range(20):
        control = rng.multinomial(size, q)
        report = battery(rng.multinomial(size, biased), p, control=control, draft_probs=q)
        decisions.append(report.verdict)
        assert report.main.p_value > report.level or report.verdict == "rejected"
    assert decisions.count("rejected") >= 18


def test_what_moves_inside_a_cell_is_not_seen_and_the_report_claims_no_more() -> None:
    """The stated bias is one between cells: a shift within pooled cells stays invisible."""
    p = np.full(400, 1.0 / 400)
    p[:40] = 0.9 / 40
    p[40:] = 0.1 / 360
    inside = p.copy()
    inside[40::2] *= 2.0
    inside[41::2] = 0.0
    rng = np.random.default_rng(1)
    tables = [tabulate(rng.multinomial(2_000, inside), p, max_cells=32) for _ in range(20)]
    assert sum(chi_square(table).p_value <= 1e-3 for table in tables) <= 1
    assert 0.5 * np.abs(inside - p).sum() > 0.04


def test_a_number_of_samples_chosen_on_the_way_is_judged_by_evidence_that_allows_it() -> None:
    report = battery(counts(P, 5_000, 1), P, control=counts(FRESH_REDRAW, 5_000, 2))
    assert watched(report, 1e-4, None).verdict == "rejected"
    assert watched(report, 0.5, 1e-4).verdict == "not_rejected"
    kept = watched(report, 0.5, 0.5)
    assert kept.verdict == "inconclusive" and kept.decided_by == "anytime"
