"""Sessions over Hugging Face causal language models: KV cache, tree attention, rollback."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.laws import Row
from speclab.core.sessions import Shallow
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.models.abilities import TREE_MASK, abilities, context_limit, refuse_recurrent
from speclab.models.caches import PathsCache, TransformersCache
from speclab.models.llama import PackedCache, PackedLlama, can_be_packed
from speclab.models.static_llama import Buffer, StaticCache
from speclab.models.vocab_map import VocabMap


def to_numpy(values: torch.Tensor) -> NDArray:
    """Return `values` in float64 if they are, else in float32."""
    wide = values if values.dtype == torch.float64 else values.float()
    return wide.cpu().numpy()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: CUDA's, Python's, or torch's CPU allocator's."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


_PACKING = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerHandle:
    """A loaded causal LM.

    Attributes:
        model: the module, in eval mode.
        vocab_size: width of the rows it hands out, in target token ids.
        vocab_map: set when the model has token ids of its own.
        source: where the weights came from, for provenance.
        provides: of "tree_mask" or "path_batch", "hidden", "rollback"; empty: found out by trying.
        max_context: longest sequence a session can hold exactly, in tokens.
        num_parameters: distinct parameters.
    """

    model: Any
    name: str
    vocab_size: int
    vocab_map: VocabMap | None = None
    source: str = ""
    provides: frozenset[str] = frozenset()
    max_context: int = field(init=False)
    num_parameters: int = field(init=False)
    _embedding: torch.nn.Embedding = field(init=False, repr=False)
    _packed: list[PackedLlama] = field(default_factory=list, init=False, repr=False)
    _four_bit: list[Any] = field(default_factory=list, init=False, repr=False)
    _spare: list[Buffer] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        refuse_recurrent(self.model, self.name)
        if not self.provides:
            object.__setattr__(self, "provides", abilities(self.model, self.name))
        count = sum(parameter.numel() for parameter in self.model.parameters())
        object.__setattr__(self, "num_parameters", count)
        object.__setattr__(self, "_embedding", self.model.get_input_embeddings())
        object.__setattr__(self, "max_context", context_limit(self.model.config))

    @property
    def dtype(self) -> str:
        """Name of the weights' dtype."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.device

    def new_cache(self) -> TransformersCache | PackedCache:
        """Return an empty cache; a plain Llama is packed at its first request."""
        if TREE_MASK not in self.provides:
            return PathsCache(self.model)
        packed = self._packed_llama()
        if packed is None:
            return TransformersCache(self.model)
        if self.device.type == "cuda":
            return StaticCache(packed, self._spare)
        return PackedCache(packed)

    def _packed_llama(self) -> PackedLlama | None:
        with _PACKING:
            if not self._packed and can_be_packed(self.model):
                self._packed.append(PackedLlama(self.model))
            return self._packed[0] if self._packed else None

    def open(self, prompt: Sequence[int], taps: Sequence[str] = ()) -> TransformerSession:
        """Prefill all but the last prompt token.

        Raises:
            BadInput: if the prompt is empty or longer than the context.
        """
        if not prompt:
            raise BadInput(
                "The prompt is empty.", "Type at least one character.", code="prompt_empty"
            )
        if len(prompt) > self.max_context:
            raise BadInput(
                f"The prompt has {len(prompt)} tokens but {self.name} can attend to "
                f"{self.max_context}.",
                "Shorten the prompt.",
                code="prompt_too_long",
                values={"tokens": len(prompt), "model": self.name, "limit": self.max_context},
            )
        return TransformerSession(self, prompt, taps)

    def own_ids(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the model's own ids [n] of target token ids."""
        ids = np.asarray(tokens, dtype=np.int64)
        if self.vocab_map is not None:
            ids = self.vocab_map.to_own[ids]
        else:
            ids = np.where(ids < self._embedding.num_embeddings, ids, 0)
        return torch.from_numpy(ids).to(self._embedding.weight.device)

    def target_logits(self, logits: torch.Tensor) -> NDArray:
        """Return rows [n, vocab_size] in target ids; -inf where the model has no such id."""
        rows = to_numpy(logits)
        if self.vocab_map is not None:
            wide = np.full((len(rows), self.vocab_size), -np.inf, dtype=rows.dtype)
            wide[:, self.vocab_map.proposed_targets] = rows[:, self.vocab_map.proposed]
            return wide
        if rows.shape[1] < self.vocab_size:
            wide = np.full((len(rows), self.vocab_size), -np.inf, dtype=rows.dtype)
            wide[:, : rows.shape[1]] = rows
            return wide
        return rows[:, : self.vocab_size]

    @torch.inference_mode()
    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return, per sequence, the rows after its last `keep` tokens; one padded batch, no cache.

        Right padding under a causal mask leaves the rows before it untouched.
        """
        longest = max(len(sequence) for sequence in sequences)
        padded = [list(sequence) + [0] * (longest - len(sequence)) for sequence in sequences]
        ids = torch.stack([self.own_ids(sequence) for sequence in padded])
        logits = self.model(input_ids=ids, use_cache=False).logits
        out = []
        for sequence, k, rows in zip(sequences, keep, logits, strict=True):
            kept = self.target_logits(rows[len(sequence) - k : len(sequence)])
            out.append([Row(row) for row in kept])
        return out


class TransformerScores:
    """Rows and features of one pass; see `core.sessions.Scores`."""

    def __init__(
        self,
        handle: TransformerHandle,
        logits: torch.Tensor,
        features: Mapping[str, torch.Tensor],
        num_nodes: int,
    ) -> None:
        self._handle, self._num_nodes = handle, num_nodes
        self._features = features
        self._logits = logits
        self._rows: list[Row] | None = None

    @property
    def target_logits(self) -> torch.Tensor | None:
        """Logits [1+nodes+passengers, vocab_size] on the device; None in ids of the model's own."""
        handle = self._handle
        same_ids = handle.vocab_map is None and self._logits.shape[-1] == handle.vocab_size
        return self._logits if same_ids else None

    def _all_rows(self) -> list[Row]:
        if self._rows is None:
            self._rows = [Row(row) for row in self._handle.target_logits(self._logits)]
        return self._rows

    def row(self, index: int) -> Row:
        """Row 0 follows the pending token, row 1 + i follows node i."""
        return self._all_rows()[index]

    def passenger_row(self, index: int) -> Row:
        """Row after passenger `index`."""
        return self._all_rows()[1 + self._num_nodes + index]

    def features(self, path: Sequence[int]) -> dict[str, NDArray]:
        """Features per tap [len(path)+1, hidden]."""
        rows = [0, *(1 + node for node in path)]
        return {tap: to_numpy(values[rows]) for tap, values in self._features.items()}


class TransformerSession:
    """One request's KV cache over a `TransformerHandle`.

    Invariant at a round boundary: the cache holds `tokens[:cache_length]`, and for a target
    `cache_length == length - 1`.
    """

    @torch.inference_mode()
    def __init__(
        self, handle: TransformerHandle, prompt: Sequence[int], taps: Sequence[str]
    ) -> None:
        self.handle, self.tokens = handle, list(prompt)
        self.num_forwards = 0
        self.prefill_features: dict[str, NDArray] = {}
        self._taps = tuple(taps)
        self._cache = handle.new_cache()
        self.ahead: Any = None
        self._cached = 0
        self._scored: TokenTree = EMPTY_TREE
        self._extra = 0
        if len(prompt) > 1:
            count = len(prompt) - 1
            _, features = self._forward(prompt[:-1], None, None, keep=count if taps else 1)
            self._cached = count
            self.prefill_features = {tap: to_numpy(values) for tap, values in features.items()}

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    @property
    def cache_length(self) -> int:
        """Committed tokens whose keys and values are cached."""
        return self._cached

    def _forward(
        self,
        ids: Sequence[int],
        seen: NDArray[np.bool_] | None,
        positions: list[int] | None,
        keep: int,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.num_forwards += 1
        return self._cache.forward(self.handle.own_ids(ids), seen, positions, keep, self._taps)

    @torch.inference_mode()
    def score(
        self, tree: TokenTree = EMPTY_TREE, passengers: TokenTree = EMPTY_TREE
    ) -> TransformerScores:
        """Evaluate what is not cached yet, then the tree, in one pass; see also `shallow`."""
        ahead = self.run_ahead(None)
        ids, seen, positions = self.layout(tree, passengers)
        extra = len(tree) + len(passengers)
        if ahead is not None and ahead.resumes:
            self.num_forwards += 1
            logits, features = ahead.resume(tree, ids, seen, positions, 1 + extra)
        else:
            logits, features = self._forward(ids, seen, positions, keep=1 + extra)
        self._scored, self._extra = tree, extra
        self._cached += len(ids) - extra
        return TransformerScores(self.handle, logits, features, len(tree))

    def run_ahead(self, part: Any) -> Any:
        """Drop what is not committed, note who runs layers ahead, and return who did before."""
        before = self.ahead
        self._drop_uncommitted()
        self._cut_cache(self.length - 1)
        self.ahead = part
        return before

    def layout(
        self, tree: TokenTree, passengers: TokenTree = EMPTY_TREE
    ) -> tuple[list[int], NDArray[np.bool_] | None, list[int] | None]:
        """Return a pass: its tokens, which ones each attends to, and the positions; None: causal.

        Raises:
            BadInput: if it does not fit into the context.
        """
        lead = self.tokens[self._cached :]
        deepest = self.length + max(tree.max_depth, passengers.max_depth)
        if deepest > self.handle.max_context:
            raise BadInput(
                f"{deepest} tokens do not fit into the context of "
                f"{self.handle.name} ({self.handle.max_context})."
            )
        seen = positions = None
        if not (tree.is_chain and not passengers.tokens):
            seen, positions = self._tree_attention(len(lead), tree, passengers)
        return [*lead, *tree.tokens, *passengers.tokens], seen, positions

    def shallow(self, exit_layer: int) -> Shallow:
        """Return the first layers, after which the next pass resumes; see `models.shallow`."""
        from speclab.models.shallow import EarlyLayers

        return EarlyLayers(self, exit_layer)

    def skipping(self, attention: Collection[int], mlp: Collection[int]) -> Shallow:
        """Return all layers but the attention, or the MLP, of some; see `models.shallow`."""
        from speclab.models.shallow import SkippedSublayers

        return SkippedSublayers(self, attention, mlp)

    def quantised(self, group_size: int) -> Shallow:
        """Return the network with 4-bit weights on a 4-bit cache; see `models.quantised`."""
        from speclab.models.quantised import QuantisedPart

        return QuantisedPart(self, group_size)

    def _tree_attention(
        self, num_lead: int, tree: TokenTree, passengers: TokenTree
    ) -> tuple[NDArray[np.bool_], list[int]]:
        """Return which tokens each new one sees [lead+n+m, cached+lead+n+m] and the positions."""
        n, m = len(tree), len(passengers)
        width, start = num_lead + n + m, self._cached
        mask = np.zeros((width, start + width), dtype=bool)
        mask[:, : start + num_lead] = True
        lead = np.tril(np.ones((num_lead, num_lead), dtype=bool))
        mask[:num_lead, start : start + num_lead] = lead
        for offset, part in ((num_lead, tree), (num_lead + n, passengers)):
            block = part.ancestor_mask()[1:, 1:]
            rows = slice(offset, offset + len(part))
            mask[rows, start + offset : start + offset + len(part)] = block
        last = self.length - 1
        positions = [start + i for i in range(num_lead)]
        positions += [last + depth for depth in tree.position_offsets]
        positions += [last + depth for depth in passengers.position_offsets]
        return mask, positions

    @torch.inference_mode()
    def commit(self, path: Sequence[int], next_token: int) -> None:
        """Keep the nodes of `path` in the cache and append `next_token`."""
        kept = [self._scored.tokens[node] for node in path]
        if list(path) == list(range(len(path))):
            self._crop(self._extra - len(path))
        else:
            self._cache.gather(self._cached, path)
        self._cached += len(path)
        self._extra, self._scored, self.ahead = 0, EMPTY_TREE, None
        self.tokens += [*kept, next_token]

    def _crop(self, count: int) -> None:
        if count > 0:
            self._cache.crop(count)

    def _drop_uncommitted(self) -> None:
        self._crop(self._extra)
        self._extra, self._scored, self.ahead = 0, EMPTY_TREE, None

    def rollback(self, length: int) -> None:
        """Forget every token from position `length` on; what is cached of the rest stays.

        Raises:
            BadInput: if `length` is not between 1 and the committed length.
        """
        if not 1 <= length <= self.length:
            raise BadInput(f"Cannot roll back to {length} of {self.length} tokens.")
        self._drop_uncommitted()
        del self.tokens[length:]
        self._cut_cache(length)

    def _cut_cache(self, length: int) -> None:
        surplus = self._cached - length
        if surplus > 0:
            self._crop(surplus)
            self._cached = length

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens; the next `score` feeds them."""
        self._drop_uncommitted()
        self.tokens += tokens

    def cache_rows(self) -> int:
        """Rows really held by the cache: for state checks."""
        return self._cache.length

    def close(self) -> None:
        """Release the cache."""
        self._cache = self.handle.new_cache()
        self._cached = 0
