"""The glossary is complete, in both languages, and free of models and pages."""

import ast
from pathlib import Path

import pytest

from speclab.core import glossary
from speclab.core.glossary import NUMBERS, TERMS, number_named

TABLE = (
    "num_rounds",
    "num_drafting_rounds",
    "acceptance_rate",
    "mean_overlap",
    "drafted_acceptance_rate",
    "acceptance_rate_per_position",
    "mean_accepted_tokens",
    "block_efficiency",
    "cost_ratio",
    "verify_cost",
    "ttft_s",
    "tpot_s",
    "walltime_speedup",
)


@pytest.mark.parametrize("name", TABLE)
def test_every_number_is_defined(name: str) -> None:
    assert NUMBERS[name].name == name


@pytest.mark.parametrize("number", NUMBERS.values(), ids=lambda number: number.name)
def test_numbers_speak_both_languages(number: glossary.Number) -> None:
    for text in (number.title, number.definition):
        assert text.en.strip()
        assert text.zh.strip()
    assert bool(number.trap.en) == bool(number.trap.zh)


@pytest.mark.parametrize("term", TERMS.values(), ids=lambda term: term.name)
def test_terms_speak_both_languages(term: glossary.Term) -> None:
    for text in (term.word, term.meaning):
        assert text.en.strip()
        assert text.zh.strip()


@pytest.mark.parametrize(
    "name",
    ("draft", "target", "gamma", "acceptance", "correction", "bonus", "residual", "overlap"),
)
def test_the_words_of_the_field_are_there(name: str) -> None:
    assert TERMS[name].name == name


def test_a_position_finds_its_number() -> None:
    assert (
        number_named("acceptance_rate_per_position[2]") is NUMBERS["acceptance_rate_per_position"]
    )
    assert number_named("no_such_number") is None


def test_every_counter_of_a_run_is_defined() -> None:
    from speclab.core.records import ModelId, RunSpec, Trace
    from speclab.stats.counters import summarise

    spec = RunSpec(method="m", rule="token", pair="p", target=ModelId(name="t"))
    for counter in summarise(Trace(spec=spec, prompt_tokens=(1,))):
        assert number_named(counter.name) is not None, counter.name


def test_no_torch_and_no_gradio() -> None:
    tree = ast.parse(Path(glossary.__file__).read_text(encoding="utf-8"))
    names = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert all(not (name or "").startswith(("torch", "gradio", "transformers")) for name in names)
