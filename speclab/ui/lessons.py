"""Lessons: Markdown files with a small head and fenced figures, predictions and code.

A lesson is a folder `lessons/NN-slug/` with `lesson.en.md` and `lesson.zh.md`. Each begins with a
head between two lines `---` (`title`, `question`, `minutes`, `sources` as a list), then prose in
Markdown with `## headings`, `$formulas$` and fences at the left margin:

- `figure NAME` and a JSON object of options (see `lesson_figures.FIGURES`);
- `predict` and a JSON object `{"question", "choices": [{"text", "feedback"}], "answer"}`, where
  `answer` counts from 0;
- `python`: code that the tests run, in order, in one namespace per lesson.

`{{FILE PATH FORMAT}}` stands for one entry of `assets/benchmarks/FILE.json`, for example
`{{pocket-cpu-float32 costs.verify_cost.17 .1f}}`, or of the manifest of a bundled head, for example
`{{heads/pocket/medusa accuracies.0.0 .2f}}`: measured numbers are never typed. A line of `rows` is
named by its method: `{{pocket-cpu-float32 rows.draft-model:num_speculative_tokens=5.tau .2f}}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput
from speclab.lab.head_files import read_kept

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "lessons"
BENCHMARKS = ROOT / "assets" / "benchmarks"
MODELS = ROOT / "assets" / "models"
LANGUAGES = ("en", "zh")
HEAD_KEYS = ("title", "question", "minutes", "sources")
TRANSLATED = frozenset({"caption", "dots", "labels"})
"""Options of figures that are text: the two languages may differ in them, and in nothing else."""
_FENCE = re.compile(r"^```(\S*)(?:\s+(\S+))?\s*$")
_HTML = re.compile(r"<[A-Za-z/!]")
_NOT_PROSE = re.compile(r"`[^`]*`|\$[^$]*\$")
_MEASURED = re.compile(r"\{\{([^{}]*)\}\}")


class LessonFault(BadInput):
    """A lesson file breaks the format; the sentence names file and line."""

    def __init__(self, path: Path, line: int, what: str, hint: str = "") -> None:
        where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        super().__init__(f"{where}:{line}: {what}", hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """Markdown between two fences."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure by name with its options."""

    name: str
    options: dict[str, Any]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict:
    """A question to answer before the figure below it does.

    Attributes:
        choices: (text, feedback) of each; the feedback of a wrong one says what contradicts it.
        answer: index of the right one.
    """

    question: str
    choices: tuple[tuple[str, str], ...]
    answer: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Python that the tests run."""

    text: str
    line: int


Block = Prose | Figure | Predict | Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What the list of lessons shows.

    Attributes:
        number: counts from 1; permalinks use it.
        slug: name of the folder.
        minutes: how long the lesson takes in class.
    """

    number: int
    slug: str
    title: str
    question: str
    minutes: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson in one language."""

    head: Head
    blocks: tuple[Block, ...]

    def structure(self) -> list[tuple[Any, ...]]:
        """Return what both languages must share: headings, directives and code, in order."""
        return [item for block in self.blocks for item in _structure(block)]


def lesson_path(slug: str, lang: str, folder: Path = LESSONS) -> Path:
    """Return the file of a lesson in a language."""
    return folder / slug / f"lesson.{lang}.md"


@lru_cache(maxsize=8)
def slugs(folder: Path = LESSONS) -> tuple[str, ...]:
    """Return the folders of the lessons in teaching order."""
    return tuple(sorted(path.parent.name for path in folder.glob("[0-9][0-9]-*/lesson.en.md")))


@lru_cache(maxsize=8)
def heads(lang: str, folder: Path = LESSONS) -> tuple[Head, ...]:
    """Return the heads of all lessons; nothing else of them is read."""
    return tuple(_read_head(lesson_path(slug, lang, folder)) for slug in slugs(folder))


@lru_cache(maxsize=64)
def read_lesson(slug: str, lang: str, folder: Path = LESSONS) -> Lesson:
    """Read one lesson.

    Raises:
        LessonFault: if the file breaks the format.
    """
    path = lesson_path(slug, lang, folder)
    lines = path.read_text(encoding="utf-8").splitlines()
    start = _head_end(path, lines) + 1
    return Lesson(head=_read_head(path), blocks=tuple(_blocks(path, lines, start)))


def _read_head(path: Path) -> Head:
    lines = path.read_text(encoding="utf-8").splitlines()
    end = _head_end(path, lines)
    values: dict[str, Any] = {}
    key = ""
    for number, line in enumerate(lines[1:end], start=2):
        if line.startswith("  - ") and key == "sources":
            values[key] = (*values.get(key, ()), line[4:].strip())
            continue
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or key not in HEAD_KEYS or key in values:
            raise LessonFault(
                path, number, f"{line!r} does not belong here.", f"Keys: {', '.join(HEAD_KEYS)}."
            )
        if key != "sources":
            values[key] = value
    for name in HEAD_KEYS:
        if not values.get(name):
            raise LessonFault(path, end + 1, f"The head lacks {name}.")
    if not values["minutes"].isdecimal():
        raise LessonFault(path, 1, f"minutes must be a whole number, not {values['minutes']!r}.")
    slug = path.parent.name
    return Head(number=int(slug[:2]), slug=slug, **values | {"minutes": int(values["minutes"])})


def _head_end(path: Path, lines: list[str]) -> int:
    """Return the index of the line that closes the head."""
    if not lines or lines[0] != "---":
        raise LessonFault(path, 1, "The file must begin with a head between two lines ---.")
    try:
        return lines.index("---", 1)
    except ValueError:
        raise LessonFault(path, 1, "The head is not closed by a line ---.") from None


def _blocks(path: Path, lines: list[str], start: int) -> Iterator[Block]:
    prose, at = start, start
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        yield from _prose(path, lines, prose, at)
        end = next((i for i in range(at + 1, len(lines)) if lines[i] == "```"), None)
        if end is None:
            raise LessonFault(path, at + 1, "This fence is never closed.")
        yield _directive(path, fence, at + 1, "\n".join(lines[at + 1 : end]))
        prose = at = end + 1
    yield from _prose(path, lines, prose, len(lines))


def _prose(path: Path, lines: list[str], start: int, end: int) -> Iterator[Prose]:
    text = "\n".join(lines[start:end])
    for number, line in enumerate(lines[start:end], start=start + 1):
        if _HTML.search(_NOT_PROSE.sub("", line)):
            raise LessonFault(path, number, "HTML is not allowed in a lesson.", "Use Markdown.")
    if text.strip():
        yield Prose(text=_fill(path, start + 1, text).strip(), line=start + 1)


def _directive(path: Path, fence: re.Match[str], line: int, body: str) -> Block:
    kind, name = fence.groups()
    if kind == "python" and not name:
        return Code(text=body, line=line + 1)
    if kind == "predict" and not name:
        return _predict(path, line, _json(path, line, body))
    if kind == "figure" and name:
        return Figure(name=name, options=_json(path, line, body or "{}"), line=line)
    raise LessonFault(
        path, line, f"There is no fence {fence[0]!r}.", "Fences: figure NAME, predict, python."
    )


def _json(path: Path, line: int, body: str) -> dict[str, Any]:
    try:
        value = json.loads(_fill(path, line, body))
    except json.JSONDecodeError as error:
        raise LessonFault(path, line + error.lineno, f"This is not JSON: {error.msg}.") from None
    if not isinstance(value, dict):
        raise LessonFault(path, line + 1, "A JSON object { } must stand here.")
    return value


def _predict(path: Path, line: int, value: dict[str, Any]) -> Predict:
    choices = value.get("choices")
    fine = (
        value.keys() == {"question", "choices", "answer"}
        and isinstance(choices, list)
        and len(choices) >= 2
        and all(isinstance(choice, dict) for choice in choices)
        and all(choice.keys() == {"text", "feedback"} for choice in choices)
        and all(isinstance(text, str) and text for c in choices for text in c.values())
    )
    if not fine:
        raise LessonFault(
            path,
            line,
            "A prediction needs a question, an answer and two or more choices, each with text "
            "and feedback.",
        )
    if type(value["answer"]) is not int or not 0 <= value["answer"] < len(choices):
        raise LessonFault(path, line, f"There is no choice {value['answer']!r}: counted from 0.")
    pairs = tuple((choice["text"], choice["feedback"]) for choice in choices)
    return Predict(question=value["question"], choices=pairs, answer=value["answer"], line=line)


def measured(file: str) -> dict[str, Any]:
    """Return a benchmark report of `assets/benchmarks` by its name without the ending.

    `heads/TARGET/KIND` is the manifest of a bundled head.

    Raises:
        BadInput: if there is none, or it is damaged.
    """
    head = re.fullmatch(r"heads/([\w-]+)/([\w-]+)", file)
    path = MODELS / file / "manifest.json" if head else BENCHMARKS / f"{file}.json"
    if not (head or re.fullmatch(r"[\w.-]+", file)) or not path.exists():
        raise BadInput(f"There is no benchmark report {file!r}.")
    return read_kept(path)


def _entry(value: Any, key: str) -> Any:
    """Return an entry of a report; of a list by place, or the greedy line of a method by its name.

    Raises:
        LookupError: if there is none.
    """
    if not isinstance(value, list):
        return value[key]
    if key.isdecimal():
        return value[int(key)]
    for line in value:
        if line.get("method") == key and line.get("temperature", 0.0) == 0.0:
            return line
    raise LookupError(f"no line {key}")


def _fill(path: Path, line: int, text: str) -> str:
    """Put measured numbers in the place of `{{FILE PATH FORMAT}}`."""

    def value_of(match: re.Match[str]) -> str:
        try:
            file, keys, form = match[1].split()
            value: Any = measured(file)
            for key in keys.split("."):
                value = _entry(value, key)
            return format(value, form)
        except (ValueError, LookupError, TypeError, AttributeError, BadInput) as error:
            at = line + text[: match.start()].count("\n")
            raise LessonFault(path, at, f"{match[0]} names nothing measured: {error}.") from None

    return _MEASURED.sub(value_of, text)


def _structure(block: Block) -> Iterator[tuple[Any, ...]]:
    match block:
        case Prose():
            for heading in re.findall(r"^#+(?= )", block.text, re.MULTILINE):
                yield "heading", len(heading)
        case Figure():
            options = {k: v for k, v in block.options.items() if k not in TRANSLATED}
            yield "figure", block.name, json.dumps(options, sort_keys=True)
        case Predict():
            yield "predict", len(block.choices), block.answer
        case Code():
            yield "python", block.text
