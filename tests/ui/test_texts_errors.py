"""Errors, warnings and progress in Chinese: every code that is raised has a sentence that fits."""

from __future__ import annotations

import ast
import pickle
import string
from pathlib import Path

import pytest

from speclab.core.errors import BadInput, NumericalFault, SpeclabError, TraceFormatError
from speclab.ui.texts_errors import ZH_ERRORS, error_text, sentence

PACKAGE = Path(__file__).parents[2] / "speclab"


def raised_codes() -> dict[str, list[set[str]]]:
    """Return, per code in the sources, the names of the values given where it is raised."""
    found: dict[str, list[set[str]]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            code = given.get("code")
            if isinstance(code, ast.Constant) and isinstance(code.value, str) and code.value:
                values = given.get("values")
                keys = values.keys if isinstance(values, ast.Dict) else []
                names = {key.value for key in keys if isinstance(key, ast.Constant)}
                found.setdefault(code.value, []).append(names)
    return found


def slots(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_code_that_is_raised_has_a_chinese_sentence_and_the_reverse() -> None:
    assert raised_codes().keys() == ZH_ERRORS.keys()


def test_every_slot_is_given_wherever_the_code_is_raised() -> None:
    for code, places in raised_codes().items():
        for names in places:
            assert slots("".join(ZH_ERRORS[code])) <= names, code


def test_an_error_speaks_chinese_and_keeps_its_english() -> None:
    error = BadInput(
        "There is no pair 'x'.",
        "Pairs: pocket.",
        code="unknown_pair",
        values={"name": "x{0}", "known": "pocket"},
    )
    assert error_text(error, "en") == "There is no pair 'x'. Pairs: pocket." == str(error)
    assert error_text(error, "zh") == "没有名为 x{0} 的模型对。可用的模型对：pocket。"
    again = pickle.loads(pickle.dumps(error))
    assert (again.what, again.code, again.values) == (error.what, error.code, error.values)


def test_without_a_code_or_a_value_nothing_is_lost() -> None:
    assert error_text(SpeclabError("Odd.", "Look."), "zh") == "Odd. Look."
    assert error_text(BadInput("No pair.", code="unknown_pair"), "zh") == "No pair."
    for kind in (TraceFormatError, NumericalFault):
        assert "trace.x is odd." in error_text(kind("trace.x is odd."), "zh")
        assert "英文" in error_text(kind("trace.x is odd."), "zh")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_warnings_of_a_run_are_known(lang: str) -> None:
    from types import SimpleNamespace

    from speclab.engine.loop import Limits
    from speclab.lab.run_warnings import run_warnings
    from speclab.methods import make_method

    def pair_of(draft, target=None, foreign=None):
        return SimpleNamespace(
            target=target, drafts=(draft,), foreign=foreign, drafts_for=lambda needs: (draft,)
        )

    draft = SimpleNamespace(name="tiny", max_context=12)
    limits = Limits(max_new_tokens=9, max_context=16, eos_ids=frozenset(), stop_strings=())
    prompt = tuple(range(10))
    made = run_warnings(pair_of(draft), make_method("draft-model"), prompt, limits)
    assert len(made) == 2
    blind = SimpleNamespace(name="bloom", provides=frozenset({"path_batch"}), max_context=99)
    seeing = SimpleNamespace(name="llama", provides=frozenset({"tree_mask"}), max_context=99)
    for target, draft in ((blind, seeing), (seeing, blind), (seeing, seeing)):
        pair = pair_of(draft, target)
        (*told,) = run_warnings(pair, make_method("draft-tree"), (1,), limits)
        assert len(told) == (blind in (target, draft))
        assert all(("bloom 无法对一棵树" in sentence(text, "zh")) for text in told)
        assert not run_warnings(pair, make_method("prompt-lookup"), (1,), limits)
    spelling = SimpleNamespace(shared_own=(1, 2, 3))
    foreign = SimpleNamespace(model=seeing, spelling=spelling, num_ids=9, shared_mass=0.25)
    for name, count in (("string-match", 1), ("token-intersection", 2)):
        (*told,) = run_warnings(pair_of(seeing, seeing, foreign), make_method(name), (1,), limits)
        assert len(told) == count and all(sentence(text, "zh") != text for text in told)
    shown = [sentence(text, lang) for text in made]
    if lang == "en":
        assert shown == list(made)
    else:
        assert "16 个词元" in shown[0] and "6 个" in shown[0]
        assert shown[1].startswith("tiny 最多容纳 12 个词元")


def test_notes_of_a_load_are_known() -> None:
    assert sentence("Loading hub:a/b", "zh") == "正在加载 hub:a/b"
    assert sentence("Something else", "zh") == "Something else"
