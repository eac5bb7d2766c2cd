"""Tokenizer and encoded corpus of the bundled pair `pocket`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from speclab.training import loop
from speclab.training.corpus import FAMILIES, Split, documents, write_document

END_OF_TEXT = "<|endoftext|>"
VOCABULARY = 2048
CONTEXT = 1024
HELD_OUT_LENGTH = 512
SHORT_END = 0.7
ECHO_END = 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSize:
    """How much text is written.

    Attributes:
        seed: Of the corpus and of the order of batches.
        train_documents: Documents that training text is drawn from.
        held_out_per_family: Documents per family for held-out losses.
        tokens_per_step: Token ids of one optimiser step.
        echo_share: Share of the rows in which a phrase repeats.
    """

    seed: int = 0
    train_documents: int = 120_000
    held_out_per_family: int = 60
    tokens_per_step: int = 2048
    echo_share: float = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The encoded corpus.

    Attributes:
        stream: `int64[tokens]`, every document preceded by id 0.
        starts: `int64[documents]`, where each document's id 0 stands.
        held_out: Per family `int64[rows, 512]`, packed rows of held-out text.
        fresh: The same of new documents made of known parts only.
        facts: sha256, documents and tokens, for the manifest.
    """

    stream: Tensor
    starts: np.ndarray
    held_out: dict[str, Tensor]
    fresh: dict[str, Tensor]
    facts: dict[str, str | int]


def train_tokenizer(texts: Iterator[str]) -> PreTrainedTokenizerFast:
    """Train the byte-level BPE of 2,048 tokens.

    Id 0 is `<|endoftext|>`; encoding puts it in front of every text, since that is how documents
    begin in training. All 256 bytes are tokens, and digits stand alone.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_OF_TEXT} $A",
        pair=f"{END_OF_TEXT} $A $B",
        special_tokens=[(END_OF_TEXT, 0)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def load_or_train_tokenizer(work_dir: Path, size: CorpusSize) -> PreTrainedTokenizerFast:
    """Return the tokenizer of `work_dir`, trained first on a sixth of the corpus if need be."""
    folder = work_dir / "tokenizer"
    if not (folder / "tokenizer.json").exists():
        sample = documents("train", size.train_documents // 6, size.seed)
        texts = (
            # Chinese counts four times, so that each of its characters becomes one token.
            document.text * (4 if document.family == "chinese" else 1)
            for document in sample
        )
        train_tokenizer(texts).save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)


def unseen_rows(
    tokenizer: PreTrainedTokenizerFast, size: CorpusSize, split: Split
) -> dict[str, Tensor]:
    """Return packed text per family that is not trained on, at most `int64[8, 512]` each."""
    rows = {}
    for family in FAMILIES:
        ids: list[int] = []
        for index in range(size.train_documents, size.train_documents + size.held_out_per_family):
            ids += tokenizer(write_document(family, split, index, size.seed).text)["input_ids"]
        whole = len(ids) // HELD_OUT_LENGTH * HELD_OUT_LENGTH
        rows[family] = torch.tensor(ids[:whole]).view(-1, HELD_OUT_LENGTH)[:8]
    return rows


def write_corpus(path: Path, size: CorpusSize, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write the corpus, encode it and save ids, document lengths and the sha256 of the text."""
    digest, lengths, pieces = hashlib.sha256(), [], []
    for document in documents("train", size.train_documents, size.seed):
        digest.update(f"{document.family}\n{document.text}\0".encode())
        ids = tokenizer(document.text)["input_ids"]
        lengths.append(len(ids))
        pieces.append(np.array(ids, dtype=np.uint16))
    stream, sha256 = np.concatenate(pieces), np.array(digest.hexdigest())
    np.savez(path, stream=stream, lengths=np.array(lengths), sha256=sha256)


def prepare_data(work_dir: Path, size: CorpusSize, tokenizer: PreTrainedTokenizerFast) -> Data:
    """Return the encoded corpus of `work_dir`, written first if there is none."""
    path = work_dir / "corpus.npz"
    if not path.exists():
        write_corpus(path, size, tokenizer)
    with np.load(path) as saved:
        stream, lengths = saved["stream"].astype(np.int64), saved["lengths"]
        sha256 = str(saved["sha256"])
    return Data(
        stream=torch.from_numpy(stream),
        starts=np.cumsum(lengths) - lengths,
        held_out=unseen_rows(tokenizer, size, "held_out"),
        fresh=unseen_rows(tokenizer, size, "train"),
        facts={"sha256": sha256, "documents": len(lengths), "tokens": len(stream)},
    )


def echo_row(stream: Tensor, length: int, rng: np.random.Generator) -> Tensor:
    """Return id 0 and a phrase repeated to `int64[length]`; half of the phrases are shuffled text.

    Such rows can only be predicted by looking back, which is what copying and editing need.
    """
    phrase_length = int(rng.integers(6, length // 3))
    if rng.random() < 0.5:
        phrase = stream[rng.integers(0, len(stream), phrase_length)]
    else:
        start = int(rng.integers(0, len(stream) - phrase_length))
        phrase = stream[start : start + phrase_length]
    row = torch.cat([torch.zeros(1, dtype=torch.int64), phrase.repeat(length // phrase_length + 1)])
    return row[:length]


def batch_source(data: Data, size: CorpusSize) -> loop.BatchSource:
    """Return packed rows that begin with a document; the last 15 % of a run sees 1,024 positions.

    Rows have 256 tokens for the first 70 % of the run, then 512, then 1,024. Until 35 % of the run,
    `echo_share` of the rows are phrases that repeat.

    A batch is `ids`, `int64[rows, length]`, and `guide_weight`, what the loss of guided heads
    counts: it falls from 0.5 to 0 while rows are short.
    """

    def batch_at(step: int, progress: float) -> dict[str, Tensor]:
        length = 256 if progress < SHORT_END else 512 if progress < 0.85 else CONTEXT
        rows = max(1, size.tokens_per_step // length)
        rng = np.random.default_rng((size.seed, step))
        last = int(np.searchsorted(data.starts, len(data.stream) - length - 1))
        # A few rows begin without id 0, so that a bare prompt is no surprise.
        chosen = data.starts[rng.integers(0, last, rows)] + (rng.random(rows) < 0.15)
        batch = torch.stack([data.stream[start : start + length] for start in chosen])
        if progress < ECHO_END:
            for row in np.flatnonzero(rng.random(rows) < size.echo_share):
                batch[row] = echo_row(data.stream, length, rng)
        weight = 0.5 * max(0.0, 1 - progress / SHORT_END)
        return {"ids": batch, "guide_weight": torch.tensor(weight)}

    return batch_at
