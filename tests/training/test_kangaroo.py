"""Training of Kangaroo's adapter: the module is what drafts, its loss by hand, files, resuming."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny
from torch import Tensor

from speclab.core.errors import BadInput
from speclab.models.heads.files import read_tensors
from speclab.models.heads.kangaroo import load_head
from speclab.training.eagle_data import HeadText
from speclab.training.frozen_target import FrozenTarget
from speclab.training.head_states import SHARD_ROWS, PackedRows, stored_in, write_states
from speclab.training.kangaroo import (
    Recipe,
    adapter_loss,
    held_out_numbers,
    train,
    train_on,
    write_head,
)
from speclab.training.kangaroo_data import write_early
from speclab.training.kangaroo_model import KangarooModule, adapter_config, start_adapter

EXIT, LAYERS = 2, 4
RECIPE = Recipe(exit_layer=EXIT, minutes=9.0, max_steps=60, learning_rate=1e-2)


def target(**more: Any) -> Any:
    return tiny(num_hidden_layers=LAYERS, head_dim=8, dtype=torch.float32, **more)


def some_ids(rows: int, length: int) -> Tensor:
    return torch.randint(0, 40, (rows, length), generator=torch.Generator().manual_seed(3))


def shaken(module: KangarooModule) -> KangarooModule:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn_like(parameter)
            value = 0.2 * noise if parameter.ndim > 1 else 1 + 0.1 * noise
            parameter.copy_(value.half().float())
    return module


@pytest.mark.parametrize("kv_heads", [None, 1])
def test_every_place_is_what_the_loaded_adapter_drafts(
    tmp_path: Path, kv_heads: int | None
) -> None:
    handle = target()
    config = adapter_config(handle.model.config, kv_heads)
    module = shaken(start_adapter(handle.model, EXIT, config))
    manifest = write_head(tmp_path, module, config, EXIT, {"name": "kangaroo"})
    head, ids = load_head(tmp_path, handle), some_ids(1, 30)
    assert head.exit_layer == EXIT and manifest["date"]
    early = handle.open([*ids[0].tolist(), 0], head.taps).prefill_features[head.taps[0]]
    seen = FrozenTarget(handle.model, (EXIT,))({"ids": ids})
    assert np.abs(seen.features[0].numpy() - early).max() < 1e-4
    with torch.no_grad():
        want = module(seen.features)[0].numpy()
    session = head.open()
    assert np.abs(session.extend(early[:20]) - want[19]).max() < 1e-4
    for place in range(20, 30):
        assert np.abs(session.extend(early[place : place + 1]) - want[place]).max() < 1e-4


def test_the_files_have_public_names_and_shapes(tmp_path: Path) -> None:
    handle = target()
    config = adapter_config(handle.model.config)
    write_head(tmp_path, start_adapter(handle.model, EXIT, config), config, EXIT, {})
    shapes = {key: tuple(value.shape) for key, value in read_tensors(tmp_path).items()}
    stem = "layers.0.self_attn"
    assert shapes == {
        f"{stem}.q_proj.weight": (32, 32),
        f"{stem}.k_proj.weight": (16, 32),
        f"{stem}.v_proj.weight": (16, 32),
        f"{stem}.o_proj.weight": (32, 32),
        "layers.0.input_layernorm.weight": (32,),
        "norm.weight": (32,),
    }
    said = json.loads((tmp_path / "config.json").read_text())
    assert said["architectures"] == ["LlamaForCausalLM"] and said["num_hidden_layers"] == 1
    assert said["exit_layer"] == EXIT


@pytest.mark.parametrize("kv_heads", [None, 1])
def test_an_adapter_starts_as_the_next_layers_attention(kv_heads: int | None) -> None:
    """Of fewer heads it is the same attention with the other heads silenced."""
    handle = target()
    module = start_adapter(handle.model, EXIT, adapter_config(handle.model.config, kv_heads))
    layer, states = handle.model.model.layers[EXIT], torch.randn(1, 9, 32)
    turn = handle.model.model.rotary_emb(states, torch.arange(9)[None])
    attention = layer.self_attn
    with torch.no_grad():
        if kv_heads:
            attention.o_proj.weight[:, 16:] = 0.0
        mixed, _ = attention(layer.input_layernorm(states), position_embeddings=turn)
        want = handle.model.model.norm(states + mixed)
        assert torch.allclose(module(states), want, atol=1e-5)


def test_the_loss_is_a_cross_entropy_with_the_laws_at_the_same_places() -> None:
    handle, draft_ids = target(), torch.arange(0, 40, 2)
    ids = some_ids(1, 12)
    batch = {"ids": ids, "written": (torch.arange(12) >= 4)[None].float()}
    module = shaken(start_adapter(handle.model, EXIT, adapter_config(handle.model.config)))
    frozen = FrozenTarget(handle.model, (EXIT,))
    with torch.no_grad():
        found = float(adapter_loss(frozen, draft_ids)(module, batch))
        logits = handle.model(ids).logits[0]
        states = handle.model.model(ids, output_hidden_states=True).hidden_states[EXIT]
        draft = handle.model.lm_head(module(states))[0][:, draft_ids]
    law = logits[:, draft_ids].softmax(-1)
    each = [
        float(-(law[i] * draft[i].log_softmax(-1)).sum())
        for i in range(4, 12)
        if int(logits[i].argmax()) % 2 == 0
    ]
    assert each and found == pytest.approx(np.mean(each), rel=1e-4)


def test_steps_are_counted_after_streaks() -> None:
    """By hand: which places had the same best token, where the text is the target's own."""
    handle = target()
    ids = some_ids(2, 15)
    written = (torch.arange(15) != 7).float().expand(2, 15)
    module = start_adapter(handle.model, EXIT, adapter_config(handle.model.config))
    frozen = FrozenTarget(handle.model, (EXIT,))
    found = held_out_numbers(frozen, [{"ids": ids, "written": written}])(module)
    with torch.no_grad():
        seen = frozen({"ids": ids})
        best = frozen.logits(module(seen.features)).argmax(-1)
    same = [[bool(best[r, i] == seen.best[r, i]) for i in range(15)] for r in range(2)]
    for step in range(5):
        tries = hits = 0
        for row in same:
            for i in range(10):
                own = all(j != 7 for j in range(i, i + step + 1))
                if own and all(row[i : i + step]):
                    tries, hits = tries + 1, hits + row[i + step]
        assert found[f"top1[{step}]"] == pytest.approx(hits / max(1, tries), abs=1e-4)
    right = sum(row[i] for row in same for i in range(15) if i != 7)
    assert found["rank[0]"] == pytest.approx(right / 28, abs=1e-4)


