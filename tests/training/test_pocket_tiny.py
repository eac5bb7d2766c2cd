"""The recipe of the ladder's smallest network: a few steps give a whole, loadable folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from transformers import LlamaForCausalLM

from speclab.training.corpus import FAMILIES
from speclab.training.pocket_data import CorpusSize
from speclab.training.pocket_tiny import POCKET, Recipe, tiny_config, train


def test_a_few_steps_make_the_whole_folder(tmp_path: Path) -> None:
    size = CorpusSize(train_documents=60, held_out_per_family=40, tokens_per_step=256)
    folder = tmp_path / "weights"
    manifest = train(folder, recipe=Recipe(size=size, steps=2), work_dir=tmp_path / "work")
    assert json.loads((folder / "manifest.json").read_text(encoding="utf-8")) == manifest
    present = {path.name for path in folder.iterdir()}
    assert present - {"manifest.json"} == set(manifest["files"])
    weights = (folder / "model.safetensors").read_bytes()
    facts = manifest["files"]["model.safetensors"]
    assert hashlib.sha256(weights).hexdigest() == facts["sha256"] and len(weights) < 2_000_000
    tiny = manifest["models"]["tiny"]
    assert tiny["steps"] == 2 and set(tiny["held_out_loss"]) == set(FAMILIES)
    draft = json.loads((POCKET / "manifest.json").read_text(encoding="utf-8"))["models"]["draft"]
    assert tiny["parameters"] < draft["parameters"] / 4
    assert LlamaForCausalLM.from_pretrained(folder).config.vocab_size == tiny_config().vocab_size
