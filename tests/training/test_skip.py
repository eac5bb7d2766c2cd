"""Training for early exit: the paper's formulas, dropped layers, the loss by hand, a whole pair."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny
from torch import Tensor

from speclab.models.loading import load_model
from speclab.models.weight_files import ASSETS, locate
from speclab.training import skip_pair
from speclab.training.pocket_data import Data
from speclab.training.skip import (
    SkipRecipe,
    batches,
    dropout_rates,
    exit_loss,
    exit_numbers,
    exit_weights,
    exits_at,
    train_skip,
)
from speclab.training.skip_model import run_layers

LAYERS = 4
RECIPE = SkipRecipe(steps=24, learning_rate=1e-2, rotation=2, tokens_per_step=512)


def target(**more: Any) -> Any:
    return tiny(num_hidden_layers=LAYERS, dtype=torch.float32, **more)


def some_ids(rows: int, length: int) -> Tensor:
    return torch.randint(0, 40, (rows, length), generator=torch.Generator().manual_seed(3))


def test_dropout_rises_with_depth() -> None:
    """Twelve layers by hand: 0 at the first, p_max at the last, 2^(1/11) - 1 of it in between."""
    rates = dropout_rates(12, 0.2)
    assert rates[0] == 0.0 and rates[-1] == pytest.approx(0.2)
    assert rates[1] == pytest.approx(0.2 * 0.06504, abs=1e-5)
    assert rates == sorted(rates)


def test_late_exits_count_most() -> None:
    """Four layers, e = 0.2: 0, 0.2, 0.6 and 3 + 0.2 (0 + 1 + 2)."""
    assert exit_weights(4, 0.2) == pytest.approx([0.0, 0.2, 0.6, 3.6])
    assert exit_weights(12, 1.0)[-1] == 11 + 55


def test_exits_take_turns_and_the_last_one_always_learns() -> None:
    assert exits_at(0, 12, 4) == [4, 8, 11]
    assert exits_at(1, 12, 4) == [1, 5, 9, 11]
    assert exits_at(7, 12, 4) == [3, 7, 11]
    seen = {layer for step in range(4) for layer in exits_at(step, 12, 4)}
    assert seen == set(range(1, 12))


def test_layers_run_one_by_one_are_the_whole_model() -> None:
    handle, ids = target(), some_ids(2, 11)
    with torch.no_grad():
        states = run_layers(handle.model, ids)
        want = handle.model.model(ids, output_hidden_states=True).hidden_states
    assert len(states) == LAYERS and len(run_layers(handle.model, ids, 2)) == 2
    for number in range(LAYERS - 1):
        assert torch.allclose(states[number], want[number + 1], atol=1e-5)
    assert torch.allclose(handle.model.model.norm(states[-1]), want[-1], atol=1e-5)


def test_a_dropped_layer_hands_on_what_it_reads() -> None:
    """Row by row: the second row leaves out layers 1 and 3, as a model without them would."""
    handle, ids = target(), some_ids(2, 11)
    kept = torch.tensor([[True, True], [True, False], [True, True], [True, False]])
    with torch.no_grad():
        states = run_layers(handle.model, ids, kept=kept)
        whole = run_layers(handle.model, ids)
        handle.model.model.layers = torch.nn.ModuleList(
            [handle.model.model.layers[layer] for layer in (0, 2)]
        )
        short = run_layers(handle.model, ids)
    assert torch.allclose(states[-1][0], whole[-1][0], atol=1e-5)
    assert torch.allclose(states[-1][1], short[-1][1], atol=1e-5)
    assert torch.equal(states[0][1], states[1][1]) and torch.equal(states[2][1], states[3][1])
    nobody = torch.zeros(LAYERS, 2, dtype=torch.bool)
    with torch.no_grad():
        untouched = run_layers(handle.model, ids, kept=nobody)[-1]
    assert torch.equal(untouched, handle.model.model.embed_tokens(ids))


def test_the_loss_is_the_weighted_mean_of_the_exits() -> None:
    handle, ids = target(), some_ids(2, 9)
    batch = {
        "ids": ids,
        "kept": torch.ones(LAYERS, 2, dtype=torch.bool),
        "exits": torch.tensor([1, 3]),
    }
    with torch.no_grad():
        found = float(exit_loss(SkipRecipe(exit_scale=0.5))(handle.model, batch))
        states = handle.model.model(ids, output_hidden_states=True).hidden_states
        early = handle.model.lm_head(handle.model.model.norm(states[2]))
        last = handle.model.lm_head(states[4])
    entropies = []
    for logits in (early, last):
        logs = logits.log_softmax(-1)
        places = [-logs[row, i, ids[row, i + 1]] for row in range(2) for i in range(8)]
        entropies.append(float(torch.stack(places).mean()))
    weights = [0.5, 3 + 0.5 * 3]
    want = (weights[0] * entropies[0] + weights[1] * entropies[1]) / sum(weights)
    assert found == pytest.approx(want, rel=1e-4)


def corpus(handle: Any) -> Data:
    """Return greedy text of a tiny target: something that can be learnt."""
    rows = some_ids(12, 1)
    with torch.no_grad():
        for _ in range(63):
            logits = handle.model(input_ids=rows, use_cache=False).logits
            rows = torch.cat((rows, logits[:, -1].argmax(-1, keepdim=True)), 1)
    stream = rows[:10].flatten().repeat(3)
    unseen = {"story": rows[10:11], "code": rows[11:]}
    return Data(
        stream=stream,
        starts=np.arange(0, len(stream), 64),
        held_out=unseen,
        fresh=unseen,
        facts={"sha256": "own"},
    )


def test_batches_are_made_by_the_step_alone() -> None:
    data = corpus(target())
    one, two = batches(data, RECIPE, LAYERS), batches(data, RECIPE, LAYERS)
    for step in (0, 1):
        first, again = one(step, 0.1), two(step, 0.9)
        assert all(torch.equal(first[key], again[key]) for key in ("ids", "kept", "exits"))
        assert first["kept"].shape == (LAYERS, len(first["ids"])) and first["kept"][0].all()
    often = batches(data, replace(RECIPE, most_dropped=0.5, tokens_per_step=1024), LAYERS)
    dropped = torch.stack([~often(step, 0.0)["kept"] for step in range(60)]).float()
    found = dropped.mean((0, 2)).tolist()
    assert found == pytest.approx(dropout_rates(LAYERS, 0.5), abs=0.12)


def test_exits_learn_the_log_is_kept_and_a_stopped_run_resumes(tmp_path: Path) -> None:
    handle = target(tie_word_embeddings=True, initializer_range=0.05)
    data = corpus(target(seed=1))
    own = {"own": data.stream[:640].view(10, 64)}
    before = exit_numbers(handle.model, own)
    done = train_skip(handle.model, data, RECIPE, work=tmp_path)
    handle.model.eval()
    after = exit_numbers(handle.model, own)
    assert done.step == 24
    for found, began in zip(after["loss"]["own"], before["loss"]["own"], strict=True):
        assert found < began - 0.2
    assert before["agreement"]["own"][-1] == after["agreement"]["own"][-1] == 1.0
    lines = [json.loads(line) for line in (tmp_path / "skip.jsonl").open()]
    assert len(lines[-1]["held_out"]["fresh_loss"]) == LAYERS
    again = target(tie_word_embeddings=True, initializer_range=0.05)
    longer = replace(RECIPE, steps=26)
    assert train_skip(again.model, data, longer, work=tmp_path, resume=True).step == 26


def test_the_whole_pair_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the bundled weights, one step on another corpus: every file and every number."""
    pocket = load_model(locate("bundled:pocket/target", print), "float32", "cpu")
    ids = torch.randint(0, 2048, (6, 64), generator=torch.Generator().manual_seed(1))
    unseen = {"story": ids[4:5], "code": ids[5:]}
    data = Data(
        stream=ids[:4].flatten().repeat(4),
        starts=np.arange(0, 1024, 64),
        held_out=unseen,
        fresh=unseen,
        facts={"sha256": "own"},
    )
    monkeypatch.setattr(skip_pair, "WORK_DIR", tmp_path / "work")
    monkeypatch.setattr(skip_pair, "prepare_data", lambda *_: data)
    recipe = SkipRecipe(steps=1, tokens_per_step=512)
    manifest = skip_pair.train(tmp_path / "pocket-skip", recipe=recipe)
    there = {path.name for path in (tmp_path / "pocket-skip").rglob("*") if path.is_file()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "manifest.json"} <= there
    model = load_model(locate(str(tmp_path / "pocket-skip" / "target"), print), "float32", "cpu")
    assert model.config.num_hidden_layers == pocket.config.num_hidden_layers == 12
    facts = manifest["models"]["target"]
    assert manifest["start"]["weights"].startswith("bundled:pocket/target@")
    for said in (manifest["start"], facts):
        assert len(said["exits"]["held_out"]["loss"]["story"]) == 12
        mean = np.mean(list(said["held_out_loss"].values()))
        assert said["perplexity"]["held_out"] == pytest.approx(math.exp(mean), rel=1e-3)
    measured = exit_numbers(model, data.held_out)["loss"]
    for family, losses in facts["exits"]["held_out"]["loss"].items():
        assert losses == pytest.approx(measured[family], abs=2e-3)
    assert not (ASSETS / "pocket-skip.partial").exists()
