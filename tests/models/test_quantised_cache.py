"""The 8-bit target is a law of the text: rows do not depend on how the text came in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import tiny

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.trees import TokenTree
from speclab.lab.quantspec_model import cache_bytes, shape_of
from speclab.models import quantised_cache
from speclab.models.llama import PackedLlama
from speclab.models.quantised_cache import HierarchicalCache, bytes_read, split_at
from speclab.models.quantised_target import HierarchicalHandle, with_cache
from speclab.testing import check_model

GROUP = 8
"""Width of a head of the tiny model, and so tokens of a block."""
TEXT = tuple(np.random.default_rng(3).integers(0, 40, 44).tolist())
WITHIN = 1e-9


@pytest.fixture(scope="module")
def handle() -> HierarchicalHandle:
    return with_cache(tiny(), "hierarchical")  # type: ignore[return-value]


@pytest.fixture(scope="module")
def plain(handle: HierarchicalHandle) -> np.ndarray:
    """Rows after every token of TEXT, each from a cache fed token by token [44, vocab]."""
    session, rows = handle.open(TEXT[:1]), []
    for place in range(len(TEXT)):
        rows.append(session.score().row(0).logits)
        session.commit((), TEXT[(place + 1) % len(TEXT)])
    return np.array(rows)


def outward(x: np.ndarray, up: bool) -> np.ndarray:
    half = x.astype(np.float16)
    wrong = half < x if up else half > x
    return np.where(wrong, np.nextafter(half, np.float16(np.inf if up else -np.inf)), half)


def eight_bits(x: np.ndarray, axis: int) -> np.ndarray:
    """Return numbers rounded to the nearest of 241 codes along an axis: written apart."""
    low = outward(x.min(axis, keepdims=True), False).astype(np.float64)
    scale = outward((x.max(axis, keepdims=True) - low) / 15, True).astype(np.float64) / 16
    return low + scale * np.round((x - low) / scale)


def by_hand(llama: PackedLlama, text: tuple[int, ...]) -> np.ndarray:
    """Return the rows after every token, one token and one layer at a time."""
    kept: list[tuple[list, list]] = [([], []) for _ in llama.layers]
    rows = []
    for place, token in enumerate(text):
        rotary = llama.rotary(torch.tensor([place]), place + 1)

        def attend(layer, qkv, place=place, rotary=rotary):
            query, key, value = llama.turned(qkv, rotary)
            keys, values = kept[layer]
            keys.append(key[:, 0].numpy().copy())
            values.append(value[:, 0].numpy().copy())
            whole_keys, whole_values = np.stack(keys, 1), np.stack(values, 1)
            for start in range(0, split_at(place, GROUP), GROUP):
                block = slice(start, start + GROUP)
                whole_keys[:, block] = eight_bits(whole_keys[:, block], 1)
                whole_values[:, block] = eight_bits(whole_values[:, block], 2)
            out = np.zeros(query.shape[1:])
            for head in range(llama.heads):
                own = head // (llama.heads // llama.kv_heads)
                scores = whole_keys[own] @ query[0, head].numpy() / np.sqrt(llama.head_dim)
                weights = np.exp(scores - scores.max())
                out[head] = weights / weights.sum() @ whole_values[own]
            return torch.from_numpy(out.reshape(1, -1))

        logits, _ = llama.run(torch.tensor([token]), attend, 1, ())
        rows.append(logits[0].numpy())
    return np.array(rows)


@torch.inference_mode()
def test_rows_are_those_of_an_attention_written_out_token_by_token(handle, plain) -> None:
    want = by_hand(handle.new_cache().llama, TEXT)
    assert np.abs(plain - want).max() < WITHIN
    (whole,) = handle.evaluate([TEXT], [len(TEXT)])
    assert np.abs(np.array([row.logits for row in whole]) - want).max() < WITHIN


def test_it_is_another_law_than_that_of_a_full_cache(handle, plain) -> None:
    (full,) = tiny().evaluate([TEXT], [len(TEXT)])
    gaps = [np.abs(row.raw() - _softmax(own)).max() for row, own in zip(full, plain)]
    assert max(gaps[: 2 * GROUP]) < 1e-9 < 1e-5 < max(gaps[2 * GROUP :]) < 0.05


def _softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return weights / weights.sum()


@pytest.mark.parametrize("gamma", [5, 12])
def test_rows_of_a_speculative_pass_are_plain_rows_at_every_split(handle, plain, gamma) -> None:
    """Chains that begin anywhere: before and behind a block's end, also longer than a block."""
    for length in range(1, len(TEXT) - gamma):
        session = handle.open(TEXT[:length])
        scores = session.score(TokenTree.chain(TEXT[length : length + gamma]))
        for node in range(gamma + 1):
            gap = np.abs(scores.row(node).logits - plain[length - 1 + node]).max()
            assert gap < WITHIN, f"length {length}, node {node}: {gap:.2g}"


