"""Trees and trained heads: what stays silent in the text and shows in state, laws and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fault_kit import GREEDY, Offers, forced, greedy_by_hand, run, scripted_model
from tiny_heads import (
    HEAD_METHODS,
    LAYERS,
    OWN,
    TARGET_SHAPE,
    TENSORS,
    VOCAB,
    Draw,
    begin,
    check_rounds,
    random_heads,
    write_head,
)
from tiny_models import tiny

from speclab.core.errors import ModelUnavailable
from speclab.core.protocols import Proposal
from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.methods import make_method
from speclab.methods.autoregressive import Autoregressive
from speclab.models.heads.shelf import load_head
from speclab.models.transformer import TransformerHandle

TARGET = tiny(seed=4, **TARGET_SHAPE)
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)
CHAIN = {"depth": 4, "top_k": 1, "total_tokens": 4}
EAGLES = ("eagle-1", "eagle-2", "eagle-3")


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return random_heads(TARGET, tmp_path_factory.mktemp("heads"))


@pytest.mark.parametrize("accepted", range(5))
@pytest.mark.parametrize("name", EAGLES)
def test_a_heads_cache_holds_the_accepted_text(
    heads: dict[str, Any], name: str, accepted: int
) -> None:
    """https://github.com/lablup/mlxcel/issues/994 ; https://github.com/vllm-project/vllm/pull/9730

    Also when everything was accepted: the head has a pair for every token but the first.
    """
    decoding = begin(
        TARGET, HEAD_METHODS[name](**CHAIN), heads, prompt=PROMPT, rule=forced(accepted)
    )
    rounds = iter(decoding)
    for count in range(1, 6):
        assert next(rounds).num_drafted == 4
        text = 10 + count * (accepted + 1)
        assert decoding.session.length == text
        assert decoding.session.cache_rows() == decoding.session.cache_length == text - 1
        head = decoding.run.session
        head.root()
        assert head.length == head.cache_rows() == text - 1, "pairs lag behind, or drafts stay"
    rounds.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("accepted", [0, 2, 4])
@pytest.mark.parametrize("name", EAGLES)
def test_drafts_do_not_get_worse_after_rejections(
    heads: dict[str, Any], name: str, accepted: int
) -> None:
    """https://github.com/lablup/mlxcel/pull/1002 : round for round those of a new request."""
    request = {"rule": forced(accepted), "prompt": PROMPT, "n": 60}
    check_rounds(TARGET, HEAD_METHODS[name](**CHAIN), heads, within=1e-9, **request)


@pytest.mark.parametrize("name", HEAD_METHODS)
def test_a_rejected_tree_leaves_nothing_behind(heads: dict[str, Any], name: str) -> None:
    """https://github.com/lucidrains/speculative-decoding/issues/3 : 128 tokens, then 129."""
    prompt = tuple(np.random.default_rng(0).integers(0, VOCAB, 128).tolist())
    decoding = begin(TARGET, HEAD_METHODS[name](), heads, prompt=prompt, rule=forced(0))
    first = next(rounds := iter(decoding))
    assert first.num_drafted >= 1 and first.num_accepted == 0
    assert decoding.session.length == 129 and decoding.session.cache_rows() == 128
    rounds.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", HEAD_METHODS)
def test_two_requests_share_a_head_and_no_state(heads: dict[str, Any], name: str) -> None:
    """https://github.com/ggml-org/llama.cpp/issues/28286"""
    prompts = ((3, 1, 4), PROMPT)

    def opened() -> list[Any]:
        return [begin(TARGET, HEAD_METHODS[name](), heads, prompt=p, n=16) for p in prompts]

    alone = [[round_.tree for round_ in decoding] for decoding in opened()]
    together: list[list[TokenTree]] = [[], []]
    both = [iter(decoding) for decoding in opened()]
    running = True
    while running:
        running = False
        for trees, rounds in zip(together, both, strict=True):
            for round_ in rounds:
                trees.append(round_.tree)
                running = True
                break
    assert together == alone


@pytest.mark.parametrize("kind", ["mistral", "gemma2"])
def test_a_tree_ends_at_the_window_of_attention(kind: str) -> None:
    """https://github.com/huggingface/transformers/pull/48280 : no node stands beyond it."""
    handle = tiny(kind, seed=3, sliding_window=8, head_dim=8)
    draft = tiny(seed=2)
    want = greedy_by_hand(handle, (3, 1), 40, max_context=8)
    method = make_method("draft-tree", {"depth": 4, "width": 2, "siblings": "top-k"})
    request = {"method": method, "drafts": [draft], "rule": "siblings-topk", "sampling": GREEDY}
    text, rounds = run(handle, (3, 1), n=40, **request)
    assert text == want and rounds[-1].stop_reason == "context_limit"
    assert max(round_.tree.max_depth for round_ in rounds) == 4


