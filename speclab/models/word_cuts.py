"""Where a text may be cut so that its parts are tokenised as the whole is.

Most byte-level tokenizers first cut a text into words by a pattern and then tokenise each word by
itself. If the pattern always cuts at a place, and decides nothing on one side by what stands on the
other, the two parts can be tokenised one by one:

- before a blank that follows a visible character: in all `PATTERNS` a blank only begins a word, and
  the one that looks ahead, of white space, ends at the visible character;
- before a Chinese mark that follows a Latin letter, a digit or an ideograph: letters and digits end
  there, and no mark stands within a word behind one.

`cuts_at_words` reads from a tokenizer's own description whether that holds for it. It says no for
whatever it does not know: a pattern of another kind, a normalizer other than NFC (which never joins
a blank or a mark to what stands before it), a blank put before the text, a model that looks beyond
a word, markers with a blank in them or with a wish to swallow one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")
PATTERNS = frozenset({GPT_2, LLAMA_3, QWEN_2})
"""Patterns whose every alternative was read for the two places above."""

MARKS = tuple("，。！？；：、")
_MARKS = tuple(mark.encode() for mark in MARKS)


def can_cut(before: bytes, after: bytes) -> bool:
    """Return whether a text may be cut between `before` and `after`, by a tokenizer of words.

    Args:
        before: at least the last character of the first part, in UTF-8.
        after: at least the first character of the second.
    """
    last = _last_character(before)
    ideograph = "\u4e00" <= last <= "\u9fa5"
    if after.startswith(b" "):
        return ideograph or "!" <= last <= "~" or last in MARKS
    return after.startswith(_MARKS) and (ideograph or (last.isascii() and last.isalnum()))


def _last_character(raw: bytes) -> str:
    """Return the last character of at most three bytes; "" where it is longer or half there."""
    end = bytes(raw[-3:]).decode("utf-8", "ignore")[-1:]
    return end if end and raw.endswith(end.encode()) else ""


def cuts_at_words(tokenizer: Mapping[str, Any]) -> bool:
    """Return whether a tokenizer is known to tokenise parts as the whole, cut where `can_cut` says.

    Args:
        tokenizer: its description, as in a `tokenizer.json`.
    """
    model = tokenizer["model"]
    plain = model.get("type") == "BPE" and not model.get("dropout")
    plain = plain and tokenizer.get("truncation") is None and tokenizer.get("padding") is None
    normalizer = tokenizer.get("normalizer")
    plain = plain and (normalizer is None or normalizer["type"] == "NFC")
    added = all(map(_harmless, tokenizer.get("added_tokens") or ()))
    return plain and added and _cuts_words(tokenizer.get("pre_tokenizer"))


def _harmless(added: Mapping[str, Any]) -> bool:
    """Return whether an added token can neither reach across a cut nor depend on what is there."""
    wishes = any(added.get(name) for name in ("single_word", "lstrip", "rstrip"))
    return not wishes and not any(each in added["content"] for each in (" ", *MARKS))


def _cuts_words(steps: Mapping[str, Any] | None) -> bool:
    """Return whether one of the steps before the model cuts words, and none depends on more."""
    if steps is None:
        return False
    several = steps["type"] == "Sequence"
    found = [_step_cuts(step) for step in (steps["pretokenizers"] if several else (steps,))]
    return None not in found and True in found


def _step_cuts(step: Mapping[str, Any]) -> bool | None:
    """Return whether a step cuts words; False: it does not but does no harm; None: unknown."""
    if step["type"] == "ByteLevel":
        return None if step.get("add_prefix_space") else bool(step.get("use_regex", True))
    if step["type"] == "Digits":
        return False
    if step["type"] == "Split" and step["behavior"] == "Isolated" and not step.get("invert"):
        return True if step["pattern"].get("Regex") in PATTERNS else None
    return None
