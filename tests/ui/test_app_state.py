"""Permalinks, settings and words: what can be tested without a browser."""

import gc
import json
import string
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs

import gradio as gr
import pytest

from app import local_allowed
from speclab.core.errors import BadInput, ModelUnavailable, NotEnoughMemory
from speclab.core.laws import Sampling
from speclab.core.protocols import LocalText
from speclab.core.rules import RULES
from speclab.lab.presets import PRESETS
from speclab.methods import METHODS
from speclab.models.catalogue import PAIRS
from speclab.ui.backend import Lab, PairCache, Turnstile
from speclab.ui.controls import Controls
from speclab.ui.custom import check_allowed, facts_html, is_loopback
from speclab.ui.messages import LiveMessages, summary
from speclab.ui.pages import build
from speclab.ui.permalink import read_query, write_query
from speclab.ui.recorded import Recorded
from speclab.ui.settings import best_rule, default_settings, from_preset, is_lossless, rules_for
from speclab.ui.tab_watch import Watch
from speclab.ui.texts import EN, ZH
from tests.ui.player_traces import chain_trace


@pytest.fixture
def lab() -> Lab:
    return Lab(
        methods=METHODS,
        pairs=PAIRS,
        open_run=lambda *args, **kwargs: None,
        cache=PairCache(lambda name, progress: name),
        summarise=lambda trace: (),
        banner=lambda trace: "",
    )


def as_query(text: str) -> dict[str, str]:
    return {key: values[-1] for key, values in parse_qs(text, keep_blank_values=True).items()}


def test_words_have_the_same_keys_and_the_same_slots() -> None:
    assert EN.keys() == ZH.keys()
    for key, text in EN.items():
        slots = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        other = {name for _, name, _, _ in string.Formatter().parse(ZH[key]) if name}
        assert slots == other, key
        assert text.strip()
        assert ZH[key].strip()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_runnable(lab: Lab, name: str) -> None:
    preset = PRESETS[name]
    assert preset.method in METHODS
    known = {param.name for param in METHODS[preset.method].card.params}
    assert preset.params.keys() <= known
    assert preset.rule in rules_for(lab, preset.method)
    assert preset.prompt == preset.prompt.lstrip()
    for text in (preset.title, preset.lesson):
        assert text.en
        assert text.zh


@pytest.mark.parametrize("name", PRESETS)
def test_a_permalink_comes_back_whole(lab: Lab, name: str) -> None:
    settings = from_preset(lab, PRESETS[name])
    assert read_query(lab, as_query(write_query(settings))) == (settings, [])


def test_a_permalink_holds_everything(lab: Lab) -> None:
    settings = replace(
        default_settings(lab),
        pair="custom:owner/target|owner/draft",
        method="draft-model",
        rule="match",
        prompt="emoji 🐱, 汉字, 100 % & <b>${1+1}</b>\n{{x}}",
        params={
            "num_speculative_tokens": 7,
            "draft_temperature": None,
            "min_confidence": 0.25,
            "shared_noise": False,
            "draft_length": "confidence",
            "stop_threshold": 0.3,
        },
        sampling=Sampling(
            temperature=0.35,
            top_k=17,
            top_p=0.81,
            min_p=0.02,
            repetition_penalty=1.1,
            presence_penalty=0.4,
            frequency_penalty=-0.2,
        ),
        seed=123456,
        max_new_tokens=33,
        chat=False,
        preset="",
    )
    back, faults = read_query(lab, as_query(write_query(settings)))
    assert faults == []
    assert replace(back, preset="") == settings
    query = as_query(write_query(settings))
    for name in ("draft_length", "stop_threshold"):
        del query[f"p.{name}"]
    older, faults = read_query(lab, query)
    assert faults == [], "links made before a parameter was there still open"
    assert older.params == {**settings.params, "draft_length": "constant", "stop_threshold": 0.6}


