"""Chat prompts that the recipe `smollm2-draft` lets its target answer.

Written for this project: templates filled with everyday topics, so that thousands of distinct
prompts come out of one screen of words. `EVALUATION_PROMPTS` are never trained on.
"""

from __future__ import annotations

import random

EVALUATION_PROMPTS: tuple[str, ...] = (
    "What is the capital of France, and what is it famous for?",
    "Explain how a rainbow forms, in three sentences.",
    "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "Give me five tips for sleeping better.",
    "Write a Python function that returns the n-th Fibonacci number.",
    "Why is the sky blue?",
    "What are the benefits of regular exercise?",
    "Write a polite email asking my landlord to repair the heating.",
    "Summarize the water cycle for a ten-year-old.",
    "What is the difference between a virus and a bacterium?",
    "Write a poem about autumn leaves.",
    "How do I make pancakes? List the ingredients and the steps.",
    "Explain what machine learning is to a beginner.",
    "List three advantages and three disadvantages of electric cars.",
    "Write a JSON object describing a book with title, author, year and genre.",
    "Who was Albert Einstein and what did he discover?",
    "Give me a plan for a weekend in Rome.",
    "Rewrite this sentence so that it sounds friendlier: Send me the report today.",
    "What should I consider when I adopt a dog?",
    "Explain photosynthesis step by step.",
    "Write a SQL query that lists the ten customers with the most orders.",
    "Describe a typical day in the life of an astronaut.",
    "How does a bicycle stay upright?",
    "Write a dialogue between a teacher and a student about fractions.",
)

_THINGS = """
volcanoes | the moon | bread | bees | chess | the heart | trains | coral reefs | computers |
the Roman Empire | tea | gravity | dolphins | guitars | solar panels | rivers | dinosaurs |
money | soccer | penguins | clouds | batteries | castles | the internet | mushrooms | the
brain | bridges | honey | earthquakes | kites | robots | chocolate | forests | submarines |
painting | the stock market | rice | owls | democracy | magnets | snow | cheese | airplanes |
vaccines | wolves | glass | libraries | potatoes | planets | jazz | the ocean | recycling |
deserts | clocks | bicycles | antibiotics | tigers | soap | elections | cameras | algae |
marathons | inflation | yoga | the human eye | satellites | spices | ants | opera | plastic |
glaciers | coffee | databases | cats | wheat | electric motors | sharks | fairy tales | paper
| hurricanes | tomatoes | the printing press | fire | hospitals
"""
_PEOPLE = """
a young baker | an old fisherman | a lonely robot | a curious girl | a retired teacher | a
clever fox | a shy musician | a lost tourist | a brave knight | two brothers | a tired nurse |
a small dragon | a forgetful wizard | a farmer | a taxi driver | a detective | a gardener | a
boy with a telescope | a sleepy bear | an inventor | a queen | a mail carrier | a scientist |
a grandmother | a pilot
"""
_PLACES = """
a quiet village | the desert | a busy city | an old library | a spaceship | the mountains | a
small island | a frozen lake | the market | a dark forest | a train station | a castle | the
countryside | a hospital
"""
_GOALS = """
learn a new language | save money | cook a healthy dinner | start a garden | prepare for an
exam | write a resume | plan a birthday party | train for a race | clean a kitchen | read more
books | choose a laptop | make new friends | give a good presentation | organise a desk |
reduce stress | teach a child to swim | repair a flat tire | start a small business | take
better photos | prepare for a job interview | travel on a budget | learn to play the piano |
drink more water
"""
_TASKS = """
reverses a string | counts the vowels in a text | sorts a list of numbers | checks for a prime
number | finds the largest number in a list | removes duplicates from a list | computes a
factorial | reads a CSV file | merges two dictionaries | converts Celsius to Fahrenheit |
checks whether a word is a palindrome | computes the average of a list | counts words in a
file | validates an email address | generates a random password | computes the sum of the
digits
"""
_SENTENCES = """
The meeting was moved to Friday because the manager is ill. | I can't come to the party
tonight. | The new phone has a bigger screen but a weaker battery. | We lost the game but we
learned a lot. | Our shop will be closed next week for repairs. | The train was late again and
I missed my class. | Thank you for your help with the project. | The weather was bad, so we
stayed at home and read. | She found an old letter in the attic and read it to her sister. |
The soup needs more salt.
"""

_TEMPLATES: tuple[tuple[str, int], ...] = (
    ("What is interesting about {thing}?", 2),
    ("Explain {thing} to a child.", 3),
    ("Write a short paragraph about {thing}.", 3),
    ("What are the main facts about {thing}?", 2),
    ("Why is {thing} important?", 2),
    ("Give me five facts about {thing}.", 2),
    ("What is the history of {thing}?", 2),
    ("How does {thing} work?", 2),
    ("What is the difference between {thing} and {other}?", 2),
    ("Compare {thing} and {other} in a short table.", 1),
    ("Write a poem about {thing}.", 2),
    ("Write a short story about {person} in {place}.", 4),
    ("Tell me a story in which {person} learns something about {thing}.", 3),
    ("Write a dialogue between {person} and {person2}.", 2),
    ("Describe {place} in the early morning.", 1),
    ("How can I {goal}?", 3),
    ("Give me {number} tips to {goal}.", 3),
    ("Write a step-by-step plan to {goal}.", 3),
    ("What should I avoid when I want to {goal}?", 2),
    ("Write a Python function that {task}.", 3),
    ("Explain how a program {task}, with an example.", 2),
    ("Write a JSON object that describes {thing}, with {number} keys.", 1),
    ("Rewrite this in a more formal style: {sentence}", 2),
    ("Make this shorter: {sentence}", 1),
    ("Continue this text: {sentence}", 2),
    ("Write an email to {person} about {thing}.", 2),
    ("List {number} questions about {thing} and answer them.", 2),
    ("What are the advantages and disadvantages of {thing}?", 2),
    ("What is {left} plus {right}? Show how you get the answer.", 1),
)


def write_prompts(count: int, rng: random.Random) -> list[str]:
    """Write distinct prompts, none of them among `EVALUATION_PROMPTS`.

    Args:
        count: How many.
        rng: Source of randomness.

    Returns:
        Prompts in random order.
    """
    templates, weights = zip(*_TEMPLATES, strict=True)
    seen = set(EVALUATION_PROMPTS)
    prompts = []
    while len(prompts) < count:
        prompt = rng.choices(templates, weights)[0].format(**_fill(rng))
        if prompt not in seen:
            seen.add(prompt)
            prompts.append(prompt)
    return prompts


def _fill(rng: random.Random) -> dict[str, str]:
    thing, other = rng.sample(_words(_THINGS), 2)
    person, person2 = rng.sample(_words(_PEOPLE), 2)
    return {
        "thing": thing,
        "other": other,
        "person": person,
        "person2": person2,
        "place": rng.choice(_words(_PLACES)),
        "goal": rng.choice(_words(_GOALS)),
        "task": rng.choice(_words(_TASKS)),
        "sentence": rng.choice(_words(_SENTENCES)),
        "number": rng.choice(("three", "four", "five", "six", "ten")),
        "left": str(rng.randrange(2, 200)),
        "right": str(rng.randrange(2, 200)),
    }


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", " ").split("|")]
