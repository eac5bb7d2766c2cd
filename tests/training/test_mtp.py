"""Training of multi-token prediction: the module is the head that drafts, one loss, two phases."""

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

from speclab.models.heads.files import read_tensors
from speclab.models.heads.mtp_files import load_head
from speclab.training import loop
from speclab.training.eagle import head_config
from speclab.training.losses import law_loss
from speclab.training.mtp import (
    NativeRecipe,
    agreement,
    batches,
    blend,
    joint_loss,
    joint_outputs,
    optimizer_of,
    step_weights,
    train_native,
)
from speclab.training.mtp_export import write_mtp, write_parallel
from speclab.training.mtp_model import NativeModel, start_mtp, start_parallel
from speclab.training.pocket_data import Data

LAYERS = 3
RECIPE = NativeRecipe(
    head_steps=30,
    joint_steps=30,
    num_heads=2,
    steps=2,
    measured_steps=3,
    head_learning_rate=1e-2,
    trunk_share=1.0,
    learning_rate=1e-2,
)


def target(**more: Any) -> Any:
    sizes = {"num_hidden_layers": LAYERS, "head_dim": 8, "dtype": torch.float32}
    return tiny(**{**sizes, **more})


def shaken(module: Any, seed: int = 1) -> Any:
    """Make every weight random and exactly representable in the exported dtype."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn_like(parameter)
            value = 0.2 * noise if parameter.ndim > 1 else 1 + 0.1 * noise
            parameter.copy_(value.half().float())
    return module


def native(handle: Any, heads: int = 2) -> NativeModel:
    config = head_config(handle.model.config)
    return NativeModel(
        handle.model,
        shaken(start_mtp(handle.model, config, 0)),
        shaken(start_parallel(handle.model, config, heads), 2),
    )


def some_ids(count: int = 40, rows: int = 1) -> Tensor:
    return torch.randint(0, 40, (rows, count), generator=torch.Generator().manual_seed(3))


def test_every_unrolled_step_is_what_the_loaded_module_drafts(tmp_path: Path) -> None:
    """Step j from place i: true pairs up to i, then the module's own outputs, at later places."""
    handle = target()
    model, config = native(handle), head_config(handle.model.config)
    write_mtp(tmp_path, model.mtp, config, LAYERS, {"name": "mtp"})
    head, ids = load_head(tmp_path, handle), some_ids()
    text = ids[0]
    features = handle.open([*text.tolist(), 0], head.taps).prefill_features
    with torch.no_grad():
        _, steps, _ = joint_outputs(model, ids, 3)
    for place in (0, 7, 36):
        session = head.open()
        part = {tap: values[: place + 1] for tap, values in features.items()}
        session.extend(part, text[1 : place + 2].tolist())
        drafted = session.root()
        for number, step in enumerate(steps):
            assert (drafted.logits[0] - step[0, place]).abs().max() < 1e-3, (place, number)
            token = int(text[place + 2 + number]) if number < 2 else 0
            drafted = session.grow(drafted.features, [token], None, number + 1)


def test_the_files_are_an_appended_layer_without_copies(tmp_path: Path) -> None:
    handle = target()
    model, config = native(handle), head_config(handle.model.config)
    manifest = write_mtp(tmp_path / "mtp", model.mtp, config, LAYERS, {"name": "mtp"})
    tensors = read_tensors(tmp_path / "mtp")
    layer = {f"self_attn.{p}_proj" for p in "qkvo"}
    layer |= {f"mlp.{p}_proj" for p in ("gate", "up", "down")}
    layer |= {"input_layernorm", "post_attention_layernorm"}
    outside = {"enorm", "hnorm", "eh_proj", "shared_head.norm"}
    assert tensors.keys() == {f"model.layers.{LAYERS}.{key}.weight" for key in layer | outside}
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    said = json.loads((tmp_path / "mtp" / "config.json").read_text())
    assert said["num_nextn_predict_layers"] == 1 and said["num_hidden_layers"] == LAYERS
    assert manifest["concat"] == "embedding-first" and manifest["date"]
    assert manifest["norm_in"] == manifest["norm_recycle"] == "after"
    write_parallel(tmp_path / "parallel", model.parallel, config, LAYERS, {"name": "parallel"})
    tensors = read_tensors(tmp_path / "parallel")
    assert tensors.keys() == {f"extra_heads.{k}.{key}.weight" for k in range(2) for key in layer}
    said = json.loads((tmp_path / "parallel" / "config.json").read_text())
    assert said["n_future_tokens"] == 3


