"""Kangaroo's adapter: the network written the long way, its files, and faults by name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_models import tiny
from torch import Tensor

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.models.heads.export import export_head
from speclab.models.heads.files import write_manifest
from speclab.models.heads.kangaroo import load_head
from speclab.models.heads.shelf import LOADERS
from speclab.testing.toy_kangaroo import toy_kangaroo

VOCAB, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, THETA, EPS = 40, 32, 4, 2, 8, 5000.0, 1e-5
TARGET = tiny(num_hidden_layers=5)
NEAR = 1e-5
"""Norms and turns go through float32 in every dtype."""
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_hidden_layers": 1,
    "rms_norm_eps": EPS,
    "rope_theta": THETA,
    "vocab_size": VOCAB,
    "exit_layer": 3,
}


def random(*shape: int, seed: int, mean: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return mean + 0.3 * torch.randn(shape, generator=generator, dtype=torch.float64)


def tensors(heads: int = HEADS, kv_heads: int = KV_HEADS) -> dict[str, Tensor]:
    rows = {"q": heads * HEAD_DIM, "k": kv_heads * HEAD_DIM, "v": kv_heads * HEAD_DIM}
    layer = {
        f"layers.0.self_attn.{name}_proj.weight": random(count, HIDDEN, seed=ord(name))
        for name, count in rows.items()
    }
    return {
        **layer,
        "layers.0.self_attn.o_proj.weight": random(HIDDEN, heads * HEAD_DIM, seed=1),
        "layers.0.input_layernorm.weight": random(HIDDEN, seed=2, mean=1.0),
        "norm.weight": random(HIDDEN, seed=3, mean=1.0),
    }


def write(folder: Path, given: dict[str, Tensor], **said: Any) -> Path:
    folder.mkdir(exist_ok=True)
    if said.pop("pickled", False):
        torch.save(given, folder / "pytorch_model.bin")
    else:
        save_file(given, folder / "model.safetensors")
    manifest = said.pop("manifest", None)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **said}))
    if manifest is not None:
        write_manifest(folder, manifest)
    return folder


def normed(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt() * weight


def turned(x: Tensor, place: int) -> Tensor:
    """Return one head's vector [head_dim] turned by its position, pair by pair."""
    out, half = x.clone(), HEAD_DIM // 2
    for pair in range(half):
        angle = place * THETA ** (-2 * pair / HEAD_DIM)
        a, b = x[pair], x[pair + half]
        out[pair] = a * math.cos(angle) - b * math.sin(angle)
        out[pair + half] = b * math.cos(angle) + a * math.sin(angle)
    return out


