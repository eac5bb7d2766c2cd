"""Text that a small target writes itself: what a head will read when it drafts.

**Source:** EAGLE-3 2503.01840, section 4 (answers written by the target replace the text's own).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

PROMPT_TOKENS = 24
BATCH_ROWS = 64


@torch.inference_mode()
def write_rows(
    model: Any, prompts: Tensor, length: int, temperature: float, generator: torch.Generator
) -> Tensor:
    """Continue prompts of equal length, past every end of text, to rows of `length` tokens.

    Args:
        model: a causal LM. prompts: int64 [rows, tokens]. length: of the rows.
        temperature: 0 for the most likely token.
        generator: source of randomness.

    Returns:
        int64 [rows, length], prompts included.
    """
    rows, cache, fed = prompts, None, prompts
    while rows.shape[1] < length:
        output = model(input_ids=fed, cache=cache, use_cache=True)
        cache, logits = output.cache, output.logits[:, -1].float()
        if temperature == 0:
            fed = logits.argmax(-1, keepdim=True)
        else:
            law = (logits / temperature).softmax(-1)
            fed = torch.multinomial(law, 1, generator=generator)
        rows = torch.cat((rows, fed), 1)
    return rows


def written_rows(
    model: Any, stream: Tensor, starts: np.ndarray, count: int, length: int, path: Path
) -> Tensor:
    """Return rows that the target writes after the beginnings of documents; kept in a file.

    Half of them are greedy, half are drawn at temperature 1.

    Args:
        model: the target. stream: int64 [tokens] of the corpus. starts: of its documents.
        count: rows. length: of a row. path: of the file, which is read if it is there.

    Returns:
        int64 [count, length].
    """
    if path.exists():
        rows = torch.from_numpy(np.load(path).astype(np.int64))
        if rows.shape == (count, length):
            return rows
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    inside = starts[starts < len(stream) - PROMPT_TOKENS]
    chosen = rng.choice(inside, count, replace=False)
    prompts = torch.stack([stream[start : start + PROMPT_TOKENS] for start in chosen])
    parts = []
    for number, batch in enumerate(prompts.split(BATCH_ROWS)):
        parts.append(write_rows(model, batch, length, float(number % 2), generator))
    rows = torch.cat(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, rows.numpy().astype(np.int32))
    return rows
