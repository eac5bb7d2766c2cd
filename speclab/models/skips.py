"""Which layers of a target draft: where early exit may stop, and sublayers found best to skip."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.models.catalogue import PAIRS

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "models" / "skips"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipSet:
    """Sublayers left out of a draft.

    Attributes:
        layers: of the whole target.
        attention, mlp: layers whose attention, or whose MLP, is left out, numbered from 0.

    Raises:
        ModelUnavailable: for layers that are not there.
    """

    layers: int
    attention: frozenset[int]
    mlp: frozenset[int]

    def __post_init__(self) -> None:
        for layer in (*self.attention, *self.mlp):
            if not 0 <= layer < self.layers:
                raise ModelUnavailable(
                    f"A skip set names layer {layer} of a target with {self.layers}."
                )

    @property
    def kept(self) -> tuple[float, ...]:
        """Per sublayer 1 if it drafts, else 0; attention before MLP [2 layers]."""
        return tuple(
            float(layer not in skipped)
            for layer in range(self.layers)
            for skipped in (self.attention, self.mlp)
        )

    @property
    def text(self) -> str:
        """Return it as "2a 3m": attention of layer 2, MLP of layer 3."""
        names = sorted([(n, "a") for n in self.attention] + [(n, "m") for n in self.mlp])
        return " ".join(f"{layer}{kind}" for layer, kind in names)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> SkipSet:
        """Read it from JSON types.

        Raises:
            ModelUnavailable: if it is not one.
        """
        try:
            sets = {name: frozenset(map(int, data[name])) for name in ("attention", "mlp")}
            return cls(layers=int(data["layers"]), **sets)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelUnavailable(f"A skip set cannot be read: {error!r}.") from error


@lru_cache(maxsize=16)
def bundled_skips(pair: str) -> SkipSet | None:
    """Return the sublayers that a search found best to skip for a pair; None: nobody searched."""
    path = FOLDER / f"{pair}.json"
    if pair not in PAIRS or not path.is_file():
        return None
    return SkipSet.from_data(json.loads(path.read_text(encoding="utf-8")))


def check_exit(exit_layer: int, num_layers: int, name: str) -> None:
    """Refuse a layer after which nothing is left, or nothing was done.

    Raises:
        BadInput: naming the model and its layers.
    """
    last = num_layers - 1
    if not 1 <= exit_layer <= last:
        raise BadInput(
            f"{name} has {num_layers} layers: a draft may exit after 1 to {last}, not "
            f"{exit_layer}.",
            "Choose another exit_layer.",
            code="exit_layer",
            values={"model": name, "layers": num_layers, "last": last, "value": exit_layer},
        )


def check_skips(attention: Collection[int], mlp: Collection[int], layers: int, name: str) -> None:
    """Refuse sublayers that are not there.

    Raises:
        BadInput: naming the model and the layer.
    """
    odd = [layer for layer in (*attention, *mlp) if not 0 <= layer < layers]
    if odd:
        raise BadInput(
            f"{name} has {layers} layers, numbered from 0; there is no layer {odd[0]} to skip.",
            "Search again: python -m speclab search-layers.",
            code="skipped_layer",
            values={"model": name, "layers": layers, "value": odd[0]},
        )
