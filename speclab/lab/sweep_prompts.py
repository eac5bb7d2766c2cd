"""Prompts of a sweep: by family, in two like halves, or of a wanted length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from speclab.core.errors import BadInput
from speclab.lab.bench_prompts import CHAT, MOST_UNSEEN, unseen_prompts
from speclab.lab.measuring import Prompt
from speclab.lab.prompt_families import FAMILY_PROMPTS, by_turns
from speclab.models.pair import Pair

TALES = 200
"""Numbers of the held-out stories that long prompts begin with: no other prompt has them."""


def prompts_of(pair: Pair, count: int) -> list[tuple[str, Prompt]]:
    """Return `count` (family, token ids), families in turn; for a chat, its plain requests last.

    Raises:
        BadInput: if there are not that many.
    """
    if not pair.codec.chat_by_default:
        texts = unseen_prompts(False, count)
    else:
        known = by_turns(dict(FAMILY_PROMPTS))
        seen = {text for _, text in known}
        known += [("chat", text) for text in CHAT if text not in seen]
        if count > len(known):
            raise BadInput(
                f"There are {len(known)} built-in prompts, not {count}.",
                "Ask for fewer prompts.",
                code="built_in_prompts",
                values={"there": len(known), "count": count},
            )
        texts = known[:count]
    return [(family, pair.codec.encode(text)) for family, text in texts]


def families_of(pair: Pair, count: int) -> dict[str, list[Prompt]]:
    """Return at most `count` prompts of every family of a pair."""
    from speclab.training.corpus import FAMILIES

    found: dict[str, list[Prompt]] = defaultdict(list)
    if pair.codec.chat_by_default:
        return {
            family: [pair.codec.encode(text) for text in texts[:count]]
            for family, texts in FAMILY_PROMPTS.items()
        }
    for family, tokens in prompts_of(pair, min(count * len(FAMILIES), MOST_UNSEEN)):
        if len(found[family]) < count:
            found[family].append(tokens)
    return dict(found)


def halves(prompts: Sequence[tuple[str, Prompt]]) -> tuple[list[Prompt], list[Prompt]]:
    """Split prompts in two: within a family they go to the halves in turn.

    Raises:
        BadInput: if a half stays empty.
    """
    seen: dict[str, int] = defaultdict(int)
    parts: tuple[list[Prompt], list[Prompt]] = ([], [])
    first: dict[str, int] = {}
    for family, tokens in prompts:
        first.setdefault(family, len(first))
        parts[(seen[family] + first[family]) % 2].append(tokens)
        seen[family] += 1
    if not all(parts):
        raise BadInput(
            f"{len(prompts)} prompts cannot be split in two halves.",
            "Use at least 2 prompts.",
            code="too_few_prompts",
            values={"count": len(prompts)},
        )
    return parts


def prompts_of_length(pair: Pair, length: int, count: int) -> list[Prompt]:
    """Return `count` prompts of exactly `length` tokens, or up to it for a chat.

    Raw text is cut from held-out stories. In a chat stories precede a request and are cut by words.

    Raises:
        BadInput: if a chat's request alone is longer.
    """
    from speclab.training.corpus import write_document

    found = []
    for number in range(count):
        first, text, tokens = 30_000 + number * TALES, "", ()
        while len(tokens) < length:
            text += write_document("story", "held_out", first, 0).text.strip() + "\n"
            first += 1
            tokens = pair.codec.encode(text)
        if pair.codec.chat_by_default:
            tokens = _cut_chat(pair, text, CHAT[number % len(CHAT)], length)
        found.append(tuple(tokens[:length]))
    return found


def least_length(pair: Pair, count: int) -> int:
    """Return the fewest tokens that each of `count` prompts of a wanted length can have."""
    if not pair.codec.chat_by_default:
        return 1
    return max(len(_chat(pair, "", CHAT[number % len(CHAT)])) for number in range(count))


def _chat(pair: Pair, before: str, request: str) -> Prompt:
    return tuple(pair.codec.encode(f"{before}\n\n{request}"))


def _cut_chat(pair: Pair, text: str, request: str, length: int) -> Prompt:
    """Return the longest chat of at most `length` tokens that ends with the request."""
    words = text.split(" ")
    low, high = 0, len(words)

    def encoded(count: int) -> Prompt:
        return _chat(pair, " ".join(words[:count]), request)

    if len(encoded(0)) > length:
        raise BadInput(
            f"A request alone takes {len(encoded(0))} tokens, more than {length}.",
            "Sweep longer prompts.",
            code="request_alone",
            values={"tokens": len(encoded(0)), "length": length},
        )
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(encoded(middle)) <= length else (low, middle - 1)
    return encoded(low)
