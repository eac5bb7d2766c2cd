"""Learned stops: small networks that say how likely the target is to accept a drafted token."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import ModelUnavailable
from speclab.models.catalogue import PAIRS

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "models" / "stops"
WEIGHTS = "stop.json"
FEATURES = ("log_q", "log_raw", "log_top", "entropy", "depth", "previous", "deterministic")
"""What a network reads of a drafted token, in this order.

log_q: of the law it was drawn from, 0 where it was chosen; log_raw: before processing; log_top: the
most likely token's, entropy: in nats, both before processing; depth: tokens drafted before it;
previous: accepted over drafted in the last round that drafted, 1 at first; deterministic: 1 where
it was chosen."""

ARRAYS = ("means", "scales", "hidden", "hidden_bias", "out")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedStop:
    """One hidden layer: features of a drafted token -> chance that the target accepts it.

    Attributes:
        means, scales: of the features in training [features].
        hidden: weights [units, features]. hidden_bias: [units]. out: [units]. out_bias: of the log
            odds.

    Raises:
        ModelUnavailable: for weights of other shapes, or that are not numbers.
    """

    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    hidden: NDArray[np.float64]
    hidden_bias: NDArray[np.float64]
    out: NDArray[np.float64]
    out_bias: float

    def __post_init__(self) -> None:
        units, width = len(self.out), len(FEATURES)
        shapes = {
            "means": (width,),
            "scales": (width,),
            "hidden": (units, width),
            "hidden_bias": (units,),
            "out": (units,),
            "out_bias": (),
        }
        for name, shape in shapes.items():
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.shape != shape or not np.isfinite(array).all():
                raise ModelUnavailable(
                    f"{name} of a learned stop is {array.shape} where {shape} numbers are needed."
                )

    def acceptance(self, features: Sequence[float]) -> float:
        """Return the chance that a token with these features [len(FEATURES)] is accepted."""
        scaled = (np.asarray(features, dtype=np.float64) - self.means) / self.scales
        units = np.tanh(self.hidden @ scaled + self.hidden_bias)
        return float(1.0 / (1.0 + np.exp(-(self.out @ units + self.out_bias))))

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON types."""
        arrays = {name: getattr(self, name).tolist() for name in ARRAYS}
        return {"features": list(FEATURES), **arrays, "out_bias": self.out_bias}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LearnedStop:
        """Read it back.

        Raises:
            ModelUnavailable: if it reads other features or has other shapes.
        """
        if tuple(data.get("features", ())) != FEATURES:
            raise ModelUnavailable(f"A learned stop reads {data.get('features')}, not {FEATURES}.")
        try:
            arrays = {name: np.array(data[name], dtype=np.float64) for name in ARRAYS}
            return cls(**arrays, out_bias=float(data["out_bias"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelUnavailable(f"A learned stop cannot be read: {error!r}.") from error


def read_stop(folder: Path) -> LearnedStop:
    """Return the learned stop in a folder."""
    return LearnedStop.from_data(json.loads((folder / WEIGHTS).read_text(encoding="utf-8")))


@lru_cache(maxsize=16)
def bundled_stops(pair: str) -> Mapping[str, LearnedStop]:
    """Return the learned stops that come with a pair, by method; none for pairs of one's own."""
    folder = FOLDER / pair
    if pair not in PAIRS or not folder.is_dir():
        return MappingProxyType({})
    found = sorted(path.parent for path in folder.glob(f"*/{WEIGHTS}"))
    return MappingProxyType({path.name: read_stop(path) for path in found})