def test_a_module_starts_as_the_targets_last_layer() -> None:
    handle = target()
    config, last = head_config(handle.model.config), handle.model.model.layers[-1]
    module, heads = start_mtp(handle.model, config, 0), start_parallel(handle.model, config, 2)
    states = torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(0))
    turn = module.turn(0, states)
    want = last(states, position_embeddings=tuple(part[None] for part in turn))
    want = want[0] if isinstance(want, tuple) else want
    for layer in (module, *heads.extra_heads):
        assert torch.allclose(layer.decode(states, turn, []), want, atol=1e-5)
    assert torch.equal(module.shared_head["norm"].weight, handle.model.model.norm.weight)


def test_the_loss_is_made_of_the_parts_that_it_names() -> None:
    """Place by place, written the long way: which law each step and each head is compared with."""
    handle = target()
    model, ids = native(handle), some_ids(12)
    with torch.no_grad():
        logits, steps, heads = joint_outputs(model, ids, 2)
        found = joint_loss(RECIPE)(model, {"ids": ids, "steps": torch.tensor(2)})
    law, length = logits[0].softmax(-1), ids.shape[1]

    def entropy(place: int, row: Tensor) -> float:
        return float(-(law[place] * row.log_softmax(-1)).sum())

    main = np.mean([-logits[0, i].log_softmax(-1)[ids[0, i + 1]] for i in range(length - 1)])
    module = [np.mean([entropy(i + 1 + j, steps[j][0, i]) for i in range(10)]) for j in (0, 1)]
    parallel = [
        np.mean([entropy(i + 1 + k, heads[k][0, i]) for i in range(length - 1 - k)]) for k in (0, 1)
    ]
    want = main + 0.3 * (0.625 * module[0] + 0.375 * module[1]) + 0.1 * np.mean(parallel)
    assert float(found) == pytest.approx(want, rel=1e-4)
    assert step_weights(3, 0.6) == pytest.approx([0.51, 0.31, 0.18], abs=0.005)
    uniform = torch.zeros(1, 2, 4)
    assert float(law_loss(uniform, uniform.softmax(-1))) == pytest.approx(np.log(4))
    skewed, where = torch.tensor([[[0.0] * 4, [9.0, 0.0, 0.0, 0.0]]]), torch.tensor([[1.0, 0.0]])
    assert float(law_loss(skewed, uniform.softmax(-1), where)) == pytest.approx(np.log(4))
    assert float(law_loss(skewed, uniform.softmax(-1), 0 * where)) == 0.0


def test_agreement_counts_best_tokens_of_the_places_named() -> None:
    handle = target()
    model, ids = native(handle), some_ids(14, rows=2)
    with torch.no_grad():
        logits, steps, heads = joint_outputs(model, ids, 3)
        found = agreement(model, [ids], 3)
    best = logits.argmax(-1)
    for name, drafts, count in (("mtp", steps, 3), ("parallel", heads, 2)):
        for j in range(count):
            hits = [
                int(drafts[j][row, i].argmax() == best[row, i + 1 + j])
                for row in range(2)
                for i in range(11)
            ]
            assert found[name][j] == pytest.approx(np.mean(hits), abs=1e-4)
    assert found["ranks"][0] == found["mtp"][0] and sum(found["ranks"]) <= 1.0001


