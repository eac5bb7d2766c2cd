"""The built-in prompts: every family of Spec-Bench and four more, balanced, short, no doubles."""

from __future__ import annotations

import pytest

from speclab.core.errors import BadInput
from speclab.lab.bench_prompts import CHAT, bench_prompts
from speclab.lab.prompt_families import FAMILY_PROMPTS, by_turns, chosen_families
from speclab.training.corpus.prompts import example_prompts

SPEC_BENCH = {"chat", "summarise", "translate", "qa", "maths", "retrieval"}


def test_every_family_has_six_short_prompts_of_its_own() -> None:
    assert set(FAMILY_PROMPTS) == SPEC_BENCH | {"code", "json", "copy", "edit"}
    texts = [text for prompts in FAMILY_PROMPTS.values() for text in prompts]
    assert all(len(prompts) >= 6 for prompts in FAMILY_PROMPTS.values())
    assert len(set(texts)) == len(texts) and not set(texts) & set(CHAT)
    assert max(map(len, texts)) < 1_500, "2,048 tokens hold any of them and a long answer"
    assert all(text == text.strip() for text in texts)


def test_families_take_turns() -> None:
    found = by_turns({"a": ("1", "2", "3"), "b": ("4",), "c": ("5", "6")})
    assert found == [("a", "1"), ("b", "4"), ("c", "5"), ("a", "2"), ("c", "6"), ("a", "3")]
    assert by_turns({}) == []


def test_any_count_of_prompts_is_balanced() -> None:
    for count in (10, 20, 60):
        families = [family for family, _ in bench_prompts(True, count, ("all",))]
        assert all(families.count(family) == count // 10 for family in FAMILY_PROMPTS)
    assert {family for family, _ in bench_prompts(True, 8, ("copy", "json"))} == {"copy", "json"}


def test_the_bundled_model_has_the_families_of_its_corpus() -> None:
    found = bench_prompts(False, 54, ("all",))
    families = [family for family, _ in found]
    assert set(families) == set(example_prompts())
    assert all(families.count(family) == 6 for family in set(families))
    assert len(set(found)) == 54


def test_the_usual_prompts_stay_what_they_were() -> None:
    assert bench_prompts(True, 3) == [("chat", text) for text in CHAT[:3]]
    presets = example_prompts()
    usual = bench_prompts(False, 20)
    assert usual[:9] == [(family, prompts[0]) for family, prompts in presets.items()]


def test_unknown_families_and_too_many_prompts_are_refused() -> None:
    assert chosen_families(("a", "b"), ("all",)) == ("a", "b")
    assert chosen_families(("a", "b"), ("b", "b")) == ("b",)
    with pytest.raises(BadInput, match=r"'poems'.*all, or some of chat"):
        bench_prompts(True, 2, ("poems",))
    with pytest.raises(BadInput, match="6 built-in prompts, not 7"):
        bench_prompts(True, 7, ("copy",))