def greedy_rows(handle: Any) -> Tensor:
    """Return greedy text of a tiny target: something that can be learnt."""
    rows = some_ids(12, 1)
    with torch.no_grad():
        for _ in range(31):
            logits = handle.model(input_ids=rows, use_cache=False).logits
            rows = torch.cat((rows, logits[:, -1].argmax(-1, keepdim=True)), 1)
    return rows


def test_training_lowers_the_loss_is_written_and_resumes(tmp_path: Path) -> None:
    handle = target(tie_word_embeddings=True)
    rows = greedy_rows(handle)
    text = HeadText(
        batch_at=lambda step, progress: {"ids": rows[:10]},
        held_out=[{"ids": rows[10:]}],
        counts=np.bincount(rows.flatten().numpy(), minlength=40),
        facts={"text": "own"},
    )
    frozen = FrozenTarget(handle.model, (EXIT,))
    loss, batch = adapter_loss(frozen, torch.arange(40)), {"ids": rows[:10]}
    with torch.no_grad():
        config = adapter_config(handle.model.config)
        before = float(loss(start_adapter(handle.model, EXIT, config), batch))
    work, out = tmp_path / "work", tmp_path / "out"
    manifest = train_on(handle, text, RECIPE, work=work, output=out)
    assert manifest["training"]["step"] == 60 and manifest["text"] == {"text": "own"}
    assert len(manifest["held_out_top1"]) == 5 and len(manifest["rank_acceptance"]) == 10
    assert manifest["parameters"] == load_head(out, handle).num_parameters
    assert any("loss" in json.loads(line) for line in (out / "training.jsonl").open())
    longer = replace(RECIPE, max_steps=70)
    again = train_on(handle, text, longer, work=work, output=out, resume=True)
    assert again["training"]["step"] == 70
    module = KangarooModule(config)
    module.load_state_dict(torch.load(work / "kangaroo.pt", weights_only=True)["model"])
    with torch.no_grad():
        assert float(loss(module, batch)) < 0.95 * before


def test_early_states_stand_beside_the_final_ones(tmp_path: Path) -> None:
    """Shard by shard; only the first layers are run, and what is there is not made again."""
    handle = target()
    rows = PackedRows(some_ids(2 * SHARD_ROWS, 16), torch.ones(2 * SHARD_ROWS, 16).bool())
    write_states(handle.model, (1, LAYERS), rows, tmp_path / "states", lambda line: None)
    stored = stored_in(tmp_path / "states")
    said: list[str] = []
    given = handle.model, EXIT, stored, tmp_path / "early"
    few = write_early(*given, 5, said.append)
    early = write_early(*given, progress=said.append)
    assert (len(few), len(early), len(said)) == (SHARD_ROWS, 2 * SHARD_ROWS, 2)
    batch = early.rows([40, 3])
    made = FrozenTarget(handle.model, (EXIT,))({"ids": rows.ids[[40, 3]]})
    kept = FrozenTarget(handle.model, (EXIT,), (EXIT, LAYERS))(batch)
    for name in ("features", "final"):
        ours, want = getattr(kept, name), getattr(made, name)
        assert (ours - want).norm() < 0.01 * want.norm(), name
    assert torch.equal(kept.best, made.best) and torch.equal(batch["ids"], rows.ids[[40, 3]])


def test_a_target_without_a_recipe_is_named() -> None:
    with pytest.raises(BadInput, match="No kangaroo head is trained for 'qwen3-4b'"):
        train("qwen3-4b")
