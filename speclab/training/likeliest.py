"""Recipe of the table that says which token most often follows each: counted, not trained."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from speclab.models.bigrams import FOLDER, count_pairs, likeliest_next
from speclab.training import export
from speclab.training.corpus import documents
from speclab.training.pocket_data import VOCABULARY

POCKET = Path(__file__).resolve().parents[2] / "assets" / "models" / "pocket"
DOCUMENTS = 4000


def write_table(output: Path | None = None, *, count: int = DOCUMENTS) -> dict[str, Any]:
    """Count the corpus in pocket's tokens, write the table as JSON and return it.

    Args:
        output: file; None: the one that ships. count: documents of the training split.
    """
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    texts = [tokenizer.encode(each.text) for each in documents("train", count)]
    table = {
        "title": "Which token most often follows each token of pocket's corpus",
        "target": "bundled:pocket/target",
        "licence": "Apache-2.0",
        "recipe": {"name": "likeliest", "documents": count, "tokens": sum(map(len, texts))},
        "tokenizer_sha256": export.sha256_of(POCKET / "tokenizer.json"),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "likeliest": list(likeliest_next(count_pairs(texts), VOCABULARY)),
    }
    place = output or FOLDER / "pocket.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(table, separators=(",", ":")) + "\n", encoding="utf-8")
    return table
