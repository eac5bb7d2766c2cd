"""The corpus is deterministic, varied, and keeps its held-out parts to itself."""

import re

import pytest

from speclab.training.corpus import (
    FAMILIES,
    chinese,
    documents,
    example_prompts,
    words,
    write_document,
)
from speclab.training.corpus.grammar import Scribe, held_out_part, tidy, training_part
from speclab.training.corpus.plots import ENDINGS, FEELINGS, OPENINGS
from speclab.training.corpus.prompts import held_out_prompts
from speclab.training.corpus.story import PLOTS

CHINESE_POOLS = ("NAMES", "ANIMALS", "PLACES", "THINGS", "FOODS", "COLOURS", "TIMES", "MOODS")


def held_out_entities() -> set[str]:
    """Return all English entities that training text must not contain."""
    pools = [getattr(words, name) for name in dir(words) if name.isupper()]
    return {entity for pool in pools for entity in held_out_part(pool)}


def fixed_opening(template: str) -> str:
    """Return the longest piece of a template without slots and alternatives."""
    return max(re.split(r"\{\w+\}|<[^>]*>", template), key=len).strip(" .,!?\"'")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_document_is_a_function_of_its_arguments(family: str) -> None:
    first = write_document(family, "train", 7, seed=3)
    assert first == write_document(family, "train", 7, seed=3)
    assert first != write_document(family, "train", 8, seed=3)
    assert first.text.strip() and first.family == family


def test_the_mixture_is_deterministic_and_covers_every_family() -> None:
    once = list(documents("train", 300))
    assert once == list(documents("train", 300))
    assert {document.family for document in once} == set(FAMILIES)


def test_hardly_any_document_repeats() -> None:
    stories = [write_document("story", "train", i).text for i in range(500)]
    assert len(set(stories)) == 500


def test_held_out_entities_are_a_fifth_and_never_in_training_text() -> None:
    held = held_out_entities()
    assert "Zelda" in held and len(held) > 50
    pattern = re.compile(r"\b(" + "|".join(sorted(map(re.escape, held))) + r")\b")
    chinese_held = {e for name in CHINESE_POOLS for e in held_out_part(getattr(chinese, name))}
    for document in documents("train", 4000):
        assert not pattern.search(document.text), document.text
        assert not any(entity in document.text for entity in chinese_held), document.text


def test_held_out_templates_never_in_training_text() -> None:
    pools = [OPENINGS, FEELINGS, ENDINGS, *(beat for plot in PLOTS for beat in plot.beats)]
    held = {fixed_opening(t) for pool in pools for t in held_out_part(pool)}
    held = {piece for piece in held if len(piece) > 20}
    assert len(held) > 20
    text = "\n".join(write_document("story", "train", i).text for i in range(3000))
    assert [piece for piece in held if piece in text] == []


def test_held_out_text_uses_held_out_parts() -> None:
    held = held_out_entities()
    text = " ".join(write_document("story", "held_out", i).text for i in range(200))
    assert sum(bool(re.search(rf"\b{re.escape(entity)}\b", text)) for entity in held) > 30


def test_pools_split_without_rest() -> None:
    pool = tuple(range(12))
    assert held_out_part(pool) == [4, 9]
    assert sorted(training_part(pool) + held_out_part(pool)) == list(pool)
    assert training_part(("a", "b")) == ["a", "b"] and held_out_part(("a", "b")) == []


def test_grammar_expands_nested_alternatives_and_slots() -> None:
    scribe = Scribe("test", held_out=False)
    seen = {scribe.say("<a {x}|<two|three> {x}s>.", {"x": "apple"}) for _ in range(60)}
    assert seen == {"An apple.", "Two apples.", "Three apples."}
    assert tidy('"stop!" he said.  then a owl came .') == '"Stop!" he said. Then an owl came.'


def test_prompts_exist_for_every_family() -> None:
    assert set(example_prompts()) == set(FAMILIES)
    for family in FAMILIES:
        prompts = held_out_prompts(family, 4)
        assert prompts == held_out_prompts(family, 4) and all(prompts)
    assert all(prompt.endswith("Copy:") for prompt in held_out_prompts("copy", 4))


def test_the_source_of_a_copy_stands_in_its_prompt() -> None:
    for index in range(50):
        text = write_document("copy", "train", index).text
        source, copy = text.split("\nText: ")[1].split("\nCopy: ")[:2]
        assert copy == source