@pytest.mark.parametrize(
    "query",
    [
        {"seed": "-5"},
        {"seed": "1e99"},
        {"seed": "nan"},
        {"method": "nonsense"},
        {"pair": "nobody"},
        {"rule": "../etc"},
        {"temperature": "hot"},
        {"temperature": "inf"},
        {"top_k": "2.5"},
        {"chat": "maybe"},
        {"preset": "x"},
        {"trace": "../../app.py"},
        {"prompt": "x" * 5_000},
        {"max_new_tokens": "0"},
        {"p.num_speculative_tokens": "99"},
        {"p.num_speculative_tokens": "true"},
        {"p.num_speculative_tokens": "{"},
        {"p.unheard_of": "1"},
    ],
    ids=str,
)
def test_junk_is_named_and_replaced(lab: Lab, query: dict[str, str]) -> None:
    settings, faults = read_query(lab, query)
    assert settings == default_settings(lab)
    ((name, value),) = query.items()
    assert faults == [f"{name}={value:.60}"]


def test_foreign_names_are_left_alone(lab: Lab) -> None:
    assert read_query(lab, {"utm_source": "x", "lang": "zh", "big": "1"}) == (None, [])


def test_a_rule_that_does_not_fit_is_named(lab: Lab) -> None:
    for name, kind in METHODS.items():
        for rule in lab.rules:
            settings, faults = read_query(lab, {"method": name, "rule": rule})
            fits = lab.rules[rule].needs <= kind.card.provides
            assert (faults == []) == fits
            assert settings is not None
            assert settings.rule in rules_for(lab, name)


def test_the_line_is_first_come_first_served() -> None:
    line = Turnstile()
    first, second, third = line.join(), line.join(), line.join()
    assert [line.ahead(ticket) for ticket in (first, second, third)] == [0, 1, 2]
    line.leave(second)
    assert line.ahead(third) == 1
    line.leave(first)
    line.leave(first)
    assert line.ahead(third) == 0


def test_a_failed_load_is_tried_again_and_keeps_the_others() -> None:
    tries: list[str] = []

    def load(name: str, progress: object) -> str:
        tries.append(name)
        if name == "bad":
            raise ValueError(name)
        return name

    cache = PairCache(load, capacity=2)
    assert cache.get("a") == "a"
    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            cache.get("bad")
    assert cache.get("a") == "a"
    assert cache.get("b") == "b"
    assert cache.get("c") == "c"
    assert tries == ["a", "bad", "bad", "b", "c"]
    assert cache.get("a") == "a"
    assert tries[-1] == "a"


# --- loading -----------------------------------------------------------------------------------


def test_notes_of_a_load_are_seen_by_those_who_asked_for_it_only() -> None:
    told, go_on = threading.Event(), threading.Event()

    def load(name: str, progress) -> str:
        progress(f"Loading hub:{name}")
        told.set()
        assert go_on.wait(10)
        return name

    cache = PairCache(load)
    secret = cache.request("custom:someone/secret|b")
    assert told.wait(10)
    other = cache.request("pocket")
    assert secret.note == "Loading hub:custom:someone/secret|b"
    assert other is not secret
    assert (other.note, other.begun) == ("", False)
    go_on.set()
    assert other.future.result(10) == "pocket"
    assert secret.note == ""


class Heavy:
    """A model whose parts refer to each other: only a collection frees it."""

    def __init__(self) -> None:
        self.me = self


def test_a_forgotten_pair_is_freed_before_the_next_one_is_loaded() -> None:
    alive: list[int] = []
    made: list[weakref.ref] = []

    def load(name: str, progress: object) -> Heavy:
        alive.append(sum(ref() is not None for ref in made))
        pair = Heavy()
        made.append(weakref.ref(pair))
        return pair

    cache = PairCache(load, capacity=2)
    gc.disable()
    try:
        for name in "abcd":
            cache.get(name)
    finally:
        gc.enable()
    assert alive == [0, 1, 1, 1]


def test_a_pair_that_does_not_fit_is_tried_again_without_the_others() -> None:
    def load(name: str, progress: object) -> str:
        if name == "big" and tries.count("big") == 0:
            tries.append(name)
            raise NotEnoughMemory("full")
        tries.append(name)
        return name

    tries: list[str] = []
    cache = PairCache(load, capacity=3)
    cache.get("a")
    assert cache.get("big") == "big"
    assert cache.get("a") == "a"
    assert tries == ["a", "big", "big", "a"]


