"""Prompts for timing, written for this project: pocket's own families, and chat requests."""

from __future__ import annotations

from collections.abc import Sequence

from speclab.core.errors import BadInput
from speclab.lab.prompt_families import FAMILY_PROMPTS, by_turns, chosen_families
from speclab.models.pair import Pair

MOST_PER_FAMILY = 6
LOWER = "Lower --max-new-tokens."
"""What to do on the command line when prompt and new tokens do not fit."""

CHAT = (
    "Write a short story about a fox who learns to swim.",
    "Explain in simple words why the sky is blue.",
    "List five healthy breakfast ideas.",
    "What is the difference between a lake and a river?",
    "Write a polite email asking for a day off next Friday.",
    "Give me three tips for learning a new language.",
    "Describe how bread is made, step by step.",
    "What causes the seasons on Earth?",
    "Write a Python function that returns the largest number in a list.",
    "Summarise the story of the tortoise and the hare.",
    "What should I pack for a weekend in the mountains?",
    "Explain what a library card is to a child.",
    "Write four lines about the sea in winter.",
    "How do plants make their food?",
    "Give a simple recipe for vegetable soup.",
    "Tell me about the history of the bicycle.",
    "Write a dialogue between a teacher and a student about homework.",
    "What are the main parts of a computer?",
    "Suggest names for a small bakery and explain one of them.",
    "Write a Python program that prints the numbers from 1 to 10.",
    "Why do we sleep?",
    "Describe a busy market in the morning.",
    "Explain how a candle burns.",
    "Write a thank-you note to a neighbour.",
)

FIRST_UNSEEN, MOST_UNSEEN = 20_000, 200
"""Numbers of held-out documents; `held_out_prompts` begins at 10,000."""


def bench_prompts(chat: bool, count: int, families: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return `count` (family, prompt) pairs.

    Args:
        chat: requests to a chat model; else texts that the bundled model continues.
        count: how many; families take turns.
        families: names of families, or `("all",)`; empty: for a chat model the plain requests of
            this file, else every family.

    Raises:
        BadInput: for an unknown family, or if there are not that many different prompts.
    """
    if chat and not families:
        chosen = [("chat", prompt) for prompt in CHAT]
    else:
        known = FAMILY_PROMPTS if chat else _corpus_families(more=bool(families))
        names = chosen_families(tuple(known), families or ("all",))
        chosen = by_turns({name: known[name] for name in names})
    if count > len(chosen):
        raise BadInput(f"There are {len(chosen)} built-in prompts, not {count}.")
    return chosen[:count]


def _corpus_families(*, more: bool) -> dict[str, list[str]]:
    """Return the bundled model's presets by family; with `more`, held-out ones up to six each."""
    from speclab.training.corpus.prompts import example_prompts, held_out_prompts

    families = example_prompts()
    for family, prompts in families.items() if more else ():
        further = held_out_prompts(family, MOST_PER_FAMILY * 4)
        prompts += list(dict.fromkeys(text for text in further if text not in prompts))
        del prompts[MOST_PER_FAMILY:]
    return families


def unseen_prompts(chat: bool, count: int) -> list[tuple[str, str]]:
    """Return `count` (family, prompt) pairs to measure heads with.

    Chat requests as in `bench_prompts`; else beginnings of held-out documents, family by family,
    other ones than those on which the heads' accuracies were measured, and no presets.

    Raises:
        BadInput: if there are not that many different ones.
    """
    if chat:
        return bench_prompts(True, count)
    from speclab.training.corpus import FAMILIES, write_document
    from speclab.training.corpus.prompts import example_prompts, prompt_part

    presets, chosen = example_prompts(), {}
    for index in range(FIRST_UNSEEN, FIRST_UNSEEN + MOST_UNSEEN):
        for family in FAMILIES:
            text = prompt_part(family, write_document(family, "held_out", index).text)
            if text not in presets[family]:
                chosen.setdefault(text, family)
            if len(chosen) == count:
                return [(family, text) for text, family in chosen.items()]
    raise BadInput(f"There are {len(chosen)} unseen prompts, not {count}.")


def check_fits(
    pair: Pair,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    hint: str = "Ask for fewer new tokens.",
) -> None:
    """Refuse prompts, in token ids, that leave too little room; `hint` says what to do.

    Raises:
        BadInput: with both lengths.
    """
    longest = max(map(len, prompts)) + max_new_tokens
    if longest > pair.target.max_context:
        raise BadInput(
            f"Prompt and {max_new_tokens} new tokens make {longest}; {pair.target.name} "
            f"holds {pair.target.max_context}.",
            hint,
            code="run_too_long",
            values={
                "tokens": max_new_tokens,
                "total": longest,
                "model": pair.target.name,
                "limit": pair.target.max_context,
            },
        )
