"""Positions of multi-token prediction: rotary embedding that nothing scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speclab.core.errors import ModelUnavailable


def plain_rope(own: Mapping[str, Any], config: Any, *, whole: bool = False) -> tuple[float, float]:
    """Return the base of the frequencies and the part of each attention head that turns.

    Args:
        own: configuration of the module; what it leaves out is the target's.
        config: of the target.
        whole: whether only heads that turn as a whole are read.

    Raises:
        ModelUnavailable: if the positions are scaled, differ from layer to layer, or turn a part
            of each head where `whole` is asked for.
    """

    def setting(name: str, default: Any = None) -> Any:
        found = own.get(name)
        found = getattr(config, name, None) if found is None else found
        return default if found is None else found

    rope = dict(own.get("rope_parameters") or own.get("rope_scaling") or {})
    if not rope:
        mine = {name: own[name] for name in ("rope_theta", "partial_rotary_factor") if name in own}
        rope = {**(getattr(config, "rope_parameters", None) or {}), **mine}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if any(isinstance(value, Mapping) for value in rope.values()):
        kind = "one per kind of layer"
    part = float(rope.get("partial_rotary_factor") or setting("partial_rotary_factor", 1.0))
    if whole and part != 1.0:
        kind = "partial"
    if kind != "default":
        raise ModelUnavailable(
            f"The target's rotary embedding is of the kind {kind!r}; only the plain one is "
            "read for multi-token prediction.",
            "Choose a target without scaled positions.",
            code="mtp_rope",
            values={"kind": kind},
        )
    theta = rope.get("rope_theta") or setting("rope_theta", 10_000.0)
    return float(theta), part