def corpus(handle: Any) -> Data:
    """Return greedy text of a tiny target: something that can be learnt."""
    rows = some_ids(1, rows=12)
    with torch.no_grad():
        for _ in range(63):
            logits = handle.model(input_ids=rows, use_cache=False).logits
            rows = torch.cat((rows, logits[:, -1].argmax(-1, keepdim=True)), 1)
    stream = rows[:10].flatten().repeat(3)
    held_out = {"own": rows[10:]}
    return Data(
        stream=stream,
        starts=np.arange(0, len(stream), 64),
        held_out=held_out,
        fresh=held_out,
        facts={"sha256": "own"},
    )


def test_both_phases_lower_the_loss_and_resume(tmp_path: Path) -> None:
    handle = target(tie_word_embeddings=True)
    before = {key: value.clone() for key, value in handle.model.state_dict().items()}
    data = corpus(handle)
    batch = batches(data, RECIPE, "joint")(0, 0.0)
    fresh = NativeModel(
        handle.model,
        start_mtp(handle.model, head_config(handle.model.config), 0),
        start_parallel(handle.model, head_config(handle.model.config), 2),
    )
    with torch.no_grad():
        first = float(joint_loss(RECIPE)(fresh, batch))
    model, done = train_native(handle.model, data, RECIPE, work=tmp_path)
    with torch.no_grad():
        assert float(joint_loss(RECIPE)(model, batch)) < 0.9 * first
    assert done["heads"].step == done["joint"].step == 30
    heads = torch.load(tmp_path / "mtp-heads.pt", weights_only=True)["model"]
    for key, value in before.items():
        assert torch.equal(heads[f"target.{key}"], value), "the first phase moved the trunk"
    moved = [
        not torch.equal(before[key], value) for key, value in model.target.state_dict().items()
    ]
    assert all(moved), "the second phase trains all of the trunk"
    again = target(tie_word_embeddings=True).model
    longer = replace(RECIPE, joint_steps=34)
    _, done = train_native(again, data, longer, work=tmp_path, resume=True)
    assert done["joint"].step == 34
    lines = [json.loads(line) for line in (tmp_path / "mtp-joint.jsonl").open()]
    assert lines[-1]["done"] and len(lines[-1]["held_out"]["mtp"]) == 3


def test_the_trunk_ends_between_where_it_began_and_where_it_was_led() -> None:
    model, other = target().model, target(seed=1).model
    before = {key: value.clone() for key, value in model.state_dict().items()}
    blend(model, other.state_dict(), 0.25)
    for key, value in model.state_dict().items():
        want = 0.25 * before[key] + 0.75 * other.state_dict()[key]
        assert torch.allclose(value, want, atol=1e-6)


def test_the_trunk_moves_more_slowly() -> None:
    handle = target()
    model = native(handle)
    config = loop.LoopConfig(max_steps=1, learning_rate=1e-2, autocast_dtype=None)
    optimizer = optimizer_of(model, config, 0.125)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    source = lambda step, progress: {"ids": some_ids(), "steps": torch.tensor(2)}  # noqa: E731
    once = replace(config, warmup_steps=1, weight_decay=0.0)
    loop.run_loop(model, source, joint_loss(RECIPE), once, optimizer=optimizer)
    largest = {"target": 0.0, "mtp": 0.0}
    for name, value in model.named_parameters():
        part = name.partition(".")[0]
        if part in largest:
            moved = (value.detach() - before[name]).abs().max()
            largest[part] = max(largest[part], float(moved))
    assert largest["mtp"] > 5 * largest["target"] > 0


def test_steps_are_added_on_the_frozen_trunk_only() -> None:
    data = corpus(target())
    heads, joint = (batches(data, RECIPE, phase) for phase in ("heads", "joint"))
    assert [int(heads(5, share)["steps"]) for share in (0.0, 0.2, 0.3, 0.9)] == [1, 1, 2, 2]
    assert int(joint(5, 0.0)["steps"]) == 2
    assert heads(5, 0.0)["ids"].shape == (1, 256) and joint(5, 0.0)["ids"].shape == (2, 512)
    assert torch.equal(heads(5, 0.1)["ids"], heads(5, 0.9)["ids"])
