"""Family `qa`: questions about the invented valley, small numbers, simple knowledge, a text."""

from __future__ import annotations

import random
from dataclasses import dataclass

from speclab.training.corpus import words
from speclab.training.corpus.grammar import Scribe, entries
from speclab.training.corpus.story import tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """One town of the valley; its facts follow from its name alone."""

    name: str
    river: str
    product: str
    animal: str
    colour: str
    mayor: str
    people: int


def town_facts(name: str) -> Town:
    """Return the facts of a town; equal names give equal facts."""
    scribe = Scribe(f"town:{name}", held_out=False)
    return Town(
        name=name,
        river=scribe.pick(words.RIVERS),
        product=scribe.pick(words.FOODS),
        animal=scribe.pick(words.ANIMALS),
        colour=scribe.pick(words.COLOURS),
        mayor=scribe.pick(words.GIRLS + words.BOYS),
        people=scribe.number(2, 98) * 100,
    )


TOWN_QUESTIONS = (
    ("<Which river flows through {town}|On which river is {town}>?", "The {river}."),
    ("What is {town} known for?", "{town} is known for its {product}."),
    ("Which animal is on the flag of {town}?", "A {animal}."),
    ("Who is the mayor of {town}?", "The mayor of {town} is {mayor}."),
    ("Who governs {town}?", "Mayor {mayor} does."),
    ("What colour is the flag of {town}?", "It is {colour}, with a {animal} on it."),
    ("How many people live in {town}?", "About {people}."),
    ("Where is {town}?", "On the river {river}, <where they make|in the land of> {product}."),
    (
        "Tell me about {town}.",
        (
            "{town} is a town on the river {river}. It is known for its {product}, and its "
            "mayor is {mayor}."
        ),
    ),
    ("Describe the banner of {town}.", "A {animal} on {colour} ground."),
)

KNOWLEDGE = tuple(
    entries(line, " = ")
    for line in entries(
        """How many days are in a week? = There are seven days in a week.
What colour is the sky on a clear day? = It is blue.
What do bees make? = Bees make honey.
How many legs does a spider have? = A spider has eight legs.
Which planet do we live on? = We live on the planet Earth.
What do cows eat? = Cows eat grass.
What is ice made of? = Ice is frozen water.
How many hours are in a day? = There are 24 hours in a day.
Where does the sun rise? = The sun rises in the east.
What gives us light at night? = The moon and the stars.
What is the opposite of hot? = The opposite of hot is cold.
What do we use an umbrella for? = To stay dry in the rain.
How many months are in a year? = There are twelve months in a year.
What is the opposite of big? = The opposite of big is small.
Which season comes after winter? = Spring comes after winter.
What do plants need to grow? = They need water, light and soil.
What is a baby dog called? = It is called a puppy.
What is a baby cat called? = It is called a kitten.
Where do fish live? = Fish live in water.
How many sides has a square? = A square has four sides.
How many sides does a triangle have? = A triangle has three sides.
What is bread made from? = Bread is made from flour and water.
What is cheese made from? = Cheese is made from milk.
Which animal says moo? = The cow.
How many seconds are in a minute? = There are 60 seconds in a minute.
What is the opposite of up? = The opposite of up is down.
Which day comes after Monday? = Tuesday comes after Monday.
Which day comes after Friday? = Saturday comes after Friday.
What is the capital of France? = Paris is the capital of France.
What colour is snow? = Snow is white.
What is the capital of Italy? = Rome is the capital of Italy.
What is the capital of Japan? = Tokyo is the capital of Japan.
What is the capital of China? = Beijing is the capital of China.
What do we call frozen rain? = We call it hail.
Which animal has a very long neck? = The giraffe.
What is a token? = A token is a small piece of text, such as a word or a part of a word.
What is a draft model? = A draft model is a small model that guesses the next tokens.
What is a target model? = A target model is the large model that checks the guesses.
What is the opposite of slow? = The opposite of slow is fast.
What is speculative decoding? = A small model guesses some tokens, and a large model \
checks them all at once.""",
        "\n",
    )
)

