"""After every round the features are those of a fresh pass, and so is the next proposal."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_heads import HEAD_METHODS, TARGET_SHAPE, check_rounds, check_taps, random_heads
from tiny_models import tiny
from tree_kit import ByPaths, Unpacked, variant

from speclab.core.laws import Sampling
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.models.transformer import TransformerHandle

SESSIONS = {
    "packed float64": (TransformerHandle, torch.float64, 1e-9),
    "packed float32": (TransformerHandle, torch.float32, 1e-4),
    "transformers float64": (Unpacked, torch.float64, 1e-9),
    "paths float64": (ByPaths, torch.float64, 1e-9),
    "paths float32": (ByPaths, torch.float32, 1e-4),
}
PASSENGERS = TokenTree((5, 6, 7, 8), (-1, -1, 0, 2))


@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize("name", HEAD_METHODS)
def test_features_and_proposals_after_commits(name: str, session: str, tmp_path: Path) -> None:
    """With and without a second tree in the pass."""
    kind, dtype, within = SESSIONS[session]
    target = variant(kind, tiny(seed=4, dtype=dtype, **TARGET_SHAPE))
    heads, method = random_heads(target, tmp_path), HEAD_METHODS[name]()
    for passengers in (EMPTY_TREE, PASSENGERS):
        accepted = check_rounds(
            target,
            method,
            heads,
            within=within,
            passengers=passengers,
            sampling=Sampling(temperature=0.8),
        )
        assert {0, 1} < accepted


def test_every_tap_is_read_in_its_own_layer(tmp_path: Path) -> None:
    """EAGLE-3's three features are three layers, not one."""
    target = tiny(seed=4, **TARGET_SHAPE)
    heads = random_heads(target, tmp_path)
    assert heads["eagle3"].taps == ("hidden[2]", "hidden[4]", "hidden[5]")
    assert heads["eagle1"].taps == ("hidden[-1]",)
    for kind in (TransformerHandle, Unpacked):
        taps = (*heads["eagle3"].taps, "hidden[-1]", "hidden[0]", "hidden[7]", "hidden[8]")
        check_taps(variant(kind, target), [3, 1, 4, 1, 5, 9], taps)
