"""The temperature of whatever drafts: one parameter, explained by each kind of drafter."""

from __future__ import annotations

from speclab.core.protocols import LocalText, Param


def draft_temperature_param(help: LocalText) -> Param:
    """Return the parameter T_q, empty for the target's own temperature."""
    return Param(
        name="draft_temperature",
        symbol="T_q",
        kind="optional_float",
        default=None,
        low=0.0,
        high=2.0,
        step=0.05,
        help=help,
    )
