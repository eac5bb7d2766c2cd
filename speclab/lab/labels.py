"""Labels of what is timed: a method with its parameters in one word."""

from __future__ import annotations

from typing import Any

from speclab.core.errors import BadInput
from speclab.methods import make_method


def parse_label(label: str) -> tuple[str, dict[str, Any]]:
    """Split "method:name=value:name=value" into the method and its parameters.

    A value is a number, `true`, `false` or one of a choice's words.

    Raises:
        BadInput: if a parameter is not name=value.
    """
    method, *items = label.strip().split(":")
    params: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not (name and equals and text):
            raise BadInput(f"{label!r} should look like draft-model:num_speculative_tokens=6.")
        params[name] = _value(text)
    return method, params


def _value(text: str) -> float | int | bool | str:
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def gamma_of(label: str) -> int | None:
    """Return how many tokens the labelled method drafts per round; None when it drafts none."""
    method = make_method(*parse_label(label))
    return getattr(method, "num_speculative_tokens", None)


PEERS = {"draft-model": "assistant_model", "prompt-lookup": "prompt_lookup"}
"""Transformers' counterpart of a method."""


def peer_of(label: str) -> str:
    """Return the label of Transformers' counterpart; plain generate() where there is none."""
    kind = PEERS.get(parse_label(label)[0])
    return "transformers" if kind is None else f"transformers:{kind}:{gamma_of(label)}"
