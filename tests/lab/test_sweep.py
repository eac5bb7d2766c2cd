"""Sweeps: points beside plain decoding, stopped where one likes, theory over them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.theory import walltime_speedup
from speclab.lab.bench_prompts import CHAT
from speclab.lab.head_numbers import Measured
from speclab.lab.knobs import chain_label, depth_of, with_knobs
from speclab.lab.labels import parse_label
from speclab.lab.measuring import BASELINE, Unit, measure, point_of
from speclab.lab.prompt_families import FAMILY_PROMPTS
from speclab.lab.sweep import FEWEST_PROMPTS, Sweep, SweepPlan, points_of, swept_methods
from speclab.lab.sweep_axes import AXES, USUAL_METHODS, axis_named, label_at, methods_for
from speclab.lab.sweep_prompts import halves, least_length, prompts_of, prompts_of_length
from speclab.lab.sweep_theory import theory_lines
from speclab.models.pair import Pair
from speclab.ui.texts_errors_sweep import ZH_SWEEP


def test_a_sweep_yields_points_beside_plain_decoding(pocket: Pair) -> None:
    plan = SweepPlan(
        values=(1, 3),
        methods=("draft-model", "prompt-lookup"),
        num_prompts=2,
        max_new_tokens=10,
        passes=1,
    )
    sweep = Sweep(pocket, plan)
    steps = list(sweep)
    assert [step.done for step in steps if not step.points] == [1, 2, 3, 4]
    assert all(step.total == 4 for step in steps)
    report = sweep.report()
    assert json.loads(json.dumps(report)) == report
    assert report["complete"] and report["kind"] == "sweep" and report["schema_version"] == 1
    assert report["points"] == [point for step in steps for point in step.points]
    assert len(report["points"]) == 6 and swept_methods(report["points"]) == list(plan.methods)
    for point in report["points"]:
        assert point["speedup_low"] <= point["speedup"] <= point["speedup_high"]
        assert point["seconds_per_token"] > 0 and point["num_prompts"] == 2
        assert point["emitted_tokens"] == 20 and point["greedy_agreement"] == 1.0
    for plain in points_of(report, BASELINE):
        assert plain["speedup"] == plain["tau"] == 1.0
        assert plain["seconds_per_token"] == plain["plain_seconds_per_token"]
    deeper = points_of(report, "draft-model")
    assert [point["value"] for point in deeper] == [1, 3]
    assert deeper[0]["drafted_per_round"] <= 1.0 < deeper[1]["drafted_per_round"] <= 3.0
    assert set(report["theory"]) >= {"draft-model"}
    assert len(report["theory"]["draft-model"]["speedup"]) == 4


def test_a_stopped_sweep_keeps_complete_prompts(pocket: Pair) -> None:
    plan = SweepPlan(
        values=(1, 2), methods=("draft-model",), num_prompts=3, max_new_tokens=6, passes=1
    )
    asked = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 2 + 4 + 1  # two warm-ups, two whole prompts, one run of the third

    sweep = Sweep(pocket, plan, stopped=stopped)
    list(sweep)
    report = sweep.report()
    assert not report["complete"]
    assert {point["value"] for point in report["points"]} == {1}
    assert {point["num_prompts"] for point in report["points"]} == {2}
    early = Sweep(pocket, plan, stopped=lambda: True)
    assert [step for step in early if step.points] == [] and early.report()["points"] == []


def test_closing_a_sweep_keeps_its_points(pocket: Pair) -> None:
    plan = SweepPlan(
        values=(1, 2), methods=("draft-model",), num_prompts=2, max_new_tokens=6, passes=1
    )
    sweep = Sweep(pocket, plan)
    steps = iter(sweep)
    while not next(steps).points:
        pass
    steps.close()  # type: ignore[attr-defined]
    assert {point["value"] for point in sweep.report()["points"]} == {1}


@pytest.mark.parametrize(
    ("axis", "value", "name"),
    [
        ("temperature", 0.7, "temperature"),
        ("top-p", 0.6, "top_p"),
        ("output-length", 5, "max_new_tokens"),
        ("family", "copy", None),
        ("prompt-length", 40, None),
        ("nodes", 6, None),
    ],
)
def test_axes_change_what_they_say(pocket: Pair, axis: str, value, name: str | None) -> None:
    method = "medusa" if axis == "nodes" else "prompt-lookup"
    plan = SweepPlan(
        axis=axis, values=(value,), methods=(method,), num_prompts=1, max_new_tokens=6, passes=1
    )
    sweep = Sweep(pocket, plan)
    list(sweep)
    point = points_of(sweep.report(), method)[0]
    assert point["value"] == value
    if name is not None:
        assert point[name] == value
    if axis == "top-p":
        assert point["temperature"] == 1.0
    if axis == "nodes":
        assert "tree_nodes=6" in point["label"] and point["shape"] == "tree"


def test_turns_are_paired(pocket: Pair) -> None:
    units = {label: Unit(pair=pocket, label=label, max_new_tokens=3) for label in (BASELINE,)}
    measured: dict[str, Measured] = {}
    prompts = prompts_of_length(pocket, 12, 2)
    assert [len(prompt) for prompt in prompts] == [12, 12] and prompts[0] != prompts[1]
    assert list(measure(units, prompts, measured, repeats=2)) == [1, 2, 3, 4]
    assert set(measured[BASELINE].seconds) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_knobs_have_many_names() -> None:
    assert chain_label("draft-model", 3) == "draft-model:num_speculative_tokens=3"
    assert chain_label("eagle-3", 3) == "eagle-3:depth=3:top_k=1:total_tokens=3"
    assert chain_label("draft-tree", 3) is None and chain_label("medusa", 30) is None
    assert with_knobs("prompt-lookup", width=2) is None
    assert depth_of("hydra:num_heads=2") == 2 and depth_of(BASELINE) is None
    width = AXES["width"]
    assert label_at(width, "draft-tree", 2) == "draft-tree:depth=3:width=2"
    assert label_at(width, "draft-model", 2) is None
    assert label_at(AXES["family"], "medusa", "copy") == "medusa"
    kept = chain_label("draft-and-verify:adaptive_threshold=false", 2)
    assert kept is not None and parse_label(kept)[1]["adaptive_threshold"] is False


def test_bad_plans_name_the_value(pocket: Pair) -> None:
    for changed, word in (
        ({"axis": "colour"}, "colour"),
        ({"values": (0,)}, "gamma"),
        ({"values": (2.5,)}, "whole"),
        ({"values": tuple(range(1, 40))}, "at most"),
        ({"num_prompts": 0}, "num_prompts"),
        ({"temperature": -1.0}, "temperature"),
    ):
        with pytest.raises(BadInput, match=word):
            SweepPlan(**changed)
    with pytest.raises(BadInput, match="poems"):
        Sweep(pocket, SweepPlan(axis="family", values=("poems",)))
    with pytest.raises(BadInput, match="swept"):
        methods_for(pocket, axis_named("nodes"), ("draft-model",))


def test_a_sweep_takes_the_usual_methods_unless_all_are_asked_for(pocket) -> None:
    axis = axis_named("gamma")
    usual, skipped = methods_for(pocket, axis)
    every, _ = methods_for(pocket, axis, ("all",))
    assert usual == [name for name in every if name in USUAL_METHODS]
    assert len(usual) <= 6 < len(every)
    assert "mtp" in skipped and not set(skipped) & set(every)


def test_halves_share_the_families() -> None:
    names = ("a", "b", "c")
    prompts = [(name, (number, names.index(name))) for number in range(4) for name in names]
    first, second = halves(prompts)
    assert not set(first) & set(second)
    for half in (first, second):
        assert sorted(family for _, family in half) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(BadInput, match="halves"):
        halves(prompts[:1])


def test_theory_is_leviathans_where_passes_are_free() -> None:
    plain = {"method": BASELINE, "target_s_per_round": 0.01, "value": 2}
    point = {
        **{"method": "draft-model", "value": 2, "acceptance_rate": 0.8, "rounds": 100},
        **{"accepted_positions": 144, "tested_positions": 180, "drafting_rounds": 100},
        **{"drafted_per_round": 2.0, "draft_s_per_round": 0.004},
    }
    costs = {"verify_cost": {"1": 1.0, "33": 1.0}}
    lines = theory_lines([plain, point], costs)["draft-model"]
    assert lines["acceptance_rate"] == pytest.approx(0.8)
    assert lines["cost_ratio"] == pytest.approx(0.2)
    assert lines["speedup"] == pytest.approx([walltime_speedup(0.8, g, 0.2) for g in (0, 1, 2)])
    assert lines["perfect"][2] == pytest.approx(3 / 1.4)
    assert lines["break_even"][1] == pytest.approx(0.2)
    assert theory_lines([point], costs) == {}


def drafted(value: int, accepted: int, tested: int, drafting: int = 100) -> dict[str, Any]:
    return {
        **{"method": "draft-model", "value": value, "rounds": 100, "drafting_rounds": drafting},
        **{"acceptance_rate": accepted / tested, "acceptance": {"reached": [accepted]}},
        **{"accepted_positions": accepted, "tested_positions": tested},
        **{"drafted_per_round": value * drafting / 100, "draft_s_per_round": 0.0},
    }


PLAIN = {"method": BASELINE, "target_s_per_round": 0.01, "value": 1}


def test_a_point_without_acceptance_weighs_in_the_pooled_alpha() -> None:
    points = [PLAIN, drafted(1, 0, 100), drafted(2, 50, 100)]
    lines = theory_lines(points, {"verify_cost": {"1": 1.0, "3": 1.0}})["draft-model"]
    assert lines["acceptance_rate"] == 0.25
    nothing = theory_lines([PLAIN, drafted(1, 0, 100)], {"verify_cost": {"1": 1.0, "3": 1.0}})
    assert nothing["draft-model"]["acceptance_rate"] == 0.0


def test_the_best_gamma_is_the_top_of_the_line_that_is_drawn() -> None:
    costs = {"verify_cost": {"1": 1.0, "3": 1.3, "5": 1.8, "9": 3.1}}
    points = [PLAIN, *(drafted(value, 70, 100, drafting=20) for value in (2, 8))]
    lines = theory_lines(points, costs)["draft-model"]
    speeds, alone = (
        lines["speedup"],
        theory_lines([PLAIN, *(drafted(value, 70, 100) for value in (2, 8))], costs)["draft-model"],
    )
    assert lines["drafting_share"] == pytest.approx(0.2)
    assert lines["best_gamma"] == max(lines["gammas"], key=lambda g: (speeds[g], -g))
    assert lines["best_gamma"] != alone["best_gamma"]
    for better in ("ideal", "perfect"):
        assert all(high >= low - 1e-12 for high, low in zip(lines[better], speeds, strict=True))
        assert max(lines[better]) < max(alone[better])
    assert lines["break_even"] == alone["break_even"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_repeats_leave_the_share_of_drafting_rounds(pocket: Pair, temperature: float) -> None:
    sampling = Sampling(temperature=temperature)
    units = {
        label: Unit(pair=pocket, label=label, sampling=sampling, max_new_tokens=12)
        for label in (BASELINE, "prompt-lookup")
    }
    measured: dict[str, Measured] = {}
    list(measure(units, prompts_of_length(pocket, 40, 1), measured, repeats=3))
    mine = measured["prompt-lookup"]
    point = point_of(units["prompt-lookup"], mine, measured[BASELINE])
    runs = 1 if temperature == 0.0 else 3
    assert point["emitted_tokens"] == 12 * runs
    rounds = [each for trace in list(mine.traces.values())[:runs] for each in trace.rounds]
    assert point["rounds"] == len(rounds)
    assert point["drafting_rounds"] == sum(each.num_drafted > 0 for each in rounds) > 0
    assert point["tested_positions"] == sum(each.num_tested for each in rounds)
    assert point["accepted_positions"] == sum(each.num_accepted for each in rounds)


def chat(pair: Pair, template: int = 40) -> Pair:
    """Return the pair with a codec that takes its texts as requests and puts tokens before."""

    class Codec:
        chat_by_default = True

        def __getattr__(self, name: str) -> Any:
            return getattr(pair.codec, name)

        def encode(self, text: str, **more: Any) -> tuple[int, ...]:
            return (5,) * template + tuple(pair.codec.encode(text, **more))

    return replace(pair, codec=Codec())


def test_usual_lengths_leave_room_for_a_request(pocket: Pair) -> None:
    plan = SweepPlan(axis="prompt-length", methods=("prompt-lookup",), num_prompts=3)
    assert Sweep(pocket, plan).values == AXES["prompt-length"].values[:4]
    pair = chat(pocket)
    least = least_length(pair, 3)
    assert least > 40
    sweep = Sweep(pair, plan)
    assert sweep.values == tuple(each for each in AXES["prompt-length"].values if each >= least)
    with pytest.raises(BadInput, match=r"request alone.*16") as refused:
        Sweep(pair, replace(plan, values=(16, 192)))
    assert refused.value.code == "request_alone" in ZH_SWEEP
    wide = Sweep(chat(pocket, 460), replace(plan, max_new_tokens=2))
    assert wide.values == (least_length(chat(pocket, 460), 3),)


def test_chat_prompts_come_from_the_families_in_turn(pocket: Pair) -> None:
    pair = chat(pocket)
    prompts = prompts_of(pair, 36)
    assert len(set(prompts)) == 36 and {family for family, _ in prompts} == set(FAMILY_PROMPTS)
    for half in halves(prompts):
        assert len(half) == 18
    there = len(prompts_of(pair, 60)) + len(CHAT) - len(set(CHAT) & set(FAMILY_PROMPTS["chat"]))
    assert len(set(prompts_of(pair, there))) == there
    with pytest.raises(BadInput, match=f"{there} built-in") as refused:
        prompts_of(pair, there + 1)
    assert refused.value.code in ZH_SWEEP


def test_a_value_that_cannot_be_is_refused_before_anything_runs(pocket: Pair) -> None:
    plan = SweepPlan(axis="output-length", values=(4, 4000), methods=("draft-model",))
    with pytest.raises(BadInput, match="4000"):
        Sweep(pocket, plan)
    with pytest.raises(BadInput, match="90032"):
        Sweep(pocket, SweepPlan(axis="prompt-length", values=(16, 90_000)))


@pytest.mark.parametrize(("budget_s", "prompts"), [(None, 4), (1e6, 4), (1e-6, FEWEST_PROMPTS)])
def test_a_budget_takes_fewer_prompts_but_every_value(
    pocket: Pair, budget_s: float | None, prompts: int
) -> None:
    plan = SweepPlan(
        values=(1, 2),
        methods=("prompt-lookup",),
        num_prompts=4,
        max_new_tokens=4,
        passes=1,
        budget_s=budget_s,
    )
    sweep = Sweep(pocket, plan)
    steps = list(sweep)
    report = sweep.report()
    assert steps[-1].done == steps[-1].total == 2 * prompts and report["complete"]
    assert [point["num_prompts"] for point in report["points"]] == [prompts] * 4


def test_an_interrupt_keeps_the_complete_prompts_of_its_value(pocket: Pair) -> None:
    plan = SweepPlan(
        values=(1, 2), methods=("draft-model",), num_prompts=3, max_new_tokens=6, passes=1
    )
    asked = []

    def stopped() -> bool:
        asked.append(1)
        if len(asked) > 2 + 4 + 1:  # two warm-ups, two whole prompts, one run of the third
            raise KeyboardInterrupt
        return False

    sweep = Sweep(pocket, plan, stopped=stopped)
    with pytest.raises(KeyboardInterrupt):
        list(sweep)
    report = sweep.report()
    assert not report["complete"] and report["theory"]
    assert [point["num_prompts"] for point in report["points"]] == [2, 2]
    assert {point["value"] for point in report["points"]} == {1}
