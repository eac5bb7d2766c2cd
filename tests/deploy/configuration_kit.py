"""What the tests of configurations share: wishes, the frozen lists, parts of a configuration."""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from speclab.deploy.engines import ENGINES
from speclab.deploy.plans import LENGTHS, RULES, Configuration, Wish, make_wish
from speclab.methods import METHODS

KEYS = {path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("keys/*")}
TRT = "tensorrt-llm"
SHAPES: dict[str, tuple[dict[str, Any], ...]] = {
    "draft-model": (
        {},
        {"draft_temperature": 0.0},
        {"draft_temperature": 0.7, "min_confidence": 0.4, "shared_noise": True},
    ),
    "prompt-lookup": (
        {},
        {"num_speculative_tokens": 1, "max_ngram": 8, "min_ngram": 8},
        {"branches": 8, "match": "frequent"},
    ),
    "suffix": ({}, {"mode": "tree", "factor": 4.0, "offset": 8.0}),
    "draft-tree": ({}, {"depth": 8, "width": 8, "siblings": "top-k"}, {"width": 1}),
    "medusa": ({}, {"num_heads": 8, "tree_nodes": 64}, {"top_k": 1}),
    "eagle-1": ({}, {"top_k": 1, "depth": 5}),
    "eagle-2": ({}, {"top_k": 1, "draft_sampling": "drawn"}, {"depth": 1, "total_tokens": 64}),
    "eagle-3": ({}, {"top_k": 1, "draft_sampling": "drawn"}, {"depth": 12, "total_tokens": 1}),
}


@cache
def wishes() -> list[Wish]:
    """Return every method in several shapes, lengths and rules."""
    return [
        make_wish(method, params, target="T", draft="D", head="H", length=length, rule=rule)
        for method in METHODS
        for params in SHAPES.get(method, ({},))
        for length in LENGTHS
        for rule in RULES
    ]


def block(found: Configuration, kind: str) -> str:
    """Return the text of one kind."""
    return next(one.text for one in found.blocks if one.kind == kind)


def given(wish: Wish, engine: str) -> Configuration:
    """Return the configuration of an engine that takes the wish."""
    found = ENGINES[engine].configure(wish)
    assert isinstance(found, Configuration)
    return found


def dict_of(command: str) -> dict[str, str]:
    """Return the word after each option of a command."""
    words = shlex.split(command)
    pairs = zip(words, [*words[1:], ""], strict=True)
    return {word: after for word, after in pairs if word.startswith("--")}
