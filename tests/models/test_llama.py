"""The packed Llama is the model itself: same logits, features and cache as Transformers' pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import tiny, tiny_model

from speclab.core.trees import TokenTree
from speclab.models.attention import SHORT_PASS
from speclab.models.caches import TransformersCache
from speclab.models.llama import PackedCache, can_be_packed
from speclab.models.transformer import TransformerHandle

TAPS = ("hidden[0]", "hidden[1]", "hidden[-1]")
TREE = TokenTree((1, 2, 3, 4, 5), (-1, -1, 0, 0, 1))


def both(**more) -> tuple[TransformersCache, PackedCache]:
    handle = tiny(**more)
    packed = handle.new_cache()
    assert isinstance(packed, PackedCache)
    return TransformersCache(handle.model), packed


def tree_mask(cached: int) -> np.ndarray:
    seen = np.ones((len(TREE), cached + len(TREE)), dtype=bool)
    seen[:, cached:] = TREE.ancestor_mask()[1:, 1:]
    return seen


@torch.inference_mode()
@pytest.mark.parametrize("prompt", [5, SHORT_PASS + 20])
@pytest.mark.parametrize("dtype, within", [(torch.float64, 1e-12), (torch.float32, 1e-4)])
def test_every_pass_agrees_with_transformers(prompt: int, dtype: torch.dtype, within: float):
    reference, packed = both(dtype=dtype)
    ids = torch.randint(0, 40, (150,), generator=torch.Generator().manual_seed(0))

    def compare(part: torch.Tensor, seen=None, positions=None) -> None:
        want, wanted = reference.forward(part, seen, positions, len(part), TAPS)
        got, features = packed.forward(part, seen, positions, len(part), TAPS)
        assert (want - got).abs().max() <= within
        for tap in TAPS:
            assert (wanted[tap] - features[tap]).abs().max() <= within
        assert reference.length == packed.length

    compare(ids[:prompt])
    compare(ids[prompt : prompt + 1])
    compare(ids[prompt + 1 : prompt + 7])
    cached = packed.length
    offsets = [cached - 1 + depth for depth in TREE.position_offsets]
    compare(torch.tensor(TREE.tokens), tree_mask(cached), offsets)
    for cache in (reference, packed):
        cache.gather(cached, (0, 3))
    compare(ids[60:61])
    for cache in (reference, packed):
        cache.crop(2)
    compare(ids[61 : 61 + SHORT_PASS + 5])


@torch.inference_mode()
def test_the_cache_grows_and_keeps_what_it_held() -> None:
    handle = tiny()
    small, large = PackedCache(handle.new_cache().llama, 4), handle.new_cache()
    for part in (torch.arange(3), torch.arange(3, 9), torch.arange(9, 10), torch.arange(10, 39)):
        one, _ = small.forward(part, None, None, 1)
        two, _ = large.forward(part, None, None, 1)
        assert torch.equal(one, two)


def test_packing_takes_no_memory_and_leaves_the_model_as_it_was() -> None:
    model = tiny_model()
    ids = torch.arange(10)[None]
    with torch.inference_mode():
        before, names = model(ids).logits, model.state_dict().keys()
        TransformerHandle(model=model, name="tiny", vocab_size=40).open([1, 2])
        assert torch.equal(model(ids).logits, before) and model.state_dict().keys() == names
    attention = model.model.layers[0].self_attn
    storages = {m.weight.untyped_storage().data_ptr() for m in (attention.q_proj, attention.v_proj)}
    assert len(storages) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "qwen2"},
        {"attention": "eager"},
        {"attention_bias": True},
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
    ],
    ids=str,
)
def test_whatever_is_no_plain_llama_runs_in_transformers(more: dict) -> None:
    assert not can_be_packed(tiny_model(**more))


def test_hooks_and_replaced_maps_are_respected() -> None:
    hooked, replaced = tiny_model(), tiny_model()
    hooked.model.layers[0].register_forward_hook(lambda *_: None)

    class Scaled(torch.nn.Linear):
        pass

    replaced.model.layers[0].mlp.up_proj = Scaled(32, 48, bias=False, dtype=torch.float64)
    assert not can_be_packed(hooked) and not can_be_packed(replaced)
    assert not can_be_packed(tiny_model().train())
