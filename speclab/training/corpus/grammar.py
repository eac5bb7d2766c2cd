"""The tiny grammar that all text families share: seeded choices, slots, held-out parts.

A template is a string with slots `{name}` and nested alternatives `<one|two|>` (an empty
alternative makes its part optional). Every fifth entry of a pool of five or more (positions 4, 9,
14, ...) is held out: training text never uses it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

Entry = TypeVar("Entry")

_ALTERNATIVES = re.compile(r"<([^<>]*)>")
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")
_SENTENCE = re.compile(r"(^|[.!?] |\n|(?<![\w,])\")([a-z])")


def entries(text: str, separator: str | None = None) -> tuple[str, ...]:
    """Return the entries of a pool that is written as one text, separated by blanks or a mark."""
    return tuple(part.strip() for part in text.split(separator))


HELD_OUT_PERIOD = 5
"""Entries 4, 9, 14, ... of a pool belong to held-out text only."""


def training_part(pool: Sequence[Entry]) -> list[Entry]:
    """Return the entries that training text may use."""
    if len(pool) < HELD_OUT_PERIOD:
        return list(pool)
    last = HELD_OUT_PERIOD - 1
    return [entry for i, entry in enumerate(pool) if i % HELD_OUT_PERIOD != last]


def held_out_part(pool: Sequence[Entry]) -> list[Entry]:
    """Return the entries that only held-out text may use (none in a pool of fewer than five)."""
    return list(pool[HELD_OUT_PERIOD - 1 :: HELD_OUT_PERIOD])


def tidy(text: str) -> str:
    """Capitalise sentences, turn `a apple` into `an apple` and squeeze double spaces."""
    text = re.sub(r" {2,}", " ", text).strip().replace(" ,", ",").replace(" .", ".")
    text = _ARTICLE.sub(r"\1n ", text)
    return _SENTENCE.sub(lambda match: match.group(1) + match.group(2).upper(), text)


class Scribe:
    """Writes one document: every choice comes from one seeded generator.

    Args:
        seed: Any string; equal seeds write equal documents.
        held_out: Whether held-out entries may be used (then all entries are equally likely).
    """

    def __init__(self, seed: str, *, held_out: bool) -> None:
        self.rng = random.Random(seed)
        self.held_out = held_out

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def number(self, low: int, high: int) -> int:
        """Return an integer of [low, high]."""
        return self.rng.randint(low, high)

    def pick(self, pool: Sequence[Entry]) -> Entry:
        """Draw one entry that this split may use."""
        size = len(pool)
        while True:
            index = int(self.rng.random() * size)
            if (
                self.held_out
                or size < HELD_OUT_PERIOD
                or index % HELD_OUT_PERIOD != HELD_OUT_PERIOD - 1
            ):
                return pool[index]

    def pick_distinct(self, pool: Sequence[Entry], count: int) -> list[Entry]:
        """Draw `count` different entries (fewer if the split has fewer)."""
        limit = len(pool) if self.held_out else len(training_part(pool))
        chosen: list[Entry] = []
        while len(chosen) < min(count, limit):
            entry = self.pick(pool)
            if entry not in chosen:
                chosen.append(entry)
        return chosen

    def expand(self, template: str, slots: Mapping[str, str]) -> str:
        """Resolve the alternatives, then the slots, of one template."""
        while "<" in template:
            template = _ALTERNATIVES.sub(
                lambda match: self.rng.choice(match.group(1).split("|")), template
            )
        while "{" in template:
            template = _SLOT.sub(lambda match: slots[match.group(1)], template)
        return template

    def say(self, templates: str | Sequence[str], slots: Mapping[str, str]) -> str:
        """Pick a template, expand it and tidy the English."""
        template = templates if isinstance(templates, str) else self.pick(templates)
        return tidy(self.expand(template, slots))
