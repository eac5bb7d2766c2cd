"""A learned stop for toys: it trusts likely tokens, and more so after a good round."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from speclab.models.stops import FEATURES, LearnedStop

METHODS_WITH_STOPS = ("draft-model", "eagle-2", "eagle-3", "mtp")


def toy_stop() -> LearnedStop:
    """Return a network of two units, over log_raw and over depth and previous."""
    width = len(FEATURES)
    hidden = np.zeros((2, width))
    hidden[0, FEATURES.index("log_raw")] = 1.0
    hidden[1, FEATURES.index("depth")], hidden[1, FEATURES.index("previous")] = -0.3, 1.0
    return LearnedStop(
        means=np.zeros(width),
        scales=np.ones(width),
        hidden=hidden,
        hidden_bias=np.array([1.0, 0.0]),
        out=np.array([3.0, 1.0]),
        out_bias=0.5,
    )


def toy_stops() -> Mapping[str, LearnedStop]:
    """Return one for every method that can use one."""
    return MappingProxyType({name: toy_stop() for name in METHODS_WITH_STOPS})
