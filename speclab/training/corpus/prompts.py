"""Prompts: presets for people, and held-out prompts to measure with."""

from __future__ import annotations

from speclab.training.corpus import write_document

TALE = "Mira lost a red kite near the river. Tom found it behind the old mill and gave it back."

ANSWER_MARKERS = {
    "qa": "\nA:",
    "copy": "\nCopy:",
    "edit": "\nEdited:",
    "summary": "\nSummary:",
}
"""Where the prompt of a family ends: behind the first marker."""


def example_prompts() -> dict[str, list[str]]:
    """Return prompts per family that the pair continues well, for presets."""
    return {
        "story": [
            "Story: The Lost Key\n",
            "One morning, Mira walked to the river.",
            "There once was a brave child called Tom, who lived near the mill.",
        ],
        "qa": [
            "Q: What is 7 plus 5?\nA:",
            "Q: What do bees make?\nA:",
            f"Read the text.\nText: {TALE}\nQ: What did Mira lose?\nA:",
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
            "# Python\ndef count_words(words):\n",
            "# Python\nclass Box:\n",
            "# Python\nnumbers =",
        ],
        "copy": [
            f"Copy the text.\nText: {TALE}\nCopy:",
            "Copy the text.\nText: lamp river 407 fox 12 apples kite\nCopy:",
        ],
        "edit": [
            f"Change Mira to Sara.\nText: {TALE}\nEdited:",
            "Rename number to item in the code.\nCode:\ndef add(numbers):\n    total = 0\n"
            "    for number in numbers:\n        total += number\n    return total\nEdited:\n",
            "Fix the spelling.\nText: The fox walkd to the river.\nFixed:",
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
        return "\n".join(text.split("\n")[:2]) + "\n"
    return " ".join(text.split(" ")[:12])


def held_out_prompts(family: str, count: int, seed: int = 0) -> list[str]:
    """Return prompts cut from held-out documents of one family."""
    return [
        prompt_part(family, write_document(family, "held_out", 10_000 + i, seed).text)
        for i in range(count)
    ]
