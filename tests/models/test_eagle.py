"""EAGLE heads: public layouts, faults by name, and the network against Transformers' own layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

from speclab.core.errors import ModelUnavailable
from speclab.core.trees import TokenTree
from speclab.models.heads.eagle import EagleHandle
from speclab.models.heads.eagle_files import load_head
from speclab.models.heads.files import write_manifest, write_tensors

TARGET = tiny(num_hidden_layers=6)
VOCAB, HIDDEN, MLP, OWN = 40, 32, 48, 24
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5000.0,
    "vocab_size": VOCAB,
}
CONFIG3 = {**CONFIG, "draft_vocab_size": OWN}
DRAFTED = np.sort(np.random.default_rng(0).permutation(VOCAB)[:OWN])


def random(*shape: int, seed: int, mean: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return mean + 0.3 * torch.randn(shape, generator=generator, dtype=torch.float64)


def layer_tensors(prefix: str, read: int, biases: bool = False) -> dict[str, Tensor]:
    rows = {"q": 32, "k": 16, "v": 16}
    out = {
        f"{prefix}self_attn.{part}_proj.weight": random(n, read, seed=n + read + ord(part))
        for part, n in rows.items()
    }
    if biases:
        names = {f"{prefix}self_attn.{part}_proj.bias": n for part, n in rows.items()}
        out |= {name: random(n, seed=5) for name, n in names.items()}
    return out | {
        f"{prefix}self_attn.o_proj.weight": random(HIDDEN, 32, seed=2),
        f"{prefix}mlp.gate_proj.weight": random(MLP, HIDDEN, seed=3),
        f"{prefix}mlp.up_proj.weight": random(MLP, HIDDEN, seed=4),
        f"{prefix}mlp.down_proj.weight": random(HIDDEN, MLP, seed=5),
        f"{prefix}post_attention_layernorm.weight": random(HIDDEN, seed=6, mean=1.0),
    }


def eagle1_tensors(**more: Any) -> dict[str, Tensor]:
    return {
        "embed_tokens.weight": TARGET.model.get_input_embeddings().weight.detach(),
        "fc.weight": random(HIDDEN, 2 * HIDDEN, seed=7),
        "fc.bias": random(HIDDEN, seed=8),
        **layer_tensors("layers.0.", HIDDEN, **more),
    }


def eagle3_tensors(prefix: str = "midlayer.") -> dict[str, Tensor]:
    flags = torch.zeros(VOCAB, dtype=torch.bool)
    flags[DRAFTED] = True
    return {
        "fc.weight": random(HIDDEN, 3 * HIDDEN, seed=9),
        **layer_tensors(prefix, 2 * HIDDEN),
        f"{prefix}hidden_norm.weight": random(HIDDEN, seed=10, mean=1.0),
        f"{prefix}input_layernorm.weight": random(HIDDEN, seed=11, mean=1.0),
        "norm.weight": random(HIDDEN, seed=12, mean=1.0),
        "lm_head.weight": random(OWN, HIDDEN, seed=13),
        "d2t": torch.from_numpy(DRAFTED) - torch.arange(OWN),
        "t2d": flags,
    }


def write(folder: Path, tensors: dict[str, Tensor], config: dict[str, Any], **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    if more.pop("pickled", False):
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        write_tensors(folder, tensors)
    (folder / "config.json").write_text(json.dumps(config))
    if more:
        write_manifest(folder, more)
    return folder


TEXT = np.random.default_rng(3).integers(0, VOCAB, 45).tolist()


def said(head: EagleHandle, text: list[int] = TEXT) -> np.ndarray:
    """Return the head's row after the last pair of a text."""
    session = head.open()
    session.extend(TARGET.open(text, head.taps).prefill_features, text[1:])
    return head.row(session.root().logits[0]).logits


