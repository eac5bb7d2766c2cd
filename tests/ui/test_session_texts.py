"""Earlier texts of a visitor: one session's own, gone when forgotten, never another's."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from speclab.core.earlier_texts import TextStore
from speclab.engine.loop import Limits
from speclab.lab.presets import PRESETS
from speclab.lab.run_warnings import run_warnings
from speclab.methods import METHODS
from speclab.methods.prompt_lookup import PromptLookup
from speclab.methods.suffix import Suffix
from speclab.models.catalogue import PAIRS
from speclab.ui.backend import Lab, PairCache
from speclab.ui.permalink import read_query
from speclab.ui.running import Runner, StopFlag
from speclab.ui.session_texts import MAX_PAIRS, SessionTexts, kept_html
from speclab.ui.settings import from_preset
from speclab.ui.tab_watch import Watch
from speclab.ui.texts import EN, WORDS
from speclab.ui.texts_errors import sentence
from tests.ui import fake_lab


def make_lab(given: list[dict[str, Any]]) -> Lab:
    """Return a lab whose runs note what they were given."""

    def open_run(pair: Any, prompt: str, *, store: TextStore | None = None, **more: Any) -> Any:
        given.append({"store": store, "method": more["method"]})
        return fake_lab.FakeRun(pair, prompt, store=store, **more)

    return Lab(
        methods=METHODS,
        pairs=PAIRS,
        open_run=open_run,
        cache=PairCache(lambda name, progress: name),
        summarise=lambda trace: (),
        banner=lambda trace: "",
    )


def use(lab: Lab, texts: SessionTexts | None, method: str = "suffix") -> None:
    """Run one round of a method to its end."""
    settings = replace(
        from_preset(lab, PRESETS["story"]),
        method=method,
        rule="token",
        params={param.name: param.default for param in METHODS[method].card.params},
        max_new_tokens=1,
    )
    updates = list(Runner(lab, "en").stream(settings, StopFlag(), texts))
    assert "Done" in updates[-1].status


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_lab, "ROUND_S", 0.0)


def test_only_methods_that_copy_from_earlier_texts_get_a_store() -> None:
    given: list[dict[str, Any]] = []
    lab, texts = make_lab(given), SessionTexts()
    use(lab, texts)
    use(lab, texts)
    use(lab, texts, "draft-model")
    use(lab, None)
    first, second, other, none = given
    assert first["store"] is second["store"] is not None
    assert other["store"] is None and none["store"] is None
    assert len(texts) == 2 and first["store"].vocabulary == next(iter(PAIRS))


def test_two_sessions_never_share_a_store() -> None:
    given: list[dict[str, Any]] = []
    lab, sessions = make_lab(given), (SessionTexts(), SessionTexts())
    for texts in (*sessions, *sessions):
        use(lab, texts)
    stores = [one["store"] for one in given]
    assert stores[0] is stores[2] and stores[1] is stores[3] and stores[0] is not stores[1]
    sessions[0].forget()
    assert (len(sessions[0]), len(sessions[1])) == (0, 2)


def test_forgetting_drops_the_text_of_a_run_on_its_way_too() -> None:
    texts = SessionTexts()
    running = texts.of("pocket")
    texts.forget()
    running.add((1, 2, 3))
    assert len(texts) == 0 and texts.of("pocket") is not running


def test_a_session_keeps_one_store_per_pair_and_few_pairs() -> None:
    texts = SessionTexts()
    first = texts.of("a")
    assert texts.of("a") is first and texts.of("b") is not first
    for name in "cdef"[: MAX_PAIRS - 1]:
        texts.of(name)
    assert texts.of("a") is not first, "unused for longest"


def test_the_page_gives_every_session_its_own() -> None:
    lab = make_lab([])
    with gr.Blocks() as blocks:
        watch = Watch(lab, "en")
        watch.connect(blocks)
    one, two = SessionState(blocks), SessionState(blocks)
    mine = one[watch.texts._id]
    mine.of("pocket").add((1, 2))
    assert one[watch.texts._id] is mine and len(mine) == 1
    assert len(two[watch.texts._id]) == 0 == len(watch.texts.value)
    watch.texts.delete_callback(mine)
    assert len(mine) == 0, "gone with the session"


def test_the_line_says_how_many_and_forgets() -> None:
    lab = make_lab([])
    with gr.Blocks():
        watch = Watch(lab, "en")
    assert list(watch.controls.kept) == ["suffix"] == list(watch.controls.forget)
    texts = SessionTexts()
    texts.of("pocket").add((1,))
    assert watch._on_kept(texts) == [kept_html(EN, 1)]
    assert "texts of this session: 1 kept" in kept_html(EN, 1)
    assert watch._on_forget(texts) == [kept_html(EN, 0)] and len(texts) == 0
    for words in WORDS.values():
        assert "3" in kept_html(words, 3) and "role" in kept_html(words, 0)


@pytest.mark.parametrize(("lang", "words"), [("en", "2 texts, 3 tokens"), ("zh", "2 段，3 个词元")])
def test_a_record_says_that_its_drafts_may_come_from_elsewhere(lang: str, words: str) -> None:
    store, limits = TextStore("pocket"), Limits(max_new_tokens=1, max_context=99)
    store.add((1,))
    store.add((2, 3))
    pair: Any = SimpleNamespace(drafts=())
    (told,) = run_warnings(pair, Suffix(), (1,), limits, store.snapshot())
    shown = sentence(told, lang)
    assert words in shown and ("only the tokens drafted" in shown or "只含由此起草的词元" in shown)
    assert run_warnings(pair, PromptLookup(), (1,), limits, store.snapshot()) == ()


def test_a_worker_in_another_process_starts_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab([])
    runner = Runner(lab, "en")
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    settings = replace(from_preset(lab, PRESETS["story"]), method="suffix")
    assert runner._store(settings, SessionTexts()) is None
    monkeypatch.delenv("SPACES_ZERO_GPU")
    assert runner._store(settings, SessionTexts()) is not None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_where_nothing_is_kept_the_page_promises_nothing(
    monkeypatch: pytest.MonkeyPatch, lang: str
) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    lab = make_lab([])
    assert set(PRESETS) - set(lab.presets) == {"again"}
    with gr.Blocks() as blocks:
        watch = Watch(lab, lang)
        watch.connect(blocks)
    assert watch.controls.forget == {} and list(watch.controls.kept) == ["suffix"]
    assert watch.controls.kept["suffix"].value == kept_html(WORDS[lang], 0)
    assert watch._on_kept(SessionTexts()) == [kept_html(WORDS[lang], 0)]
    assert html.escape(WORDS[lang]["texts_never"]) in kept_html(WORDS[lang], 0)
    assert all("again" not in choice for choice in watch.controls.preset.choices)
    assert read_query(lab, {"preset": "again"})[1] == ["preset=again"]
    monkeypatch.delenv("SPACES_ZERO_GPU")
    assert list(make_lab([]).presets) == list(PRESETS)


@pytest.mark.browser
def test_two_visitors_count_their_own_texts_and_one_forgets(serve, open_page) -> None:
    address = serve(Path(__file__).parent / "fake_lab.py", FAKE_ROUND_S="0.01", FAKE_LOAD_S="0.01")
    one, two = (open_page(f"{address}/?preset=again&max_new_tokens=2") for _ in range(2))
    for page, runs in ((one, 2), (two, 1)):
        page.wait_for_selector("#kept-suffix")
        assert "No earlier text" in page.locator("#kept-suffix").inner_text()
        for count in range(1, runs + 1):
            page.locator("#run").click()
            wanted = f"texts of this session: {count} "
            page.locator("#kept-suffix", has_text=wanted).wait_for(timeout=60_000)
    assert "texts of this session: 2 " in one.locator("#kept-suffix").inner_text()
    one.locator("#forget-suffix").click()
    one.locator("#kept-suffix", has_text="No earlier text").wait_for()
    assert "texts of this session: 1 " in two.locator("#kept-suffix").inner_text()
