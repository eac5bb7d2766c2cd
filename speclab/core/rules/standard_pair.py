"""The pair of laws on which every rule's bias is stated."""

from __future__ import annotations

import numpy as np

from speclab.core.laws import Law


def _fixed(*probs: float) -> Law:
    law = np.array(probs)
    law.flags.writeable = False
    return law


STANDARD_P = _fixed(0.5, 0.3, 0.15, 0.05)
"""The target's law."""

STANDARD_Q = _fixed(0.2, 0.6, 0.1, 0.1)
"""The draft's law."""
