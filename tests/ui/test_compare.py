"""The tab Compare: what a race's message says, and the page in a browser, in both languages."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.records import ModelId, Round, RunSpec, Timing, Trace, Verdict
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.lab.race import LaneRuns, RaceResult, Refusal
from speclab.lab.race_plan import BASELINE, RacePlan, read_lane
from speclab.ui.backend import Lab, default_lab
from speclab.ui.compare_numbers import COLUMNS, definitions, milliseconds
from speclab.ui.compare_view import RaceView, median_run, name_of, replay
from speclab.ui.running import StopFlag
from speclab.ui.tab_compare import missing_methods, options, race_work, read_plan, recorded_reply
from speclab.ui.texts_compare import COMPARE
from speclab.ui.texts_errors import error_text
from tests.ui.fake_lab import fake_lab
from tests.ui.player_traces import split_trace

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect

APP = Path(__file__).with_name("fake_lab.py")
ASSETS = Path(__file__).parents[2] / "assets"
SLOW_MS = 90_000
browser_test = pytest.mark.browser
GIVEN = {
    "pair": "pocket",
    "prompt": "One morning",
    "temperature": 0,
    "max_new_tokens": 32,
    "repeats": 2,
    "seed": 1,
    "lanes": ["draft-model", "medusa"],
}


@pytest.fixture(scope="module")
def lab() -> Lab:
    return default_lab()


def made_trace(label: str, accepted: int, round_s: float, *, text: int = 0) -> Trace:
    """Return a run of four rounds that takes 4 * round_s; `text` shifts its last token."""
    lane = read_lane(label)
    rounds = []
    for index in range(4):
        last = index == 3
        rounds.append(
            Round(
                index=index,
                context_length=1 + index,
                tree=TokenTree.chain(range(accepted)) if accepted else EMPTY_TREE,
                verdict=Verdict(
                    accepted=tuple(range(accepted)),
                    next_token=7 + (text if last else 0),
                    outcome="bonus" if accepted else "plain",
                ),
                emitted=(*range(accepted), 7 + (text if last else 0)),
                timing=Timing(draft_s=round_s / 4, target_s=3 * round_s / 4),
                stop_reason="max_new_tokens" if last else None,
            )
        )
    spec = RunSpec(
        method=lane.method,
        rule=lane.rule,
        pair="pocket",
        target=ModelId(name="t", dtype="float32", num_parameters=1_000_000),
        drafts=(ModelId(name="d", dtype="float32", num_parameters=100_000),),
        sampling=Sampling(temperature=0.0),
    )
    pieces = {str(i): base64.b64encode(f" w{i}".encode()).decode() for i in range(12)}
    return Trace(spec=spec, prompt_tokens=(1,), rounds=tuple(rounds), prefill_s=0.0, pieces=pieces)


def made_race(temperature: float = 0.0, **lanes: tuple[Any, ...]) -> RaceResult:
    """Return a race of `label = (accepted per round, seconds of a round in each repeat, text)`."""
    labels = [label.replace("__", "/").replace("_", "-") for label in lanes]
    plan = RacePlan(
        pair="pocket",
        lanes=tuple(map(read_lane, labels)),
        prompt="Go",
        sampling=Sampling(temperature=temperature),
    )
    runs = [
        LaneRuns(
            lane=plan.lanes[0],
            traces=tuple(made_trace(BASELINE, 0, s) for s in (0.1, 0.1, 0.1)),
        )
    ]
    for lane, (accepted, seconds, *text) in zip(plan.lanes[1:], lanes.values(), strict=True):
        made = (made_trace(lane.label, accepted, s, text=sum(text)) for s in seconds)
        runs.append(LaneRuns(lane=lane, traces=tuple(made)))
    return RaceResult(plan=plan, runs=tuple(runs), complete=True, created="2026-01-02T03:04:05")


def said(lab: Lab, race: RaceResult, lang: str = "en") -> str:
    return " | ".join(line["text"] for line in RaceView(lab, race, lang).sentences())


# --- without a browser ----------------------------------------------------------------------------


def test_every_word_exists_in_both_languages_with_the_same_slots_and_is_used() -> None:
    english, chinese = COMPARE["en"], COMPARE["zh"]
    assert english.keys() == chinese.keys()
    folder = Path(options.__code__.co_filename).parent
    code = [folder / f"{name}.py" for name in ("tab_compare", "compare_view", "compare_numbers")]
    code += [*(ASSETS / "js" / "compare").glob("*.js")]
    text = "\n".join(path.read_text("utf-8") for path in code)
    made = ("cp_num_", "cp_col_", "cp_key_", "cp_mark_", "cp_play", "cp_pause")
    fields = ("cp_temperature", "cp_max_new_tokens", "cp_repeats", "cp_seed")
    for key, words in english.items():
        slots = [sorted(set(re.findall(r"\{(\w+)\}", each))) for each in (words, chinese[key])]
        assert slots[0] == slots[1], key
        assert key in text or key.startswith(made) or key in fields, f"{key} is not used"


def test_who_is_first_by_how_much_and_over_how_many_repeats(lab: Lab) -> None:
    race = made_race(draft_model=(3, (0.1, 0.2, 0.1)), prompt_lookup=(1, (0.4, 0.4, 0.4)))
    text = said(lab, race)
    # Plain: 0.1 s a token. Draft model: 4 tokens a round of 0.4 / 3 s on average: 3.00 times.
    assert "Draft model γ 4 is first: 3.00 times plain decoding (2.00 to 4.00 in 3 repeats" in text
    assert "Slower than plain decoding here: Prompt lookup γ 8." in text
    assert "too close" not in text
    assert "草稿模型 γ 4最先到" in said(lab, race, "zh")


def test_a_lead_within_the_spread_is_not_called_one(lab: Lab) -> None:
    race = made_race(draft_model=(3, (0.1, 0.2, 0.1)), eagle_1=(3, (0.12, 0.12, 0.2)))
    assert "Its lead over EAGLE-1 n 11 lies within the spread" in said(lab, race)


def test_more_tokens_per_pass_need_not_be_faster_and_nothing_may_be(lab: Lab) -> None:
    race = made_race(draft_model=(1, (0.1,) * 3), medusa=(4, (0.4,) * 3))
    text = said(lab, race)
    assert "Medusa n 16 gets the most tokens per pass (5.00), but it is not first" in text
    assert "costs it 400 ms" in text and "a round of Draft model γ 4 costs 100 ms" in text
    assert "Nothing beats plain decoding here" in said(lab, made_race(medusa=(1, (0.4,) * 3)))
    assert "one repeat: no spread" in said(lab, made_race(medusa=(1, (0.1,))))


def test_greedy_texts_are_compared_token_for_token(lab: Lab) -> None:
    assert "all 2 lanes wrote the same 4 tokens" in said(lab, made_race(medusa=(0, (0.1,) * 3)))
    parted = said(lab, made_race(medusa=(0, (0.1,) * 3, 1)))
    assert "Medusa n 16 leaves plain decoding at token 4. Its rule keeps the law" in parted
    lossy = made_race(draft_model__typical=(0, (0.1,) * 3, 1))
    assert [runs.lane.rule for runs in lossy.runs] == ["token", "typical"]
    assert "at token 4: its rule is not lossless" in said(lab, lossy)
    sampled = said(lab, made_race(temperature=0.7, medusa=(0, (0.1,) * 3, 1)))
    assert "at temperature 0.7 every lane draws its own text" in sampled
    assert "leaves plain" not in sampled


def test_the_same_law_is_said_by_rule_and_method(lab: Lab) -> None:
    race = made_race(draft_model=(1, (0.1,) * 3), draft_model__typical=(1, (0.1,) * 3))
    message = RaceView(lab, race, "en").message("x")
    assert [lane["law"]["text"] for lane in message["lanes"]] == ["yes", "yes", "no"]
    assert "lossless" in message["lanes"][1]["law"]["why"]
    assert message["sentences"][-1]["mark"] == COMPARE["en"]["cp_not_same_law"]
    assert "Typical acceptance" in message["lanes"][2]["variant"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_has_every_number_and_no_number_where_none_is_defined(
    lab: Lab, lang: str
) -> None:
    words, race = COMPARE[lang], made_race(draft_model=(3, (0.1,) * 3), medusa=(0, (0.2,) * 3))
    message = RaceView(lab, race, lang).message("x")
    head, rows = message["table"]["head"], message["table"]["rows"]
    assert len(head) == 1 + len(COLUMNS) and all(len(row) == len(head) for row in rows)
    cells = [dict(zip(("name", *COLUMNS), row, strict=True)) for row in rows]
    plain, draft, medusa = cells
    assert plain["alpha"] == words["cp_na"] and plain["waste"] == words["cp_none"]
    assert plain["memory"] == words["cp_none"]
    assert draft["tokens"] == "48 / 12" and draft["rate"] == "40"
    assert "400.0 kB" in draft["memory"] and "10 %" in draft["memory"]
    assert draft["speedup"] == words["cp_range"].format(value="4.00", low="4.00", high="4.00", n=3)
    assert draft["draft"] == "25 %" and draft["waste"].startswith("0 / 36")
    assert draft["ttft"] == milliseconds(0.1, lang) and "100 · " in draft["gaps"]
    assert medusa["memory"] != words["cp_na"], "its head's manifest knows"
    assert sum(message["gaps"]["lanes"][0]["counts"]) == 9
    assert message["chosen"]["lanes"] == ["draft-model", "medusa"]
    assert json.loads(json.dumps(message)) == message


def test_a_lane_that_did_not_run_says_why(lab: Lab) -> None:
    race = made_race(medusa=(0, (0.1,)))
    refusal = Refusal(
        what="medusa needs head:medusa.",
        code="method_needs",
        values={"method": "medusa", "missing": "head:medusa", "pair": "x"},
    )
    runs = (race.runs[0], replace(race.runs[1], traces=(), refusal=refusal))
    lanes = RaceView(lab, replace(race, runs=runs), "zh").message("x")["lanes"]
    assert "bursts" not in lanes[1] and lanes[1]["refusal"].startswith("方法 medusa 需要")


def test_characters_split_over_tokens_are_whole_and_none_is_lost() -> None:
    trace = split_trace()
    lines = replay(trace)
    shown = "".join(accepted + own for _, accepted, own, *_ in lines)
    assert shown == trace.text and "🐱" in shown and "你" in shown
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)
    assert sum(line[3] for line in lines) == len(trace.emitted)


def test_the_run_of_median_time_is_replayed() -> None:
    runs = [made_trace(BASELINE, 0, s) for s in (0.3, 0.1, 0.2)]
    assert median_run(runs) is runs[2] and median_run(runs[:2]) is runs[1]


def test_names_stay_apart(lab: Lab) -> None:
    for lang in ("en", "zh"):
        names = {name_of(lab, read_lane(method), lang) for method in lab.methods}
        assert len(names) == len(lab.methods)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_tab_opens_with_a_recorded_race_and_offers_what_pairs_can_run(
    lab: Lab, lang: str
) -> None:
    offered = options(lab, lang)
    first = offered["first"]
    assert first["lanes"] and first["end_s"] > 0 and first["sentences"]
    date = re.search(r"\d{4}-\d\d-\d\d", first["badge"])
    assert date and date.group() in first["facts"], "when and where it was measured"
    assert {row["name"] for row in offered["methods"]} == set(lab.methods) - {BASELINE}
    assert {"mtp", "parallel-mtp"} <= set(missing_methods(lab, "pocket"))
    assert "medusa" not in missing_methods(lab, "pocket")
    assert len(definitions(lang)) == 8
    presets = {preset["name"]: preset for preset in offered["presets"]}
    assert len({preset["prompt"] for preset in presets.values()}) == len(presets)


def test_only_recorded_races_are_given_out(lab: Lab) -> None:
    assert recorded_reply(lab, {"pair": "pocket", "preset": "story"}, "en")["op"] == "race"
    for junk in ({"pair": "pocket", "preset": "../index"}, {"pair": "..", "preset": "story"}, {}):
        assert recorded_reply(lab, junk, "en") == {}


def test_choices_are_checked(lab: Lab) -> None:
    plan = read_plan(lab, GIVEN, "en")
    assert [lane.label for lane in plan.lanes] == [BASELINE, "draft-model", "medusa"]
    for wrong, said_zh in (
        ({"pair": "nowhere"}, "没有名为"),
        ({"lanes": ["nothing"]}, "没有名为 nothing 的方法"),
        ({"lanes": []}, "而不是 0 条"),
        ({"lanes": "draft-model"}, "而不是 0 条"),
        ({"repeats": 99}, "重复次数：可以取 1 到 9"),
        ({"temperature": "hot"}, "温度：可以取 0 到 2.5"),
        ({"max_new_tokens": 1.5}, "最多生成词元数：可以取 1 到 256"),
        ({"prompt": " "}, "提示需要 1 到 2000 个字符"),
        ({"lanes": ["medusa", "medusa"]}, "出现了两次"),
    ):
        with pytest.raises(BadInput) as caught:
            read_plan(lab, {**GIVEN, **wrong}, "zh")
        assert said_zh in error_text(caught.value, "zh"), wrong


def test_a_race_that_was_stopped_at_once_shows_nothing_and_says_so() -> None:
    lab, stop = fake_lab(), StopFlag()
    stop.raised = True
    *_, last = race_work(lab, read_plan(lab, GIVEN, "en"), stop, "en")("pocket")
    assert last == {"op": "status", "tone": "info", "text": COMPARE["en"]["cp_nothing"]}


def test_a_race_that_is_stopped_later_keeps_its_whole_repeats(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.ui.fake_lab.ROUND_S", 0.0)
    lab, stop, messages = fake_lab(), StopFlag(), []
    plan = read_plan(lab, {**GIVEN, "repeats": 5}, "en")
    for message in race_work(lab, plan, stop, "en")("pocket"):
        messages.append(message)
        stop.raised = message["op"] == "progress" and "Repeat 3 of 5" in message["text"]
    shares = [each["share"] for each in messages if each["op"] == "progress"]
    assert shares == sorted(shares) and shares[-1] < 1.0
    last = messages[-1]
    assert last["op"] == "race" and last["status"].endswith("whole repeats: 2.")
    assert last["sentences"] and all(lane["bursts"] for lane in last["lanes"])


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url(serve: Callable[..., str]) -> str:
    return serve(APP, FAKE_ROUND_S="0.01", FAKE_LOAD_S="0.1")


def opened(open_page: Callable, address: str, name: str = "Compare", **options: Any) -> Any:
    """Open the page on the tab; wait until its lanes are drawn."""
    page = open_page(address, **options)
    page.set_default_timeout(SLOW_MS)
    page.get_by_role("tab", name=name, exact=True).click()
    page.wait_for_selector("#compare .cp-lane")
    return page.locator("#compare .pv-root")


@browser_test
def test_a_recorded_race_is_replayed_by_mouse_and_keyboard(url: str, open_page) -> None:
    tab = opened(open_page, url)
    lanes = tab.locator(".cp-lane")
    count = lanes.count()
    assert count >= 3 and tab.locator(".cp-lane.finished").count() == count
    height = lanes.first.bounding_box()["height"]
    tab.locator("[data-do=first]").click()
    assert tab.locator(".cp-burst.there").count() == 0
    assert {lane.get_attribute("data-tokens") for lane in lanes.all()} == {"0"}
    assert lanes.first.bounding_box()["height"] == height, "nothing moves"
    tab.locator("[data-do=next]").click()
    tokens = [int(lane.get_attribute("data-tokens")) for lane in lanes.all()]
    assert sum(1 for each in tokens if each) == 1
    tab.locator(".cp-scrub").focus()
    tab.page.keyboard.press("ArrowLeft")
    assert tab.locator(".cp-burst.there").count() == 0
    tab.page.keyboard.press("End")
    assert tab.locator(".cp-lane.finished").count() == count
    tab.locator("[data-slow='1']").click()
    tab.page.keyboard.press("Home")
    tab.locator(".cp-scrub").focus()
    tab.page.keyboard.press(" ")
    expect(tab).to_have_attribute("data-playing", "true")
    expect(tab.locator(".cp-burst.there").first).to_be_attached(timeout=SLOW_MS)
    tab.page.keyboard.press(" ")
    expect(tab).to_have_attribute("data-playing", "false")


@browser_test
def test_a_live_race_replaces_it_and_only_its_visitor_sees_it(url: str, open_page) -> None:
    tab, other = opened(open_page, url), opened(open_page, url)
    before = other.get_attribute("data-badge")
    tab.locator("[data-field=prompt]").fill("zebra <b>quagga</b>")
    tab.locator("[data-field=max_new_tokens]").fill("8")
    tab.locator("[data-field=repeats]").fill("2")
    tab.locator(".op-btn", has_text=COMPARE["en"]["cp_race"]).first.click()
    expect(tab).to_have_attribute("data-badge", COMPARE["en"]["cp_measured_now"], timeout=SLOW_MS)
    tab.locator("[data-do=last]").click()
    assert "<b>quagga</b>" in tab.locator(".cp-text").first.inner_text()
    assert "zebra" in tab.locator(".cp-asked").inner_text()
    assert "race_lanes=" in tab.page.url and "zebra" in tab.page.url
    assert other.get_attribute("data-badge") == before
    assert "zebra" not in other.inner_text()
    tab.locator("[data-field=repeats]").fill("99")
    tab.locator(".op-btn", has_text=COMPARE["en"]["cp_race"]).first.click()
    expect(tab.locator(".pv-status.bad")).to_contain_text("from 1 to 9", timeout=SLOW_MS)
    expect(tab).to_have_attribute("data-badge", COMPARE["en"]["cp_measured_now"])


@browser_test
def test_a_link_opens_the_tab_in_chinese_on_a_phone(url: str, open_page) -> None:
    query = (
        "race_lanes=prompt-lookup:num_speculative_tokens=3,medusa&race_prompt=%E4%BD%A0%E5%A5%BD"
    )
    page = open_page(f"{url}/zh?{query}", viewport={"width": 390, "height": 844})
    page.set_default_timeout(SLOW_MS)
    page.wait_for_selector("#compare .cp-lane")
    tab = page.locator("#compare .pv-root")
    assert tab.locator("[data-field=prompt]").input_value() == "你好"
    tab.locator(".cp-choose > summary").click()
    assert tab.locator(".cp-chip[aria-pressed=true]").all_inner_texts() == [
        "n 16",
        "prompt-lookup:num_speculative_tokens=3",
    ]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for fold in tab.locator("details > summary").all()[1:]:
        fold.click()
    assert tab.locator(".pv-table tbody tr").count() >= 3
    assert tab.locator(".cp-gap").count() > 20