@pytest.mark.parametrize("branch", [0, 1, 2])
def test_a_path_guessed_right_is_emitted_whole_with_the_next_token(branch: int) -> None:
    """https://github.com/hao-ai-lab/LookaheadDecoding/issues/62 , /issues/56 : 5, 6, 7 then 8."""
    target = scripted_model((5, 6, 7, 8), 10, start=2)
    wrong = [(1, 2, 3), (5, 6, 1), (5, 2, 3)]
    wrong.insert(branch, (5, 6, 7))
    tokens, parents = [], []
    for path in wrong:
        for depth, token in enumerate(path):
            parents.append(len(tokens) - 1 if depth else -1)
            tokens.append(token)
    tree = TokenTree(tuple(tokens), tuple(parents))
    proposal = Proposal(tree=tree, draft_probs=(None,) * len(tree))
    method = Offers(offer=lambda context, rng: proposal if len(context) == 2 else [])
    text, rounds = run(target, (0, 0), method=method, rule="siblings-topk", sampling=GREEDY, n=6)
    assert rounds[0].emitted[:3] != (1, 2, 3) and text[:4] == [5, 6, 7, 8]
    if branch == 0:
        assert rounds[0].emitted == (5, 6, 7, 8), "accepted path, then one token"


def test_a_layer_off_by_one_is_silent_in_the_text_and_shows_in_the_drafts(
    heads: dict[str, Any],
) -> None:
    """https://github.com/vllm-project/vllm/issues/42704 : only acceptance suffers."""
    shifted = replace(heads["eagle3"], taps=("hidden[3]", "hidden[5]", "hidden[6]"))
    method, greedy = HEAD_METHODS["eagle-3"](), {"sampling": GREEDY, "n": 24}
    rule = RULES["siblings-topk"]
    plain = begin(TARGET, Autoregressive(), {}, rule=RULES["token"], **greedy)
    right, wrong = (
        begin(TARGET, method, {"eagle3": head}, rule=rule, **greedy)
        for head in (heads["eagle3"], shifted)
    )
    trees = [[round_.tree for round_ in decoding] for decoding in (right, wrong)]
    list(plain)
    assert right.emitted == wrong.emitted == plain.emitted
    assert trees[0] != trees[1]


def test_a_layer_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """https://github.com/vllm-project/vllm/issues/42704"""
    folder = write_head("eagle3", tmp_path / "head")
    config = (folder / "config.json").read_text()
    layers = f'{{"eagle_aux_hidden_state_layer_ids": [2, 4, {LAYERS + 1}], '
    (folder / "config.json").write_text(layers + config.lstrip("{"))
    with pytest.raises(ModelUnavailable, match=r"reads layers \[2, 4, 9\]; tiny-llama has 8"):
        load_head("eagle3", folder, TARGET)


def test_the_map_to_the_vocabulary_holds_offsets(heads: dict[str, Any], tmp_path: Path) -> None:
    """Target id = own id + d2t; read as target ids it would draft other tokens without a word."""
    offsets = TENSORS["eagle3"](Draw(1))["d2t"].numpy()
    ids = np.arange(OWN) + offsets
    assert heads["eagle3"].target_ids(range(OWN)) == ids.tolist()
    assert set(ids.tolist()) != set(offsets.tolist())
    for number, given in enumerate((torch.from_numpy(ids), torch.arange(OWN) // 3)):
        tensors = TENSORS["eagle3"](Draw(1)) | {"d2t": given}
        folder = write_head("eagle3", tmp_path / str(number), tensors=tensors)
        with pytest.raises(ModelUnavailable) as caught:
            load_head("eagle3", folder, TARGET)
        assert caught.value.code == "head_vocabulary"


WRONG_VOCABULARY = {
    "eagle1": ("embed_tokens.weight", (VOCAB + 8, 32)),
    "eagle3": ("lm_head.weight", (OWN + 4, 32)),
    "medusa": ("0.1.weight", (VOCAB + 8, 32)),
    "hydra": ("hydra_lm_head.0.weight", (VOCAB + 8, 32)),
    "mtp": (f"model.layers.{LAYERS}.shared_head.head.weight", (VOCAB + 8, 32)),
}


@pytest.mark.parametrize("kind", WRONG_VOCABULARY)
def test_another_vocabulary_is_refused_by_key_and_shape(kind: str, tmp_path: Path) -> None:
    """https://github.com/vllm-project/vllm/issues/5203 : never compared id by id."""
    key, shape = WRONG_VOCABULARY[kind]
    tensors = TENSORS[kind](Draw(1)) | {key: torch.zeros(shape, dtype=torch.float64)}
    for head in range(3):
        if kind == "medusa":
            tensors.setdefault(f"{head}.1.weight", torch.zeros(VOCAB, 32, dtype=torch.float64))
        if kind == "hydra":
            stem = f"hydra_lm_head.{head}"
            tensors.setdefault(f"{stem}.weight", torch.zeros(VOCAB, 32, dtype=torch.float64))
            tensors[f"{stem}.bias"] = torch.zeros(VOCAB, dtype=torch.float64)
    with pytest.raises(ModelUnavailable, match=rf"{key} .* has shape \[{shape[0]}, 32\]"):
        load_head(kind, write_head(kind, tmp_path / kind, tensors=tensors), TARGET)


@pytest.mark.parametrize("kind", TENSORS)
def test_a_head_of_another_target_is_refused_by_both_names(kind: str, tmp_path: Path) -> None:
    """Weights of the same shape say nothing by themselves."""
    ours, other = (
        TransformerHandle(model=TARGET.model, name="x", vocab_size=VOCAB, source=source)
        for source in ("bundled:x@1", "bundled:x@2")
    )
    folder = write_head(kind, tmp_path / kind, target="bundled:x@1")
    load_head(kind, folder, ours)
    with pytest.raises(ModelUnavailable, match="trained for bundled:x@1, not for bundled:x@2"):
        load_head(kind, folder, other)
