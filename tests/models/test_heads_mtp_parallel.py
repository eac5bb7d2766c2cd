"""Parallel heads: the network against a plain reference, and faults of files by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import tiny
from torch import Tensor

from speclab.core.errors import ModelUnavailable
from speclab.models.heads.files import write_tensors
from speclab.models.heads.mtp_parallel import load_head

LAYERS, HEADS, H = 3, 2, 32


def target() -> Any:
    return tiny(seed=5, num_hidden_layers=LAYERS + HEADS)


def public_file(handle: Any) -> dict[str, Tensor]:
    """Return heads that are layers of a larger model: its last ones, read by the same input."""
    out = {}
    for number in range(HEADS):
        layer = handle.model.model.layers[LAYERS + number].state_dict()
        out |= {f"extra_heads.{number}.{key}": value.clone() for key, value in layer.items()}
    return out


def test_each_head_is_a_layer_on_the_state_before_the_last_one(tmp_path: Path) -> None:
    """Positions are fed in three parts; Transformers' own layers run over all at once."""
    handle = target()
    write_tensors(tmp_path, public_file(handle))
    head = load_head(tmp_path, handle)
    assert head.num_heads == HEADS and head.taps == (f"hidden[{LAYERS + HEADS - 1}]",)
    states = torch.randn(1, 40, H, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    session = head.open()
    assert session.root() is None
    for start, stop in ((0, 35), (35, 36), (36, 40)):
        part = {head.taps[0]: states[0, start:stop].numpy()}
        session.extend(part, [0] * (stop - start))
        found = session.root()
        assert session.length == session.cache_rows() == stop
        model = handle.model.model
        turn = model.rotary_emb(states[:, :stop], torch.arange(stop)[None])
        for number in range(HEADS):
            layer = model.layers[LAYERS + number]
            mask = torch.full((stop, stop), -torch.inf, dtype=torch.float64).triu(1)[None, None]
            out = layer(states[:, :stop], position_embeddings=turn, attention_mask=mask)
            out = out[0] if isinstance(out, tuple) else out
            want = handle.model.lm_head(model.norm(out[:, -1]))[0]
            assert (found[number] - want).abs().max() < 1e-6
    assert session.root() is found, "nothing new: nothing is fed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("none", "No parallel head was found"),
        ("lost", r"no tensor extra_heads\.1\.mlp\.down_proj\.weight"),
        ("shape", r"extra_heads\.0\.input_layernorm\.weight .* \[5\]; tiny-llama needs \[32\]"),
        ("more", r"extra_heads\.0\.self_attn\.q_proj\.bias"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, change: str, message: str) -> None:
    handle = target()
    file = public_file(handle)
    if change == "none":
        file = {"other.weight": torch.ones(2)}
    elif change == "lost":
        del file["extra_heads.1.mlp.down_proj.weight"]
    elif change == "shape":
        file["extra_heads.0.input_layernorm.weight"] = torch.ones(5)
    else:
        file["extra_heads.0.self_attn.q_proj.bias"] = torch.ones(2)
    write_tensors(tmp_path, file)
    with pytest.raises(ModelUnavailable, match=message):
        load_head(tmp_path, handle)


@pytest.mark.parametrize("place", ["target", "file"])
def test_scaled_positions_are_refused(tmp_path: Path, place: str) -> None:
    """Heads would see positions that their target does not have, and only draft worse."""
    handle = target()
    write_tensors(tmp_path, public_file(handle))
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    if place == "target":
        handle.model.config.rope_parameters = scaled
    else:
        (tmp_path / "config.json").write_text(json.dumps({"rope_parameters": scaled}))
    with pytest.raises(ModelUnavailable, match="'linear'"):
        load_head(tmp_path, handle)
