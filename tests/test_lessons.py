"""Lessons: the format and its errors, both languages alike, and code and numbers that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from speclab.ui import lessons
from speclab.ui.lessons import Code, Figure, LessonFault, Predict, Prose, heads, read_lesson, slugs

ROOT = Path(__file__).parents[1]
DECIMAL = re.compile(r"(?<![A-Za-z0-9_.])\d+\.\d+(?![A-Za-z0-9_]|\.\d)")
HEAD = """---
title: A title
question: A question?
minutes: 5
sources:
  - Somebody, arXiv 0000.00000
---
"""


def test_there_are_lessons_in_teaching_order_and_no_number_stands_twice() -> None:
    numbers = [head.number for head in heads("en")]
    assert numbers[:3] == [1, 2, 3]
    assert numbers == sorted(set(numbers))
    assert numbers == [head.number for head in heads("zh")]


@pytest.mark.parametrize("slug", slugs())
def test_both_languages_have_the_same_structure(slug: str) -> None:
    english, chinese = read_lesson(slug, "en"), read_lesson(slug, "zh")
    assert english.structure() == chinese.structure()
    assert english.head.minutes == chinese.head.minutes
    assert len(english.head.sources) == len(chinese.head.sources)
    assert english.head.title != chinese.head.title


@pytest.mark.parametrize("slug", slugs())
def test_a_lesson_has_what_a_lesson_needs(slug: str) -> None:
    lesson = read_lesson(slug, "en")
    assert lesson.head.sources
    for kind in (Figure, Predict, Code, Prose):
        assert any(isinstance(block, kind) for block in lesson.blocks), kind


def words_of(slug: str, lang: str) -> str:
    """Return everything a reader reads, without what is measured and without sources."""
    text = lessons.lesson_path(slug, lang).read_text(encoding="utf-8")
    text = re.sub(r"^```python$.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\{\{.*?\}\}", "", text.split("\n---\n", 1)[1])


@pytest.mark.parametrize("slug", slugs())
def test_both_languages_give_the_same_numbers(slug: str) -> None:
    english, chinese = (sorted(DECIMAL.findall(words_of(slug, lang))) for lang in ("en", "zh"))
    assert english == chinese


@pytest.mark.parametrize("slug", slugs())
def test_every_number_stands_in_the_code_that_checks_it(slug: str) -> None:
    code = "\n".join(b.text for b in read_lesson(slug, "en").blocks if isinstance(b, Code))
    checked = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", code)}
    assert {float(number) for number in DECIMAL.findall(words_of(slug, "en"))} <= checked


@pytest.mark.parametrize("slug", slugs())
def test_the_code_of_a_lesson_holds(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    path, namespace = lessons.lesson_path(slug, "en"), {"__name__": slug}
    for block in read_lesson(slug, "en").blocks:
        if isinstance(block, Code):
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, str(path), "exec"), namespace)


def test_a_false_number_in_a_lesson_is_caught(tmp_path: Path) -> None:
    text = HEAD + "Text.\n\n```python\nassert 0.1 + 0.2 == 0.3\n```\n"
    (block,) = [b for b in write(tmp_path, text).blocks if isinstance(b, Code)]
    with pytest.raises(AssertionError):
        exec(compile(block.text, "lesson", "exec"), {})


# --- the format ----------------------------------------------------------------------------------


def write(folder: Path, text: str) -> lessons.Lesson:
    """Write a lesson and read it."""
    path = lessons.lesson_path("01-x", "en", folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    read_lesson.cache_clear()
    return read_lesson("01-x", "en", folder)


PREDICT = """```predict
{"question": "Why?", "answer": ANSWER, "choices": [
  {"text": "a", "feedback": "A"}, {"text": "b", "feedback": "B"}]}
```
"""


def test_a_lesson_is_read_block_by_block(tmp_path: Path) -> None:
    text = (
        HEAD
        + 'First.\n\n## Part\n\n```figure bars\n{"n": 3, "caption": "c"}\n```\n'
        + PREDICT.replace("ANSWER", "1")
        + "```python\nx = 1\n```\nv = {{pocket-cpu-float32 costs.verify_cost.1 .1f}}\n"
    )
    lesson = write(tmp_path, text)
    assert [type(block) for block in lesson.blocks] == [Prose, Figure, Predict, Code, Prose]
    assert lesson.head.sources == ("Somebody, arXiv 0000.00000",)
    prose, figure, predict, code, end = lesson.blocks
    assert prose.text.endswith("## Part")
    assert figure.options == {"n": 3, "caption": "c"}
    assert predict.choices == (("a", "A"), ("b", "B"))
    assert text.splitlines()[code.line - 1] == "x = 1"
    assert end.text == "v = 1.0"
    assert lesson.structure() == [
        ("heading", 2),
        ("figure", "bars", '{"n": 3}'),
        ("predict", 2, 1),
        ("python", "x = 1"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("Text without a head.\n", 1, "must begin with a head"),
        ("---\ntitle: x\n", 1, "not closed"),
        (HEAD.replace("minutes: 5\n", ""), 6, "lacks minutes"),
        (HEAD.replace("minutes: 5", "minutes: five"), 1, "whole number"),
        (HEAD.replace("minutes", "minuets"), 4, "does not belong here"),
        (HEAD.replace("  - Somebody, arXiv 0000.00000\n", ""), 6, "lacks sources"),
        (HEAD + "a\n```python\nx = 1\n", 9, "never closed"),
        (HEAD + "```chart bars\n{}\n```\n", 8, "no fence"),
        (HEAD + "```figure\n{}\n```\n", 8, "no fence"),
        (HEAD + '```figure bars\n{\n"n" 3}\n```\n', 10, "not JSON"),
        (HEAD + "```figure bars\n[]\n```\n", 9, "JSON object"),
        (HEAD + "a\n\n<b>bold</b>\n", 10, "HTML is not allowed"),
        (HEAD + "a\n<script>alert(1)</script>\n", 9, "HTML is not allowed"),
        (HEAD + PREDICT.replace("ANSWER", "2"), 8, "no choice 2"),
        (HEAD + PREDICT.replace("ANSWER", "true"), 8, "no choice True"),
        (HEAD + PREDICT.replace("feedback", "hint").replace("ANSWER", "0"), 8, "text and feedback"),
        (HEAD + "a\n{{pocket-cpu-float32 costs.no .1f}}\n", 9, "nothing measured"),
        (HEAD + "{{../secret costs.no .1f}}\n", 8, "nothing measured"),
        (HEAD + "{{pocket-cpu-float32 rows.no-such-method.tau .1f}}\n", 8, "nothing measured"),
        (HEAD + "{{pocket-cpu-float32 costs.verify_cost d}}\n", 8, "nothing measured"),
    ],
)
def test_a_fault_names_file_and_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(LessonFault, match=rf"lesson\.en\.md:{line}: .*{words}"):
        write(tmp_path, text)


def test_code_and_formulas_may_hold_what_looks_like_html(tmp_path: Path) -> None:
    write(tmp_path, HEAD + "If $a<b$ then `list<int>` is fine.\n")