WORD_SUMS = (
    (
        (
            "{hero} has {a} {food} and gets {b} more. How many {food} <are there now|does "
            "{hero} have>?"
        ),
        "+",
    ),
    ("{hero} had {a} coins and gave {b} to {friend}. How many coins are left?", "-"),
    ("There are {a} boxes with {b} {food} in each. How many {food} are there?", "*"),
    (
        (
            "{a} children <are at|play near> the {place}, and {b} more come. How many "
            "children are there?"
        ),
        "+",
    ),
    ("A basket holds {b} {food}. How many are in {a} baskets?", "*"),
    ("{hero} is {a} years old, and {friend} is {b} years older. How old is {friend}?", "+"),
    ("Of {a} eggs, {b} broke. How many are whole?", "-"),
)


def compute(left: int, sign: str, right: int) -> int:
    """Return the value of `left sign right` for +, - and *."""
    return {"+": left + right, "-": left - right, "*": left * right}[sign]


def arithmetic(scribe: Scribe) -> tuple[str, str]:
    """Return a question about small numbers and its answer."""
    template, sign = scribe.pick(WORD_SUMS)
    if scribe.chance(0.45):
        sign = scribe.rng.choice("+-*")
    top = 10 if sign == "*" else 30
    left, right = scribe.number(2, top), scribe.number(2, top)
    if sign == "-" and right > left:
        left, right = right, left
    value = compute(left, sign, right)
    named = {"+": "plus", "-": "minus", "*": "times"}[sign]
    if scribe.chance(0.5):
        question = scribe.rng.choice(
            [f"What is {left} {sign} {right}?", f"What is {left} {named} {right}?"]
        )
        return question, scribe.rng.choice([f"{value}", f"{left} {sign} {right} = {value}."])
    template, sign = scribe.pick(WORD_SUMS)
    left, right = max(left, right), min(left, right, 10)
    if sign == "*":
        left = min(left, 10)
    hero, friend = scribe.pick_distinct(words.GIRLS + words.BOYS, 2)
    slots = {
        "a": str(left),
        "b": str(right),
        "hero": hero,
        "friend": friend,
        "food": scribe.pick(("apples", "pears", "nuts", "eggs", "figs", "plums")),
        "place": scribe.pick(words.PLACES),
    }
    value = compute(left, sign, right)
    answer = f"{left} {sign} {right} = {value}, so the answer is {value}."
    return scribe.say(template, slots), answer


def town_question(scribe: Scribe) -> tuple[str, str]:
    """Return a question about a town and its answer."""
    town = town_facts(scribe.pick(words.TOWNS))
    slots = {
        "town": town.name,
        "river": town.river,
        "product": town.product,
        "animal": town.animal,
        "colour": town.colour,
        "mayor": town.mayor,
        "people": str(town.people),
    }
    question, answer = scribe.pick(TOWN_QUESTIONS)
    return scribe.say(question, slots), scribe.say(answer, slots)


def comparison(scribe: Scribe) -> tuple[str, str]:
    """Return a question about the larger number or the alphabet, and its answer."""
    if scribe.chance(0.5):
        left, right = random.Random(scribe.rng.random()).sample(range(1, 100), 2)
        return f"Which is greater, {left} or {right}?", f"{max(left, right)} is greater."
    first, second = scribe.pick_distinct(words.THINGS, 2)
    return (
        f"Which word comes first in the alphabet, {first} or {second}?",
        f"{min(first, second)} comes first.".capitalize(),
    )


def reading(scribe: Scribe) -> str:
    """Return a short story followed by questions about it."""
    story = tell(scribe, short=True)
    asked = "\n".join(f"Q: {question}\nA: {answer}" for question, answer in story.questions)
    return f"Read the text.\nText: {story.text}\n{asked}" if asked else f"Story: {story.text}"


def qa_document(scribe: Scribe) -> str:
    """Return `Q: ...` and `A: ...` pairs, closed-book or about a text."""
    if scribe.chance(0.2):
        return reading(scribe)
    pairs = []
    for _ in range(scribe.number(1, 5)):
        kind = scribe.rng.choice(["town", "sum", "sum", "knowledge", "compare"])
        if kind == "town":
            pairs.append(town_question(scribe))
        elif kind == "sum":
            pairs.append(arithmetic(scribe))
        elif kind == "knowledge":
            pairs.append(scribe.pick(KNOWLEDGE))
        else:
            pairs.append(comparison(scribe))
    return "\n".join(f"Q: {question}\nA: {answer}" for question, answer in pairs)
