"""Families `copy`, `edit` and `summary`: the source stands in the prompt, so looking it up pays."""

from __future__ import annotations

import json
import re

from speclab.training.corpus import records, snippets, words
from speclab.training.corpus.grammar import Scribe
from speclab.training.corpus.lists import list_document
from speclab.training.corpus.story import tell

COPY_HEADS = (
    "Copy the text.",
    "Repeat the text.",
    "Say it again.",
    "Write the same text.",
    "Echo the text.",
)
SUMMARY_HEADS = (
    "Summarise the story in one sentence.",
    "Sum up the story in one sentence.",
    "Tell the story in one sentence.",
    "What is the story about?",
    "Shorten the story to one sentence.",
)


def passage(scribe: Scribe) -> str:
    """Return a text worth copying: part of a story, a list, a record, code or random words."""
    kind = scribe.rng.choice(["story", "list", "json", "code", "words", "words", "words"])
    if kind == "story":
        sentences = re.split(r"(?<=[.!?]) ", tell(scribe, short=True).text)
        start = scribe.number(0, max(0, len(sentences) - 3))
        return " ".join(sentences[start : start + scribe.number(1, 4)])
    if kind == "list":
        return list_document(scribe)
    if kind == "json":
        return json.dumps(records.MAKERS[scribe.pick(records.KINDS)](scribe))
    if kind == "code":
        return snippets.snippet(scribe)
    return " ".join(random_item(scribe) for _ in range(scribe.number(4, 24)))


def random_item(scribe: Scribe) -> str:
    """Return a word, a name, a number or a few letters: what can be copied but not guessed."""
    kind = scribe.rng.random()
    if kind < 0.15:
        return str(scribe.number(0, 999))
    if kind < 0.3:
        letters = "abcdefghijklmnopqrstuvwxyz"
        return "".join(scribe.rng.choice(letters) for _ in range(scribe.number(1, 4)))
    pools = (words.THINGS, words.ANIMALS, words.FOODS, words.PLACES, words.COLOURS)
    people = (words.GIRLS, words.BOYS, words.TOWNS, words.MOODS, words.MATERIALS)
    return scribe.pick(scribe.rng.choice(pools + people))


def copy_document(scribe: Scribe) -> str:
    """Return `Copy the text.`, `Text: ...` and `Copy: ...`."""
    text = passage(scribe)
    copies = 2 if len(text) < 160 and scribe.chance(0.3) else 1
    tail = "\n".join([f"Copy: {text}"] * copies)
    return f"{scribe.pick(COPY_HEADS)}\nText: {text}\n{tail}"


def _swap_word(scribe: Scribe, text: str, pool: tuple[str, ...]) -> tuple[str, str, str] | None:
    """Return (old, new, edited text) for one entity of `pool` that stands in the text."""
    present = [word for word in pool if re.search(rf"\b{word}\b", text)]
    if not present:
        return None
    old = scribe.rng.choice(present)
    new = old
    while new == old:
        new = scribe.pick(pool)
    return old, new, re.sub(rf"\b{old}\b", new, text)


def edit_words(scribe: Scribe) -> str:
    """Return a text and the same text with one entity replaced throughout."""
    pools = (words.GIRLS + words.BOYS, words.THINGS, words.PLACES, words.ANIMALS, words.COLOURS)
    while True:
        sentences = re.split(r"(?<=[.!?]) ", tell(scribe, short=True).text)
        text = " ".join(sentences[: scribe.number(2, 5)])
        swapped = _swap_word(scribe, text, scribe.rng.choice(pools))
        if swapped:
            old, new, edited = swapped
            head = scribe.pick((f"Change {old} to {new}.", f"Replace {old} with {new}."))
            return f"{head}\nText: {text}\nEdited: {edited}"


def edit_code(scribe: Scribe) -> str:
    """Return a snippet and the same snippet with one name replaced."""
    pools = (
        tuple(snippets.NOUNS),
        tuple(snippets.singular(noun) for noun in snippets.NOUNS),
        tuple(snippets.ATTRIBUTES),
    )
    while True:
        text = snippets.snippet(scribe)
        swapped = _swap_word(scribe, text, scribe.rng.choice(pools))
        if swapped:
            old, new, edited = swapped
            return f"Rename {old} to {new} in the code.\nCode:\n{text}\nEdited:\n{edited}"


def edit_spelling(scribe: Scribe) -> str:
    """Return a text with one misspelt word and the corrected text."""
    sentences = re.split(r"(?<=[.!?]) ", tell(scribe, short=True).text)
    text = " ".join(sentences[: scribe.number(1, 3)])
    places = [match.span() for match in re.finditer(r"\b[a-z]{4,}\b", text)]
    start, stop = scribe.rng.choice(places) if places else (0, len(text))
    word = text[start:stop]
    at = scribe.number(1, max(1, len(word) - 2))
    wrong = scribe.rng.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
            word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :],
        ]
    )
    return f"Fix the spelling.\nText: {text[:start]}{wrong}{text[stop:]}\nFixed: {text}"


def edit_json(scribe: Scribe) -> str:
    """Return a record and the same record with one value changed."""
    record = records.MAKERS[scribe.pick(records.KINDS)](scribe)
    numeric = [key for key, value in record.items() if type(value) is int]
    if not numeric:
        return edit_words(scribe)
    key, value = scribe.rng.choice(numeric), scribe.number(1, 99)
    before = json.dumps(record)
    return f"Set {key} to {value}.\nJSON: {before}\nEdited: {json.dumps({**record, key: value})}"


def edit_document(scribe: Scribe) -> str:
    """Return one edit task: replace a word, rename in code, fix the spelling, set a value."""
    return scribe.rng.choice([edit_words, edit_words, edit_code, edit_spelling, edit_json])(scribe)


def summary_document(scribe: Scribe) -> str:
    """Return a story and its one-sentence summary."""
    story = tell(scribe, short=scribe.chance(0.7))
    text = story.text.replace("\n", " ")
    return f"{scribe.pick(SUMMARY_HEADS)}\nStory: {text}\nSummary: {story.summary}"
