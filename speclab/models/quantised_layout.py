"""How a quantised cache and its numbers are laid out; needs no torch."""

from __future__ import annotations

TOP_LEVEL = 15
"""Codes of 4 bits run from 0 to 15."""

STEPS = 16
"""Steps of the 8-bit code between two levels."""

PARAMETER_BYTES = 4
"""Of one group: its scale and its low, both float16."""


def split_at(position: int, group: int) -> int:
    """Return how many first tokens the row at `position` reads quantised.

    Of the tokens before it, CF1 holds `group` and CF2 `position % group`; the row's own joins CF2.

    Example:
        >>> [split_at(t, 4) for t in (0, 7, 8, 11, 12)]
        [0, 0, 4, 4, 8]
    """
    return max(0, position // group - 1) * group
