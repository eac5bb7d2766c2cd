"""SpecLab: understand, prove and measure speculative decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speclab.lab.runs import generate
    from speclab.models.catalogue import load_pair

__version__ = "0.1.0"
__all__ = ["__version__", "generate", "load_pair"]


def __getattr__(name: str) -> Any:
    """Import the two entry points on first use: neither torch nor models are loaded before."""
    if name == "generate":
        from speclab.lab.runs import generate

        return generate
    if name == "load_pair":
        from speclab.models.catalogue import load_pair

        return load_pair
    raise AttributeError(f"module 'speclab' has no attribute {name!r}")
