"""What tests of figures share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def colours(value: Any) -> Iterator[str]:
    """Yield every colour of a figure."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key.lower().endswith("color") and isinstance(each, str):
                yield each
            yield from colours(each)
    elif isinstance(value, list):
        for each in value:
            yield from colours(each)
