"""What the lessons on speed compute: curves, lines of equal speed, own numbers, own runs."""

from __future__ import annotations

import pytest

from speclab.core.errors import BadInput
from speclab.core.theory import expected_tokens, tokens_of_text, walltime_speedup
from speclab.lab import own_run
from speclab.lab.own_numbers import EXERCISES, MAX_NUMBER, marked, one_draft, two_drafts
from speclab.lab.rounds_simulated import simulate_stretches
from speclab.lab.speed_curves import MAX_GAMMA, acceptance_needed, speed_curves, top_speed
from speclab.models.catalogue import load_pair

# --- curves --------------------------------------------------------------------------------------


def test_the_curves_are_the_closed_forms() -> None:
    found = speed_curves(0.5, 0.2)
    assert len(found.speed) == MAX_GAMMA + 1
    assert found.speed[8] == pytest.approx(0.7677, abs=5e-5)
    assert found.perfect[8] == pytest.approx(9 / 2.6)
    assert found.tokens[8] == expected_tokens(0.5, 8)
    assert found.best == 1 and found.ceiling == 2.0 and found.perfect_limit == pytest.approx(5.0)
    assert speed_curves(1.0, 0.0).ceiling is None
    assert speed_curves(0.5, 0.0).perfect_limit is None


def test_a_wider_pass_that_costs_lowers_every_speed_but_that_of_no_draft() -> None:
    free, paid = speed_curves(0.8, 0.1), speed_curves(0.8, 0.1, lambda n: 1.0 + 0.1 * (n - 1))
    assert free.speed[0] == paid.speed[0] == 1.0
    assert all(less < more for less, more in zip(paid.speed[1:], free.speed[1:], strict=True))
    assert paid.perfect_limit is None


@pytest.mark.parametrize("draft", [(1.5, 0.1), (-0.1, 0.1), (0.5, -1.0), (float("nan"), 0.1)])
def test_what_no_draft_has_is_refused(draft: tuple[float, float]) -> None:
    with pytest.raises(BadInput, match="must be between"):
        speed_curves(*draft)


@pytest.mark.parametrize("cost", [0.01, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("speed", [1.25, 1.5, 2.0])
def test_a_line_of_equal_speed_is_one(cost: float, speed: float) -> None:
    alpha = acceptance_needed(speed, cost)
    if alpha is None:
        assert top_speed(1.0, cost)[1] < speed
    else:
        assert top_speed(alpha, cost)[1] == pytest.approx(speed, abs=1e-4)
        assert top_speed(alpha - 0.01, cost)[1] < speed


def test_no_gain_begins_where_alpha_equals_c() -> None:
    assert acceptance_needed(1.0, 0.3) == 0.3
    assert top_speed(0.3, 0.3) == (0, 1.0)
    assert top_speed(0.31, 0.3)[1] > 1.0


# --- stretches -----------------------------------------------------------------------------------


def test_stretches_agree_with_the_exact_count_and_not_with_the_mean_rate() -> None:
    found = simulate_stretches((0.95, 0.4), 50, 8, 20_000, seed=1)
    exact = tokens_of_text(([0.95] * 50 + [0.4] * 50) * 40, 8)
    assert found.low <= exact <= found.high
    assert not found.low <= expected_tokens(0.675, 8) <= found.high


def test_stretches_of_one_rate_are_independent_coins() -> None:
    found = simulate_stretches((0.7,), 10, 3, 20_000, seed=2)
    assert found.tokens_per_pass == pytest.approx(expected_tokens(0.7, 3), abs=0.04)
    with pytest.raises(BadInput, match="rounds can be simulated"):
        simulate_stretches((0.7,), 10, 3, 10**9, seed=2)


# --- own numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EXERCISES)
def test_the_same_number_gives_the_same_task_and_others_give_others(kind: str) -> None:
    make = EXERCISES[kind]
    assert make(20260001) == make(20260001)
    assert len({make(number).drafts for number in range(30)}) > 25


def test_the_better_draft_is_always_the_slower_one() -> None:
    for number in range(60):
        exercise = two_drafts(number)
        better, cheaper = exercise.drafts
        assert better.acceptance_rate > cheaper.acceptance_rate
        assert exercise.answers["best_speed_B"] > exercise.answers["best_speed_A"] + 0.1


def test_answers_are_marked_cell_by_cell() -> None:
    exercise = one_draft(7)
    draft, right = exercise.drafts[0], dict(exercise.answers)
    speed = walltime_speedup(draft.acceptance_rate, exercise.gamma, draft.cost_ratio)
    assert right["speed"] == speed
    assert all(marked(exercise, right).values())
    assert all(marked(exercise, {k: round(v, 2) for k, v in right.items()}).values())
    wrong = marked(exercise, right | {"speed": speed + 0.02, "best_gamma": right["best_gamma"] + 1})
    assert [name for name, good in wrong.items() if not good] == ["speed", "best_gamma"]
    assert set(marked(exercise, {}).values()) == {None}


@pytest.mark.parametrize("number", [-1, MAX_NUMBER + 1, 1.5, "7", True, None])
def test_a_number_that_is_none_is_refused(number: object) -> None:
    with pytest.raises(BadInput, match="whole number"):
        one_draft(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [{"what": 1.0}, {"speed": "2"}, {"speed": float("nan")}])
def test_a_cell_that_is_not_there_is_refused(cells: dict) -> None:
    with pytest.raises(BadInput, match=r"no cell|not a number"):
        marked(one_draft(1), cells)


# --- an own run ----------------------------------------------------------------------------------


def test_an_own_run_is_measured_beside_the_formula_with_its_own_numbers(monkeypatch) -> None:
    turns: list[str] = []
    right = own_run.time_ours
    monkeypatch.setattr(
        own_run,
        "time_ours",
        lambda pair, name, *more: (turns.append(name), right(pair, name, *more))[1],
    )
    pair = load_pair("pocket")
    prompt = pair.codec.encode("One morning, Mira walked to the river.")
    run = own_run.measure_own_run(pair, prompt, 2, new_tokens=16, repeats=2)
    assert len(turns) == 6 and turns[2] != turns[4], "who goes first changes"
    assert set(turns[2:4]) == set(turns[4:6]) == set(turns)
    assert 1.0 <= run.tokens_per_pass <= 3.0
    assert run.acceptance_rate is not None and 0.0 <= run.acceptance_rate <= 1.0
    assert 0.0 < run.low <= run.speedup <= run.high
    v3, c = run.costs["verify_cost"]["3"], run.costs["cost_ratio"]
    expected = expected_tokens(run.acceptance_rate, 2) / (2 * c + v3)
    assert run.by_formula == pytest.approx(expected)
