"""Labels of what is timed: a method with its parameters in one word."""

from __future__ import annotations

from typing import Any

from speclab.core.errors import BadInput


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
