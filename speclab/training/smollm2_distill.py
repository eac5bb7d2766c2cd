"""The draft of SmolLM2: its reduced vocabulary, its shape, and the loss that makes it imitate.

Source: Hinton et al., 2015 (arXiv:1503.02531), distillation; Zhou et al., DistillSpec, 2023
(arXiv:2310.08461), training on text of the target. Goel et al., VocabTrim, 2025 (arXiv:2506.22694),
a draft head over frequent tokens only.
Deviation: the embedding is reduced too, and tied to the head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from speclab.training.smollm2_loss import distillation_loss
from speclab.training.smollm2_teacher import Labelled

UNKNOWN = -1
"""What `draft_to_target` says of the draft's last row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftShape:
    """Size of the draft.

    Attributes:
        vocab_size: Proposable tokens; the embedding has one more row, for unknown context tokens.
        width: Hidden size.
        layers: Number of transformer blocks.
        heads: Attention heads.
        mlp: Width of the gated MLP.
        max_positions: Longest context, in tokens.
    """

    vocab_size: int = 8192
    width: int = 288
    layers: int = 2
    heads: int = 6
    mlp: int = 768
    max_positions: int = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWeights:
    """How the parts of the loss are weighed.

    Attributes:
        hard: Weight of the cross-entropy with the target's most probable token.
        greedy: Weight of the tokens of text sampled at temperature 0.
        warm: Weight of text sampled at a temperature in (0, 0.9).
        hot: Weight of text sampled at 0.9 and above.
        word_dropout: Share of context tokens shown as unknown.
        embedding_dropout: Dropout after the embedding.
    """

    hard: float = 0.5
    greedy: float = 1.5
    warm: float = 1.0
    hot: float = 0.7
    word_dropout: float = 0.02
    embedding_dropout: float = 0.05


class DistillBatch(NamedTuple):
    """One padded batch.

    Attributes:
        ids: Draft ids, int64 [rows, width], padded on the right.
        where: Flat index into [rows * width] of every position that has a law, int64 [laws].
        top_ids: Draft ids of the target's most probable tokens, int64 [laws, k].
        top_probs: Their probabilities, float32 [laws, k].
        weight: Weight of each law, float32 [laws].
    """

    ids: Tensor
    where: Tensor
    top_ids: Tensor
    top_probs: Tensor
    weight: Tensor


def count_tokens(sequences: Iterable[Sequence[int]]) -> Counter[int]:
    """Count target ids over sequences.

    Args:
        sequences: Token ids.

    Returns:
        Occurrences of each id.
    """
    counts: Counter[int] = Counter()
    for sequence in sequences:
        counts.update(sequence)
    return counts


def build_vocabulary(counts: Counter[int], always: Iterable[int], size: int) -> np.ndarray:
    """Choose the draft's tokens: the required ones, then the most frequent, in order of target id.

    The order keeps "the lowest id among equals" the same in both vocabularies.

    Args:
        counts: Occurrences of each target id in sampled text.
        always: Target ids that must be there: special tokens and those of the chat template.
        size: Number of proposable tokens.

    Returns:
        `draft_to_target`, int32 [size + 1]; the last entry is `UNKNOWN`.
    """
    keep = set(always)
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    unseen = (token for token in range(size + len(keep)) if token not in counts)
    for token in [*ranked, *unseen]:
        if len(keep) >= size:
            break
        keep.add(token)
    return np.array([*sorted(keep), UNKNOWN], dtype=np.int32)


def target_to_draft(draft_to_target: np.ndarray, target_vocab: int) -> np.ndarray:
    """Invert the map; every other target id becomes the unknown row.

    Args:
        draft_to_target: int [draft vocab + 1].
        target_vocab: Size of the target's vocabulary.

    Returns:
        Draft id of each target id, int64 [target_vocab].
    """
    known = draft_to_target[:-1]
    table = np.full(target_vocab, len(known), dtype=np.int64)
    table[known] = np.arange(len(known))
    return table


