"""A command as it stands in a blog: cleaned, split into words, and whose it is. Nothing is run."""

from __future__ import annotations

import re
import shlex
import unicodedata
from dataclasses import dataclass
from functools import cache

from speclab.core.errors import BadInput
from speclab.deploy.options import OPTIONS
from speclab.deploy.plans import HIDDEN

MOST_CHARS = 20_000
TYPOGRAPHIC = {
    "\u201c": '"',
    "\u201d": '"',
    "\u201e": '"',
    "\u2018": "'",
    "\u2019": "'",
    "\u2013": "--",
    "\u2014": "--",
    "\u2212": "-",
    "\u00a0": " ",
}
"""What web pages make of quotes, hyphens and spaces."""
NAMES = (
    ("vllm", ("vllm", "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")),
    ("sglang", ("sglang", "sglang.launch_server", "sglang_router.launch_server")),
    ("llama.cpp", ("llama-server", "llama-cli", "llama-speculative", "llama-speculative-simple")),
    ("tensorrt-llm", ("trtllm-serve", "trtllm-bench")),
    ("tgi", ("text-generation-launcher",)),
)
"""Engine -> the programs that start it."""
_CONTINUED = re.compile(r"[\\`^][ \t]*\r?\n")
_KEY = re.compile(r"^[ \t]*([A-Za-z_]\w*)[ \t]*:", re.MULTILINE)
_KEYWORD = re.compile(
    r"[(,.]\s*([A-Za-z_]\w*)[ \t]*=(?!=)[ \t]*"
    r"(?:\"([^\"\n]*)\"|'([^'\n]*)'|(None|True|False|-?[0-9][0-9.e_-]*)(?![\w.]))?"
)
_OPTION = re.compile(r"--?[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pasted:
    """What was pasted.

    Attributes:
        text: with plain quotes and hyphens, without invisible characters.
        words: of the command line.
        options: (option as written, its value or "").
        typographic: characters that a shell takes for letters.
        hidden: invisible characters that were there, as U+XXXX.
        unclosed: whether a quote is never closed.
    """

    text: str
    words: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    typographic: tuple[str, ...]
    hidden: tuple[str, ...]
    unclosed: bool


def read_pasted(text: str) -> Pasted:
    """Return the words and options of a pasted command; never runs anything.

    Raises:
        BadInput: if there is no text, or too much of it.
    """
    if not text.strip():
        raise BadInput(
            "There is no command.", "Paste the command that starts the engine.", code="lint_empty"
        )
    if len(text) > MOST_CHARS:
        raise BadInput(
            f"The text has {len(text):,} characters; at most {MOST_CHARS:,} are read.",
            "Paste the one command that starts the engine.",
            code="lint_long",
            values={"length": f"{len(text):,}", "limit": f"{MOST_CHARS:,}"},
        )
    odd = dict.fromkeys(char for char in text if char in TYPOGRAPHIC)
    hidden = dict.fromkeys(
        f"U+{ord(char):04X}"
        for char in text
        if unicodedata.category(char) in HIDDEN and char not in "\n\r\t"
    )
    plain = "".join(
        TYPOGRAPHIC.get(char, char)
        for char in text
        if unicodedata.category(char) not in HIDDEN or char in "\n\r\t"
    )
    joined = _CONTINUED.sub(" ", plain)
    words, unclosed = _split(joined)
    return Pasted(
        text=plain,
        words=words,
        options=_options(words),
        typographic=tuple(odd),
        hidden=tuple(hidden),
        unclosed=unclosed,
    )


def _split(text: str) -> tuple[tuple[str, ...], bool]:
    try:
        return tuple(shlex.split(text, comments=True)), False
    except ValueError:
        return tuple(text.split()), True


def _options(words: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for index, word in enumerate(words):
        if not _OPTION.match(word):
            continue
        name, equals, value = word.partition("=")
        if not equals:
            after = words[index + 1] if index + 1 < len(words) else ""
            value = "" if _OPTION.match(after) else after
        found.append((name, value))
    return tuple(found)


def keys_of(text: str) -> tuple[str, ...]:
    """Return the keys of a YAML text, in order, each once."""
    return tuple(dict.fromkeys(_KEY.findall(text)))


def keywords_of(text: str) -> dict[str, str]:
    """Return what a Python text sets: argument or attribute -> its literal, "" if it is none."""
    found: dict[str, str] = {}
    for match in _KEYWORD.finditer(text):
        found.setdefault(match[1], match[2] or match[3] or match[4] or "")
    return found


def detect(pasted: Pasted) -> str:
    """Return the engine of a command: by its program, else by the options only it has; or ""."""
    programs = {word.rsplit("/", 1)[-1].removesuffix(".exe") for word in pasted.words}
    for engine, names in NAMES:
        if programs & set(names):
            return engine
    given = [name for name, _ in pasted.options]
    scores = {
        engine: sum(name.replace("_", "-") in known(engine) for name in given)
        for engine in ("vllm", "sglang", "llama.cpp", "tgi")
    }
    scores["tensorrt-llm"] = len(set(keys_of(pasted.text)) & (OPTIONS["tensorrt-llm"].current))
    transformers = OPTIONS["transformers"].current - {"tokenizer"}
    scores["transformers"] = len(set(keywords_of(pasted.text)) & transformers)
    if pasted.text.lstrip().startswith("{") or "speculative_config={" in pasted.text:
        scores["vllm"] += 1
    best = max(scores, key=lambda engine: scores[engine])
    return best if scores[best] else ""


@cache
def known(engine: str) -> frozenset[str]:
    """Return every option that an engine has or had."""
    options = OPTIONS[engine]
    return options.current | options.other_names.keys() | options.removed.keys()
