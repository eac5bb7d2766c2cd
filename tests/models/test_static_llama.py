"""Passes of fixed shape are the packed Llama's: same logits, features and cache."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tiny_models import tiny

from speclab.core.trees import TokenTree
from speclab.models import static_llama
from speclab.models.attention import SHORT_PASS
from speclab.models.llama import PackedCache, PackedLlama
from speclab.models.static_llama import SMALLEST, WIDTHS, Buffer, StaticCache, StaticPass

TAPS = ("hidden[0]", "hidden[-1]")
TREE = TokenTree((1, 2, 3, 4, 5), (-1, -1, 0, 0, 1))
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def both(device: str, spare: list[Buffer]) -> tuple[PackedCache, StaticCache]:
    handle = tiny(dtype=torch.float64)
    handle.model.to(device)
    llama = PackedLlama(handle.model)
    return PackedCache(llama), StaticCache(llama, spare)


def compare(caches, ids, seen=None, positions=None) -> None:
    device = caches[0].llama.device
    (want, wanted), (got, features) = (
        cache.forward(ids.to(device), seen, positions, len(ids), TAPS) for cache in caches
    )
    assert (want - got).abs().max() < 1e-10
    assert all((wanted[tap] - features[tap]).abs().max() < 1e-10 for tap in TAPS)
    assert caches[0].length == caches[1].length


def tree_pass(caches) -> None:
    cached = caches[0].length
    seen = np.ones((len(TREE), cached + len(TREE)), dtype=bool)
    seen[:, cached:] = TREE.ancestor_mask()[1:, 1:]
    offsets = [cached - 1 + depth for depth in TREE.position_offsets]
    compare(caches, torch.tensor(TREE.tokens), seen, offsets)
    for cache in caches:
        cache.gather(cached, (0, 3))


@torch.inference_mode()
@pytest.mark.parametrize("device", DEVICES)
def test_every_pass_is_the_packed_one(device: str) -> None:
    caches = both(device, [])
    ids = torch.randint(0, 40, (2 * SMALLEST,), generator=torch.Generator().manual_seed(0))
    compare(caches, ids[: SHORT_PASS + 20])
    for _ in range(2):  # the first time compares, the second one uses the fixed pass
        compare(caches, ids[:1])
        compare(caches, ids[3:8])
        tree_pass(caches)
        for cache in caches:
            cache.crop(3)
    while caches[0].length < SMALLEST + 40:
        compare(caches, ids[:SHORT_PASS])
    used = caches[1]._mine[0].passes
    assert used and all(each is not None for each in used.values())
    assert all(each.graph is not None for each in used.values() if device == "cuda")


@torch.inference_mode()
def test_a_buffer_is_handed_on_and_what_it_held_is_not_seen() -> None:
    spare: list[Buffer] = []
    packed, first = both("cpu", spare)
    first.forward(torch.arange(40) % 40, None, None, 1)
    first.forward(torch.tensor([7]), None, None, 1)
    held = first._held
    del first
    gc.collect()
    assert len(spare) == 1
    second = StaticCache(packed.llama, spare)
    assert second._held is held and not spare and second.length == 0
    for length in (1, 4, 1, 4, 30):
        compare((packed, second), torch.arange(length))


@torch.inference_mode()
@pytest.mark.parametrize("prompt", [0, 40, SMALLEST - SHORT_PASS - 1, SMALLEST + 3])
def test_prepared_passes_are_all_made_and_leave_what_is_cached(prompt: int) -> None:
    caches = both("cpu", [])
    ids = torch.randint(0, 40, (SMALLEST + 80,), generator=torch.Generator().manual_seed(0))
    if prompt:
        compare(caches, ids[:prompt])
    caches[1].prepare(TAPS)
    assert caches[0].length == caches[1].length == prompt
    passes = caches[1]._mine[0].passes
    assert set(passes) == {(width, TAPS) for width in WIDTHS} and all(passes.values())
    for width in (1, 3, 8, 20, SHORT_PASS):
        compare(caches, ids[prompt : prompt + width])
        tree_pass(caches)
        for cache in caches:
            cache.crop(cache.length - prompt)
    assert caches[1]._mine[0].passes is passes and len(passes) == len(WIDTHS)


@torch.inference_mode()
def test_on_a_gpu_nothing_is_captured_after_the_first_short_pass(monkeypatch) -> None:
    captured: list[int] = []
    monkeypatch.setattr(StaticPass, "capture", lambda self: captured.append(self.width))
    for gpu in (False, True):
        monkeypatch.setattr(static_llama, "is_gpu", lambda device, gpu=gpu: gpu)
        caches = both("cpu", [])
        compare(caches, torch.tensor([1, 2]))
        assert captured == (list(WIDTHS) if gpu else [])
    for width in (1, 3, 8, 20, SHORT_PASS):
        compare(caches, torch.arange(width))
    assert captured == list(WIDTHS)


class SlowList(list):
    """Takes its time to be looked through, so that two threads look at once."""

    def __iter__(self):
        for each in list.__iter__(self):
            time.sleep(0.05)
            yield each


def test_two_sessions_that_begin_at_once_never_get_the_same_buffer() -> None:
    packed, first = both("cpu", spare := SlowList())
    del first
    gc.collect()
    assert len(spare) == 1
    with ThreadPoolExecutor(2) as pool:
        caches = list(pool.map(lambda _: StaticCache(packed.llama, spare), range(2)))
    assert caches[0]._mine[0] is not caches[1]._mine[0] and not spare


@torch.inference_mode()
def test_a_pass_that_differs_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = StaticPass.compute
    monkeypatch.setattr(StaticPass, "compute", lambda self: (right(self)[0] + 0.01, right(self)[1]))
    caches = both("cpu", [])
    for _ in range(3):
        compare(caches, torch.tensor([1, 2, 3]))
    assert list(caches[1]._mine[0].passes.values()) == [None]
