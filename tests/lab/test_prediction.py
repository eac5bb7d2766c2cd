"""Predictions: exact where costs are known, blind to what they predict, wrong when fed wrong."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from fault_kit import begin
from hypothesis import given
from hypothesis import strategies as st
from speed_kit import (
    OTHER_S,
    OUTSIDE_S,
    PASS_S,
    PLAIN_OTHER_S,
    PREFILL_S,
    STEP_S,
    chain_trace,
    growing,
    measured_of,
)

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.records import Timing
from speclab.core.theory import expected_tokens
from speclab.lab.head_numbers import Measured
from speclab.lab.labels import parse_label
from speclab.lab.measuring import BASELINE, Unit, point_of
from speclab.lab.prediction import Fit, compare, fit, median_error, predict, text_s
from speclab.lab.round_costs import Linear, MethodCosts, RoundCosts, verify_curve
from speclab.lab.round_law import RoundCounts, RoundLaw
from speclab.lab.runs import generate
from speclab.methods import make_method
from speclab.models.toy import ToyModel
from speclab.models.toy_pair import load_toy

RATES, TOKENS = (0.8, 0.7, 0.6, 0.5), 40
LABEL = "draft-model:num_speculative_tokens=4"
VERIFY = {"chain": growing, "tree": growing}


def half(first: int, count: int = 40, **more) -> dict[tuple[str, float], Measured]:
    """Return plain decoding and the draft model on some prompts."""
    numbers = range(first, first + count)
    plain = [chain_trace(n, TOKENS, (), method=BASELINE) for n in numbers]
    mine = [chain_trace(n, TOKENS, RATES, **more) for n in numbers]
    return {(BASELINE, 0.0): measured_of(plain), (LABEL, 0.0): measured_of(mine)}


def points_of(measured: dict[tuple[str, float], Measured]) -> dict:
    base = measured[BASELINE, 0.0]
    return {
        key: point_of(
            Unit(pair=None, label=key[0], max_new_tokens=TOKENS),  # type: ignore[arg-type]
            each,
            base,
        )
        for key, each in measured.items()
    }


@pytest.fixture(scope="module")
def fitted() -> Fit:
    return fit(half(0), VERIFY)


def chain_law(rates: tuple[float, ...], rounds: int = 1) -> RoundLaw:
    depth = len(rates)
    return RoundLaw(
        shapes=(((depth, depth, depth, 0), 1.0),),
        offered=(1.0,) * depth,
        rates=rates,
        acceptance_rate=rates[0] if rates else 0.0,
        rounds=rounds,
    )


@given(st.floats(0.0, 1.0), st.integers(0, 8))
def test_equal_rates_give_leviathans_tokens_per_pass_both_ways(alpha: float, gamma: int) -> None:
    law = chain_law((alpha,) * gamma)
    expected = expected_tokens(alpha if gamma else 0.0, gamma)
    assert law.tokens_per_pass() == pytest.approx(expected)
    assert law.tokens_per_pass(iid=True) == pytest.approx(expected)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6), st.integers(0, 8))
def test_laws_sum_to_one_and_keep_to_the_room(rates: list[float], room: int) -> None:
    law = chain_law(tuple(rates))
    for chances in (law.accepted_law(room), law.accepted_law_iid(room)):
        assert sum(chances) == pytest.approx(1.0)
        assert len(chances) <= min(room, len(rates)) + 1


def test_counts_of_a_round_by_hand() -> None:
    counts = RoundCounts()
    trace = chain_trace(0, 200, (1.0, 0.0, 0.5))
    for round_ in trace.rounds[:10]:
        counts.add(round_)
    law = RoundLaw.of([counts])
    assert counts.shapes == Counter({(3, 3, 3, 0): 10})
    assert law.offered == (1.0, 1.0, 0.0) and law.rates == (1.0, 0.0, 0.0)
    assert law.acceptance_rate == 0.5  # ten first tokens accepted, ten second ones refused
    assert law.tokens_per_pass() == 2.0


def test_a_cut_chain_keeps_its_first_rates() -> None:
    law = chain_law(RATES).cut(2)
    assert law.tokens_per_pass() == pytest.approx(1 + 0.8 + 0.8 * 0.7)
    assert law.shapes == (((2, 2, 2, 0), 1.0),)
    one_pass = RoundLaw(
        shapes=(((4, 4, 1, 7), 1.0),),
        offered=(1.0,) * 4,
        rates=RATES,
        acceptance_rate=0.7,
        rounds=1,
    )
    assert one_pass.cut(2).shapes == (((2, 2, 1, 7), 1.0),), "who rides along is not cut"


def test_costs_are_found_again(fitted: Fit) -> None:
    costs = fitted.costs[0.0]
    assert costs.target_step_s == pytest.approx(STEP_S)
    mine, plain = costs.methods["draft-model"], costs.methods[BASELINE]
    assert mine.drafting.of(4, 4) == pytest.approx(4 * PASS_S)
    assert mine.other.of(4) == pytest.approx(OTHER_S)
    assert plain.other.of(0) == pytest.approx(PLAIN_OTHER_S)
    assert mine.prefill.of(1) == pytest.approx(PREFILL_S)
    assert costs.outside.of(10) == pytest.approx(OUTSIDE_S, rel=1e-6)
    assert costs.cost_ratio("draft-model", 4, 4) == pytest.approx(PASS_S / STEP_S)
    full = 4 * PASS_S + STEP_S * growing(5) + OTHER_S
    assert costs.round_s("draft-model", 4, 4, 4, "chain") == pytest.approx(full)


def test_linear_fit_has_no_negative_terms() -> None:
    found = Linear.fit([(1,), (2,), (3,)], [3.0, 2.0, 1.0])
    assert found.by == (0.0,) and found.fixed_s == pytest.approx(2.0)
    assert Linear.fit([], []).of(5) == 0.0


def test_long_texts_cost_a_round_per_expected_tokens(fitted: Fit) -> None:
    law, costs = chain_law(RATES), fitted.costs[0.0]
    seconds, rounds = text_s(law, costs, "draft-model", "chain", 3000)
    full = costs.round_s("draft-model", 4, 4, 4, "chain")
    assert 3000 / rounds == pytest.approx(law.tokens_per_pass(), rel=2e-3)
    assert seconds / rounds == pytest.approx(full, rel=2e-3)


def test_the_last_draft_is_cut_by_the_limit(fitted: Fit) -> None:
    law = chain_law((1.0,) * 4)
    seconds, rounds = text_s(law, fitted.costs[0.0], "draft-model", "chain", 7)
    costs = fitted.costs[0.0]
    both = [costs.round_s("draft-model", n, n, n, "chain") for n in (4, 1)]
    assert rounds == 2.0 and seconds == pytest.approx(sum(both))


def test_the_other_half_is_predicted(fitted: Fit) -> None:
    unseen = half(1000)
    (row,) = compare(fitted, unseen, points_of(unseen))
    assert abs(row["error"]["positions"]) < 0.05
    assert row["predicted"]["low"] < row["predicted"]["speedup"] < row["predicted"]["high"]
    assert row["predicted"]["cost_ratio"] == pytest.approx(PASS_S / STEP_S, rel=1e-3)
    assert median_error([row], "positions") == pytest.approx(abs(row["error"]["positions"]))


def test_prompt_lookup_counts_the_rounds_that_found_something() -> None:
    label = "prompt-lookup:num_speculative_tokens=4"

    def sparse(first: int) -> dict:
        found = half(first)
        mine = [
            chain_trace(n, TOKENS, RATES, pass_s=0.0, method="prompt-lookup", found=0.3)
            for n in range(first, first + 40)
        ]
        return {(BASELINE, 0.0): found[BASELINE, 0.0], (label, 0.0): measured_of(mine)}

    fitted, unseen = fit(sparse(0), VERIFY), sparse(1000)
    law = fitted.labels[label, 0.0].law
    assert law.drafting_share == pytest.approx(0.3, abs=0.05)
    (row,) = compare(fitted, unseen, points_of(unseen))
    assert abs(row["error"]["positions"]) < 0.05


def test_a_wrong_cost_of_verification_gives_a_large_error() -> None:
    """Control: the same runs, but v(n) said to be 1 where a pass on 5 tokens costs 1.4."""
    unseen = half(1000)
    wrong = fit(half(0), {"chain": lambda n: 1.0, "tree": lambda n: 1.0})
    (row,) = compare(wrong, unseen, points_of(unseen))
    assert row["error"]["positions"] > 0.15


def test_a_prediction_cannot_see_what_it_predicts(fitted: Fit) -> None:
    names = set(inspect.signature(predict).parameters)
    assert names == {"fitted", "key", "prompt_lengths", "max_new_tokens"}
    seen = half(0)
    with pytest.raises(BadInput, match="fitted on"):
        compare(fitted, seen, points_of(seen))
    overlapping = half(39)
    with pytest.raises(BadInput, match="fitted on"):
        compare(fitted, overlapping, points_of(overlapping))


def test_timings_of_the_predicted_half_change_nothing(fitted: Fit) -> None:
    usual, slow = half(1000), half(1000, slowness=3.0)
    rows = [compare(fitted, each, points_of(each))[0] for each in (usual, slow)]
    assert rows[0]["predicted"] == rows[1]["predicted"]
    assert rows[1]["measured"]["speedup"] < 0.5 * rows[0]["measured"]["speedup"]
    assert rows[1]["error"]["positions"] > 1.0


def test_rates_that_fall_by_position_are_told_from_their_mean(fitted: Fit) -> None:
    steep = (0.95, 0.9, 0.2, 0.1)
    found = [
        {
            **half(first),
            (LABEL, 0.0): measured_of(
                [chain_trace(n, TOKENS, steep) for n in range(first, first + 40)]
            ),
        }
        for first in (0, 1000)
    ]
    (row,) = compare(fit(found[0], VERIFY), found[1], points_of(found[1]))
    assert abs(row["error"]["positions"]) < abs(row["error"]["iid"])


def test_what_was_not_fitted_is_refused(fitted: Fit) -> None:
    with pytest.raises(BadInput, match="not fitted"):
        predict(fitted, ("prompt-lookup", 0.0), prompt_lengths=[3], max_new_tokens=8)
    with pytest.raises(BadInput, match="plain"):
        fit({(LABEL, 0.0): half(0)[LABEL, 0.0]}, VERIFY)


# --- passengers -------------------------------------------------------------------------------

LOOKAHEAD = "lookahead:window=3:ngram=3:guesses=2"


def lookahead_half(first: int, count: int = 14) -> dict[tuple[str, float], Measured]:
    """Return real toy runs of plain decoding and lookahead whose passes cost what the kit says."""
    pair, made = load_toy(), {}
    for label in (BASELINE, LOOKAHEAD):
        method, params = parse_label(label)
        traces = []
        for number in range(first, first + count):
            trace = generate(
                pair,
                (number % 3, number // 3 % 3, number // 9 % 3, number % 2),
                method=method,
                params=params,
                sampling=Sampling(temperature=0.0),
                max_new_tokens=TOKENS,
                ignore_eos=True,
                record_laws=False,
            )
            timed = [
                replace(
                    round_,
                    timing=Timing(
                        target_s=STEP_S * growing(1 + round_.num_drafted + round_.num_passengers),
                        verify_s=PLAIN_OTHER_S,
                    ),
                )
                for round_ in trace.rounds
            ]
            traces.append(replace(trace, rounds=tuple(timed), prefill_s=PREFILL_S))
        made[label, 0.0] = measured_of(traces)
    return made


@pytest.fixture(scope="module")
def lookahead_halves() -> list[dict[tuple[str, float], Measured]]:
    return [lookahead_half(0), lookahead_half(14)]


def test_who_rides_along_is_in_the_price_of_a_pass(lookahead_halves) -> None:
    seen, unseen = lookahead_halves
    fitted = fit(seen, VERIFY)
    shapes = fitted.labels[LOOKAHEAD, 0.0].law.shapes
    assert max(riding for (_, _, _, riding), _ in shapes) == 3 * 2 - 1
    (row,) = compare(fitted, unseen, points_of(unseen))
    assert abs(row["error"]["positions"]) < 0.08
    without = {
        key: replace(each, counts=tuple(map(alone, each.counts)))
        for key, each in fitted.labels.items()
    }
    (wrong,) = compare(replace(fitted, labels=without), unseen, points_of(unseen))
    assert wrong["error"]["positions"] > 0.2, "control: passes of the drafted tokens alone"


def alone(counts: RoundCounts) -> RoundCounts:
    """Return the counts as if nobody rode along."""
    shapes: Counter[Any] = Counter()
    for (depth, nodes, passes, _), rounds in counts.shapes.items():
        shapes[depth, nodes, passes, 0] += rounds
    return replace(counts, shapes=shapes)


def test_rows_of_a_pass_are_those_that_the_target_saw() -> None:
    """Depth 0 with a full window is a wide pass; with one token to go nothing rides along."""
    target = ToyModel.random(5, vocab_size=4)
    decoding = begin(target, (0, 1, 2), method=make_method(*parse_label(LOOKAHEAD)), n=12)
    del target.passes[:]
    rounds = list(decoding)
    counts = RoundCounts()
    for round_ in rounds:
        counts.add(round_)
    rows = Counter(target.passes)
    assert rows == Counter(
        {
            width: sum(n for shape, n in counts.shapes.items() if 1 + shape[1] + shape[3] == width)
            for width in rows
        }
    )
    law = RoundLaw(
        shapes=(((0, 0, 0, 5), 1.0),), offered=(), rates=(), acceptance_rate=0.0, rounds=1
    )
    costs = RoundCosts(
        target_step_s=1.0,
        verify={"chain": growing},
        methods={
            "lookahead": MethodCosts(
                prefill=Linear(), drafting=Linear(), other=Linear(), looking=Linear()
            )
        },
        outside=Linear(),
    )
    seconds, passes = text_s(law, costs, "lookahead", "chain", 3)
    assert passes == 3.0 and seconds == pytest.approx(2 * growing(6) + growing(1))


def test_beyond_the_widths_a_pass_goes_on_rising() -> None:
    curve = verify_curve({"1": 1.0, "3": 1.2, "5": 1.6})
    assert [curve(n) for n in (1, 2, 4, 5, 10)] == pytest.approx([1.0, 1.1, 1.4, 1.6, 2.6])
    assert verify_curve({"1": 1.0, "2": 0.9})(9) == 0.9 and verify_curve({"1": 1.0})(7) == 1.0