def reference(given: dict[str, Tensor], states: Tensor) -> Tensor:
    """Return what the head reads after every place [n, h], vector by vector."""
    stem = "layers.0.self_attn."
    read = normed(states, given["layers.0.input_layernorm.weight"])
    q, k, v = (
        (read @ given[f"{stem}{name}_proj.weight"].T).unflatten(-1, (-1, HEAD_DIM))
        for name in "qkv"
    )
    group, out = q.shape[1] // k.shape[1], []
    for place in range(len(states)):
        mixed = []
        for head in range(q.shape[1]):
            query = turned(q[place, head], place)
            scores = [
                float(query @ turned(k[earlier, head // group], earlier)) / math.sqrt(HEAD_DIM)
                for earlier in range(place + 1)
            ]
            shares = torch.tensor(scores, dtype=torch.float64).softmax(-1)
            mixed.append(shares @ v[: place + 1, head // group])
        after = states[place] + given[f"{stem}o_proj.weight"] @ torch.cat(mixed)
        out.append(normed(after, given["norm.weight"]))
    return torch.stack(out)


@pytest.mark.parametrize(("heads", "kv_heads", "pickled"), [(4, 4, True), (2, 1, False)])
def test_the_network_is_the_one_of_the_paper(
    tmp_path: Path, heads: int, kv_heads: int, pickled: bool
) -> None:
    """In one piece, place by place, and after a rollback."""
    given = tensors(heads, kv_heads)
    shape = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": HEAD_DIM}
    head = load_head(write(tmp_path, given, pickled=pickled, **shape), TARGET)
    states = random(45, HIDDEN, seed=9)
    want = reference(given, states).numpy()
    session = head.open()
    assert np.abs(session.extend(states[:40].numpy()) - want[39:40]).max() < NEAR
    for place in range(40, 45):
        found = session.extend(states[place : place + 1].numpy())
        assert np.abs(found - want[place]).max() < NEAR
    session.rollback(37)
    assert session.length == 37
    assert np.abs(session.extend(states[37:41].numpy()) - want[40]).max() < NEAR
    session.rollback(99)
    assert session.length == 41
    session.close()
    assert session.length == 0
    assert head.num_parameters == sum(tensor.numel() for tensor in given.values())
    assert (head.exit_layer, head.taps, head.vocab_size) == (3, ("hidden[3]",), VOCAB)


def test_public_files_do_not_say_the_layer(tmp_path: Path) -> None:
    head = load_head(write(tmp_path, tensors(), exit_layer=None), TARGET)
    assert head.exit_layer == 2


def test_the_adapter_reads_states_of_its_target(tmp_path: Path) -> None:
    """The tap is what the layers before the adapter put out."""
    head = load_head(write(tmp_path, tensors()), TARGET)
    text = list(range(1, 20))
    early = TARGET.open(text, head.taps).prefill_features["hidden[3]"]
    with torch.inference_mode():
        ids = torch.tensor([text[:-1]])
        want = TARGET.model(ids, output_hidden_states=True).hidden_states[3][0]
    assert np.abs(early - want.numpy()).max() < 1e-9
    assert head.open().extend(early).shape == (1, HIDDEN)


FAULTS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("missing", {"norm.weight": None}, {}, "has no tensor norm.weight"),
    (
        "shape",
        {"layers.0.self_attn.q_proj.weight": random(16, HIDDEN, seed=1)},
        {},
        r"q_proj.weight .* \[16, 32\]; tiny-llama needs \[32, 32\]",
    ),
    (
        "width",
        {"norm.weight": random(24, seed=1)},
        {},
        r"norm.weight .* \[24\]; tiny-llama needs \[32\]",
    ),
    ("more", {"layers.0.mlp.up_proj.weight": random(48, HIDDEN, seed=1)}, {}, "mlp.up_proj"),
    ("nan", {"norm.weight": torch.full((HIDDEN,), math.nan)}, {}, "not finite"),
    ("deep", {}, {"exit_layer": 5}, r"reads layers \[5\]; tiny-llama has 5"),
    ("words", {}, {"exit_layer": "two"}, "exit_layer must be a whole number"),
    (
        "other",
        {},
        {"manifest": {"target": "bundled:else@1"}},
        "trained for bundled:else@1, not for local:tiny",
    ),
]


@pytest.mark.parametrize(("changed", "said", "match"), [f[1:] for f in FAULTS], ids=lambda _: "")
def test_faults_are_named(
    tmp_path: Path, changed: dict[str, Any], said: dict[str, Any], match: str
) -> None:
    given = {key: value for key, value in {**tensors(), **changed}.items() if value is not None}
    target = tiny(num_hidden_layers=5)
    object.__setattr__(target, "source", "local:tiny")
    with pytest.raises(ModelUnavailable, match=match):
        load_head(write(tmp_path, given, **said), target)


def test_the_kind_has_a_loader_and_a_toy() -> None:
    assert LOADERS["kangaroo"] == load_head.__module__
    toy = toy_kangaroo(4)
    states = np.log(np.array([[0.0, 0.5, 0.25, 0.25]] * 3, dtype=np.float64) + 1e-300)
    states[:, 0] = -np.inf
    assert np.isfinite(toy.open().extend(states)).all()


def test_an_exported_adapter_is_the_same(tmp_path: Path) -> None:
    given = tensors()
    export_head("kangaroo", write(tmp_path / "in", given), tmp_path / "out", TARGET)
    found = torch.load(tmp_path / "out" / "pytorch_model.bin", weights_only=True)
    assert found.keys() == given.keys()
    assert all(torch.equal(found[key], value) for key, value in given.items())
    states = random(6, HIDDEN, seed=9).numpy()
    before, after = (load_head(tmp_path / place, TARGET).open() for place in ("in", "out"))
    assert np.array_equal(before.extend(states), after.extend(states))


def test_a_narrow_adapter_is_not_exported(tmp_path: Path) -> None:
    shape = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": HEAD_DIM}
    source = write(tmp_path / "in", tensors(2, 1), **shape)
    with pytest.raises(BadInput, match="16 wide; other readers take the 32"):
        export_head("kangaroo", source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
