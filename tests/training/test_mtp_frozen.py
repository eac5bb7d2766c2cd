"""A module trained on a frozen target's stored states, over a part of the vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from speclab.core.errors import BadInput
from speclab.models.heads.files import read_tensors
from speclab.models.heads.mtp_files import load_head
from speclab.training.eagle import head_config
from speclab.training.eagle_data import HeadText
from speclab.training.frozen_target import FrozenTarget
from speclab.training.head_parts import frequent_tokens, with_steps
from speclab.training.mtp_export import write_mtp
from speclab.training.mtp_frozen import (
    FrozenHead,
    FrozenRecipe,
    agreement_of,
    frozen_loss,
    train,
    train_on,
)
from speclab.training.mtp_model import start_mtp

OWN, LAYERS = 24, 3
STORED = (1, LAYERS)
RECIPE = FrozenRecipe(max_steps=60, steps=2, draft_vocab=OWN, learning_rate=1e-2, measured_steps=3)


def target(**more: Any) -> Any:
    sizes = {"num_hidden_layers": LAYERS, "head_dim": 8, "dtype": torch.float32}
    return tiny(**{**sizes, **more})


def stored(handle: Any, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a batch as shards hold it: two layers, the last after the final norm."""
    with torch.no_grad():
        out = handle.model(input_ids=ids, use_cache=False, output_hidden_states=True)
    states = torch.stack([out.hidden_states[1], out.hidden_states[-1]], 2)
    return {"ids": ids, "states": states.bfloat16(), "best": out.logits.argmax(-1)}


def frozen(model: Any) -> FrozenTarget:
    return FrozenTarget(model, (LAYERS,), STORED)


def text_of(handle: Any) -> HeadText:
    """Return greedy text of a tiny target: something that can be learnt."""
    rows = torch.randint(0, 40, (8, 1), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for _ in range(47):
            logits = handle.model(input_ids=rows, use_cache=False).logits
            rows = torch.cat((rows, logits[:, -1].argmax(-1, keepdim=True)), 1)
    return HeadText(
        batch_at=lambda step, _: stored(handle, rows[[step % 6, (step + 1) % 6]]),
        held_out=[stored(handle, rows[6:])],
        counts=torch.bincount(rows.flatten()).numpy(),
        facts={"text": "own"},
        stored_layers=STORED,
    )


def test_the_loss_compares_each_step_with_its_later_law() -> None:
    handle = target()
    model, ids = handle.model, torch.randint(0, 40, (1, 12))
    draft_ids = torch.arange(0, 40, 2)
    head = FrozenHead(frozen(model), draft_ids)
    module = start_mtp(model, head_config(model.config), 0)
    batch = {**stored(handle, ids), "steps": torch.tensor(2)}
    with torch.no_grad():
        found = float(frozen_loss(head, RECIPE)(module, batch))
        final = batch["states"][0, :, -1].float()
        steps = head.drafts(module, final[None], ids, 2)
        law = (final @ model.lm_head.weight[draft_ids].T).softmax(-1)
    want = []
    for j, logits in enumerate(steps):
        each = [
            -(law[i + 1 + j] * logits[0, i].log_softmax(-1)).sum()
            for i in range(10)
            if int(batch["best"][0, i + 1 + j]) % 2 == 0
        ]
        want.append(float(torch.stack(each).mean()))
    assert found == pytest.approx(0.625 * want[0] + 0.375 * want[1], rel=1e-4)


def test_the_file_drafts_its_own_part_of_the_vocabulary(tmp_path: Path) -> None:
    handle = target()
    draft_ids = torch.randperm(40, generator=torch.Generator().manual_seed(2))[:OWN].sort().values
    model, config = handle.model, head_config(handle.model.config)
    module = start_mtp(model, config, 0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.half().float())
    write_mtp(tmp_path, module, config, LAYERS, {"name": "mtp"}, draft_ids=draft_ids)
    assert read_tensors(tmp_path)["d2t"].dtype == torch.int64
    head = load_head(tmp_path, handle)
    text = torch.randint(0, 40, (20,), generator=torch.Generator().manual_seed(3))
    features = handle.open([*text.tolist(), 0], head.taps).prefill_features
    session = head.open()
    session.extend({tap: rows[:19] for tap, rows in features.items()}, text[1:].tolist())
    drafted = session.root()
    shared = FrozenHead(frozen(model), draft_ids)
    final = torch.from_numpy(features["hidden[-1]"])[None]
    with torch.no_grad():
        (want,) = shared.drafts(module, final, text[None], 1)
    assert (drafted.logits[0] - want[0, -1]).abs().max() < 1e-3
    law = head.row(drafted.logits[0]).raw()
    assert law.shape == (40,) and set(np.flatnonzero(law)) == set(draft_ids.tolist())


def test_training_lowers_the_loss_is_written_and_resumes(tmp_path: Path) -> None:
    handle = target(tie_word_embeddings=True)
    text, work, out = text_of(handle), tmp_path / "work", tmp_path / "out"
    work.mkdir()
    draft_ids = frequent_tokens(text.counts, OWN, 40)
    shared = FrozenHead(frozen(handle.model), draft_ids)
    loss, batch = frozen_loss(shared, RECIPE), with_steps(text.batch_at, RECIPE.steps)(0, 0.99)
    with torch.no_grad():
        before = float(loss(start_mtp(handle.model, head_config(handle.model.config), 0), batch))
    manifest = train_on(handle, text, RECIPE, work=work, output=out)
    assert manifest["training"]["step"] == 60 and manifest["text"] == {"text": "own"}
    assert len(manifest["held_out_top1"]) == 3 and len(manifest["rank_acceptance"]) == 10
    assert manifest["parameters"] == load_head(out, handle).num_parameters
    longer = replace(RECIPE, max_steps=80)
    again = train_on(handle, text, longer, work=work, output=out, resume=True)
    assert again["training"]["step"] == 80
    module = start_mtp(handle.model, head_config(handle.model.config), 5)
    module.load_state_dict(torch.load(work / "mtp.pt", weights_only=True)["model"])
    with torch.no_grad():
        assert float(loss(module, batch)) < 0.85 * before
    found = agreement_of(shared, [batch], 3)(module)
    assert found["mtp"][0] == found["ranks"][0] > 0.3


def test_a_target_without_a_recipe_is_named() -> None:
    with pytest.raises(BadInput, match="No mtp head is trained for 'qwen3-4b'"):
        train("qwen3-4b")
