"""Prompts: presets for people, and held-out prompts to measure with."""

from __future__ import annotations

from speclab.training.corpus import write_document

TALE = (
    "It was a sunny day, and Mira was proud. Near the river she heard a cry. A frog was stuck in a "
    'hole. "Stay calm," said Mira. "I will help you." She used the red rope to free the frog. It '
    "took a long time, but it worked. The frog followed her home, and since then they were friends."
)

CODE = (
    "def count_items(items):\n"
    '    """Count how often each item occurs."""\n'
    "    counts = {}\n"
    "    for item in items:\n"
    "        counts[item] = counts.get(item, 0) + 1\n"
    "    return counts"
)

ANSWER_MARKERS = {
    "qa": "\nA:",
    "copy": "\nCopy:",
    "edit": "\nEdited:",
    "summary": "\nSummary:",
}
"""Where the prompt of a family ends: behind the first marker."""


def example_prompts() -> dict[str, list[str]]:
    """Return prompts per family that the pair continues well, for presets.

    No prompt ends with a newline before an indented line: there the tokenizer would split the
    white space in another way than in training text.
    """
    return {
        "story": [
            "Story: The Lost Key\n",
            "One morning, Mira walked to the river.",
            "There was once a brave child called Tom, who lived near the mill.",
        ],
        "qa": [
            "Q: What do bees make?\nA:",
            f"Read the text.\nText: {TALE}\nQ: Who helped the frog?\nA:",
            "Q: What is 7 plus 5?\nA:",
        ],
        "list": [
            "Shopping list:\n-",
            "Recipe: apples cake\nYou need:\n-",
            "How to plant a tree:\n1.",
        ],
        "json": [
            "JSON: person\n{",
            "JSON: order\n{",
            "Write the text as JSON.\nText: Anna is 31 years old and lives in Alder.\nJSON:",
        ],
        "code": [
            "# Python\ndef count_words(words):",
            "# Python\nclass Box:",
            "# Python\nnumbers =",
        ],
        "copy": [
            f"Copy the text.\nText: {TALE}\nCopy:",
            "Copy the text.\nText: lantern river 407 fox 12 apples kite blue Sam 95 soup\nCopy:",
        ],
        "edit": [
            f"Change Mira to Sara.\nText: {TALE}\nEdited:",
            f"Rename item to page in the code.\nCode:\n{CODE}\nEdited:\n",
            "Fix the spelling.\nText: It was a widny day, and Jack was sad.\nFixed:",
        ],
        "summary": [f"Summarise the story in one sentence.\nStory: {TALE}\nSummary:"],
        "chinese": ["故事:", "问:3加4等于几?\n答:", "购物单:\n-"],
    }


def prompt_part(family: str, text: str) -> str:
    """Return the beginning of a document that makes a prompt of it."""
    marker = ANSWER_MARKERS.get(family)
    if family == "edit" and marker not in text:
        marker = "\nFixed:"
    if marker and marker in text:
        return text[: text.index(marker) + len(marker)]
    if family == "chinese":
        return text[:16]
    if family in ("json", "list"):
        return text[: text.index("\n") + 1]
    if family == "code":
        return "\n".join(text.split("\n")[:2])
    return " ".join(text.split(" ")[:12])


def held_out_prompts(family: str, count: int, seed: int = 0) -> list[str]:
    """Return prompts cut from held-out documents of one family."""
    return [
        prompt_part(family, write_document(family, "held_out", 10_000 + i, seed).text)
        for i in range(count)
    ]