def build_draft(
    shape: DraftShape, *, special: dict[str, int], target_rows: Tensor | None, seed: int
) -> LlamaForCausalLM:
    """Make an untrained draft.

    Args:
        shape: Its size.
        special: `bos_token_id`, `eos_token_id` and `pad_token_id`, as draft ids.
        target_rows: The target's embedding of each proposable token, [vocab, target width]: the
            draft starts from their best projection to its own width. None: random.
        seed: Of the initial weights.

    Returns:
        A float32 model with tied embeddings and `vocab_size + 1` rows.
    """
    config = LlamaConfig(
        vocab_size=shape.vocab_size + 1,
        hidden_size=shape.width,
        intermediate_size=shape.mlp,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.width // shape.heads,
        max_position_embeddings=shape.max_positions,
        tie_word_embeddings=True,
        **special,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    if target_rows is not None:
        rows = project_rows(target_rows, shape.width)
        with torch.no_grad():
            model.get_input_embeddings().weight[:-1] = rows
            model.get_input_embeddings().weight[-1] = rows.mean(0)
            model.model.norm.weight.fill_(0.5)
    return model


def project_rows(rows: Tensor, width: int, std: float = 0.05) -> Tensor:
    """Project embeddings to fewer dimensions so that their inner products change least.

    Args:
        rows: [vocab, target width].
        width: Dimensions kept.
        std: Standard deviation of the result.

    Returns:
        float32 [vocab, width].
    """
    rows = rows.float()
    _, axes = torch.linalg.eigh(rows.T @ rows)
    projected = rows @ axes[:, -width:]
    return projected * (std / projected.std())


class DistillBatches:
    """Batches of labelled sequences of similar length; a pure function of the step.

    Args:
        data: Labelled sequences.
        keep: Which of them to use, int [n].
        table: Draft id of each target id, int [target vocab].
        weights: Weights by temperature.
        rows: Sequences per batch.
        seed: Of the order.
    """

    POOL = 24

    def __init__(
        self,
        data: Labelled,
        keep: np.ndarray,
        table: np.ndarray,
        *,
        weights: LossWeights,
        rows: int = 16,
        seed: int = 0,
    ) -> None:
        self.data, self.keep, self.table = data, keep, table
        self.weights, self.rows, self.seed = weights, rows, seed
        self.per_epoch = max(1, len(keep) // rows)
        self._plan: tuple[int, list[np.ndarray]] = (-1, [])

    def __call__(self, step: int, progress: float = 0.0) -> DistillBatch:
        """Return the batch of a step; `progress` is not used."""
        epoch, position = divmod(step, self.per_epoch)
        if self._plan[0] != epoch:
            self._plan = (epoch, self._order(epoch))
        return self.collate(self._plan[1][position])

    def _order(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(self.keep)
        lengths = np.diff(self.data.starts)
        batches = []
        for begin in range(0, len(order), self.rows * self.POOL):
            pool = order[begin : begin + self.rows * self.POOL]
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            batches += [pool[i : i + self.rows] for i in range(0, len(pool), self.rows)]
        return [batches[index] for index in rng.permutation(len(batches))]

    def collate(self, chosen: np.ndarray) -> DistillBatch:
        """Pad the chosen sequences into one batch.

        Args:
            chosen: Indices of sequences, int [rows].

        Returns:
            The batch; the law of each answer token stands at the token before it.
        """
        data = self.data
        width = int(np.diff(data.starts)[chosen].max())
        ids = np.zeros((len(chosen), width), np.int64)
        where, laws, weight = [], [], []
        for row, index in enumerate(chosen):
            tokens = data.tokens[data.starts[index] : data.starts[index + 1]]
            ids[row, : len(tokens)] = self.table[tokens]
            span = np.arange(data.label_starts[index], data.label_starts[index + 1])
            where.append(row * width + len(tokens) - len(span) - 1 + np.arange(len(span)))
            laws.append(span)
            has_law = data.top_logp[span, 0] > -np.inf
            weight.append(has_law * np.float32(self._weight(data.temperature[index])))
        picked = np.concatenate(laws)
        return DistillBatch(
            ids=torch.from_numpy(ids),
            where=torch.from_numpy(np.concatenate(where)),
            top_ids=torch.from_numpy(data.top_ids[picked].astype(np.int64)),
            top_probs=torch.from_numpy(np.exp(data.top_logp[picked].astype(np.float32))),
            weight=torch.from_numpy(np.concatenate(weight)),
        )

    def _weight(self, temperature: float) -> float:
        if temperature == 0:
            return self.weights.greedy
        return self.weights.warm if temperature < 0.9 else self.weights.hot


def draft_logits(
    model: nn.Module, batch: DistillBatch, dropped: LossWeights | None = None
) -> Tensor:
    """Run the draft over a batch.

    Args:
        model: The draft.
        batch: What to read.
        dropped: Dropout rates while training; None for none.

    Returns:
        Logits of the proposable tokens at every position with a law, [laws, vocab].
    """
    ids = batch.ids
    table = model.get_input_embeddings().weight
    if dropped is not None:
        hidden_words = torch.rand(ids.shape) < dropped.word_dropout
        ids = ids.masked_fill(hidden_words, len(table) - 1)
    embedded = functional.embedding(ids, table)
    if dropped is not None:
        embedded = functional.dropout(embedded, dropped.embedding_dropout)
    hidden = model.model(inputs_embeds=embedded, use_cache=False).last_hidden_state
    picked = hidden.reshape(-1, hidden.shape[-1])[batch.where]
    return functional.linear(picked, table[:-1])


@torch.no_grad()
def held_out_numbers(
    model: nn.Module, batches: DistillBatches, *, temperature: float | None = None
) -> dict[str, float]:
    """Measure the draft on held-out sequences.

    Args:
        model: The draft, in eval mode.
        batches: Source of the held-out sequences.
        temperature: Only sequences sampled at this temperature; None for all.

    Returns:
        `loss` (cross-entropy with the target's law, nats per token), `top1` (share of positions
        where both have the same best token), `overlap` (mean of sum min(p, q) over the stored
        tokens, at temperature 1: a lower bound), `tokens`.
    """
    of = batches.data.temperature[batches.keep]
    keep = batches.keep if temperature is None else batches.keep[np.isclose(of, temperature)]
    sums = np.zeros(4)
    lengths = np.diff(batches.data.starts)
    keep = keep[np.argsort(lengths[keep], kind="stable")]
    for begin in range(0, len(keep), batches.rows):
        batch = batches.collate(keep[begin : begin + batches.rows])
        logits = draft_logits(model, batch)
        q = torch.softmax(logits.float(), -1).gather(1, batch.top_ids)
        count = len(batch.weight)
        even = (batch.top_ids, batch.top_probs, torch.ones(count))
        sums += (
            float(distillation_loss(logits, *even, 0.0)) * count,
            float((logits.argmax(-1) == batch.top_ids[:, 0]).sum()),
            float(torch.minimum(q, batch.top_probs).sum()),
            count,
        )
    loss, top1, overlap, total = map(float, sums)
    if not total:
        return {"tokens": 0.0}
    return {"loss": loss / total, "top1": top1 / total, "overlap": overlap / total, "tokens": total}


def special_ids(tokenizer: Any, table: np.ndarray) -> dict[str, int]:
    """Return the draft ids of the tokenizer's special tokens, for the draft's configuration.

    Args:
        tokenizer: The target's tokenizer.
        table: Draft id of each target id.

    Returns:
        `bos_token_id`, `eos_token_id` and `pad_token_id`.
    """
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {name: int(table[getattr(tokenizer, name)]) for name in names}
