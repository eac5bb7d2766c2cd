"""The 4-bit draft on the target's cache: a function of the text, and no trace left behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny_models import tiny

from speclab.core.errors import UnsupportedModel
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.lab.quantspec_model import layer_bytes, shape_of
from speclab.models.abilities import QUANTISED_DRAFT
from speclab.models.quantised import FourBitLlama, QuantisedPart, rows_alone
from speclab.models.quantised_target import HierarchicalHandle, with_cache

GROUP = 8
TEXT = tuple(np.random.default_rng(4).integers(0, 40, 40).tolist())
WITHIN = 1e-9


@pytest.fixture(scope="module", params=["full", "hierarchical"])
def handle(request) -> Any:
    return with_cache(tiny(), request.param)


def draft_row(part: Any, drafted: tuple[int, ...] = ()) -> np.ndarray:
    """Return the draft's logits after `drafted`, fed token by token."""
    hidden = part.extend(EMPTY_TREE)
    for count in range(1, len(drafted) + 1):
        hidden = part.extend(TokenTree.chain(drafted[:count]))
    return part.logits(hidden[-1:])[0]


def fresh_row(handle: Any, text: tuple[int, ...], drafted: tuple[int, ...]) -> np.ndarray:
    return draft_row(handle.open(text).quantised(16), drafted)


def test_after_one_token_the_draft_is_the_four_bit_network_itself(handle) -> None:
    """With nothing cached yet all keys and values are its own."""
    counts = (1, 5, 15) if isinstance(handle, HierarchicalHandle) else (1, 5, 15, 30)
    for count in counts:
        alone = rows_alone(handle, TEXT[:count], 16)[-1].logits
        found = fresh_row(handle, TEXT[:1], TEXT[1:count])
        assert np.abs(found - alone).max() < WITHIN


def test_it_is_near_the_target_and_not_the_same(handle) -> None:
    (rows,) = handle.evaluate([TEXT], [len(TEXT)])
    gaps = [
        np.abs(fresh_row(handle, TEXT[:n], ()) - rows[n - 1].logits).max() for n in range(1, 40, 4)
    ]
    spread = max(np.ptp(row.logits) for row in rows)
    assert min(gaps) > 1e-3 and np.mean(gaps) < spread / 4


def test_a_draft_leaves_the_target_as_it_was(handle) -> None:
    for length in (1, 16, 23):
        session, other = handle.open(TEXT[:length]), handle.open(TEXT[:length])
        draft_row(session.quantised(16), TEXT[length : length + 9])
        assert session.cache_rows() == other.cache_rows()
        tree = TokenTree((1, 2, 3), (-1, -1, 0))
        got, want = session.score(tree), other.score(tree)
        for node in range(4):
            assert np.abs(got.row(node).logits - want.row(node).logits).max() < 1e-12


def test_its_row_is_a_function_of_the_text(handle) -> None:
    """Over rounds with rejections, drafts longer than a block and rollbacks into other texts."""
    generator = np.random.default_rng(6)
    session = handle.open(TEXT[:3])
    part = session.quantised(16)
    for turn in range(9):
        drafted = tuple(generator.integers(0, 40, (1, 4, 11)[turn % 3]).tolist())
        text = tuple(session.tokens)
        want = fresh_row(handle, text, drafted)
        assert np.abs(draft_row(part, drafted) - want).max() < WITHIN, f"turn {turn}"
        session.score(TokenTree.chain(drafted))
        kept = int(generator.integers(0, len(drafted) + 1))
        session.commit(range(kept), int(generator.integers(0, 40)))
        if turn % 5 == 4:
            session.rollback(max(1, session.length - 9))
            session.extend(generator.integers(0, 40, 6).tolist())
            session.score()
    assert session.length > 3 * GROUP


def test_blocks_kept_over_a_rollback_would_be_seen(monkeypatch) -> None:
    """On a full cache the 4-bit copy must follow the text."""
    handle = with_cache(tiny(), "full")
    session = handle.open(TEXT[:30])
    right, wrong = session.quantised(16), session.quantised(16)
    monkeypatch.setattr(wrong.blocks, "drop_from", lambda position, layer=None: None)
    draft_row(right), draft_row(wrong)
    session.rollback(4)
    session.extend(TEXT[10:36])
    session.score()
    fresh = fresh_row(handle, tuple(session.tokens), ())
    assert np.abs(draft_row(right) - fresh).max() < WITHIN
    assert np.abs(draft_row(wrong) - fresh).max() > 1e-6


def test_draft_and_target_share_one_cache_or_the_draft_has_a_copy_of_its_own() -> None:
    eight, full = with_cache(tiny(), "hierarchical").open(TEXT), tiny().open(TEXT)
    shared, own = eight.quantised(16), full.quantised(16)
    draft_row(shared), draft_row(own)
    assert isinstance(shared, QuantisedPart) and shared.blocks is eight._cache.blocks
    assert shared.blocks.lower and not own.blocks.lower
    split = len(TEXT) // GROUP * GROUP - GROUP
    assert own.blocks.bytes_read(4, split) == shared.blocks.bytes_read(4, split)
    assert shared.blocks.bytes_read(8, split) > shared.blocks.bytes_read(4, split)


def test_weights_are_rounded_once_per_size_and_counted() -> None:
    handle = tiny()
    first, again = handle.open(TEXT[:2]).quantised(16), handle.open(TEXT[:2]).quantised(16)
    assert first._four_bit is again._four_bit
    other = handle.open(TEXT[:2]).quantised(32)
    assert other._four_bit is not first._four_bit and handle._four_bit == [other._four_bit]
    shape = shape_of(handle.model.config, "tiny")
    for part in (first, other):
        made: FourBitLlama = part._four_bit
        assert made.layer_bytes == layer_bytes(shape, made.group_size)
        assert made.llama.head is handle._packed[0].head
    assert first._four_bit.layer_bytes > other._four_bit.layer_bytes


def test_whatever_is_no_plain_llama_has_no_such_draft() -> None:
    assert QUANTISED_DRAFT in tiny().provides and QUANTISED_DRAFT not in tiny("qwen2").provides
    with pytest.raises(UnsupportedModel, match="alone"):
        tiny("qwen2").open(TEXT[:3]).quantised(16)
