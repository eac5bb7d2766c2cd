"""The recipe of Medusa and Hydra heads: alignment, learning, resuming, export."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny_model

from speclab.core.errors import BadInput
from speclab.models.heads import hydra, medusa
from speclab.models.heads.files import read_manifest
from speclab.models.transformer import TransformerHandle
from speclab.training import loop
from speclab.training import medusa as recipe_of
from speclab.training.eagle_data import HeadText
from speclab.training.medusa import Recipe, frozen
from speclab.training.medusa_start import start_by_regression

SIZE = 12
KINDS = ("medusa", "hydra")
COUNTING = Recipe(num_heads=3, measured_tokens=10)


def shift(steps: int) -> torch.Tensor:
    return torch.eye(SIZE).roll(steps, 0)


def counting_handle() -> TransformerHandle:
    """A Llama that says i + 1 after token i, around a circle of 12; its state names i."""
    model = tiny_model(
        "llama",
        dtype=torch.float32,
        vocab_size=SIZE,
        hidden_size=SIZE,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=False,
    )
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(SIZE))
        model.lm_head.weight.copy_(4.0 * shift(1))
    return TransformerHandle(model=model, name="counting", vocab_size=SIZE, source="counting@1")


def counting_rows(step: int, progress: float = 0.0) -> dict[str, torch.Tensor]:
    starts = np.random.default_rng(step).integers(0, SIZE, 4)
    return {"ids": torch.from_numpy((starts[:, None] + np.arange(16)) % SIZE)}


def right_head(kind: str, handle: TransformerHandle) -> Any:
    """Heads built, not trained, to be right; see the tests of the methods."""
    head = recipe_of.new_head(kind, handle.model, dataclasses.replace(COUNTING, own_outputs=True))
    with torch.no_grad():
        for k in range(3):
            if kind == "medusa":
                head.outputs[k] = 4.0 * shift(2 + k)
            else:
                head.firsts[k].weight.zero_()
                block = slice((k + 1) * SIZE, (k + 2) * SIZE)
                head.firsts[k].weight[:SIZE, block].fill_diagonal_(3.0)
    return head


@pytest.mark.parametrize("kind", KINDS)
def test_targets_of_the_heads_are_the_tokens_they_draft(kind: str) -> None:
    """On text whose future is known the right heads are at the least loss; shifted ones are not."""
    handle = counting_handle()
    target, head = frozen(handle.model), right_head(kind, handle)
    batch = counting_rows(0)
    loss_fn = recipe_of.heads_loss(target, COUNTING)
    right = float(loss_fn(head, batch))
    evaluation = recipe_of.held_out_numbers(target, [batch])
    assert list(evaluation(head).values()) == [1.0, 1.0, 1.0]
    found = recipe_of.measured_accuracies(head, handle, [[3, 4], [5]], COUNTING)
    greedy_half = np.array(found["accuracies"])[:, 0]
    assert (greedy_half > 0.9).all()
    with torch.no_grad():
        if kind == "medusa":
            head.outputs.copy_(head.outputs.roll(1, 1))
        else:
            for first in head.firsts:
                first.weight.copy_(first.weight.roll(SIZE, 1))
    assert list(evaluation(head).values()) == [0.0, 0.0, 0.0]
    assert float(loss_fn(head, batch)) > right + 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_linear_start_already_guesses(kind: str) -> None:
    """Where the future is a linear map of the state, least squares finds it."""
    handle = counting_handle()
    target = frozen(handle.model)
    head = recipe_of.new_head(kind, handle.model, dataclasses.replace(COUNTING, own_outputs=True))
    evaluation = recipe_of.held_out_numbers(target, [counting_rows(99)])
    assert max(evaluation(head).values()) < 0.5
    places = start_by_regression(head, target, (counting_rows(s) for s in range(3)))
    assert places == 3 * 4 * (16 - 4)
    assert list(evaluation(head).values()) == [1.0, 1.0, 1.0]


def test_ranks_are_counted_where_the_right_token_stands() -> None:
    handle = counting_handle()
    head = right_head("medusa", handle)
    with torch.no_grad():
        for k in range(3):
            head.outputs[k] = 4.0 * shift(2 + k) + 5.0 * shift(5 + k) + 6.0 * shift(7 + k)
        handle.model.lm_head.weight.mul_(9.0)
    found = recipe_of.measured_accuracies(head, handle, [[3, 4]], COUNTING)
    assert found["accuracies"] == [[0, 0, 1.0] + [0] * 7] * 3
    assert found["accuracies_measured_on"]["positions"] == 2 * (12 - 4)


def text_of(rows: Any) -> HeadText:
    return HeadText(
        batch_at=rows,
        held_out=[rows(10_000)],
        counts=np.ones(SIZE, dtype=np.int64),
        facts={"text": "counting"},
    )


@pytest.fixture
def counting_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TransformerHandle:
    handle = counting_handle()

    class Pair:
        target = handle

        class codec:
            tokenizer = None

    monkeypatch.setattr(recipe_of, "load_pair", lambda *_, **__: Pair)
    monkeypatch.setattr(recipe_of, "measuring_prompts", lambda *_: [[1, 2], [7, 8, 9]])
    monkeypatch.setattr(recipe_of, "WORK_DIR", tmp_path / "work")
    for kind in KINDS:
        monkeypatch.setitem(recipe_of.RECIPES, ("counting", kind), COUNTING)
    return handle


@pytest.mark.parametrize("kind", KINDS)
def test_heads_learn_and_what_is_written_is_what_was_trained(
    kind: str, counting_pair: TransformerHandle, tmp_path: Path
) -> None:
    before = {key: value.clone() for key, value in counting_pair.model.state_dict().items()}
    recipe = dataclasses.replace(
        COUNTING, own_outputs=kind == "medusa", max_steps=150, learning_rate=3e-2
    )
    folder = tmp_path / "head"
    manifest = recipe_of.train_head(
        kind, "counting", folder, recipe=recipe, text=text_of(counting_rows)
    )
    after = counting_pair.model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert min(manifest["held_out_top1"]) > 0.95
    assert read_manifest(folder) == manifest and manifest["trained_on"] == "counting@1"
    assert {"config.json", "model.safetensors", "training.jsonl"} <= manifest["files"].keys()
    lines = (folder / "training.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines if "loss" in json.loads(line)]
    assert losses[-1] < losses[0]
    loader = medusa if kind == "medusa" else hydra
    loaded = loader.load_head(folder, counting_pair)
    assert loaded.accuracies == tuple(map(tuple, manifest["accuracies"]))
    trained = recipe_of.new_head(kind, counting_pair.model, recipe)
    loop.load_checkpoint(tmp_path / "work" / "counting" / f"{kind}.pt", trained)
    rest = (3, SIZE) if kind == "medusa" else ([(4,), (9,)], SIZE)
    ours, theirs = (head.rows(np.eye(SIZE)[3], *rest).logits for head in (loaded, trained))
    assert torch.allclose(ours, theirs, atol=0.05)


def test_a_resumed_run_goes_on_where_it_stopped(
    counting_pair: TransformerHandle, tmp_path: Path
) -> None:
    seen: list[int] = []

    def rows(step: int, progress: float = 0.0) -> dict[str, torch.Tensor]:
        seen.append(step)
        return counting_rows(step)

    short = dataclasses.replace(COUNTING, max_steps=8)
    first = recipe_of.train_head("medusa", "counting", recipe=short, text=text_of(rows))
    stopped = first["training"]["step"]
    seen.clear()
    longer = dataclasses.replace(short, max_steps=16)
    second = recipe_of.train_head(
        "medusa", "counting", recipe=longer, text=text_of(rows), resume=True
    )
    assert seen[1] == stopped and second["training"]["step"] > stopped


def test_a_target_without_a_recipe_is_refused() -> None:
    with pytest.raises(BadInput, match="No medusa heads are trained for 'qwen3-4b'"):
        recipe_of.train_head("medusa", "qwen3-4b")
