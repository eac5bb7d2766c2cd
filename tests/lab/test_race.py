"""Races: who takes part, what is kept, what is refused, and what a file holds."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from speclab.core.errors import BadInput, TraceFormatError, UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.core.rules import RULES
from speclab.lab.race import WARM_TOKENS, RaceResult, RaceStep, added_memory, run_race, same_text
from speclab.lab.race_files import race_file, race_from_json, race_to_json, recorded_races
from speclab.lab.race_plan import (
    BASELINE,
    LOSSY_RULE,
    MAX_LANES,
    MAX_WORK,
    Lane,
    RacePlan,
    keeps_law,
    lanes_of,
    read_lane,
)
from speclab.lab.record_traces import FOLDER, RACES
from speclab.methods import METHODS, make_method
from speclab.models.toy_pair import load_toy
from speclab.models.weight_files import ASSETS, bundled_hash
from speclab.stats.pace import pace_of, speedup_over

PLAIN = Sampling(temperature=0.0)


def plan(*labels: str, **more: Any) -> RacePlan:
    """Return a small race of the toy pair."""
    given = {"pair": "toy", "prompt": "abca", "sampling": PLAIN, "max_new_tokens": 12, "repeats": 2}
    return RacePlan(lanes=tuple(map(read_lane, labels)), **{**given, **more})


def finish(steps: Iterator[RaceStep]) -> RaceStep:
    """Return the last step of a race."""
    (last,) = deque(steps, maxlen=1)
    return last


@pytest.fixture(scope="module")
def raced() -> RaceStep:
    return finish(run_race(load_toy(), plan("draft-model", "prompt-lookup", "medusa")))


# --- lanes and plans ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [name for name in METHODS if name != BASELINE])
def test_every_method_is_offered_in_lanes_that_a_label_brings_back(method: str) -> None:
    lanes = lanes_of(method)
    assert lanes[0] == Lane(method=method) and len({lane.label for lane in lanes}) == len(lanes)
    for lane in lanes:
        assert read_lane(lane.label) == lane
        make_method(lane.method, lane.params)
        assert keeps_law(lane, PLAIN) == RULES[lane.rule].lossless
    assert any(lane.params for lane in lanes), "one that drafts more or less"


def test_a_drawn_chain_is_offered_under_a_lossy_rule_and_only_that_breaks_the_law() -> None:
    lossy = [lane for lane in lanes_of("draft-model") if not keeps_law(lane, PLAIN)]
    assert [lane.rule for lane in lossy] == [LOSSY_RULE]
    assert lossy[0].label == f"draft-model/{LOSSY_RULE}"


@pytest.mark.parametrize(
    "label",
    ["nothing", "draft-model:gamma=2", "draft-model:num_speculative_tokens=900", "draft-model/no"],
)
def test_an_unknown_lane_is_refused_by_name(label: str) -> None:
    with pytest.raises(BadInput, match=r"nothing|gamma|900|no"):
        read_lane(label)


def test_other_kinds_of_parameters_come_back_too() -> None:
    label = "draft-model:shared_noise=True:draft_temperature=None"
    assert read_lane(label).params == {"shared_noise": True, "draft_temperature": None}
    assert read_lane("draft-tree:siblings=iid").params == {"siblings": "iid"}
    for wrong in ("draft-tree:siblings=best", "draft-model:shared_noise=maybe", "draft-tree:depth"):
        with pytest.raises(BadInput):
            read_lane(wrong)


def test_plain_decoding_always_takes_part_and_only_once() -> None:
    for labels in (("draft-model",), ("draft-model", BASELINE), (BASELINE, "draft-model")):
        assert [lane.label for lane in plan(*labels).lanes] == [BASELINE, "draft-model"]


def test_too_much_is_refused_with_the_reason() -> None:
    six = [f"prompt-lookup:num_speculative_tokens={n}" for n in range(1, MAX_LANES + 1)]
    assert len(plan(*six[:-1]).lanes) == MAX_LANES
    with pytest.raises(BadInput, match=f"1 to {MAX_LANES - 1} lanes .* not 6: more cannot be read"):
        plan(*six)
    with pytest.raises(BadInput, match="not 0"):
        plan(BASELINE)
    with pytest.raises(BadInput, match="twice"):
        plan("medusa", "medusa")
    with pytest.raises(BadInput, match=f"10800 tokens; a race takes at most {MAX_WORK}, because"):
        plan(*six[:-1], repeats=9, max_new_tokens=200)
    for wrong in ({"repeats": 0}, {"repeats": 10}, {"max_new_tokens": 257}, {"prompt": "  "}):
        with pytest.raises(BadInput):
            plan("medusa", **wrong)
    with pytest.raises(BadInput, match="1 to 2000 characters; it has 2001"):
        plan("medusa", prompt="a" * 2001)


# --- racing ---------------------------------------------------------------------------------------


def test_a_race_measures_every_lane_and_says_why_one_is_left_out(raced: RaceStep) -> None:
    result = raced.result
    assert result.complete and raced.done == raced.total == 8 and result.repeats == 2
    *ran, medusa = result.runs
    assert [runs.lane.method for runs in ran] == [BASELINE, "draft-model", "prompt-lookup"]
    assert medusa.traces == () and medusa.refusal is not None
    assert medusa.refusal.code == "method_needs" and "head:medusa" in medusa.refusal.what
    for runs in ran:
        assert len(runs.traces) == 2 and runs.refusal is None
        assert [same_text(ran[0].traces[0].emitted, t.emitted) for t in runs.traces] == [None] * 2
        for trace in runs.traces:
            assert trace.spec.seed == 0 and trace.spec.sampling == PLAIN
            assert not any(round_.slices for round_ in trace.rounds), "no laws on the lane's time"
    speedup = speedup_over(ran[0].traces, ran[1].traces)
    assert speedup is not None and speedup.num_pairs == 2 and speedup.low <= speedup.high
    assert pace_of(ran[1].traces).block_efficiency > 1.0


def test_lanes_are_interleaved_and_warmed_up_first() -> None:
    order: list[tuple[str, int]] = []

    def start(pair: Any, prompt: str, **given: Any) -> Any:
        order.append((given["method"], given["max_new_tokens"]))
        raise UnsupportedModel("no") if given["method"] == "medusa" else StopHere

    class StopHere(UnsupportedModel):
        """Ends a run at once."""

        def __init__(self) -> None:
            super().__init__("stop")

    finish(run_race(None, plan("draft-model", "medusa", max_new_tokens=20), start=start))
    assert order == [(name, WARM_TOKENS) for name in (BASELINE, "draft-model", "medusa")]
    order.clear()
    on_gpu = SimpleNamespace(device="cuda:0")
    finish(run_race(on_gpu, plan("draft-model", max_new_tokens=20), start=start))
    assert order == [(BASELINE, 20), ("draft-model", 20)], "what is captured, is captured before"
    steps = list(run_race(load_toy(), plan("draft-model", "prompt-lookup", repeats=3)))
    racing = [step.lane.method for step in steps if step.lane and step.repeat]
    a, b, c = BASELINE, "draft-model", "prompt-lookup"
    assert racing == [a, b, c, b, c, a, c, a, b]


def test_a_stopped_race_keeps_what_was_finished_and_nothing_that_was_cut() -> None:
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > 40

    last = finish(run_race(load_toy(), plan("draft-model", repeats=5), cancelled=cancelled))
    counts = [len(runs.traces) for runs in last.result.runs]
    assert not last.result.complete and 0 < sum(counts) < 10
    for runs in last.result.runs:
        assert all(trace.stop_reason != "cancelled" for trace in runs.traces)
    at_once = finish(run_race(load_toy(), plan("draft-model"), cancelled=lambda: True))
    assert at_once.result.repeats == 0 and not at_once.result.complete


def test_sampled_lanes_have_one_seed_and_each_repeat_is_the_same_text() -> None:
    hot = plan("draft-model", sampling=Sampling(temperature=1.0), seed=5)
    for runs in finish(run_race(load_toy(), hot)).result.runs:
        first, second = runs.traces
        assert first.emitted == second.emitted and first.spec.seed == 5


def test_where_texts_part() -> None:
    assert same_text((1, 2), (1, 2)) is None and same_text((), ()) is None
    assert same_text((1, 2, 3), (1, 9, 3)) == 1 and same_text((1, 2), (1, 2, 3)) == 2


# --- files ----------------------------------------------------------------------------------------


def test_a_race_comes_back_from_its_file_as_it_was(raced: RaceStep) -> None:
    text = race_to_json(raced.result)
    back = race_from_json(text)
    assert race_to_json(back) == text and back.plan == raced.result.plan
    for mine, yours in zip(back.runs, raced.result.runs, strict=True):
        for one, other in zip(mine.traces, yours.traces, strict=True):
            assert one.emitted == other.emitted and one.spec == other.spec
            assert pace_of([one]).decode_s == pytest.approx(pace_of([other]).decode_s, abs=1e-5)
    whole = sum(len(trace.to_json()) for runs in raced.result.runs for trace in runs.traces)
    assert len(text) < 0.75 * whole, "repeats are kept as seconds"


def test_a_repeat_that_differs_is_kept_whole(raced: RaceStep) -> None:
    first, runs = raced.result.runs[0].traces[0], raced.result.runs[0]
    other = replace(first, rounds=first.rounds[:-1])
    result = replace(raced.result, runs=(replace(runs, traces=(first, other)),))
    assert len(race_from_json(race_to_json(result)).runs[0].traces[1].rounds) == len(other.rounds)


def test_a_broken_file_is_refused(raced: RaceStep) -> None:
    data = json.loads(race_to_json(raced.result))
    for text in ("{", "[]", json.dumps({**data, "schema_version": 9})):
        with pytest.raises(TraceFormatError):
            race_from_json(text)
    repeat = data["runs"][0]["traces"][1]
    for wrong in ("soon", None, [1]):
        broken = {**repeat, "prefill_s": wrong}
        data["runs"][0]["traces"][1] = broken
        with pytest.raises(TraceFormatError, match="no finite numbers"):
            race_from_json(json.dumps(data))
    data["runs"][0]["traces"][1] = {**repeat, "timing": repeat["timing"][1:]}
    with pytest.raises(TraceFormatError, match="other rounds"):
        race_from_json(json.dumps(data))
    data["runs"][0]["traces"] = [repeat]
    with pytest.raises(TraceFormatError, match="its first run is gone"):
        race_from_json(json.dumps(data))
    data["runs"][0]["traces"] = [*json.loads(race_to_json(raced.result))["runs"][0]["traces"]]
    data["runs"][0]["traces"][1] = {"timing": 3}
    with pytest.raises(TraceFormatError, match="broken"):
        race_from_json(json.dumps(data))


@cache
def recorded(name: str) -> RaceResult:
    """Return a race that ships."""
    return race_from_json(race_file("pocket", name).read_text(encoding="utf-8"))


RECORDED = [name for name in RACES if race_file("pocket", name).exists()]


def test_every_race_that_ships_is_one_of_the_table() -> None:
    assert RECORDED and recorded_races("pocket") == sorted(RECORDED)
    assert not recorded_races("../pocket") and recorded_races("pocket", Path("/nowhere")) == []


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_races_were_run_by_the_weights_that_ship(name: str) -> None:
    result = recorded(name)
    assert result.complete and result.repeats >= 2
    traces: list[Trace] = []
    for runs in result.runs:
        assert runs.refusal is None, runs.refusal
        traces += runs.traces
        assert all(trace.rounds and trace.text.strip() for trace in runs.traces)
    for model in (traces[0].spec.target, *traces[0].spec.drafts):
        file, _, digest = model.source.removeprefix("bundled:").partition("@")
        assert digest == bundled_hash(ASSETS / file)
    labels = [runs.lane.label for runs in result.runs if runs.lane.method != BASELINE]
    assert labels == RACES[name][2].split()
    assert race_file("pocket", name).stat().st_size < 400_000 and FOLDER.exists()


def test_memory_added_is_of_the_draft_or_the_heads_that_a_lane_uses() -> None:
    result = recorded(RECORDED[0])
    for runs in result.runs:
        memory, needs = added_memory(runs.traces[0]), METHODS[runs.lane.method].card.needs
        assert memory is not None
        trained = "draft_model" in needs or any(need.startswith("head:") for need in needs)
        assert bool(memory.parameters) == trained
        assert memory.num_bytes == 4 * memory.parameters
        if needs == {"draft_model"}:
            assert memory.parameters == runs.traces[0].spec.drafts[0].num_parameters
            assert memory.share == pytest.approx(0.0877, abs=1e-3)


def test_the_memory_of_a_four_bit_copy_is_not_said_to_be_none() -> None:
    trace = recorded(RECORDED[0]).runs[0].traces[0]
    assert (
        added_memory(replace(trace, spec=replace(trace.spec, method="early-exit"))).parameters == 0
    )
    assert added_memory(replace(trace, spec=replace(trace.spec, method="quantspec"))) is None