class Reference:
    """The same head out of Transformers' decoder layer, over whole sequences, without a cache."""

    def __init__(self, tensors: dict[str, Tensor], prefix: str, third: bool) -> None:
        shape = {key: value for key, value in CONFIG.items() if key != "architectures"}
        config = LlamaConfig(**shape, attn_implementation="eager")
        self.tensors, self.third = tensors, third
        self.layer = LlamaDecoderLayer(config, 0).double()
        attention, read = self.layer.self_attn, 2 * HIDDEN if third else HIDDEN
        self.layer.input_layernorm = nn.Identity()
        for name, rows in (("q_proj", 32), ("k_proj", 16), ("v_proj", 16)):
            bias = f"{prefix}self_attn.{name}.bias" in tensors
            setattr(attention, name, nn.Linear(read, rows, bias=bias).double())
        own = {
            key.removeprefix(prefix): value
            for key, value in tensors.items()
            if key.startswith(prefix) and "hidden_norm" not in key and "input_layer" not in key
        }
        assert not self.layer.load_state_dict(own, strict=False).unexpected_keys
        self.rotary, self.prefix = LlamaRotaryEmbedding(config), prefix

    def norm(self, x: Tensor, key: str) -> Tensor:
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * self.tensors[key]

    @torch.no_grad()
    def __call__(self, features: Tensor, tokens: list[int], steps: list[int]) -> Tensor:
        """Return logits after the pairs and `steps` further tokens with the head's own outputs."""
        embedded = TARGET.model.get_input_embeddings().weight[torch.tensor([*tokens, *steps])]
        known = features @ self.tensors["fc.weight"].T if self.third else features
        for step in range(len(steps) + 1):
            count = len(tokens) + step
            e, f = embedded[:count], known
            if self.third:
                read = torch.cat(
                    (
                        self.norm(e, f"{self.prefix}input_layernorm.weight"),
                        self.norm(f, f"{self.prefix}hidden_norm.weight"),
                    ),
                    -1,
                )
                x = f
            else:
                read = torch.cat((e, f), -1) @ self.tensors["fc.weight"].T + self.tensors["fc.bias"]
                x = read
            future = torch.full((count, count), float("-inf"), dtype=torch.float64).triu(1)
            turn = self.rotary(x[None], torch.arange(count)[None])
            mixed, _ = self.layer.self_attn(
                hidden_states=read[None],
                position_embeddings=turn,
                attention_mask=future[None, None],
            )
            x = x + mixed[0]
            x = x + self.layer.mlp(self.layer.post_attention_layernorm(x))
            known = torch.cat((known, x[-1:]))
        if self.third:
            return self.norm(x[-1], "norm.weight") @ self.tensors["lm_head.weight"].T
        return TARGET.model.lm_head(x[-1])


@pytest.mark.parametrize("kind", ["eagle1", "eagle1 with biases", "eagle3"])
def test_the_network_is_that_of_the_reference(tmp_path: Path, kind: str) -> None:
    third = kind == "eagle3"
    tensors = eagle3_tensors() if third else eagle1_tensors(biases="biases" in kind)
    head = load_head(write(tmp_path, tensors, CONFIG3 if third else CONFIG), TARGET)
    reference = Reference(tensors, "midlayer." if third else "layers.0.", third)
    features = TARGET.open(TEXT, head.taps).prefill_features
    joined = torch.from_numpy(np.concatenate([features[tap] for tap in head.taps], -1))
    session = head.open()
    session.extend(features, TEXT[1:])
    drafted, steps = session.root(), [5, 17, 30]
    for depth in range(len(steps) + 1):
        want = reference(joined, TEXT[1:], steps[:depth])
        assert (drafted.logits[0] - want).abs().max() < 1e-6 * want.abs().max()
        if depth < len(steps):
            drafted = session.grow(drafted.features, [steps[depth]], None, depth + 1)
    row = head.row(drafted.logits[0]).logits
    if third:
        assert np.isneginf(np.delete(row, DRAFTED)).all() and np.isfinite(row[DRAFTED]).all()
        assert head.target_ids([0, OWN - 1]) == [DRAFTED[0], DRAFTED[-1]]
    else:
        assert np.isfinite(row).all() and len(row) == VOCAB


