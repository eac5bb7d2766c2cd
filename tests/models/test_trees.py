"""One pass over a tree against a batch of its paths: 200 random trees, several kinds of model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny, tiny_model
from tree_kit import (
    ByPaths,
    Unpacked,
    check_commits,
    check_tree,
    random_cases,
    random_tree,
    rows_of_pass,
    variant,
)

from speclab.core.errors import UnsupportedModel
from speclab.core.trees import PENDING, TokenTree
from speclab.models.abilities import ALWAYS, PATH_BATCH, TREE_MASK
from speclab.models.caches import PathsCache, TransformersCache
from speclab.models.catalogue import load_pair
from speclab.models.llama import PackedCache
from speclab.models.transformer import TransformerHandle

TREES = 200
LENGTHS, SHORT = (1, 2, 7, 33, 61), (1, 2, 5, 11)
WITHIN: dict[str, dict[str, float]] = {
    "float32": {"logits": 2e-4, "probs": 2e-5},  # 1.2e-5 at one node of 200 trees with AVX2 alone
    "float64": {"logits": 1e-9, "probs": 1e-9},
}
SOFTMAX_IN_FLOAT32 = {"logits": 2e-5, "probs": 5e-6}
"""For code of Transformers that takes the shares of attention in float32 whatever the dtype."""

DTYPES = {"float32": torch.float32, "float64": torch.float64}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama in transformers": {"kind": "llama", "attention": "eager"},
    "qwen2 sdpa": {"kind": "qwen2", "attention": "sdpa"},
    "qwen2 eager": {"kind": "qwen2", "attention": "eager"},
    "gpt_neox": {},
    "gemma": {"head_dim": 8},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_random_trees_of_tiny_models(kind: str, dtype: str) -> None:
    handle = tiny(**{"kind": kind, "seed": 1, "dtype": DTYPES[dtype], **KINDS[kind]})
    wanted = PackedCache if kind == "llama" else TransformersCache
    assert type(handle.new_cache()) is wanted
    rounds = dtype == "float64" and KINDS[kind].get("attention") == "eager"
    within = SOFTMAX_IN_FLOAT32 if rounds else WITHIN[dtype]
    for prompt, tree in random_cases(TREES, 40, LENGTHS):
        check_tree(handle, prompt, tree, **within)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("session", [TransformerHandle, Unpacked, ByPaths])
def test_random_trees_of_the_bundled_target(session: Any, dtype: str) -> None:
    pair = load_pair("pocket", device="cpu", dtype=dtype)
    handle = variant(session, pair.target)
    count = TREES if session is TransformerHandle else TREES // 10
    for prompt, tree in random_cases(
        count if dtype == "float32" else count // 2, 2048, SHORT, seed=1
    ):
        check_tree(handle, prompt, tree, **WITHIN[dtype])


@pytest.mark.parametrize("session", [TransformerHandle, Unpacked, ByPaths])
def test_any_path_can_be_committed(session: Any) -> None:
    """Also through the batch of paths, whose other rows go."""
    handle = variant(session, tiny(seed=2))
    generator = np.random.default_rng(3)
    for prompt, tree in random_cases(40, 40, LENGTHS, seed=2):
        node = int(generator.integers(PENDING, len(tree)))
        check_commits(handle, prompt, tree, node, within=1e-9)


def reordered(tree: TokenTree, generator: np.random.Generator) -> tuple[TokenTree, list[int]]:
    """Return the tree with its nodes in another order, and the new place of each node."""
    places = [PENDING] * len(tree)
    order: list[int] = []
    waiting = tree.children(PENDING)
    while waiting:
        node = waiting.pop(int(generator.integers(len(waiting))))
        places[node] = len(order)
        order.append(node)
        waiting += tree.children(node)
    parents = tuple(
        PENDING if tree.parents[node] == PENDING else places[tree.parents[node]] for node in order
    )
    return TokenTree(tuple(tree.tokens[node] for node in order), parents), places


@pytest.mark.parametrize("session", [TransformerHandle, Unpacked, ByPaths])
def test_the_order_of_nodes_changes_no_logits(session: Any) -> None:
    handle = variant(session, tiny(seed=1))
    generator = np.random.default_rng(5)
    moved = 0
    for prompt, tree in random_cases(40, 40, LENGTHS, seed=4):
        other, places = reordered(tree, generator)
        moved += other != tree
        one, two = (rows_of_pass(handle.open(prompt).score(t), t) for t in (tree, other))
        assert np.abs(one[1:] - two[[1 + place for place in places]]).max() <= 1e-12
    assert moved > 20


@pytest.mark.parametrize("passengers", [1, 6, 20])
@pytest.mark.parametrize("session", [TransformerHandle, Unpacked, ByPaths])
def test_two_trees_in_one_pass_do_not_see_each_other(session: Any, passengers: int) -> None:
    handle = variant(session, tiny(seed=3))
    generator = np.random.default_rng(6)
    for prompt, tree in random_cases(12, 40, LENGTHS, seed=passengers):
        rider = random_tree(generator, 40, passengers)
        session_ = handle.open(prompt)
        session_.extend([3, 4])
        text = [*prompt, 3, 4]
        scores = session_.score(tree, rider)
        alone = handle.open(text).score(tree), handle.open(text).score(rider)
        gap = np.abs(rows_of_pass(scores, tree) - rows_of_pass(alone[0], tree)).max()
        rows = [scores.passenger_row(node).logits for node in range(len(rider))]
        apart = np.abs(np.array(rows) - rows_of_pass(alone[1], rider)[1:]).max()
        assert max(gap, apart) <= 1e-12
        node = len(tree) - 1
        session_.commit(tree.path(node), 5)
        assert session_.tokens == [*text, *tree.path_tokens(node), 5]
        assert session_.cache_rows() == session_.length - 1


REFERENCE = TokenTree((1, 2, 3, 4, 5), (-1, -1, 0, 0, 1))


def test_positions_are_prefix_plus_depth_in_a_batch_of_paths_too() -> None:
    """Parents (-1, -1, 0, 0, 1) on a prefix of 10: 10, 10, 11, 11, 11."""
    seen: list[Any] = []
    model = tiny_model(seed=1)
    model.model.rotary_emb.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["position_ids"].tolist()), with_kwargs=True
    )
    session = ByPaths(model=model, name="spied", vocab_size=40).open(range(10))
    session.score(REFERENCE)
    assert seen[-1] == [[9, 10, 11]], "every row is a path in sequence"
    assert [9 + depth for depth in REFERENCE.position_offsets] == [10, 10, 11, 11, 11]


BLIND: dict[str, dict[str, Any]] = {
    "bloom": {"n_head": 4, "n_layer": 2},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "expansion_ratio": 2, "max_seq_len": 192},
    "falcon": {"alibi": True, "bias": False, "new_decoder_architecture": False},
    "bart": {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4},
}
SEEING: dict[str, dict[str, Any]] = {
    "falcon": {"alibi": False},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "gpt2": {},
    "gptj": {"n_embd": 32, "n_head": 4, "n_layer": 2, "rotary_dim": 4},
    "biogpt": {},
    "phi3": {},
    "qwen3": {"head_dim": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 64},
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", SEEING)
def test_models_that_take_a_mask_and_positions_get_trees(kind: str, dtype: torch.dtype) -> None:
    handle = tiny(kind, seed=1, dtype=dtype, **SEEING[kind])
    assert handle.provides == ALWAYS | {TREE_MASK}


@pytest.mark.parametrize("kind", BLIND)
def test_models_that_do_not_get_batches_of_paths_with_the_same_laws(kind: str) -> None:
    """By what they do, not by name: some raise, some ignore positions without a word."""
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        handle = tiny(kind, seed=1, dtype=dtype, **BLIND[kind])
        assert handle.provides == ALWAYS | {PATH_BATCH}
        assert type(handle.new_cache()) is PathsCache
    generator = np.random.default_rng(7)
    for prompt, tree in random_cases(30, 40, LENGTHS, seed=8):
        check_tree(handle, prompt, tree, **SOFTMAX_IN_FLOAT32)
        check_commits(handle, prompt, tree, int(generator.integers(-1, len(tree))), within=2e-5)
    told = replace(handle, provides=ALWAYS | {TREE_MASK})
    with pytest.raises((AssertionError, ValueError)):
        for prompt, tree in random_cases(30, 40, LENGTHS, seed=8):
            check_tree(told, prompt, tree, logits=1e-2, probs=1e-2)


def test_one_pass_over_the_model_for_a_whole_batch_of_paths() -> None:
    calls: list[tuple[int, ...]] = []
    model = tiny_model("bloom", seed=1, **BLIND["bloom"])
    handle = TransformerHandle(model=model, name="blind", vocab_size=40)
    model.register_forward_pre_hook(
        lambda module, args, kwargs: calls.append(tuple(kwargs["input_ids"].shape)),
        with_kwargs=True,
    )
    session = handle.open([1, 2, 3, 4])
    session.score(REFERENCE)
    assert calls == [(1, 3), (3, 3)], "prefill, then three paths of the pending token and two more"


@pytest.mark.parametrize(
    ("kind", "code", "more"),
    [
        ("openai-gpt", "cache_differs", {"n_embd": 32, "n_head": 4, "n_layer": 2}),
        ("mixtral", "cannot_run", {"num_local_experts": 2}),
        ("rwkv", "recurrent", {}),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_reason(kind: str, code: str, more: Any) -> None:
    with pytest.raises(UnsupportedModel, match=f"tiny-{kind}") as caught:
        tiny(kind, **more)
    assert caught.value.code == code


def test_two_names_of_one_layer_are_both_answered() -> None:
    """A method's last state and a head's layer of the same number."""
    handle = tiny(seed=1)
    taps = ("hidden[2]", "hidden[-1]", "hidden[0]", "hidden[-3]")
    for session in (TransformerHandle, Unpacked, ByPaths):
        features = variant(session, handle).open([1, 2, 3], taps).score(REFERENCE).features((0, 2))
        assert set(features) == set(taps)
        assert np.array_equal(features["hidden[2]"], features["hidden[-1]"])
        assert np.array_equal(features["hidden[0]"], features["hidden[-3]"])
