"""The corpus of the bundled pair `pocket`: nine families of text, written by seeded grammars.

A document is a pure function of (family, split, index, seed). Markers a prompt can start with:

- story: `Story: <title>` and a newline, or the first words of a story
- qa: `Q: <question>`, newline, `A:`; or `Read the text.`, `Text: ...`, then `Q:` and `A:`
- list: `Shopping list:`, `Recipe: <dish>`, `How to <job>:`, `Packing list for the <place>:`
- json: `JSON: <kind>` (person, animal, book, order, tool, lesson, event, user), or
  `Write the text as JSON.`, `Text: ...`, `JSON:`
- code: `# Python` and the start of a snippet
- copy: `Copy the text.`, `Text: ...`, `Copy:`
- edit: `Change X to Y.` with `Text:` and `Edited:`; `Fix the spelling.` with `Text:` and `Fixed:`;
  `Rename x to y in the code.` with `Code:` and `Edited:`; `Set key to 3.` with `JSON:`, `Edited:`
- summary: `Summarise the story in one sentence.`, `Story: ...`, `Summary:`
- chinese: `故事:`, `问:` and `答:`, `购物单:`, `请再写一遍。` with `原文:` and `再写:`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from speclab.training.corpus.chinese import chinese_document
from speclab.training.corpus.grammar import Scribe
from speclab.training.corpus.lists import list_document
from speclab.training.corpus.qa import qa_document
from speclab.training.corpus.records import json_document
from speclab.training.corpus.snippets import code_document
from speclab.training.corpus.story import story_document
from speclab.training.corpus.tasks import copy_document, edit_document, summary_document

Split = Literal["train", "held_out"]

FAMILIES: dict[str, tuple[Callable[[Scribe], str], int]] = {
    "story": (story_document, 30),
    "qa": (qa_document, 13),
    "list": (list_document, 6),
    "json": (json_document, 8),
    "code": (code_document, 8),
    "copy": (copy_document, 16),
    "edit": (edit_document, 10),
    "summary": (summary_document, 5),
    "chinese": (chinese_document, 9),
}
"""How each family is written, and its share of the documents in per cent (of their sum)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text of the corpus and its family."""

    family: str
    text: str


def write_document(family: str, split: Split, index: int, seed: int = 0) -> Document:
    """Return document `index` of a family; the same arguments give the same text."""
    maker, _ = FAMILIES[family]
    scribe = Scribe(f"{seed}:{split}:{family}:{index}", held_out=split == "held_out")
    return Document(family=family, text=maker(scribe))


def documents(split: Split, count: int, seed: int = 0) -> Iterator[Document]:
    """Yield `count` documents of all families, mixed by their shares."""
    chooser = Scribe(f"{seed}:{split}:order", held_out=False).rng
    names = list(FAMILIES)
    shares = [FAMILIES[name][1] for name in names]
    for index in range(count):
        yield write_document(chooser.choices(names, shares)[0], split, index, seed)


def example_prompts() -> dict[str, list[str]]:
    """Return prompts per family that the pair continues well, for presets."""
    from speclab.training.corpus import prompts  # prompts itself needs this package

    return prompts.example_prompts()