@pytest.mark.parametrize("kind", ["eagle1", "eagle3"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_tree_is_what_its_paths_are(tmp_path: Path, kind: str, dtype: torch.dtype) -> None:
    """Masks and positions: every node of a tree pass says what its path alone says."""
    target = tiny(num_hidden_layers=6, dtype=dtype)
    third = kind == "eagle3"
    tensors, config = (eagle3_tensors(), CONFIG3) if third else (eagle1_tensors(), CONFIG)
    head = load_head(write(tmp_path, tensors, config), target)
    features = target.open(TEXT, head.taps).prefill_features
    tree = TokenTree((1, 2, 3, 4, 5, 6), (-1, -1, 0, 0, 1, 3))
    session = head.open()
    session.extend(features, TEXT[1:])
    root = session.root()
    outputs, at, places = {-1: root}, {-1: 0}, {}
    levels = ([0, 1], [2, 3, 4], [5])
    for depth, level in enumerate(levels, 1):
        before = len(places)
        places |= {node: before + number for number, node in enumerate(level)}
        seen = np.zeros((len(level), len(places)), dtype=bool)
        for number, node in enumerate(level):
            seen[number, [places[step] for step in tree.path(node)]] = True
        parents = [tree.parents[node] for node in level]
        above = torch.stack([outputs[parent].features[at[parent]] for parent in parents])
        drafted = session.grow(above, [tree.tokens[node] for node in level], seen, depth)
        outputs |= dict.fromkeys(level, drafted)
        at |= {node: number for number, node in enumerate(level)}
    assert session.cache_rows() == len(TEXT) - 1 + len(tree)
    for node in range(len(tree)):
        alone = head.open()
        alone.extend(features, TEXT[1:])
        chain = alone.root()
        for depth, token in enumerate(tree.path_tokens(node), 1):
            chain = alone.grow(chain.features, [token], None, depth)
        gap = (outputs[node].logits[at[node]] - chain.logits[0]).abs().max()
        assert gap < (1e-5 if dtype == torch.float64 else 1e-3)
    again = session.root()
    assert again.logits is root.logits and session.cache_rows() == len(TEXT) - 1
    session.extend({tap: values[:1] for tap, values in features.items()}, [7])
    assert (session.root().logits - root.logits).abs().max() > 1e-3


def test_true_pairs_in_several_parts_are_one_whole(tmp_path: Path) -> None:
    head = load_head(write(tmp_path, eagle3_tensors(), CONFIG3), TARGET)
    whole, features = said(head), TARGET.open(TEXT, head.taps).prefill_features
    session = head.open()
    assert session.root() is None
    start = 0
    for stop in (1, 3, 39, len(TEXT) - 1):
        part = {tap: values[start:stop] for tap, values in features.items()}
        session.extend(part, TEXT[1 + start : 1 + stop])
        drafted = session.root()
        session.grow(drafted.features, [3], None, 1)
        start = stop
    assert np.abs(head.row(drafted.logits[0]).logits[DRAFTED] - whole[DRAFTED]).max() < 1e-6


def test_layouts_of_one_head_say_the_same(tmp_path: Path) -> None:
    want = said(load_head(write(tmp_path / "a", eagle3_tensors(), CONFIG3), TARGET))
    pickled = load_head(write(tmp_path / "b", eagle3_tensors(), CONFIG3, pickled=True), TARGET)
    nested = {
        "speculators_model_type": "eagle3",
        "transformer_layer_config": CONFIG,
        "draft_vocab_size": OWN,
        "eagle_aux_hidden_state_layer_ids": [2, 3, 3],
    }
    other = load_head(write(tmp_path / "c", eagle3_tensors("layers.0."), nested), TARGET)
    with_embedding = eagle3_tensors() | {
        "embed_tokens.weight": eagle1_tensors()["embed_tokens.weight"]
    }
    copied = load_head(write(tmp_path / "d", with_embedding, CONFIG3), TARGET)
    for head in (pickled, other, copied):
        assert head.name == "eagle3" and head.taps == ("hidden[2]", "hidden[3]", "hidden[3]")
        assert np.allclose(said(head), want, atol=1e-6)
    moved = {**nested, "eagle_aux_hidden_state_layer_ids": [1, 3, 5]}
    elsewhere = load_head(write(tmp_path / "e", eagle3_tensors("layers.0."), moved), TARGET)
    assert elsewhere.taps == ("hidden[1]", "hidden[3]", "hidden[5]")
    assert np.abs(said(elsewhere)[DRAFTED] - want[DRAFTED]).max() > 1e-3
    tensors = eagle1_tensors()
    first = load_head(write(tmp_path / "f", tensors, CONFIG, pickled=True), TARGET)
    del tensors["embed_tokens.weight"]
    second = load_head(write(tmp_path / "g", tensors, CONFIG), TARGET)
    assert first.name == "eagle1" and np.allclose(said(first), said(second), atol=1e-6)


def test_a_head_of_all_tokens_needs_no_map(tmp_path: Path) -> None:
    tensors = eagle3_tensors()
    del tensors["d2t"], tensors["t2d"]
    tensors["lm_head.weight"] = random(VOCAB, HIDDEN, seed=13)
    head = load_head(write(tmp_path, tensors, CONFIG), TARGET)
    assert head.to_target is None and np.isfinite(said(head)).all()


def test_a_residual_after_the_norm_is_another_head(tmp_path: Path) -> None:
    plain = load_head(write(tmp_path / "a", eagle3_tensors(), CONFIG3), TARGET)
    flagged = {**CONFIG3, "norm_before_residual": True}
    normed = load_head(write(tmp_path / "b", eagle3_tensors(), flagged), TARGET)
    assert np.abs(said(plain)[DRAFTED] - said(normed)[DRAFTED]).max() > 1e-3


def without(tensors: dict[str, Tensor], key: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name != key}


FAULTS: dict[str, tuple[dict[str, Tensor], dict[str, Any], str, str]] = {
    "no fc": (without(eagle1_tensors(), "fc.weight"), CONFIG, "head_no_key", r"fc\.weight"),
    "no layer": (
        without(eagle3_tensors(), "midlayer.self_attn.k_proj.weight"),
        CONFIG3,
        "head_no_key",
        r"midlayer\.self_attn\.k_proj",
    ),
    "no map": (without(eagle3_tensors(), "d2t"), CONFIG3, "head_no_key", "d2t"),
    "another width": (
        eagle1_tensors() | {"fc.weight": random(64, 128, seed=1)},
        CONFIG,
        "head_shape",
        r"\[64, 128\]",
    ),
    "two features": (
        eagle3_tensors() | {"fc.weight": random(HIDDEN, 2 * HIDDEN, seed=1)},
        CONFIG3,
        "head_shape",
        r"needs \[32, 96\]",
    ),
    "another vocabulary": (
        eagle1_tensors() | {"embed_tokens.weight": random(50, HIDDEN, seed=1)},
        CONFIG,
        "head_shape",
        "embed_tokens",
    ),
    "another map": (
        eagle3_tensors() | {"t2d": torch.zeros(50, dtype=torch.bool)},
        CONFIG3,
        "head_shape",
        "t2d",
    ),
    "outside": (
        eagle3_tensors() | {"d2t": torch.full((OWN,), 30)},
        CONFIG3,
        "head_vocabulary",
        "from 30 to 53",
    ),
    "maps disagree": (
        eagle3_tensors() | {"t2d": torch.arange(VOCAB) < OWN},
        CONFIG3,
        "head_vocabulary",
        "t2d",
    ),
    "more": (
        eagle3_tensors() | {"fc_norm.weight": random(HIDDEN, seed=1)},
        CONFIG3,
        "head_unknown_keys",
        "fc_norm",
    ),
    "two layers": (
        eagle1_tensors() | layer_tensors("layers.1.", HIDDEN),
        CONFIG,
        "head_unknown_keys",
        r"layers\.1",
    ),
    "deeper target": (
        eagle3_tensors(),
        {**CONFIG3, "eagle_aux_hidden_state_layer_ids": [2, 16, 29]},
        "head_layers",
        "29",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_file_is_named(tmp_path: Path, fault: str) -> None:
    tensors, config, code, words = FAULTS[fault]
    with pytest.raises(ModelUnavailable, match=words) as caught:
        load_head(write(tmp_path, tensors, config), TARGET)
    assert caught.value.code == code


def test_a_head_of_other_weights_is_refused(tmp_path: Path) -> None:
    target = tiny(num_hidden_layers=6)
    object.__setattr__(target, "source", "bundled:pocket/target@aaa")
    files = write(tmp_path, eagle1_tensors(), CONFIG, target="bundled:pocket/target@bbb")
    with pytest.raises(ModelUnavailable, match="trained for bundled:pocket/target@bbb"):
        load_head(files, target)
    write(tmp_path, eagle1_tensors(), CONFIG, target="bundled:pocket/target@aaa")
    assert load_head(tmp_path, target).num_parameters == sum(
        tensor.numel() for key, tensor in eagle1_tensors().items() if key != "embed_tokens.weight"
    )