@pytest.mark.parametrize("length", [1, 16, 23])
def test_trees_and_rollbacks_leave_a_session_as_if_freshly_opened(handle, length: int) -> None:
    taps = ("hidden[1]", "hidden[-1]") if length > 1 else ()
    check_model(handle, TEXT[:length], tolerance=WITHIN, taps=taps)


def test_any_history_gives_the_same_rows(handle, plain) -> None:
    """Random prompts, drafts right and wrong, rejections, rollbacks and bare extensions."""
    generator = np.random.default_rng(5)
    for _ in range(3):
        length = int(generator.integers(1, 20))
        session = handle.open(TEXT[:length])
        while session.length < len(TEXT) - 7:
            at = session.length
            gap = np.abs(session.score().row(0).logits - plain[at - 1]).max()
            assert gap < WITHIN, f"length {at}: {gap:.2g}"
            right = int(generator.integers(0, 6))
            wrong = generator.integers(0, 40, 2).tolist()
            session.score(TokenTree.chain([*TEXT[at : at + right], *wrong]))
            session.commit(range(right), TEXT[at + right])
            if generator.random() < 0.3:
                session.rollback(max(1, session.length - int(generator.integers(0, 14))))
            if generator.random() < 0.3:
                session.extend(TEXT[session.length : session.length + 2])


class ByRound:
    """The paper's looser place: all rows of a pass split where its first row does."""

    def __init__(self) -> None:
        self.first, self.real = 0, quantised_cache.split_attention

    def split_at(self, position: int, group: int) -> int:
        return split_at(self.first, group)

    def attention(self, cache, blocks, bits, start, *more):
        self.first = start
        return self.real(cache, blocks, bits, start, *more)


def test_a_split_that_follows_the_round_is_no_law(handle, plain, monkeypatch) -> None:
    loose = ByRound()
    monkeypatch.setattr(quantised_cache, "split_at", loose.split_at)
    monkeypatch.setattr(quantised_cache, "split_attention", loose.attention)
    gaps = []
    for length in range(1, len(TEXT) - 5):
        scores = handle.open(TEXT[:length]).score(TokenTree.chain(TEXT[length : length + 5]))
        gaps.append(
            max(np.abs(scores.row(n).logits - plain[length - 1 + n]).max() for n in range(6))
        )
    assert max(gaps) > 1e-4


def test_a_tree_deeper_than_a_block_is_refused_and_a_chain_is_not(handle) -> None:
    session = handle.open(TEXT[: 2 * GROUP])
    depth = 2 * GROUP + 2
    deep = TokenTree((1, *range(1, depth + 1)), (-1, -1, *range(1, depth)))
    with pytest.raises(BadInput, match="deep does not fit") as caught:
        session.score(deep)
    assert caught.value.code == "draft_too_deep"
    scores = session.score(TokenTree.chain(deep.tokens[1:]))
    (want,) = handle.evaluate([[*TEXT[: 2 * GROUP], *deep.tokens[1:]]], [1])
    assert np.abs(scores.row(len(deep) - 1).logits - want[0].logits).max() < WITHIN


def test_a_long_text_in_pieces_is_the_same(handle, plain, monkeypatch) -> None:
    monkeypatch.setattr(quantised_cache, "PIECE", 10)
    for keep in (1, 7, len(TEXT)):
        (rows,) = handle.evaluate([TEXT], [keep])
        found = np.array([row.logits for row in rows])
        assert found.shape[0] == keep and np.abs(found - plain[-keep:]).max() < WITHIN
    session = handle.open(TEXT[:33], ("hidden[-1]",))
    assert session.prefill_features["hidden[-1]"].shape == (32, 32)


@torch.inference_mode()
def test_bytes_read_are_counted_in_the_tensors_that_hold_the_codes(handle) -> None:
    cache = handle.new_cache()
    assert isinstance(cache, HierarchicalCache)
    shape = shape_of(handle.model.config, "tiny")
    for place, token in enumerate(TEXT):
        cache.forward(torch.tensor([token]), None, None, 1)
        for bits in (4, 8):
            counted = bytes_read(cache, cache.blocks, bits, place, 2.0)
            assert counted == cache_bytes(shape, place, bits)
    split, layers, heads = split_at(len(TEXT) - 1, GROUP), 2, 2
    codes = sum(b.bytes_read(8) for layer in cache.blocks.layers for b in layer)
    assert codes == layers * 2 * heads * split * (GROUP + 4)


def test_only_plain_llamas_have_nibbles() -> None:
    with pytest.raises(UnsupportedModel, match="no plain Llama") as caught:
        with_cache(tiny("qwen2"), "hierarchical")
    assert caught.value.code == "no_nibbles"
    handle = tiny()
    assert with_cache(handle, "full") is handle
    made = with_cache(handle, "hierarchical")
    assert made.name == "tiny-llama, 8-bit cache" and made._packed is handle._packed
    assert replace(made, provides=made.provides).name == made.name
