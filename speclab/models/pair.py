"""A loaded pair: a target, its drafts and their text codec. Importing this loads no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from speclab.core.protocols import LocalText, ModelHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEntry:
    """One line of the catalogue.

    Attributes:
        target, draft: hub repository, or the name of bundled weights after "bundled:".
        licence: of the target's weights.
        download_bytes: what loading may fetch; 0 for bundled weights.
        memory_bytes: about how much memory both models take in the default dtype.
        dtype: default dtype on a CPU.
        chat: use the chat template by default.
        heads: folder of bundled heads trained for this target; empty: none.
    """

    name: str
    title: LocalText
    about: LocalText
    target: str
    draft: str
    licence: str
    download_bytes: int
    memory_bytes: int
    dtype: str = "float32"
    chat: bool = False
    heads: str = ""

    @property
    def bundled(self) -> bool:
        """Whether everything comes with the lab."""
        return self.target.startswith("bundled:") and self.draft.startswith("bundled:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A target, its drafts (best first) and how text becomes tokens.

    Attributes:
        codec: a `models.text.TextCodec`.
        eos_ids: ids that end the text.
        heads: trained heads of the target by name, loaded when asked for.
        notes: sentences about where the weights came from.
    """

    name: str
    target: ModelHandle
    drafts: tuple[ModelHandle, ...]
    codec: Any
    eos_ids: frozenset[int]
    device: str = "cpu"
    dtype: str = "float32"
    heads: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
