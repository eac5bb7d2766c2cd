"""Exported heads: public names, copies of the target, equal drafts, nothing overwritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_heads import HEAD_METHODS, HIDDEN, KINDS, TARGET_SHAPE, VOCAB, Draw, kit_for, write_head
from tiny_heads import mtp as mtp_tensors
from tiny_models import tiny

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import Room
from speclab.core.randomness import Seeded
from speclab.models.heads.export import FILES, export_head
from speclab.models.heads.shelf import LOADERS, load_head

TARGET = tiny(seed=4, **TARGET_SHAPE)
EMBEDDING = TARGET.model.get_input_embeddings().weight.detach()
LM_HEAD = TARGET.model.get_output_embeddings().weight.detach()
SHARED: dict[str, dict[str, torch.Tensor]] = {
    "eagle1": {"embed_tokens.weight": EMBEDDING},
    "eagle3": {"embed_tokens.weight": EMBEDDING},
    "medusa": {f"{head}.1.weight": LM_HEAD for head in range(3)},
    "hydra": {f"hydra_lm_head.{head}.weight": LM_HEAD for head in range(3)},
    "mtp": {
        "model.layers.8.embed_tokens.weight": EMBEDDING,
        "model.layers.8.shared_head.head.weight": LM_HEAD,
    },
}
RANKS = {"rank_acceptance": [0.5, 0.2, 0.1], "target": "tiny@1"}
TEXT = (3, 1, 4, 1, 5, 9, 2)


def drafts(kind: str, head: Any) -> list[Any]:
    """Return what every method of this kind of head drafts with it."""
    found = []
    for method in HEAD_METHODS.values():
        if f"head:{kind}" in method.card.needs:
            kit = kit_for(TARGET, method(), {kind: head}, TEXT, Sampling())
            run = method().start(kit)
            room = Room(context=TEXT, max_depth=9, max_nodes=64)
            proposal = run.propose(room, Seeded(1))
            found.append((proposal.tree, np.array([law() for law in proposal.raw_draft])))
    return found


def weights(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".pt":
        return torch.load(path, weights_only=True)
    return load_file(path)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in LOADERS])
def test_an_exported_head_drafts_the_same(tmp_path: Path, kind: str, full: bool) -> None:
    source = write_head(kind, tmp_path / "in", **RANKS)
    written = export_head(kind, source, tmp_path / "out", TARGET if full else None)
    names = [path.name for path in written]
    assert names == [*FILES[kind], "config.json", "manifest.json"]
    before, after = (load_head(kind, tmp_path / place, TARGET) for place in ("in", "out"))
    for (tree, laws), (again, same) in zip(drafts(kind, before), drafts(kind, after), strict=True):
        assert tree == again and np.abs(laws - same).max() < 1e-9
    own = load_file(source / "model.safetensors")
    for path in written[: len(FILES[kind])]:
        found = weights(path)
        shared = SHARED[kind] if full else {}
        assert all(torch.equal(found.pop(key), value) for key, value in shared.items())
        zeros = [found.pop(key) for key in list(found) if key not in own]
        assert all(not value.any() for value in zeros), "only Hydra's biases of zero are new"
        assert all(torch.equal(found[key], own[key]) for key in own)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["rank_acceptance"] == RANKS["rank_acceptance"]
    assert manifest["copies_of_the_target"] is full
    assert set(manifest["files"]) == set(names) - {"manifest.json"}


def test_configurations_say_what_readers_look_for(tmp_path: Path) -> None:
    wanted = {
        "eagle1": ("architectures", ["LlamaForCausalLM"]),
        "eagle3": ("architectures", ["LlamaForCausalLMEagle3"]),
        "mtp": ("num_nextn_predict_layers", 1),
    }
    for kind, (key, value) in wanted.items():
        export_head(kind, write_head(kind, tmp_path / kind), tmp_path / f"{kind}-out")
        config = json.loads((tmp_path / f"{kind}-out" / "config.json").read_text())
        assert config[key] == value


def test_copies_take_the_heads_dtype_only_if_nothing_is_lost(tmp_path: Path) -> None:
    half = {key: value.half() for key, value in mtp_tensors(Draw(1)).items()}
    source = write_head("mtp", tmp_path / "in", tensors=half)
    export_head("mtp", source, tmp_path / "wide", TARGET)
    copy = load_file(tmp_path / "wide" / "model.safetensors")["model.layers.8.embed_tokens.weight"]
    assert copy.dtype == torch.float64 and torch.equal(copy, EMBEDDING)
    rounded = tiny(seed=4, **TARGET_SHAPE)
    for weight in (rounded.model.get_input_embeddings(), rounded.model.get_output_embeddings()):
        weight.weight.data = weight.weight.data.half().double()
    export_head("mtp", source, tmp_path / "narrow", rounded)
    found = load_file(tmp_path / "narrow" / "model.safetensors")
    assert {value.dtype for value in found.values()} == {torch.float16}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    source = write_head("eagle1", tmp_path / "in")
    (tmp_path / "empty").mkdir()
    export_head("eagle1", source, tmp_path / "empty")
    before = {path: path.read_bytes() for path in (tmp_path / "empty").iterdir()}
    (tmp_path / "file").write_text("mine")
    for place in ("empty", "file", "in"):
        with pytest.raises(BadInput, match=f"{place} is not an empty folder"):
            export_head("eagle1", source, tmp_path / place)
    assert before == {path: path.read_bytes() for path in (tmp_path / "empty").iterdir()}


@pytest.mark.parametrize("full", [False, True])
def test_a_module_of_some_tokens_has_no_public_layout(tmp_path: Path, full: bool) -> None:
    tensors = mtp_tensors(Draw(1)) | {"d2t": torch.zeros(VOCAB - 5, dtype=torch.long)}
    source = write_head("mtp", tmp_path / "in", tensors=tensors)
    with pytest.raises(BadInput, match=f"35 tokens only.*know no d2t.*{source}"):
        export_head("mtp", source, tmp_path / "out", TARGET if full else None)
    assert not (tmp_path / "out").exists() and HIDDEN == 32


def test_the_command_exports_a_bundled_head_and_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from speclab.lab import export_console
    from speclab.lab.export_console import bundled_head, export
    from speclab.models.catalogue import load_pair

    export("eagle3", tmp_path / "out", "pocket", full=True)
    pair = load_pair("pocket", device="cpu")
    again = load_head("eagle3", tmp_path / "out", pair.target)
    shelved = pair.heads["eagle3"]
    assert again.rank_acceptance == shelved.rank_acceptance and again.taps == shelved.taps
    for name in ("fc", "qkv", "lm_head", "embedding"):
        ours, theirs = (getattr(head.net.weights, name) for head in (again, shelved))
        assert torch.equal(ours, theirs)
    with pytest.raises(BadInput, match="not an empty folder"):
        export("eagle3", tmp_path / "out", "pocket")
    with pytest.raises(BadInput, match="no kind of head 'lora'"):
        export("lora", tmp_path / "other", "pocket")
    with pytest.raises(BadInput, match="'parallel_mtp' have no public layout"):
        export("parallel_mtp", tmp_path / "other", "pocket-mtp")
    assert not (tmp_path / "other").exists()
    with pytest.raises(BadInput, match=r"toy has no medusa head; it has none\. Pairs.*: pocket"):
        bundled_head("medusa", "toy")
    with pytest.raises(BadInput, match=r"pocket has no mtp head.*Pairs.*pocket-mtp"):
        bundled_head("mtp", "pocket")
    there = r"it has eagle1, eagle3, kangaroo, medusa, mtp\. Pairs.*: pocket"
    with pytest.raises(BadInput, match=there):
        bundled_head("hydra", "smollm2-135m")
    monkeypatch.setattr(export_console, "trained_heads", lambda: {("hydra", "smollm2-135m")})
    with pytest.raises(BadInput, match="`python -m speclab train hydra --target smollm2-135m`"):
        bundled_head("hydra", "smollm2-135m")
