"""Which kind each value of a head's `config.json` and manifest must be, before anybody reads it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Kind = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words, and whether it is."""


def wrong_value(said: Any, kinds: Mapping[str, Kind]) -> str | None:
    """Return what is wrong with the first value of another kind; None if all fit.

    Args:
        said: from JSON; keys that `kinds` does not know, and nulls, may hold anything.
        kinds: by key.
    """
    if not isinstance(said, dict):
        return f"an object was expected in place of {said!r}"
    for key, (what, fits) in kinds.items():
        if said.get(key) is not None and not fits(said[key]):
            return f"{key} must be {what}, not {said[key]!r}"
    return None


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _are(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, value))


COUNT: Kind = ("a whole number above 0", _is_count)
NUMBER: Kind = ("a number above 0", _is_number)
OBJECT: Kind = ("an object", lambda value: isinstance(value, dict))
PLACES: Kind = ("a list of layers", lambda value: _are(value, lambda each: type(each) is int))
SHARES: Kind = ("a list of shares", lambda value: _are(value, _is_share))
TABLE: Kind = ("lists of shares", lambda value: _are(value, lambda row: _are(row, _is_share)))
ORDER: Kind = (
    "embedding-first or state-first",
    lambda value: value in ("embedding-first", "state-first"),
)
STAGE: Kind = ("after or before", lambda value: value in ("after", "before"))
FILES: Kind = (
    "an object of objects",
    lambda value: isinstance(value, dict) and _are([*value.values()], OBJECT[1]),
)

CONFIG_KINDS: dict[str, Kind] = {
    "hidden_size": COUNT,
    "intermediate_size": COUNT,
    "num_attention_heads": COUNT,
    "num_key_value_heads": COUNT,
    "head_dim": COUNT,
    "vocab_size": COUNT,
    "draft_vocab_size": COUNT,
    "max_position_embeddings": COUNT,
    "rms_norm_eps": NUMBER,
    "rope_theta": NUMBER,
    "partial_rotary_factor": NUMBER,
    "rope_scaling": OBJECT,
    "rope_parameters": OBJECT,
    "eagle_aux_hidden_state_layer_ids": PLACES,
    "exit_layer": COUNT,
}
MANIFEST_KINDS: dict[str, Kind] = {
    "concat": ORDER,
    "norm_in": STAGE,
    "norm_recycle": STAGE,
    "files": FILES,
    "rank_acceptance": SHARES,
    "accuracies": TABLE,
}
