"""EAGLE training: the module is the head that drafts, public files, falling losses, resuming."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from speclab.core.errors import BadInput
from speclab.models.heads.eagle_files import load_head
from speclab.models.heads.files import read_manifest, read_tensors
from speclab.models.heads.shelf import LOADERS
from speclab.training.eagle import (
    Recipe,
    head_config,
    head_loss,
    start_module,
    train_head,
    train_on,
    write_head,
)
from speclab.training.eagle_data import HeadText
from speclab.training.eagle_model import EagleModule, Kind
from speclab.training.frozen_target import FrozenTarget
from speclab.training.head_parts import frequent_tokens, with_steps
from speclab.training.head_states import SHARD_ROWS, PackedRows, stored_in, write_states

KINDS: tuple[Kind, ...] = ("eagle1", "eagle3")
OWN = 24


def target(**more: Any) -> Any:
    return tiny(num_hidden_layers=6, head_dim=8, dtype=torch.float32, **more)


def random_module(kind: Kind, handle: Any, draft_ids: torch.Tensor) -> EagleModule:
    module = start_module(kind, handle.model, draft_ids, 0)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn_like(parameter)
            parameter.copy_(0.2 * noise if parameter.ndim > 1 else 1 + 0.1 * noise)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_every_draft_step_is_what_the_loaded_head_drafts(tmp_path: Path, kind: Kind) -> None:
    """Step j from place i: true pairs up to i, then the head's own outputs, at shifted places."""
    handle = target()
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    draft_ids = order[: OWN if kind == "eagle3" else 40].sort().values
    module = random_module(kind, handle, draft_ids)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.half().float())
    write_head(tmp_path, module, head_config(handle.model.config), draft_ids, {"name": kind})
    head = load_head(tmp_path, handle)
    text = torch.randint(0, 40, (40,), generator=torch.Generator().manual_seed(3))
    features = handle.open([*text.tolist(), 0], head.taps).prefill_features
    joined = np.concatenate([features[tap] for tap in head.taps], -1)
    with torch.no_grad():
        steps = module(torch.from_numpy(joined)[None], text[None], 3)
    for place in (0, 7, 36):
        session = head.open()
        part = {tap: values[: place + 1] for tap, values in features.items()}
        session.extend(part, text[1 : place + 2].tolist())
        drafted = session.root()
        for number, step in enumerate(steps):
            gap = (drafted.logits[0] - module.logits(step[0, place])).abs().max()
            assert gap < 1e-3, (place, number)
            token = int(text[place + 2 + number]) if number < 2 else 0
            drafted = session.grow(drafted.features, [token], None, number + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_that_drafting_will_read(kind: Kind) -> None:
    """The joined hidden states are the session's taps, and the logits the target's own."""
    handle = target()
    layers = (2, 3, 3) if kind == "eagle3" else (6,)
    frozen = FrozenTarget(handle.model, layers)
    ids = torch.randint(0, 40, (1, 30), generator=torch.Generator().manual_seed(3))
    seen = frozen({"ids": ids})
    taps = tuple(f"hidden[{layer}]" for layer in layers)
    session = handle.open([*ids[0].tolist(), 0], taps)
    want = np.concatenate([session.prefill_features[tap] for tap in taps], -1)
    assert np.abs(seen.features[0].numpy() - want).max() < 1e-4
    rows = handle.evaluate([ids[0].tolist()], [30])[0]
    logits = frozen.logits(seen.final)
    assert np.abs(logits[0, 7].numpy() - rows[7].logits).max() < 1e-3
    assert torch.equal(seen.best, logits.argmax(-1))
    some = torch.tensor([3, 17])
    assert torch.allclose(frozen.logits(seen.final, some), logits[..., some], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_states_are_what_the_target_computes(tmp_path: Path, kind: Kind) -> None:
    """Shards hold every layer any head reads; a head sees them within bfloat16's rounding."""
    handle = target()
    layers = (2, 3, 3) if kind == "eagle3" else (6,)
    ids = torch.randint(0, 40, (SHARD_ROWS + 3, 20), generator=torch.Generator().manual_seed(3))
    rows = PackedRows(ids, ids % 3 > 0)
    other = PackedRows(ids.flip(0), rows.written)
    write_states(handle.model, (2, 3, 6), rows, tmp_path, lambda line: None)
    write_states(handle.model, (2, 3, 6), other, tmp_path, lambda line: None)
    stored = stored_in(tmp_path)
    assert len(stored) == SHARD_ROWS
    assert np.array_equal(stored.counts(), torch.bincount(ids.flatten()).numpy())
    batch = stored.rows([5, 0])
    assert torch.equal(batch["ids"], ids[[5, 0]])
    kept = FrozenTarget(handle.model, layers, (2, 3, 6))(batch)
    made = FrozenTarget(handle.model, layers)({"ids": ids[[5, 0]]})
    assert (kept.features - made.features).norm() < 0.05 * made.features.norm()
    assert (kept.final - made.final).norm() < 0.05 * made.final.norm()
    assert torch.equal(kept.written, (ids[[5, 0]] % 3 > 0).float())
    assert bool(made.written.all())
    assert (kept.best == made.best).float().mean() > 0.9


def test_the_files_are_the_public_ones_without_copies(tmp_path: Path) -> None:
    handle, draft_ids = target(), torch.arange(3, 3 + OWN)
    layer = {f"self_attn.{p}_proj.weight" for p in "qkvo"}
    layer |= {f"mlp.{p}_proj.weight" for p in ("gate", "up", "down")}
    layer |= {"post_attention_layernorm.weight"}
    norms = {"hidden_norm.weight", "input_layernorm.weight"}
    wanted = {
        "eagle1": {"fc.weight", "fc.bias", *(f"layers.0.{key}" for key in layer)},
        "eagle3": {"fc.weight", "norm.weight", "lm_head.weight", "d2t", "t2d"}
        | {f"midlayer.{key}" for key in layer | norms},
    }
    for kind in KINDS:
        module = start_module(kind, handle.model, draft_ids, 0)
        folder = tmp_path / kind
        write_head(folder, module, head_config(handle.model.config), draft_ids, {"name": kind})
        tensors = read_tensors(folder)
        assert tensors.keys() == wanted[kind]
        config = json.loads((folder / "config.json").read_text())
        assert config["num_hidden_layers"] == 1 and config["hidden_size"] == 32
        floats = [t for t in tensors.values() if t.is_floating_point()]
        assert {t.dtype for t in floats} == {torch.float16}
    assert tensors["d2t"].dtype == torch.int64 and (tensors["d2t"] == 3).all()
    assert tensors["t2d"].dtype == torch.bool and int(tensors["t2d"].sum()) == OWN
    assert config["draft_vocab_size"] == OWN and tensors["fc.weight"].shape == (32, 96)
    assert set(KINDS) <= LOADERS.keys()


def text_of(handle: Any, seed: int = 0) -> HeadText:
    """Return greedy text of a tiny target: something that can be learnt."""
    rows = torch.randint(0, 40, (8, 1), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for _ in range(47):
            logits = handle.model(input_ids=rows, use_cache=False).logits
            rows = torch.cat((rows, logits[:, -1].argmax(-1, keepdim=True)), 1)

    def batch_at(step: int, progress: float) -> dict[str, torch.Tensor]:
        return {"ids": rows[[step % 6, (step + 1) % 6]]}

    counts = torch.bincount(rows.flatten(), minlength=40).numpy()
    held_out = [{"ids": rows[6:]}]
    return HeadText(batch_at=batch_at, held_out=held_out, counts=counts, facts={"text": "own"})


SHORT = Recipe(max_steps=60, steps=2, draft_vocab=OWN, learning_rate=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_training_lowers_the_loss_is_written_and_resumes(tmp_path: Path, kind: Kind) -> None:
    handle = target(tie_word_embeddings=True)
    text, work, out = text_of(handle), tmp_path / "work", tmp_path / "out"
    work.mkdir()
    draft_ids = frequent_tokens(text.counts, OWN if kind == "eagle3" else 40, 40)
    frozen = FrozenTarget(handle.model, (2, 3, 3) if kind == "eagle3" else (6,))
    loss = head_loss(frozen, SHORT, draft_ids)
    batch = with_steps(text.batch_at, SHORT.steps)(0, 0.99)
    with torch.no_grad():
        before = float(loss(start_module(kind, handle.model, draft_ids, 0), batch))
    manifest = train_on(kind, handle, text, SHORT, work=work, output=out)
    first = manifest["training"]["step"]
    assert first == 60 and manifest["text"] == {"text": "own"}
    assert (
        datetime.date.fromisoformat(manifest["date"]) <= datetime.datetime.now(datetime.UTC).date()
    )
    assert len(manifest["held_out_top1"]) == 5 and len(manifest["rank_acceptance"]) == 10
    assert manifest["parameters"] == load_head(out, handle).num_parameters
    assert read_manifest(out)["files"].keys() >= {"model.safetensors", "config.json"}
    longer = replace(SHORT, max_steps=80)
    again = train_on(kind, handle, text, longer, work=work, output=out, resume=True)
    assert again["training"]["step"] == 80
    module = start_module(kind, handle.model, draft_ids, 5)
    state = torch.load(work / f"{kind}.pt", weights_only=True)["model"]
    module.load_state_dict(state)
    with torch.no_grad():
        after = float(loss(module, batch))
    assert after < 0.85 * before
    stored = read_tensors(out)["fc.weight"].float()
    assert torch.allclose(stored, module.fc.weight, atol=1e-2)
    assert any(json.loads(line).get("loss") for line in (out / "training.jsonl").open())


def test_steps_are_added_in_the_first_half() -> None:
    source = with_steps(text_of(target()).batch_at, 4)
    made = [int(source(10, share)["steps"]) for share in (0.0, 0.13, 0.3, 0.49, 0.5, 0.9)]
    assert made == [1, 2, 3, 4, 4, 4]


def test_the_most_frequent_tokens_are_those_of_the_text_then_any() -> None:
    """A text need not reach the end of the vocabulary."""
    counts = np.array([0, 5, 0, 9, 1])
    assert frequent_tokens(counts, 2, 40).tolist() == [1, 3]
    more = frequent_tokens(counts, 12, 40).tolist()
    assert len(set(more)) == 12 and more == sorted(more) and {1, 3, 4} <= set(more)
    assert frequent_tokens(counts, 40, 40).tolist() == list(range(40))
    for wanted, vocab in ((41, 40), (2, 4)):
        with pytest.raises(BadInput, match=f"the target has {vocab}"):
            frequent_tokens(counts, wanted, vocab)


def test_a_target_without_a_recipe_is_named() -> None:
    with pytest.raises(BadInput, match="No eagle3 head is trained for 'qwen3-4b'"):
        train_head("eagle3", "qwen3-4b")
