"""Labels of what is timed: a method with its parameters in one word."""

from __future__ import annotations

from typing import Any

from speclab.core.errors import BadInput
from speclab.methods import make_method


def parse_label(label: str) -> tuple[str, dict[str, Any]]:
    """Split "method:name=value:name=value" into the method and its parameters.

    Raises:
        BadInput: if a parameter is not name=value with a number.
    """
    method, *items = label.strip().split(":")
    params: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        try:
            params[name] = float(text) if "." in text else int(text)
        except ValueError:
            equals = ""
        if not equals:
            raise BadInput(f"{label!r} should look like draft-model:num_speculative_tokens=6.")
    return method, params


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
