"""Permalinks, settings and words: what can be tested without a browser."""

import string
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from speclab.core.laws import Sampling
from speclab.lab.presets import PRESETS
from speclab.methods import METHODS
from speclab.models.catalogue import PAIRS
from speclab.ui.backend import Lab, PairCache, Turnstile
from speclab.ui.permalink import read_query, write_query
from speclab.ui.settings import default_settings, from_preset, rules_for
from speclab.ui.texts import EN, ZH


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
        params={"num_speculative_tokens": 7, "draft_temperature": None, "min_confidence": 0.25},
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
            fits = rule in kind.card.lossless_with
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
