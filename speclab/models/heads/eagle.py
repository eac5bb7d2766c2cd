"""An EAGLE head of one target, and one request's session with a cache of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speclab.core.laws import Row
from speclab.models.attention import AttentionCache
from speclab.models.heads.eagle_layers import EagleNet


class Drafted(NamedTuple):
    """What a head says after n pairs.

    Attributes:
        logits: over its own vocabulary [n, draft vocab].
        features: its guess of the target's next features [n, h], which the next step reads.
    """

    logits: Tensor
    features: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class EagleHandle:
    """A loaded head of one target.

    Attributes:
        name: "eagle1" or "eagle3".
        taps: the target features it reads, in the order in which they are fused.
        vocab_size: width of its rows, in target ids.
        to_target: target id of each of its own ids [draft vocab]; None: they are the same.
        num_parameters: of the head itself; what it shares with the target is not counted.
        rank_acceptance: how often the target's choice was the head's r-th best, if measured.
    """

    name: str
    net: EagleNet
    taps: tuple[str, ...]
    vocab_size: int
    to_target: NDArray[np.int64] | None = None
    num_parameters: int = 0
    source: str = ""
    rank_acceptance: tuple[float, ...] = ()

    def open(self) -> EagleSession:
        """Return a session without any pairs."""
        return EagleSession(self)

    def target_ids(self, own: Sequence[int]) -> list[int]:
        """Return the target ids of the head's own ids."""
        if self.to_target is None:
            return list(own)
        return self.to_target[np.asarray(own, dtype=np.int64)].tolist()

    def row(self, logits: Tensor) -> Row:
        """Return logits [draft vocab] as a row in target ids; -inf for what is never drafted."""
        narrow = (logits if logits.dtype == torch.float64 else logits.float()).cpu().numpy()
        if self.to_target is None:
            return Row(narrow[: self.vocab_size])
        wide = np.full(self.vocab_size, -np.inf, dtype=narrow.dtype)
        wide[self.to_target] = narrow
        return Row(wide)


@dataclass(slots=True)
class EagleSession:
    """One request's pairs and the drafted nodes after them.

    The cache holds `length` true pairs, made of the target's features; drafted nodes stand behind
    them, made of the head's own, and are dropped as soon as the true ones are known.

    Attributes:
        handle: the head.
        length: true pairs cached.
    """

    handle: EagleHandle
    length: int = 0
    _cache: AttentionCache = field(init=False)
    _waiting: list[tuple[NDArray, tuple[int, ...]]] = field(default_factory=list)
    _root: Drafted | None = None

    def __post_init__(self) -> None:
        self._cache = AttentionCache(self.handle.net)

    def extend(self, features: Mapping[str, NDArray], tokens: Sequence[int]) -> None:
        """Append true pairs; the next `root` feeds them.

        Args:
            features: per tap [n, width].
            tokens: the token after each [n].
        """
        if not len(tokens):
            return
        taps = [features[tap] for tap in self.handle.taps]
        joined = taps[0] if len(taps) == 1 else np.concatenate(taps, axis=-1)
        assert len(joined) == len(tokens), f"{len(joined)} features but {len(tokens)} tokens"
        self._waiting.append((joined, tuple(tokens)))

    @torch.inference_mode()
    def root(self) -> Drafted | None:
        """Return what follows the last true pair (n = 1); None before there is any."""
        self._drop_nodes()
        if self._waiting:
            net = self.handle.net
            joined = np.concatenate([features for features, _ in self._waiting])
            tokens = [token for _, part in self._waiting for token in part]
            features = torch.from_numpy(joined).to(net.device, net.dtype)
            places = torch.arange(self.length, self.length + len(tokens), device=net.device)
            outputs = self._forward(net.fused(features), tokens, places, None)[-1:]
            self.length += len(tokens)
            self._waiting = []
            self._root = Drafted(net.logits(outputs), outputs)
        return self._root

    @torch.inference_mode()
    def grow(
        self,
        features: Tensor | list[Tensor],
        tokens: Sequence[int],
        seen: NDArray[np.bool_] | None,
        depth: int,
    ) -> Drafted:
        """Feed drafted nodes of one level.

        Args:
            features: of each node's parent [n, h], or one [h] per node.
            tokens: the nodes' target ids [n].
            seen: which nodes fed since `root`, these included, each of these attends to
                [n, fed + n]; None: all (a chain).
            depth: 1 for children of the pending token.
        """
        net, count = self.handle.net, len(tokens)
        if isinstance(features, list):
            features = torch.stack(features)
        if seen is not None:
            past = np.ones((count, self.length), dtype=bool)
            seen = np.concatenate([past, seen], axis=1)
        places = torch.full((count,), self.length - 1 + depth, device=net.device)
        outputs = self._forward(features, tokens, places, seen)
        return Drafted(net.logits(outputs), outputs)

    def _forward(
        self,
        features: Tensor,
        tokens: Sequence[int],
        places: Tensor,
        seen: NDArray[np.bool_] | None,
    ) -> Tensor:
        net, cache = self.handle.net, self._cache
        ids = torch.tensor(tokens, dtype=torch.long, device=net.device)
        longest = cache.length + len(tokens)
        return net.forward(cache, features, ids, places, longest, cache.mask(seen, len(tokens)))

    def _drop_nodes(self) -> None:
        self._cache.length = self.length

    def cache_rows(self) -> int:
        """Rows really held, drafted nodes included: for state checks."""
        return self._cache.length

    def close(self) -> None:
        """Release the cache."""
        self._cache = AttentionCache(self.handle.net, 0)
        self.length, self._root, self._waiting = 0, None, []
