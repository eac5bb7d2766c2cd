"""Requests to time chat models with, in the families of Spec-Bench and four more, written here.

Families differ in how much of the answer can be guessed: a copied list is nearly free, a poem is
not. That is why a speedup without its prompts says little.

**Source:** the families: Xia et al. 2401.07851 (Spec-Bench). Every text is this project's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclab.core.errors import BadInput

_LIBRARY = (
    "The town library was built in 1911 beside the old mill. For sixty years it lent only printed "
    "books. In 1974 it began to lend records, and in 1998 films. A flood in 2006 ruined the "
    "lower floor, and four thousand books were lost. People from the town gave so many of their "
    "own that the shelves were full again after nine months. Today the library opens on six days "
    "a week, runs a reading club on Thursdays, and lends tools such as drills and ladders."
)

_FERRY = (
    "The island ferry will not sail on Monday and Tuesday because of strong wind. Passengers with "
    "a ticket for those days can travel on Wednesday without paying again, or get their money "
    "back at the harbour office. The post boat still goes every morning at seven and takes up to "
    "eight people. Schools on the island stay open, but pupils who live on the mainland may work "
    "from home. The harbour office answers questions by telephone from eight to five."
)

_GARDEN = (
    "Ms Ortega has looked after the school garden for twelve years. In spring the youngest pupils "
    "sow beans, peas and radishes; in summer the older ones build frames for tomatoes. Half of "
    "the harvest goes to the kitchen, a quarter is sold at the autumn fair, and the rest is left "
    "for birds. Last year the garden brought in 640 euros, which paid for a new water tank."
)

_CODE = (
    "def total_price(items):\n"
    "    total = 0\n"
    "    for item in items:\n"
    "        if item['count'] > 0:\n"
    "            total = total + item['price'] * item['count']\n"
    "    return total"
)

_STOCK = (
    "pens: 40, red and blue\npaper: 12 packs, A4\nenvelopes: 150, white\nstaplers: 3, one broken\n"
    "folders: 60, green\ntape: 9 rolls, clear\nchalk: 5 boxes, white\nscissors: 8 pairs, small"
)

_SOURCES = (
    "[1] Bees dance to tell each other where flowers are. The angle of the dance gives the "
    "direction, its length the distance.\n"
    "[2] A hive holds between ten and sixty thousand bees. Only the queen lays eggs.\n"
    "[3] Honey keeps for years because it holds little water and is slightly acid.\n"
    "[4] In winter the bees form a ball and keep its middle at about thirty degrees."
)

FAMILY_PROMPTS: dict[str, tuple[str, ...]] = {
    "chat": (
        "I have to give a short speech at my sister's wedding. How should I begin?",
        "My neighbour's dog barks every night. How can I talk to him without a quarrel?",
        "Suggest a plan for a rainy Sunday with two children.",
        "Write a short story about a lighthouse keeper who finds a letter.",
        "I want to learn to draw. Which three exercises should I do in the first week?",
        "Pretend that you are a tour guide and welcome visitors to a small castle.",
    ),
    "summarise": (
        f"Summarise this text in two sentences.\n\n{_LIBRARY}",
        f"Summarise this notice for a passenger in a hurry.\n\n{_FERRY}",
        f"What are the three most important facts in this text?\n\n{_GARDEN}",
        f"Write a headline and one sentence for this news.\n\n{_FERRY}",
        f"Tell the history of the library in one sentence.\n\n{_LIBRARY}",
        f"Summarise this text as a list of short points.\n\n{_GARDEN}",
    ),
    "translate": (
        "Translate into German: The train to the coast leaves at nine and arrives before noon.",
        "Translate into French: We are looking for a quiet room with a view of the garden.",
        "Translate into Spanish: My brother bought fresh bread, two lemons and a bottle of milk.",
        "Translate into English: Der alte Mann wohnt seit vierzig Jahren in dem Haus am See.",
        "Translate into English: Les enfants jouent dans la cour pendant que la pluie tombe.",
        "Translate into Italian: Please close the window, because the wind is cold this evening.",
    ),
    "qa": (
        "Which planet is the largest in the solar system?",
        "What is the boiling point of water at sea level, and why is it lower on a mountain?",
        "Who wrote the play Romeo and Juliet, and where does it take place?",
        "Why do leaves change their colour in autumn?",
        "What is the difference between weather and climate?",
        "How many bones does an adult human have, and which is the longest?",
    ),
    "maths": (
        "A shop sells pencils at 3 for 2 euros. How much do 12 pencils cost? Show each step.",
        "Tom has 48 cards. He gives a third to Ana and 5 to Ben. How many are left?",
        "A train travels 180 km in 2 hours and 15 minutes. What is its average speed?",
        "Solve for x and explain each step: 4x - 7 = 2x + 9.",
        "A garden is 8 m long and 5 m wide. How long is the fence around it, and how large is it?",
        "Five friends share a bill of 86 euros and add a tip of 10 percent. What does each pay?",
    ),
    "retrieval": (
        f"Answer with the sources below and name their numbers.\n\n{_SOURCES}\n\nHow do bees tell "
        "each other where to fly?",
        f"Answer with the sources below and name their numbers.\n\n{_SOURCES}\n\nWhy does honey "
        "keep for so long?",
        f"Use only this text.\n\n{_FERRY}\n\nI have a ticket for Tuesday. What can I do?",
        f"Use only this text.\n\n{_LIBRARY}\n\nWhat happened in 2006, and what came after it?",
        f"Use only this text.\n\n{_GARDEN}\n\nWhere does the harvest go?",
        f"Answer with the sources below and name their numbers.\n\n{_SOURCES}\n\nWhat do bees do "
        "in winter?",
    ),
    "code": (
        "Write a Python function that returns the n-th Fibonacci number.",
        "Write a Python class for a bank account with deposit and withdraw.",
        "Write a Python function that reads a CSV file and returns its rows as dictionaries.",
        f"Explain what this function does, line by line.\n\n{_CODE}",
        "Write a JavaScript function that reverses the words of a sentence.",
        "Write an SQL query that lists the ten customers who spent the most in 2024.",
    ),
    "json": (
        "Write a JSON object for a book with title, author, year, pages and a list of topics.",
        f"Turn this list into a JSON array of objects with name, count and note.\n\n{_STOCK}",
        "Write a JSON array of five cities with name, country and population.",
        "Write as JSON: Mia Berg, 34, lives in Oslo, speaks Norwegian and English, owns two cats.",
        "Write a JSON configuration for a web server with host, port, log level and two routes.",
        "Write a JSON weather report for three days with date, high, low, wind and a short text.",
    ),
    "copy": (
        f"Repeat this text word for word.\n\n{_LIBRARY}",
        f"Repeat this list exactly, without any comment.\n\n{_STOCK}",
        f"Copy this notice without a change.\n\n{_FERRY}",
        f"Copy this code exactly.\n\n{_CODE}",
        f"Write down the sources again, unchanged.\n\n{_SOURCES}",
        f"Repeat this text word for word.\n\n{_GARDEN}",
    ),
    "edit": (
        f"Rename total to amount in this code and change nothing else.\n\n{_CODE}",
        f"Put this text into the past tense and change nothing else.\n\n{_FERRY}",
        f"Replace Ms Ortega by Mr Lind everywhere and repeat the text.\n\n{_GARDEN}",
        f"Sort this list by name and change nothing else.\n\n{_STOCK}",
        f"Correct the year 1911 to 1921 and repeat the text.\n\n{_LIBRARY}",
        f"Add a docstring to this function and repeat it.\n\n{_CODE}",
    ),
}
"""Requests by family; at least six each, short enough for a context of 2,048 tokens."""


def chosen_families(known: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the families to time; `("all",)` stands for every one.

    Raises:
        BadInput: for a family that is not there.
    """
    if tuple(wanted) == ("all",):
        return tuple(known)
    for name in wanted:
        if name not in known:
            raise BadInput(
                f"There is no family of prompts {name!r}.",
                f"Use all, or some of {', '.join(known)}.",
            )
    return tuple(dict.fromkeys(wanted))


def by_turns(families: dict[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return (family, prompt) pairs, one of each family in turn, so that any count is balanced."""
    longest = max(map(len, families.values()), default=0)
    return [
        (family, prompts[turn])
        for turn in range(longest)
        for family, prompts in families.items()
        if turn < len(prompts)
    ]
