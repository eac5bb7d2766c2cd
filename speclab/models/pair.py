"""A loaded pair: a target, its drafts and their text codec. Importing this loads no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from speclab.core.protocols import LocalText
from speclab.core.sessions import ModelHandle
from speclab.models.foreign import ForeignDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEntry:
    """One line of the catalogue.

    Attributes:
        target, draft: hub repository, or the name of bundled weights after "bundled:".
        licence: of the target's weights.
        download_bytes: what loading may fetch; 0 for bundled weights.
        memory_bytes: about how much memory both models take in the default dtype.
        more_drafts: smaller drafts, in the same notation, for methods that use two.
        dtype: default dtype on a CPU.
        chat: use the chat template by default.
        heads: folder of bundled heads trained for this target; empty: none.
        cache: how the target keeps keys and values: in full precision, or old ones in two nibbles
            (`models.quantised_cache`). It sets the target's law, and so belongs to the pair.
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
    more_drafts: tuple[str, ...] = ()
    cache: Literal["full", "hierarchical"] = "full"

    @property
    def bundled(self) -> bool:
        """Whether everything comes with the lab."""
        sources = (self.target, self.draft, *self.more_drafts)
        return all(source.startswith("bundled:") for source in sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A target, its drafts (best first) and how text becomes tokens.

    Attributes:
        codec: a `models.text.TextCodec`.
        eos_ids: ids that end the text.
        heads: trained heads of the target by name, loaded when asked for.
        foreign: the first draft in its own ids, where it has another tokenizer.
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
    foreign: ForeignDraft | None = None
    notes: tuple[str, ...] = ()

    def drafts_for(self, needs: frozenset[str]) -> tuple[ModelHandle, ...]:
        """Return the drafts that stand for this pair under a method with these needs.

        The first one, which names the pair even where it drafts nothing; two where two are used.
        """
        return self.drafts[: 2 if "second_draft" in needs else 1]
