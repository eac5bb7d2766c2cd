"""What a draft of SmolLM2 learns from: the target's laws over text that it has written.

`label_shards` runs the target once over every sampled answer and keeps, for each answer token, the
`TOP_K` most probable tokens of the draft's *reduced* vocabulary with their log-probabilities: small
enough to keep on disk and to train on for many epochs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from speclab.training.smollm2_samples import Sample, chat_ids, is_held_out

TOP_K = 32
SHARD_SAMPLES = 256
LABEL_BATCH_TOKENS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Sequences with the target's laws; flat arrays, one slice of `starts` per sequence.

    Attributes:
        tokens: Target ids of prompt and answer, int32 [total].
        starts: Where each sequence begins in `tokens`, int64 [n+1].
        label_starts: Where the laws of each sequence begin, int64 [n+1]; a sequence with k laws has
            them for its last k tokens.
        top_ids: Draft ids of the most probable tokens, int16 [laws, TOP_K].
        top_logp: Their log-probabilities (of the law restricted to the draft's vocabulary),
            float16 [laws, TOP_K].
        temperature: At which each sequence was sampled, float32 [n].
        held_out: Whether the prompt of the sequence is held out, bool [n].
        soft: Whether the laws are the target's, and not one-hot ones, bool [n].
    """

    tokens: np.ndarray
    starts: np.ndarray
    label_starts: np.ndarray
    top_ids: np.ndarray
    top_logp: np.ndarray
    temperature: np.ndarray
    held_out: np.ndarray
    soft: np.ndarray

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.temperature)


def label_shards(
    model: Any,
    tokenizer: Any,
    samples: Sequence[Sample],
    draft_to_target: np.ndarray,
    folder: Path,
    *,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Compute the target's laws over every answer, in shards that survive an interruption.

    Args:
        model: The target.
        tokenizer: Its tokenizer.
        samples: Answers to label.
        draft_to_target: Target id of each draft id, int [draft vocab], -1 for the unknown row.
        folder: Where the shards go; a shard that is there already is kept.
        progress: Called with a line of text after each shard.

    Returns:
        The paths of the shards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocab = torch.from_numpy(draft_to_target[draft_to_target >= 0].astype(np.int64))
    head = model.get_output_embeddings().weight[vocab]
    paths = []
    for begin in range(0, len(samples), SHARD_SAMPLES):
        chunk = samples[begin : begin + SHARD_SAMPLES]
        name = hashlib.sha256(
            json.dumps([asdict(s) for s in chunk]).encode() + vocab.numpy().tobytes()
        )
        path = folder / f"{name.hexdigest()[:16]}.safetensors"
        if not path.is_file():
            arrays = _label_chunk(model, tokenizer, chunk, head)
            partial = path.with_suffix(f".{begin}.tmp")
            save_file(arrays, partial)
            partial.replace(path)
            if progress is not None:
                progress(f"labelled {begin + len(chunk)} of {len(samples)} samples")
        paths.append(path)
    return paths


def _label_chunk(
    model: Any, tokenizer: Any, samples: Sequence[Sample], head: torch.Tensor
) -> dict[str, np.ndarray]:
    rows = [(chat_ids(tokenizer, s.prompt), list(s.answer)) for s in samples]
    laws: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for batch in _batches([len(a) + len(b) for a, b in rows], LABEL_BATCH_TOKENS):
        laws.update(_label_batch(model, head, {index: rows[index] for index in batch}))
    order = range(len(rows))
    lengths = [len(a) + len(b) for a, b in rows]
    return {
        "tokens": np.concatenate([np.array(a + b, np.int32) for a, b in rows]),
        "starts": np.cumsum([0, *lengths]).astype(np.int64),
        "label_starts": np.cumsum([0, *(len(b) for _, b in rows)]).astype(np.int64),
        "top_ids": np.concatenate([laws[index][0] for index in order]),
        "top_logp": np.concatenate([laws[index][1] for index in order]),
        "temperature": np.array([s.temperature for s in samples], np.float32),
        "held_out": np.array([is_held_out(s.prompt) for s in samples]),
    }


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield indices of similar length whose padded size stays within `budget` tokens."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[index] * (len(batch) + 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@torch.inference_mode()
def _label_batch(
    model: Any, head: torch.Tensor, rows: dict[int, tuple[list[int], list[int]]]
) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
    width = max(len(a) + len(b) for a, b in rows.values())
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    for line, (prompt, answer) in enumerate(rows.values()):
        ids[line, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
    hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
    for line, (index, (prompt, answer)) in enumerate(rows.items()):
        span = slice(len(prompt) - 1, len(prompt) + len(answer) - 1)
        logits = (hidden[line, span] @ head.T).float()
        values, top = torch.topk(logits, TOP_K)
        logp = values - torch.logsumexp(logits, -1, keepdim=True)
        yield index, (top.to(torch.int16).numpy(), logp.half().numpy())


def load_labelled(paths: Sequence[Path]) -> Labelled:
    """Load and join labelled shards.

    Args:
        paths: What `label_shards` returned.

    Returns:
        All sequences, in the order of the paths.
    """
    shards = [load_file(path) for path in paths]
    return join_labelled(
        [Labelled(**shard, soft=np.ones(len(shard["held_out"]), bool)) for shard in shards]
    )


def one_hot_labels(tokenizer: Any, samples: Sequence[Sample], table: np.ndarray) -> Labelled:
    """Take sampled tokens themselves as laws, for text the target is not run over again.

    A token outside the draft's vocabulary gets no probability at all, which marks a law to skip.

    Args:
        tokenizer: The target's tokenizer.
        samples: Answers.
        table: Draft id of each target id; the largest one means unknown.

    Returns:
        One sequence per sample.
    """
    prompts = [chat_ids(tokenizer, sample.prompt) for sample in samples]
    answers = [list(sample.answer) for sample in samples]
    own = table[np.concatenate(answers)]
    known = own < table.max()
    top_ids = np.zeros((len(own), TOP_K), np.int16)
    top_ids[:, 0] = np.where(known, own, 0)
    top_logp = np.full((len(own), TOP_K), -np.inf, np.float16)
    top_logp[known, 0] = 0.0
    lengths = [len(a) + len(b) for a, b in zip(prompts, answers, strict=True)]
    return Labelled(
        tokens=np.concatenate([np.array(a + b, np.int32) for a, b in zip(prompts, answers)]),
        starts=np.cumsum([0, *lengths]).astype(np.int64),
        label_starts=np.cumsum([0, *map(len, answers)]).astype(np.int64),
        top_ids=top_ids,
        top_logp=top_logp,
        temperature=np.array([sample.temperature for sample in samples], np.float32),
        held_out=np.array([is_held_out(sample.prompt) for sample in samples]),
        soft=np.zeros(len(samples), bool),
    )


def join_labelled(parts: Sequence[Labelled]) -> Labelled:
    """Join labelled sequences, in order.

    Args:
        parts: At least one.

    Returns:
        All sequences.
    """
    flat = ("tokens", "top_ids", "top_logp", "temperature", "held_out", "soft")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in flat}
    for name in ("starts", "label_starts"):
        ends = np.cumsum([0, *(getattr(part, name)[-1] for part in parts)])
        pieces = [getattr(part, name)[:-1] + end for part, end in zip(parts, ends)]
        joined[name] = np.concatenate([*pieces, ends[-1:]])
    return Labelled(**joined)
