"""Family `json`: records, nested records and lists of records, sometimes filled from a text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from speclab.training.corpus import words
from speclab.training.corpus.grammar import Scribe

PEOPLE = words.GIRLS + words.BOYS
Record = dict[str, Any]

KINDS = ("person", "animal", "book", "order", "town", "tool", "lesson", "event", "user", "recipe")
TITLES = ("The {c} {t}", "{n} and the {t}", "A {t} of {m}", "The {a} at the {p}", "Songs of {n}")


def _person(scribe: Scribe) -> Record:
    record: Record = {"name": scribe.pick(PEOPLE), "age": scribe.number(4, 90)}
    if scribe.chance(0.6):
        record["town"] = scribe.pick(words.TOWNS)
    if scribe.chance(0.4):
        record["likes"] = scribe.pick_distinct(words.FOODS, scribe.number(1, 3))
    if scribe.chance(0.3):
        record["friend"] = {"name": scribe.pick(PEOPLE), "age": scribe.number(4, 90)}
    return record


def _animal(scribe: Scribe) -> Record:
    record: Record = {"kind": scribe.pick(words.ANIMALS), "name": scribe.pick(PEOPLE)}
    record["colour"] = scribe.pick(words.COLOURS)
    record["legs"] = scribe.rng.choice([2, 4, 4])
    if scribe.chance(0.5):
        record["eats"] = scribe.pick_distinct(words.FOODS, scribe.number(1, 3))
    record["tame"] = scribe.chance(0.5)
    return record


def _book(scribe: Scribe) -> Record:
    slots = {
        "c": scribe.pick(words.COLOURS).capitalize(),
        "t": scribe.pick(words.THINGS).capitalize(),
        "n": scribe.pick(PEOPLE),
        "m": scribe.pick(words.MATERIALS).capitalize(),
        "a": scribe.pick(words.ANIMALS).capitalize(),
        "p": scribe.pick(words.PLACES).capitalize(),
    }
    record: Record = {"title": scribe.say(TITLES, slots), "author": scribe.pick(PEOPLE)}
    record["year"] = scribe.number(1900, 2026)
    record["pages"] = scribe.number(20, 400)
    if scribe.chance(0.5):
        record["tags"] = scribe.pick_distinct(words.PLACES, scribe.number(1, 3))
    return record


def _order(scribe: Scribe) -> Record:
    items = [
        {"item": item, "count": scribe.number(1, 12), "price": scribe.number(1, 40) / 2}
        for item in scribe.pick_distinct(words.FOODS + words.THINGS, scribe.number(1, 4))
    ]
    record: Record = {"order": scribe.number(100, 999), "customer": scribe.pick(PEOPLE)}
    record["items"] = items
    record["paid"] = scribe.chance(0.6)
    return record


def _town(scribe: Scribe) -> Record:
    record: Record = {"town": scribe.pick(words.TOWNS), "river": scribe.pick(words.RIVERS)}
    record["people"] = scribe.number(2, 98) * 100
    record["market"] = scribe.chance(0.5)
    if scribe.chance(0.5):
        record["places"] = scribe.pick_distinct(words.PLACES, scribe.number(2, 4))
    return record


def _tool(scribe: Scribe) -> Record:
    record: Record = {"id": scribe.number(1, 99), "name": scribe.pick(words.THINGS)}
    record["material"] = scribe.pick(words.MATERIALS)
    record["size"] = {"width": scribe.number(1, 50), "height": scribe.number(1, 50)}
    record["colour"] = scribe.rng.choice([scribe.pick(words.COLOURS), None])
    return record


def _lesson(scribe: Scribe) -> Record:
    record: Record = {"day": scribe.rng.choice(["Monday", "Tuesday", "Wednesday", "Friday"])}
    record["start"] = f"{scribe.number(8, 16):02d}:{scribe.rng.choice(['00', '15', '30', '45'])}"
    record["place"] = scribe.pick(words.PLACES)
    record["pupils"] = scribe.pick_distinct(PEOPLE, scribe.number(1, 4))
    return record


def _event(scribe: Scribe) -> Record:
    record: Record = {
        "event": f"{scribe.pick(words.FOODS)} {scribe.pick(('fair', 'day', 'feast'))}"
    }
    record["town"] = scribe.pick(words.TOWNS)
    record["date"] = (
        f"20{scribe.number(10, 29)}-{scribe.number(1, 12):02d}-{scribe.number(1, 28):02d}"
    )
    record["weather"] = {"kind": scribe.pick(words.WEATHERS), "degrees": scribe.number(-9, 32)}
    record["guests"] = scribe.number(5, 300)
    return record


def _user(scribe: Scribe) -> Record:
    name, town = scribe.pick(PEOPLE), scribe.pick(words.TOWNS)
    record: Record = {"id": scribe.number(1, 999), "user": name.lower()}
    record["email"] = f"{name.lower()}@{town.lower()}.org"
    record["active"] = scribe.chance(0.7)
    record["roles"] = scribe.pick_distinct(("reader", "writer", "admin", "guest", "owner"), 2)
    return record


def _recipe(scribe: Scribe) -> Record:
    record: Record = {
        "dish": f"{scribe.pick(words.FOODS)} soup",
        "minutes": scribe.number(1, 24) * 5,
    }
    record["needs"] = {
        food: scribe.number(1, 12)
        for food in scribe.pick_distinct(words.FOODS, scribe.number(2, 4))
    }
    record["serves"] = scribe.number(1, 8)
    return record


MAKERS: dict[str, Callable[[Scribe], Record]] = {
    "person": _person,
    "animal": _animal,
    "book": _book,
    "order": _order,
    "town": _town,
    "tool": _tool,
    "lesson": _lesson,
    "event": _event,
    "user": _user,
    "recipe": _recipe,
}

DESCRIBED = (
    "{name} is {age} years old and lives in {town}.",
    "In {town} lives {name}, who is {age}.",
    "{name}, {age}, is from {town}.",
    "My name is {name}, I am {age}, and my home is {town}.",
    "There is somebody of {age} years in {town}: {name}.",
)


def filled_from_text(scribe: Scribe) -> str:
    """Return a description of one person and the record it becomes."""
    name, town = scribe.pick(PEOPLE), scribe.pick(words.TOWNS)
    age = scribe.number(4, 90)
    text = scribe.say(DESCRIBED, {"name": name, "age": str(age), "town": town})
    record = json.dumps({"name": name, "age": age, "town": town})
    return f"Write the text as JSON.\nText: {text}\nJSON: {record}"


def json_document(scribe: Scribe) -> str:
    """Return `JSON: <kind>` and one record, or a list of records, compact or indented."""
    if scribe.chance(0.15):
        return filled_from_text(scribe)
    kind = scribe.pick(KINDS)
    maker = MAKERS[kind]
    if scribe.chance(0.3):
        head = f"JSON: {scribe.number(2, 4)} {kind} records"
        value: Any = [maker(scribe) for _ in range(int(head[6]))]
    else:
        head, value = f"JSON: {kind}", maker(scribe)
    indent = 2 if scribe.chance(0.6) else None
    return f"{head}\n{json.dumps(value, indent=indent)}"
