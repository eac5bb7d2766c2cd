"""Loaders of Medusa and Hydra heads, on small files in exactly the public layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tiny_models import tiny
from torch import Tensor
from torch.nn import functional

from speclab.core.errors import ModelUnavailable
from speclab.models.heads import hydra, medusa
from speclab.models.heads.files import write_manifest
from speclab.models.transformer import TransformerHandle

HIDDEN, VOCAB = 32, 40
TARGET = tiny(seed=3, tie_word_embeddings=False)
LM_HEAD = TARGET.model.lm_head.weight.detach()
EMBEDDING = TARGET.model.model.embed_tokens.weight.detach()


def noise(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 1000 * seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64) * 0.3


def medusa_file(num_heads: int = 3, num_layers: int = 2, *, own: bool = True) -> dict[str, Tensor]:
    out = {}
    for k in range(num_heads):
        for j in range(num_layers):
            out[f"{k}.{j}.linear.weight"] = noise(HIDDEN, HIDDEN, seed=10 * k + j)
            out[f"{k}.{j}.linear.bias"] = noise(HIDDEN, seed=10 * k + j)
        if own:
            out[f"{k}.{num_layers}.weight"] = noise(VOCAB, HIDDEN, seed=k)
    return out


def medusa_reference(file: dict[str, Tensor], head: int, state: Tensor, layers: int = 2) -> Tensor:
    for j in range(layers):
        weight = file[f"{head}.{j}.linear.weight"]
        state = state + functional.silu(weight @ state + file[f"{head}.{j}.linear.bias"])
    return file.get(f"{head}.{layers}.weight", LM_HEAD) @ state


def check_medusa(folder: Path, file: dict[str, Tensor], num_heads: int = 3) -> medusa.MedusaHead:
    head = medusa.load_head(folder, TARGET)
    assert (head.num_heads, head.num_layers) == (num_heads, 2)
    state = noise(HIDDEN, seed=99)
    rows = head.rows(state.numpy(), num_heads, VOCAB).logits
    for k in range(num_heads):
        assert torch.allclose(rows[k], medusa_reference(file, k, state), atol=1e-12)
    return head


@pytest.mark.parametrize("own", [True, False], ids=["own-outputs", "tied"])
@pytest.mark.parametrize("prefix", ["", "medusa_head.", "heads."])
@pytest.mark.parametrize("pickled", [True, False])
def test_medusa_with_and_without_the_last_key(
    tmp_path: Path, own: bool, prefix: str, pickled: bool
) -> None:
    file = medusa_file(own=own)
    stored = {prefix + key: tensor for key, tensor in file.items()}
    if pickled:
        torch.save(stored, tmp_path / "medusa_lm_head.pt")
    else:
        save_file(stored, tmp_path / "medusa_lm_head.safetensors")
    config = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "x"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    head = check_medusa(tmp_path, file)
    assert (head.outputs is None) == (not own)
    again = head.tensors()
    assert again.keys() == file.keys()
    assert all(torch.equal(again[key], file[key]) for key in file)


def test_medusa_inside_a_whole_model(tmp_path: Path) -> None:
    """Second-generation files hold the model too; only the heads are read."""
    file = medusa_file()
    whole = {"medusa_head." + key: tensor for key, tensor in file.items()}
    whole |= {"model.norm.weight": noise(HIDDEN), "lm_head.weight": noise(VOCAB, HIDDEN)}
    save_file(whole, tmp_path / "model.safetensors")
    check_medusa(tmp_path, file)


def served(file: dict[str, Tensor], outputs: str, *, bias: bool = True) -> dict[str, Tensor]:
    out = {}
    for key, tensor in file.items():
        k, j, *rest = key.split(".")
        if rest == ["linear", "weight"] or (bias and rest == ["linear", "bias"]):
            out[f"blocks.{k}.layers.{j}.{rest[1]}"] = tensor
        elif rest == ["weight"] and outputs == "each":
            out[f"lm_heads.{k}.weight"] = tensor
    if outputs == "first":
        out["lm_heads.0.weight"] = file["0.2.weight"]
    if outputs == "shared":
        out["lm_head.weight"] = file["0.2.weight"]
    return out


@pytest.mark.parametrize("outputs", ["each", "first", "shared", "none"])
def test_medusa_as_serving_engines_convert_it(tmp_path: Path, outputs: str) -> None:
    file = medusa_file()
    save_file(served(file, outputs), tmp_path / "model.safetensors")
    for k in range(3):
        if outputs in ("first", "shared"):
            file[f"{k}.2.weight"] = file["0.2.weight"]
        elif outputs == "none":
            del file[f"{k}.2.weight"]
    assert check_medusa(tmp_path, file).notes == ()


def test_a_conversion_that_lost_its_biases_says_so(tmp_path: Path) -> None:
    file = medusa_file()
    save_file(served(file, "each", bias=False), tmp_path / "model.safetensors")
    for key in file:
        if key.endswith("bias"):
            file[key] = torch.zeros(HIDDEN, dtype=torch.float64)
    assert "no biases" in check_medusa(tmp_path, file).notes[0]


def test_a_truncated_vocabulary_is_mapped_back(tmp_path: Path) -> None:
    file = medusa_file(own=False)
    kept = torch.tensor([7, 3, 21])
    stored = served(file, "none") | {"token_map": kept}
    for k in range(3):
        stored[f"lm_heads.{k}.weight"] = LM_HEAD[kept].detach().clone()
    save_file(stored, tmp_path / "model.safetensors")
    head = medusa.load_head(tmp_path, TARGET)
    state = noise(HIDDEN, seed=99)
    rows = head.rows(state.numpy(), 3, VOCAB)
    for k in range(3):
        want = medusa_reference(file, k, state)
        assert torch.allclose(rows.logits[k, kept], want[kept], atol=1e-12)
        assert torch.isinf(rows.logits[k]).sum() == VOCAB - 3
        order = sorted(kept.tolist(), key=lambda token, want=want: -float(want[token]))
        assert rows.best(9)[k] == order
    stored["token_map"] = torch.tensor([7, 3, VOCAB])
    save_file(stored, tmp_path / "model.safetensors")
    with pytest.raises(ModelUnavailable, match="names id 40; tiny-llama has 40 ids"):
        medusa.load_head(tmp_path, TARGET)


def test_equal_logits_go_to_the_lower_id() -> None:
    from speclab.models.heads.head_rows import HeadRows

    rows = HeadRows(torch.tensor([[1.0, 2.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 9.0]]), 4)
    assert rows.best(3) == [[1, 2, 0], [0, 1, 2]]
    assert rows.row(0).logits.tolist() == [1.0, 2.0, 2.0, 0.0]


def wrong_medusa() -> dict[str, tuple[dict[str, Tensor], str]]:
    lost, narrow, foreign, more = (medusa_file() for _ in range(4))
    del lost["1.1.linear.bias"]
    narrow["0.0.linear.weight"] = noise(24, 24)
    foreign["2.2.weight"] = noise(VOCAB + 8, HIDDEN)
    more["3.weight"] = noise(2, 2)
    partly = medusa_file()
    del partly["1.2.weight"]
    return {
        "missing": (lost, r"no tensor 1\.1\.linear\.bias"),
        "partly-tied": (partly, r"no tensor 1\.2\.weight"),
        "width": (narrow, r"0\.0\.linear\.weight .* \[24, 24\]; tiny-llama needs \[32, 32\]"),
        "vocabulary": (foreign, r"2\.2\.weight .* \[48, 32\]; tiny-llama needs \[40, 32\]"),
        "unknown": (more, r"does not know: 3\.weight"),
        "hydra": (hydra_file(), "No block of a Medusa head"),
    }


@pytest.mark.parametrize(
    "fault", ["missing", "partly-tied", "width", "vocabulary", "unknown", "hydra"]
)
def test_a_wrong_medusa_file_is_named(tmp_path: Path, fault: str) -> None:
    file, message = wrong_medusa()[fault]
    torch.save(file, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(ModelUnavailable, match=message):
        medusa.load_head(tmp_path, TARGET)


def hydra_file(num_heads: int = 3, num_layers: int = 2, *, own: bool = True) -> dict[str, Tensor]:
    out = {}
    for k in range(num_heads):
        wide = HIDDEN * (k + 2)
        for j in range(num_layers):
            stem, size = f"hydra_mlp.{k}.{j}", HIDDEN if j else wide
            out[f"{stem}.linear.weight"] = noise(HIDDEN, size, seed=10 * k + j)
            out[f"{stem}.linear.bias"] = noise(HIDDEN, seed=10 * k + j)
        out[f"hydra_mlp.{k}.0.res_connection.weight"] = noise(HIDDEN, wide, seed=k + 50)
        out[f"hydra_mlp.{k}.0.res_connection.bias"] = noise(HIDDEN, seed=k + 50)
        if own:
            out[f"hydra_lm_head.{k}.weight"] = noise(VOCAB, HIDDEN, seed=k)
            out[f"hydra_lm_head.{k}.bias"] = noise(VOCAB, seed=k)
    return out


def hydra_reference(file: dict[str, Tensor], state: Tensor, path: tuple[int, ...]) -> Tensor:
    k = len(path) - 1
    x = torch.cat([state, *(EMBEDDING[token] for token in path)])
    stem = f"hydra_mlp.{k}"
    kept = file[f"{stem}.0.res_connection.weight"] @ x + file[f"{stem}.0.res_connection.bias"]
    x = kept + functional.silu(file[f"{stem}.0.linear.weight"] @ x + file[f"{stem}.0.linear.bias"])
    x = x + functional.silu(file[f"{stem}.1.linear.weight"] @ x + file[f"{stem}.1.linear.bias"])
    if f"hydra_lm_head.{k}.weight" not in file:
        return LM_HEAD @ x
    return file[f"hydra_lm_head.{k}.weight"] @ x + file[f"hydra_lm_head.{k}.bias"]


@pytest.mark.parametrize("own", [True, False], ids=["own-outputs", "tied"])
def test_hydra_in_its_public_layout(tmp_path: Path, own: bool) -> None:
    file = hydra_file(own=own)
    torch.save(file, tmp_path / "hydra_lm_head.pt")
    config = {"hydra_num_heads": 3, "hydra_num_layers": 2, "hydra_head_arch": "mlp"}
    (tmp_path / "config.json").write_text(json.dumps(config | {"grounded_heads": True}))
    head = hydra.load_head(tmp_path, TARGET)
    assert (head.num_heads, head.num_layers) == (3, 2)
    state = noise(HIDDEN, seed=99)
    for paths in ([(5,)], [(5, 6), (5, 7)], [(5, 6, 7), (5, 7, 1), (5, 6, 2)]):
        rows = head.rows(state.numpy(), paths, VOCAB).logits
        for row, path in zip(rows, paths, strict=True):
            assert torch.allclose(row, hydra_reference(file, state, path), atol=1e-12)
    again = head.tensors()
    assert again.keys() == file.keys()
    assert all(torch.equal(again[key], file[key]) for key in file)


@pytest.mark.parametrize(
    "config", [{"hydra_head_arch": "prefix-mlp"}, {"hidden_state_offset": 1}, {}]
)
def test_other_hydra_architectures_are_refused_by_name(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    file = hydra_file()
    if not config:
        file["prefix_embeding_layer.self_attn.q_proj.weight"] = noise(HIDDEN, HIDDEN)
    torch.save(file, tmp_path / "hydra_lm_head.pt")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnavailable, match="only plain heads of the architecture mlp"):
        hydra.load_head(tmp_path, TARGET)


def wrong_hydra() -> dict[str, tuple[dict[str, Tensor], str]]:
    lost, foreign, more = (hydra_file() for _ in range(3))
    del lost["hydra_mlp.1.0.res_connection.bias"]
    foreign["hydra_mlp.2.0.linear.weight"] = noise(HIDDEN, HIDDEN * 3)
    more["hydra_mlp.0.5.norm.weight"] = noise(2)
    return {
        "missing": (lost, r"no tensor hydra_mlp\.1\.0\.res_connection\.bias"),
        "width": (foreign, r"hydra_mlp\.2\.0\.linear\.weight .* \[32, 96\]; .* \[32, 128\]"),
        "unknown": (more, r"does not know: hydra_mlp\.0\.5\.norm\.weight"),
        "medusa": (medusa_file(), "No block of a Hydra head"),
    }


@pytest.mark.parametrize("fault", ["missing", "width", "unknown", "medusa"])
def test_a_wrong_hydra_file_is_named(tmp_path: Path, fault: str) -> None:
    file, message = wrong_hydra()[fault]
    torch.save(file, tmp_path / "hydra_lm_head.pt")
    with pytest.raises(ModelUnavailable, match=message):
        hydra.load_head(tmp_path, TARGET)


@pytest.mark.parametrize("kind", [medusa, hydra])
@pytest.mark.parametrize("full", [True, False])
def test_a_head_trained_here_keeps_its_numbers_and_its_target(
    tmp_path: Path, kind: Any, full: bool
) -> None:
    file = medusa_file(own=False) if kind is medusa else hydra_file(own=False)
    save_file(file, tmp_path / "model.safetensors")
    accuracies = [[0.5, 0.25], [0.25, 0.125], [0.125, 0.0]]
    write_manifest(tmp_path, {"target": "bundled:x@1", "accuracies": accuracies})
    named = TransformerHandle(model=TARGET.model, name="x", vocab_size=VOCAB, source="bundled:x@1")
    head = kind.load_head(tmp_path, named)
    assert head.accuracies == ((0.5, 0.25), (0.25, 0.125), (0.125, 0.0))
    stored = head.tensors(full=full)
    outputs = [key for key in stored if tuple(stored[key].shape) == (VOCAB, HIDDEN)]
    assert len(outputs) == (3 if full else 0)
    assert all(torch.equal(stored[key], LM_HEAD) for key in outputs)
    other = TransformerHandle(model=TARGET.model, name="x", vocab_size=VOCAB, source="bundled:x@2")
    with pytest.raises(ModelUnavailable, match=r"trained for bundled:x@1, not for bundled:x@2"):
        kind.load_head(tmp_path, other)
