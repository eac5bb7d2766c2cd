"""Part of a packed Llama run ahead of its own pass: the first layers, or all but some sublayers.

Both write keys and values behind those of the committed tokens, in the layers they run. First
layers leave there what the whole pass would, so that `resume` goes on where they ended; where
sublayers are skipped the states differ, and the pass writes over them.

**Source:** LayerSkip 2404.16710, section 4.3; Draft & Verify 2309.08168, section 3.2, whose drafts
see the context through the keys and values of the whole network as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from speclab.core.errors import UnsupportedModel
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.models.attention import product
from speclab.models.llama import PackedCache, PackedLlama
from speclab.models.skips import check_exit, check_skips
from speclab.models.transformer import to_numpy

if TYPE_CHECKING:
    from speclab.models.transformer import TransformerSession

Passed = tuple[torch.Tensor, dict[str, torch.Tensor]]
Attend = Callable[[int, torch.Tensor], torch.Tensor]


def packed_cache(session: TransformerSession) -> PackedCache:
    """Return the session's cache if its layers can be run one by one.

    Raises:
        UnsupportedModel: naming the model.
    """
    cache = session._cache
    if not isinstance(cache, PackedCache):
        raise UnsupportedModel(
            f"{session.handle.name} cannot run some of its layers alone.",
            "Choose a plain Llama such as pocket or SmolLM2, or another method.",
            code="no_early_exit",
            values={"model": session.handle.name},
        )
    return cache


class PackedPart:
    """Base of what is run ahead; see `core.sessions.Shallow`.

    Args:
        session: of a packed model; its `ahead` is whoever ran last.
        exit_layer: as in the protocol.

    Raises:
        UnsupportedModel: for a model whose layers cannot be run one by one.
    """

    resumes = False

    def __init__(self, session: TransformerSession, exit_layer: int) -> None:
        self._session, self._cache = session, packed_cache(session)
        self._llama = self._cache.llama
        self.exit_layer, self.num_layers = exit_layer, self._llama.num_layers
        self._tree: TokenTree = EMPTY_TREE
        self._lead = 0
        self._states = self._none()

    def _none(self) -> torch.Tensor:
        width = self._llama.embedding.shape[1]
        return torch.empty(0, width, dtype=self._llama.dtype, device=self._llama.device)

    def _forget(self) -> None:
        self._tree, self._lead, self._states = EMPTY_TREE, 0, self._none()

    @property
    def hidden(self) -> NDArray:
        """Hidden states [1+nodes, hidden] of the pending token and the nodes run since `commit`."""
        if self._session.ahead is not self:
            return to_numpy(self._none())
        return to_numpy(self._states[max(self._lead - 1, 0) :])

    @torch.inference_mode()
    def extend(self, tree: TokenTree = EMPTY_TREE) -> NDArray:
        """Run what is new; see the protocol."""
        session = self._session
        if session.ahead is not self:
            self._forget()
            session.run_ahead(self)
        known = self._known(tree)
        self._keep(known)
        ids, seen, positions = session.layout(tree)
        lead = len(ids) - len(tree)
        states = self._run(ids, known, seen, positions) if known < len(ids) else self._none()
        self._append(states)
        self._lead, self._tree = lead, tree
        return to_numpy(states if known else states[lead - 1 :])

    def _known(self, tree: TokenTree) -> int:
        """Return how many tokens of a pass over `tree` were run, in the order of the pass.

        Nodes count while they have the same tokens and parents.
        """
        if not self._lead:
            return 0
        mine = zip(self._tree.tokens, self._tree.parents, strict=True)
        theirs = zip(tree.tokens, tree.parents, strict=True)
        count = 0
        for one, other in zip(mine, theirs, strict=False):
            if one != other:
                break
            count += 1
        return min(self._lead + count, len(self._states))

    def _keep(self, known: int) -> None:
        self._states = self._states[:known]

    def _append(self, states: torch.Tensor) -> None:
        self._states = torch.cat((self._states, states))

    def _run(
        self,
        ids: Sequence[int],
        known: int,
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
    ) -> torch.Tensor:
        """Return the states of `ids[known:]`, whose keys and values are stored."""
        start, count = self._cache.length + known, len(ids) - known
        attend = self._cache.attention(
            start,
            count,
            None if seen is None else seen[known:, : start + count],
            None if positions is None else positions[known:],
        )
        x = self._llama.embedding[self._session.handle.own_ids(ids[known:])]
        return self._through(x, attend)

    def _through(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        raise NotImplementedError

    @torch.inference_mode()
    def logits(self, hidden: NDArray, *, normed: bool = False) -> NDArray:
        """Return the target's head over hidden states; see the protocol."""
        llama = self._llama
        x = torch.from_numpy(np.array(hidden)).to(llama.device, llama.dtype)
        rows = product(x, llama.head) if normed else llama.finish(x)[0]
        return self._session.handle.target_logits(rows)


