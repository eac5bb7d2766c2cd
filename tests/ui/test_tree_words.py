"""A tree's parameters in words, and why a method of heads cannot run on a pair."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from speclab.methods import METHODS
from speclab.methods.kinds import KINDS
from speclab.ui.backend import Lab, default_lab
from speclab.ui.texts_tree import PAGE
from speclab.ui.tree_words import heads_there, missing_html, tree_html

HEADED = [
    name
    for name, kind in METHODS.items()
    if any(need.startswith("head:") for need in kind.card.needs)
]
TREES = [name for name in ("medusa", "hydra", "eagle-3") if name in METHODS]


@pytest.fixture(scope="module")
def lab() -> Lab:
    return default_lab()


def defaults(name: str) -> dict:
    return {param.name: param.default for param in METHODS[name].card.params}


def numbers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", text)]


def test_both_languages_say_the_same_with_the_same_slots() -> None:
    slots = re.compile(r"\{(\w+)\}")
    assert PAGE["en"].keys() == PAGE["zh"].keys()
    for key, text in PAGE["en"].items():
        assert sorted(set(slots.findall(text))) == sorted(set(slots.findall(PAGE["zh"][key]))), key


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", TREES)
def test_the_words_hold_the_numbers(name: str, lang: str) -> None:
    said = numbers(tree_html(METHODS[name].card, defaults(name), lang))
    total = defaults(name).get("total_tokens", defaults(name).get("tree_nodes"))
    assert total in said and total + 1 in said


def test_a_dynamic_tree_names_its_bounds() -> None:
    card = METHODS["eagle-3"].card

    def said(depth: int, top_k: int, total: int) -> list[int]:
        params = {"depth": depth, "top_k": top_k, "total_tokens": total}
        return numbers(tree_html(card, params, "en"))

    assert said(3, 2, 40) == [3, 2, 10, 10, 11], "no more nodes than there can be candidates"
    assert said(6, 4, 11) == [6, 4, 84, 11, 12]
    assert said(6, 1, 11) == [6, 7], "a chain is as long as it is deep"
    assert said(6, 4, 1) == [1, 2]
    assert tree_html(card, {"depth": None, "top_k": 4, "total_tokens": 11}, "en") == ""
    for name in ("autoregressive", "draft-model", "prompt-lookup"):
        assert tree_html(METHODS[name].card, defaults(name), "en") == ""


@pytest.mark.parametrize("name", HEADED)
def test_a_pair_without_the_head_is_named_and_so_are_those_that_have_it(
    lab: Lab, name: str
) -> None:
    wanted = {n.removeprefix("head:") for n in METHODS[name].card.needs if n.startswith("head:")}
    for pair, entry in lab.pairs.items():
        text = missing_html(lab, name, pair, "en")
        assert (text == "") == (wanted <= heads_there(entry)), pair
        if text:
            assert entry.title.en.replace("&", "&amp;") in text
    custom = missing_html(lab, name, "custom", "zh")
    having = [e.title.zh for e in lab.pairs.values() if wanted <= heads_there(e)]
    assert all(title in custom for title in having) and 'role="status"' in custom


def test_methods_without_heads_run_anywhere(lab: Lab) -> None:
    for name in METHODS.keys() - set(HEADED):
        assert missing_html(lab, name, "qwen3-4b", "en") == ""


@pytest.mark.browser
def test_the_page_says_both_at_once(serve, open_page) -> None:
    page = open_page(serve(Path(__file__).parent / "fake_lab.py"))
    page.wait_for_selector(".speclab-player[data-ready]:not([data-ready=''])", timeout=60_000)
    assert page.locator(".sl-no-head").count() == 0
    page.locator("#kind").get_by_label(KINDS["heads"].title.en).click()
    page.locator("#method").get_by_label(METHODS["eagle-3"].card.title.en).click()
    page.wait_for_selector(".sl-no-head")
    assert "eagle3" in page.locator(".sl-no-head").inner_text()
    about = page.locator("#tree-about-eagle-3")
    assert numbers(about.inner_text()) == [6, 4, 84, 11, 12]
    depth = page.locator("#p-eagle-3-depth input[type=number]")
    depth.fill("2")
    depth.press("Enter")
    page.wait_for_function("document.querySelector('#tree-about-eagle-3').innerText.includes('20')")
    assert numbers(about.inner_text()) == [2, 4, 20, 11, 12]
    page.locator("#kind").get_by_label(KINDS["text"].title.en).click()
    page.wait_for_function("!document.querySelector('.sl-no-head')")
