"""Recipe of `pocket-tiny`: the smallest network on the draft ladder, a fifth of pocket's draft.

One layer of width 32, trained on the corpus alone; it never sees the target. Its tokens are
pocket's.
"""

from __future__ import annotations

import datetime
import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from speclab.training import export, loop
from speclab.training.attention import use_chunked_attention
from speclab.training.losses import corpus_loss
from speclab.training.pocket import facts_of, unseen_losses
from speclab.training.pocket_data import (
    CONTEXT,
    VOCABULARY,
    CorpusSize,
    batch_source,
    prepare_data,
)

POCKET = Path(__file__).resolve().parents[2] / "assets" / "models" / "pocket"
OUTPUT_DIR = Path("assets/models/pocket-tiny")
WORK_DIR = Path("runs/pocket-tiny")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of the run.

    Attributes:
        size: of the corpus and its batches. steps, learning_rate: of the optimiser.
    """

    size: CorpusSize = field(
        default_factory=lambda: CorpusSize(train_documents=12_000, echo_share=0.0)
    )
    seed: int = 0
    steps: int = 1000
    learning_rate: float = 6e-3


def tiny_config() -> LlamaConfig:
    """Return one layer of width 32, 0.08 million parameters."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        tie_word_embeddings=True,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=None,
    )


def train(
    output_dir: Path = OUTPUT_DIR,
    *,
    recipe: Recipe | None = None,
    work_dir: Path = WORK_DIR,
    resume: bool = True,
) -> dict[str, Any]:
    """Train the model, write it with its manifest, and return the manifest.

    Args:
        output_dir: replaced at the very end. recipe: the shipped weights use the default.
        work_dir: folder of corpus, checkpoint and log. resume: go on from the checkpoint.
    """
    recipe = recipe or Recipe()
    work_dir.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    data = prepare_data(work_dir, recipe.size, tokenizer)
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(tiny_config())
    use_chunked_attention(model)
    limits = loop.LoopConfig(max_steps=recipe.steps, learning_rate=recipe.learning_rate)
    progress = loop.run_loop(
        model,
        batch_source(data, recipe.size),
        corpus_loss,
        limits,
        checkpoint=work_dir / "tiny.pt",
        log=work_dir / "tiny.jsonl",
        resume=resume,
        evaluation=unseen_losses(data),
    )
    return write(output_dir, model, recipe, facts_of(model, progress, data), data.facts)


def write(
    output_dir: Path,
    model: LlamaForCausalLM,
    recipe: Recipe,
    facts: dict[str, Any],
    corpus: dict[str, Any],
) -> dict[str, Any]:
    """Write weights and manifest beside `output_dir`, then put them in its place."""
    partial = output_dir.with_name(output_dir.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    export.write_model(model, partial)
    manifest = {
        "format": export.MANIFEST_FORMAT,
        "name": "pocket-tiny",
        "title": "Pocket tiny: a draft of 0.08 M",
        "licence": "Apache-2.0",
        "recipe": {"name": "pocket-tiny", **asdict(recipe)},
        "corpus": corpus,
        "vocabulary": VOCABULARY,
        "context": CONTEXT,
        "models": {"tiny": facts},
        "tokenizer_sha256": export.sha256_of(POCKET / "tokenizer.json"),
        "files": export.file_facts(partial),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (partial / "manifest.json").write_text(text, encoding="utf-8")
    shutil.rmtree(output_dir, ignore_errors=True)
    partial.rename(output_dir)
    return manifest