class EarlyLayers(PackedPart):
    """The first `exit_layer` layers; the session's next pass resumes after them.

    Raises:
        BadInput: if no layer is left to resume with.
    """

    resumes = True

    def __init__(self, session: TransformerSession, exit_layer: int) -> None:
        check_exit(exit_layer, packed_cache(session).llama.num_layers, session.handle.name)
        super().__init__(session, exit_layer)
        self._features: dict[str, torch.Tensor] = {}

    def _forget(self) -> None:
        super()._forget()
        self._features = {}

    def _keep(self, known: int) -> None:
        super()._keep(known)
        self._features = {tap: values[:known] for tap, values in self._features.items()}

    def _through(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        early = range(self.exit_layer)
        x, features = self._llama.through(x, early, attend, self._session._taps)
        for tap, values in features.items():
            before = self._features.get(tap, values[:0])
            self._features[tap] = torch.cat((before, values))
        return x

    def resume(
        self,
        tree: TokenTree,
        ids: Sequence[int],
        seen: NDArray[np.bool_] | None,
        positions: Sequence[int] | None,
        keep: int,
    ) -> Passed:
        """Append tokens to the cache, running for each only the layers it has not seen.

        Args:
            tree: what the target judges; passengers may follow it in `ids`.
            ids, seen, positions, keep: as in `PackedCache.forward`.
        """
        cache, llama = self._cache, self._llama
        known = self._known(tree)
        self._keep(known)
        if known < len(ids):
            self._append(self._run(ids, known, seen, positions))
        attend = cache.attention(cache.length, len(ids), seen, positions)
        late = range(self.exit_layer, self.num_layers)
        x, features = llama.through(self._states, late, attend, self._session._taps)
        logits, last = llama.finish(x[-keep:], self._session._taps)
        kept = {tap: values[-keep:] for tap, values in (self._features | features).items()}
        cache.length += len(ids)
        self._forget()
        return logits, kept | last


class SkippedSublayers(PackedPart):
    """All layers but some attentions and MLPs, whose inputs pass by.

    Args:
        attention, mlp: layers whose attention, or whose MLP, is left out.

    Raises:
        BadInput: for a layer that is not there.
    """

    def __init__(
        self, session: TransformerSession, attention: Collection[int], mlp: Collection[int]
    ) -> None:
        count = packed_cache(session).llama.num_layers
        check_skips(attention, mlp, count, session.handle.name)
        super().__init__(session, count)
        self._attention, self._mlp = frozenset(attention), frozenset(mlp)

    def _through(self, x: torch.Tensor, attend: Attend) -> torch.Tensor:
        return through_kept(self._llama, x, attend, self._attention, self._mlp)


def through_kept(
    llama: PackedLlama,
    x: torch.Tensor,
    attend: Attend,
    attention: Collection[int],
    mlp: Collection[int],
) -> torch.Tensor:
    """Return what all layers make of x [n, hidden], but for the attentions and MLPs named."""
    for index in range(llama.num_layers):
        if index not in attention:
            x = llama.attended(index, x, attend)
        if index not in mlp:
            x = llama.fed_forward(index, x)
    return x
