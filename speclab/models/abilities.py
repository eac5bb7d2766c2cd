"""What a loaded causal LM can do, found out by trying: rollback, and attention to a tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from speclab.core.errors import UnsupportedModel
from speclab.core.trees import TokenTree
from speclab.models.caches import TransformersCache
from speclab.models.llama import can_be_packed

RECURRENT_LAYERS = ("linear", "mamba", "recurrent", "conv", "ssm", "rwkv")
ALWAYS = frozenset({"hidden", "rollback"})
TREE_MASK = "tree_mask"
"""A tree is one pass: the model takes a mask of who attends to whom, and positions."""

PATH_BATCH = "path_batch"
"""A tree is a batch of its root-to-leaf paths."""

LAYERWISE = frozenset({"early_exit", "skip_layers"})
"""Some layers can be run alone, over the same cache: plain Llamas of at least two layers."""

QUANTISED_DRAFT = "quantised_draft"
"""Its weights and its cache can be read at 4 bits: plain Llamas."""

PROBE_PREFIX = (1, 2, 3)
PROBE_TREE = TokenTree((3, 1, 2, 0, 1, 3, 0, 2, 3, 1, 0, 2), (-1,) * 10 + (0, 10))
"""Ten siblings and, after all of them, a child of the first and its child: a node that saw others,
or stood at the place of its index, would not go unnoticed."""

AGAIN = (0, 11, 4)
"""Nodes whose paths are run through one cache, one after another."""

NARROW = 0.02
WITHIN = {torch.float64: 1e-5, torch.float32: 1e-3}
"""Largest difference of logits, as a share of their range, that is rounding; else NARROW."""

TIMES_NOISE = 4.0


def context_limit(config: Any) -> int:
    """Return the longest sequence a session can hold exactly, in tokens.

    A sliding window bounds it: up to the window, sliding and full attention are the same law, and
    the cache can be rolled back.
    """
    limit = int(getattr(config, "max_position_embeddings", 0) or 1_000_000)
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ()
    uses_window = getattr(config, "use_sliding_window", True) and window
    if types:
        uses_window = window and any("sliding" in kind for kind in types)
    return min(limit, int(window)) if uses_window else limit


def refuse_recurrent(model: Any, name: str) -> None:
    """Refuse models whose state cannot be rolled back.

    Raises:
        UnsupportedModel: naming the model and, where it is known, the layer kind.
    """
    config = model.config
    kinds = [str(kind) for kind in getattr(config, "layer_types", None) or ()]
    kinds.append(str(getattr(config, "model_type", "")))
    recurrent = [k for k in kinds if any(word in k.lower() for word in RECURRENT_LAYERS)]
    if recurrent or getattr(model, "_is_stateful", False):
        what = f"has {recurrent[0]!r} layers, whose state" if recurrent else "keeps a state that"
        raise UnsupportedModel(
            f"{name} {what} cannot be rolled back after a rejection.",
            "Choose a model with attention layers only.",
            code="recurrent",
            values={"model": name},
        )


@torch.inference_mode()
def abilities(model: Any, name: str) -> frozenset[str]:
    """Return what `model` provides: `TREE_MASK` or `PATH_BATCH`, and `ALWAYS`.

    A few tokens are run through the cache, cut off and run again, and must say what they say
    without a cache, in a padded batch. Then a small tree is run with a mask. Models that ignore
    positions or a mask of four dimensions, or raise, get their trees as batches. A plain Llama has
    a pass of its own here, layer by layer, and is not asked.

    Raises:
        UnsupportedModel: if the model cannot be run, or does not say with its cache what it says
            without.
    """
    if can_be_packed(model):
        alone = LAYERWISE if model.config.num_hidden_layers > 1 else frozenset()
        return ALWAYS | {TREE_MASK, QUANTISED_DRAFT} | alone
    try:
        wanted = _without_cache(model)
    except (RuntimeError, TypeError, ValueError) as error:
        raise _cannot_run(model, name, error) from error
    size = float(wanted.max() - wanted.min())
    noise = _gap(model, wanted[list(AGAIN)], _rolled_back)
    if not noise <= size * WITHIN.get(model.dtype, 4 * NARROW):
        raise UnsupportedModel(
            f"{name} does not say with its cache what it says without: {noise:.2g} apart.",
            "Choose a decoder with a cache of keys and values.",
            code="cache_differs",
            values={"model": name, "gap": f"{noise:.2g}"},
        )
    within = max(TIMES_NOISE * noise, size * WITHIN.get(model.dtype, NARROW))
    return ALWAYS | {TREE_MASK if _gap(model, wanted, _masked) <= within else PATH_BATCH}


def _cannot_run(model: Any, name: str, error: Exception) -> Exception:
    if isinstance(error, torch.OutOfMemoryError):
        return error
    dtype = str(model.dtype).removeprefix("torch.")
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return UnsupportedModel(
        f"{name} cannot be run in {dtype}: {reason}",
        "Choose another dtype or another model.",
        code="cannot_run",
        values={"model": name, "dtype": dtype, "reason": reason},
    )


def _ids(model: Any, tokens: Sequence[int]) -> Tensor:
    vocab = model.get_input_embeddings().weight.shape[0]
    return torch.tensor([token % vocab for token in tokens], device=model.device)


def _without_cache(model: Any) -> Tensor:
    """Return the logits after every node, each path a text of its own [nodes, vocab]."""
    paths = [PROBE_TREE.path_tokens(node) for node in range(len(PROBE_TREE))]
    longest = PROBE_TREE.max_depth
    texts = [(*PROBE_PREFIX, *path, *(0,) * (longest - len(path))) for path in paths]
    ids = torch.stack([_ids(model, text) for text in texts])
    logits = model(input_ids=ids, use_cache=False).logits
    ends = [len(PROBE_PREFIX) + len(path) - 1 for path in paths]
    return logits[range(len(paths)), ends].double()


def _gap(
    model: Any, wanted: Tensor, run: Callable[[Any, TransformersCache], list[Tensor] | Tensor]
) -> float:
    """Return the largest difference from `wanted`; infinite if the model refuses."""
    cache = TransformersCache(model)
    try:
        cache.forward(_ids(model, PROBE_PREFIX), None, None, 1)
        found = torch.stack(list(run(model, cache))).double()
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever a model raises here, it cannot do it
        return float("inf")
    gap = float((found - wanted).abs().max())
    return gap if math.isfinite(gap) else float("inf")


def _rolled_back(model: Any, cache: TransformersCache) -> list[Tensor]:
    """Return the logits after the nodes of `AGAIN`, path by path; each is cut off again."""
    rows = []
    for node in AGAIN:
        path = PROBE_TREE.path_tokens(node)
        logits, _ = cache.forward(_ids(model, path), None, None, 1)
        rows.append(logits[-1])
        cache.crop(len(path))
    return rows


def _masked(model: Any, cache: TransformersCache) -> Tensor:
    """Return the logits after every node from one pass over the tree."""
    count, start = len(PROBE_TREE), len(PROBE_PREFIX)
    before = np.ones((count, start), dtype=bool)
    seen = np.concatenate((before, PROBE_TREE.ancestor_mask()[1:, 1:]), 1)
    positions = [start - 1 + depth for depth in PROBE_TREE.position_offsets]
    return cache.forward(_ids(model, PROBE_TREE.tokens), seen, positions, count)[0]
