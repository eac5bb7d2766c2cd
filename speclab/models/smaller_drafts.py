"""Further drafts of a pair: smaller models that share the target's tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from speclab.core.errors import PairMismatch
from speclab.models.loading import (
    load_model,
    other_tokenizer,
    read_vocab_map,
)
from speclab.models.transformer import TransformerHandle
from speclab.models.weight_files import Weights


def load_smaller_draft(
    at: Weights, target: Any, tokenizer: Any, target_at: Weights, place: tuple[str, str]
) -> TransformerHandle:
    """Load a further draft of a pair, one that shares the target's tokens.

    Args:
        at: its files. target: the target's handle. tokenizer: the target's.
        target_at: the target's files. place: dtype and device.

    Raises:
        PairMismatch: if its tokens are others.
    """
    _, difference = other_tokenizer(tokenizer, target_at, at)
    if difference:
        raise PairMismatch(
            f"The second draft {at.source} has another tokenizer: {difference}",
            "Name one with the target's tokenizer.",
            code="second_draft_tokens",
            values={"draft": at.source, "why": difference},
        )
    model = load_model(at, *place)
    return TransformerHandle(
        model=model,
        name=at.name,
        vocab_size=target.vocab_size,
        vocab_map=read_vocab_map(Path(at.path), target.vocab_size) if at.bundled else None,
        source=at.source_of(model),
    )
