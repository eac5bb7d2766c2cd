"""Family `list`: shopping lists, steps, recipes and lists of ideas."""

from __future__ import annotations

from speclab.training.corpus import words
from speclab.training.corpus.grammar import Scribe, entries, tidy

UNITS = (
    "a bag of",
    "a pound of",
    "two cups of",
    "some",
    "a crate of",
    "a jar of",
    "three boxes of",
)
DISHES = entries("soup,bread,cake,stew,porridge,pie,salad,pancakes,jam,pudding", ",")

RECIPE_STEPS = (
    "Wash the {f1}<.| and dry it well.>",
    "<Cut|Chop> the {f1} <into small pieces|in half>.",
    "Mix the {f1} with the {f2}.",
    "Put the {f1} in a <pot|bowl|pan>.",
    "Knead everything into a smooth dough.",
    "Add <a little|some> {f2}<.| and stir.>",
    "<Heat|Cook|Boil> it for {n} minutes.",
    "Let it rest for {n} minutes.",
    "Add salt and taste it.",
    "Sprinkle the rest on top.",
)
RECIPE_ENDS = (
    "Serve it <hot|warm> with {f3}.",
    "Serve the {dish} with {f3}.",
    "Let the {dish} cool and share it.",
    "Eat it <the same day|with a friend>.",
    "Decorate the {dish} before serving.",
)
JOBS = (
    (
        "plant a tree",
        (
            "Find a <sunny|quiet> place.",
            "Dig a <deep|wide> hole.",
            "Put the tree in the hole.",
            "Fill the hole with soil.",
            "Water the tree<.| every day.>",
        ),
    ),
    (
        "make a {thing}",
        (
            "Draw a plan.",
            "Get some {material}.",
            "Cut the {material} <to size|with care>.",
            "Put the parts together.",
            "Paint it {colour}.",
            "Show it to a friend.",
        ),
    ),
    (
        "clean a room",
        (
            "Open the window.",
            "Pick up the {thing} and the books.",
            "Sweep the floor.",
            "Wash the {material} cups.",
            "Close the window.",
        ),
    ),
    (
        "find a lost {thing}",
        (
            "Think about where you had it last.",
            "Look at the {place}.",
            "Ask your friends.",
            "Look again in your bag.",
            "Do not give up.",
        ),
    ),
    (
        "tame a {animal}",
        (
            "Sit very still.",
            "Hold out some {food}.",
            "Wait until it comes.",
            "Repeat this every day.",
            "Be gentle.",
        ),
    ),
    (
        "write a letter",
        (
            "Take <paper|a sheet of paper> and a pen.",
            "Write the date.",
            "Say hello to your friend.",
            "Tell about the {place}.",
            "Sign your name.",
            "Send the letter.",
        ),
    ),
    (
        "feed a {animal}",
        (
            "Wash your hands.",
            "Get some {food}.",
            "Put the {food} in a bowl.",
            "Wait <a moment|quietly>.",
            "Give it fresh water.",
        ),
    ),
    (
        "go to the {place}",
        (
            "Pack some {food}.",
            "Take a {thing}.",
            "Put on warm clothes.",
            "Walk along the river.",
            "Turn left at the bridge.",
            "Be back before dark.",
        ),
    ),
    (
        "light a fire",
        (
            "Gather dry wood.",
            "Put stones in a ring.",
            "Put <straw|paper> in the middle.",
            "Light it with care.",
            "Keep water close.",
        ),
    ),
    (
        "repair a {thing}",
        (
            "Find the crack.",
            "Clean both sides.",
            "Glue them together.",
            "Press firmly.",
            "Leave it overnight.",
        ),
    ),
)
HEADS = (
    "Shopping list",
    "Shopping list for {hero}",
    "Things to buy for the {dish}",
    "What {hero} <needs|wants> from the market",
    "Errands of {hero}",
)
PACKING = (
    "Packing list for the {place}",
    "Things to bring to the {place}",
    "What is in the {colour} box",
    "Things {hero} found at the {place}",
    "Inventory of the {place}",
)


def shopping(scribe: Scribe) -> str:
    """Return a shopping list with amounts."""
    slots = {"hero": scribe.pick(words.GIRLS + words.BOYS), "dish": scribe.pick(DISHES)}
    items = []
    for food in scribe.pick_distinct(words.FOODS, scribe.number(3, 8)):
        amount = scribe.rng.choice(["", str(scribe.number(2, 12)), scribe.pick(UNITS)])
        items.append(f"- {amount} {food}".replace("-  ", "- "))
    return scribe.say(HEADS, slots) + ":\n" + "\n".join(items)


def packing(scribe: Scribe) -> str:
    """Return a list of things with colours."""
    slots = {
        "hero": scribe.pick(words.GIRLS + words.BOYS),
        "place": scribe.pick(words.PLACES),
        "colour": scribe.pick(words.COLOURS),
    }
    items = []
    for thing in scribe.pick_distinct(words.THINGS, scribe.number(3, 8)):
        adjective = scribe.rng.choice(["", scribe.pick(words.COLOURS), scribe.pick(words.SIZES)])
        item = scribe.say(f"a {adjective} {thing}", {})
        items.append("- " + item[0].lower() + item[1:])
    return scribe.say(PACKING, slots) + ":\n" + "\n".join(items)


def recipe(scribe: Scribe) -> str:
    """Return ingredients and numbered steps of a dish."""
    foods = scribe.pick_distinct(words.FOODS, 4)
    dish = scribe.pick(DISHES)
    slots = {"f1": foods[0], "f2": foods[1], "f3": foods[2], "dish": dish}
    lines = [f"Recipe: {foods[0]} {dish}", "You need:"]
    lines += [f"- {scribe.pick(UNITS)} {food}" for food in foods[: scribe.number(2, 4)]]
    lines.append("Steps:")
    steps = []
    for template in scribe.pick_distinct(RECIPE_STEPS, scribe.number(3, 5)):
        steps.append(scribe.say(template, {**slots, "n": str(scribe.number(1, 12) * 5)}))
    steps.append(scribe.say(RECIPE_ENDS, slots))
    return "\n".join(lines + [f"{i}. {step}" for i, step in enumerate(steps, 1)])


def how_to(scribe: Scribe) -> str:
    """Return numbered steps of a small job, in order, some left out."""
    job, steps = scribe.pick(JOBS)
    slots = {
        "thing": scribe.pick(words.THINGS),
        "place": scribe.pick(words.PLACES),
        "animal": scribe.pick(words.ANIMALS),
        "food": scribe.pick(words.FOODS),
        "colour": scribe.pick(words.COLOURS),
        "material": scribe.pick(words.MATERIALS),
    }
    kept = [step for step in steps if scribe.chance(0.85)] or list(steps)
    lines = [f"{i}. {scribe.say(step, slots)}" for i, step in enumerate(kept, 1)]
    head = tidy(scribe.expand(f"how to {job}:", slots))
    return "\n".join([head, *lines])


def list_document(scribe: Scribe) -> str:
    """Return one list."""
    return scribe.rng.choice([shopping, packing, recipe, how_to])(scribe)
