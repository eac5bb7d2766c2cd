"""A model with token ids of its own: which of them stand for which of the target's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class VocabMap:
    """Maps a model's own token ids to the target's.

    Attributes:
        to_target: target id of each own id [own vocab]; -1 for ids that are never proposed.
        to_own: own id of each target id [target vocab].
        proposed: own ids that may be proposed; proposed_targets: their target ids.
    """

    to_target: NDArray[np.int64]
    to_own: NDArray[np.int64]
    proposed: NDArray[np.int64]
    proposed_targets: NDArray[np.int64]

    @classmethod
    def build(cls, to_target: NDArray, target_vocab: int, unknown: int) -> VocabMap:
        """Invert `to_target`; target ids without an own id become `unknown`."""
        to_target = np.asarray(to_target, dtype=np.int64)
        to_own = np.full(target_vocab, unknown, dtype=np.int64)
        known = np.flatnonzero(to_target >= 0)
        to_own[to_target[known]] = known
        return cls(to_target, to_own, known, to_target[known])