# --- a visitor's own models --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("lab.example.org", False),
        ("", False),
    ],
)
def test_local_folders_need_a_loopback_address(host: str, alone: bool, monkeypatch) -> None:
    for name in ("SYSTEM", "GRADIO_SHARE"):
        monkeypatch.delenv(name, raising=False)
    assert is_loopback(host) == alone
    assert local_allowed(None, host) == alone
    assert local_allowed(True, host)
    assert not local_allowed(False, host)
    monkeypatch.setenv("GRADIO_SHARE", "True")
    assert not local_allowed(None, host)
    monkeypatch.setenv("SYSTEM", "spaces")
    assert not local_allowed(True, host)


@pytest.mark.parametrize(
    "name",
    [
        "/etc",
        "/nowhere/at/all",
        "~/models",
        "./x",
        "../x",
        "assets/models",
        "a/b/c",
        "bundled:../x",
    ],
)
def test_local_folders_are_refused_whether_or_not_they_exist(
    lab: Lab, name: str, monkeypatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    for pair in (f"custom:{name}|owner/draft", f"custom:owner/target|{name}"):
        with pytest.raises(ModelUnavailable, match="switched off: this server also answers"):
            check_allowed(lab, pair)
        assert "--allow-local" in facts_html(lab, pair, "zh")
        check_allowed(replace(lab, allow_local=True), pair)


def test_hub_ids_and_bundled_weights_are_allowed(lab: Lab) -> None:
    check_allowed(lab, "pocket")
    check_allowed(lab, "custom:Qwen/Qwen3-0.6B|gpt2")
    check_allowed(lab, "custom:bundled:pocket/target|bundled:pocket/draft")


@pytest.mark.parametrize("pair", ["custom:|", "custom:a", "custom:a|", "custom:a|b|"])
def test_half_a_custom_pair_is_refused(lab: Lab, pair: str) -> None:
    with pytest.raises(BadInput, match="target and a draft"):
        check_allowed(lab, pair)
    assert ZH["custom_target"][:2] in facts_html(lab, pair, "zh")


def test_a_second_draft_is_for_the_command_line(lab: Lab) -> None:
    with pytest.raises(BadInput, match="second draft can be named on the command line only"):
        check_allowed(lab, "custom:a|b|c")
    assert "第二个草稿模型只能在命令行中指定" in facts_html(lab, "custom:a|b|c", "zh")


def test_an_example_without_a_recording_shows_no_other_run(lab: Lab) -> None:
    item = Recorded(
        path=Path("story.json"),
        title=LocalText("Story", "讲故事"),
        method="draft-model",
        preset="story",
        date="2026-11-29",
    )
    item.__dict__["trace"] = chain_trace(4)
    lab = replace(lab, recorded={item.file: item})
    with gr.Blocks():
        watch = Watch(lab, "en")
    *_, shown, status = watch._on_preset("story", "pocket")
    assert json.loads(shown)["op"] == "load" and item.date in status
    *updates, shown, status = watch._on_preset("again", "pocket")
    assert json.loads(shown) == {"op": "clear"} and EN["status_no_recording"] in status
    assert watch.controls.lesson_html("again") in updates
    for preset, op in (("again", "clear"), ("story", "load")):
        query = as_query(write_query(from_preset(lab, PRESETS[preset])))
        *_, shown, _ = watch._on_load(SimpleNamespace(query_params=query))
        assert json.loads(shown)["op"] == op


def test_size_and_licence_are_shown_and_a_silent_hub_is_said(lab: Lab, tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(repo: str) -> SimpleNamespace:
        asked.append(repo)
        if repo == "owner/away":
            raise ModelUnavailable(
                "No answer.", code="hub_unreachable", values={"repo": repo, "kind": "Timeout"}
            )
        return SimpleNamespace(weight_bytes=1_500_000_000, licence="mit")

    (tmp_path / "a.safetensors").write_bytes(b"x" * 2_000_000)
    (tmp_path / "b.safetensors").write_bytes(b"x" * 1_000_000)
    (tmp_path / "c.txt").write_bytes(b"x" * 1_000_000)
    lab = replace(lab, ask_hub=ask, allow_local=True)
    shown = facts_html(lab, f"custom:owner/<b>|{tmp_path}", "en")
    assert asked == ["owner/<b>"]
    assert "owner/&lt;b&gt; · 1.5 GB · mit" in shown
    assert "3.0 MB" in shown
    assert "about 1.5 GB for both" in shown
    assert "No answer." in facts_html(lab, "custom:owner/away|owner/b", "en")
    assert "无法连接 Hub" in facts_html(lab, "custom:owner/away|owner/b", "zh")
    (tmp_path / "empty").mkdir()
    assert "safetensors" in facts_html(lab, f"custom:{tmp_path / 'empty'}|owner/b", "zh")


def test_building_the_pages_asks_nobody(lab: Lab) -> None:
    def ask(repo: str) -> None:
        raise AssertionError(f"asked for {repo} without a click")

    build(replace(lab, ask_hub=ask))


# --- rules ---------------------------------------------------------------------------------------


def test_every_compatible_rule_is_offered_and_a_lossy_one_says_so(lab: Lab) -> None:
    why_not = LocalText("It bends the law.", "它会改变分布。")
    rules = {
        "lossy": replace(RULES["token"], name="lossy", lossless=False, why_not=why_not),
        "trees": replace(RULES["token"], name="trees", needs=frozenset({"tree"})),
        **RULES,
    }
    lab = replace(lab, rules=rules)
    offered = rules_for(lab, "draft-model")
    assert offered[:4] == ["lossy", "token", "one-hot", "match"] and "trees" not in offered
    assert best_rule(lab, "draft-model", "lossy") == "lossy"
    assert best_rule(lab, "draft-model", "trees") == "token"
    assert is_lossless(lab, "draft-model", "token")
    for lang, words in (("en", EN), ("zh", ZH)):
        controls = Controls(lab=lab, lang=lang)
        titles = {name: title for title, name in controls.rule_choices("draft-model")}
        assert words["lossy"] in titles["lossy"]
        assert words["lossy"] not in titles["token"]
        assert words["lossless"] in controls.rule_html("draft-model", "token")
        assert words["lossy_mark"] in controls.rule_html("draft-model", "lossy")
    assert "It bends the law." in Controls(lab=lab, lang="en").rule_html("draft-model", "lossy")


# --- files and messages --------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["{broken", None])
def test_an_uploaded_file_does_not_stay(lab: Lab, tmp_path: Path, content: str | None) -> None:
    import gradio as gr

    file = tmp_path / "trace.json"
    file.write_text(content or chain_trace(8).to_json(), encoding="utf-8")
    with gr.Blocks():
        watch = Watch(lab, "zh")
    watch._on_import(str(file))
    assert not file.exists()
    assert build(lab).delete_cache == (3_600, 3_600)


def test_a_live_run_ends_with_the_whole_run(lab: Lab) -> None:
    trace = chain_trace(30)
    warning = "tiny holds 12 tokens; beyond that nothing is drafted."
    live = LiveMessages(lab, "zh")
    head = replace(trace, rounds=(), pieces={}, warnings=(warning,))
    first = json.loads(live.begin(head, "实时运行"))
    live.add(trace.rounds[:3], trace.pieces)
    some = json.loads(live.flush())
    live.add(trace.rounds[3:], trace.pieces)
    last = json.loads(live.end(stopped=True))
    assert first["run"] == some["run"] == last["run"]
    assert [round_["index"] for round_ in some["rounds"]] == [0, 1, 2]
    assert (last["op"], last["live"], last["stopped"]) == ("load", False, True)
    assert len(last["trace"]["rounds"]) == len(trace.rounds)
    assert last["badge"] == "实时运行"
    assert last["warnings"] == ["tiny 最多容纳 12 个词元；超过之后不再起草。"]


def test_units_speak_the_language_of_the_page(lab: Lab) -> None:
    from speclab.stats.counters import summarise

    lab = replace(lab, summarise=summarise)
    for lang, words in (("en", EN), ("zh", ZH)):
        rows = summary(lab, chain_trace(30), lang)
        units = {row["unit"] for row in rows if row["unit"]}
        assert units <= {words[f"unit_{unit}"] for unit in ("tokens", "rounds", "s", "tokens/s")}
        assert words["unit_rounds"] in units
