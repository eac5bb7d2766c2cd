"""Independent chains of one draft model, merged where they agree: drawn, scored, followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from speclab.core.laws import Law, Row
from speclab.core.protocols import DraftKit, Room
from speclab.core.randomness import Randomness
from speclab.core.sessions import ModelHandle, Session
from speclab.core.trees import PENDING, TokenTree

Prefix = tuple[int, ...]
"""The tokens of a path from the pending token down."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One token of one chain.

    Attributes:
        prefix: the tokens of its chain before it. token: the token.
        law: what it was drawn from [vocab]; None: the most likely token. row: its source.
    """

    prefix: Prefix
    token: int
    law: Law | None
    row: Row


@dataclass(slots=True)
class MergedChains:
    """The distinct paths of one model's chains, as a tree that its session can score.

    Attributes:
        nodes: node id by path. tokens, parents: as in `TokenTree`.
        running: chains that go on after each path.
    """

    running: dict[Prefix, int]
    nodes: dict[Prefix, int] = field(default_factory=lambda: {(): PENDING})
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    def tree(self) -> TokenTree:
        """Return the distinct paths so far."""
        return TokenTree(tuple(self.tokens), tuple(self.parents))

    def grow(self, path: Prefix) -> None:
        """Let one more chain go on after `path`."""
        self.running[path] = self.running.get(path, 0) + 1
        if path not in self.nodes:
            self.nodes[path] = len(self.tokens)
            self.tokens.append(path[-1])
            self.parents.append(self.nodes[path[:-1]])


class ChainsOfOne:
    """One draft model's session of a request, and the paths it scored last."""

    def __init__(self, draft: ModelHandle, kit: DraftKit) -> None:
        self._sampling, self._eos = kit.sampling, kit.eos_ids
        self._prompt_length, self._max_context = len(kit.prompt), draft.max_context
        self._scored: dict[Prefix, int] = {}
        self.num_forwards = 0
        fits = len(kit.prompt) < draft.max_context
        self.session: Session | None = draft.open(kit.prompt) if fits else None

    def draw(self, count: int, depth: int, room: Room, rng: Randomness) -> list[list[Draw]]:
        """Draw `count` independent chains, level by level: one pass over the distinct paths each.

        A path that m chains share is scored once and continued m times. At temperature 0 chains
        would all be the same one.

        Returns:
            The tokens of each level, at most `depth`; a chain ends after EOS.
        """
        session, levels = self.session, []
        if session is None:
            return []
        depth = min(depth, self._max_context - session.length)
        merged = MergedChains({(): 1 if self._sampling.greedy else count})
        for _ in range(depth if count else 0):
            if not merged.running:
                break
            scores = session.score(merged.tree())
            self._scored, self.num_forwards = dict(merged.nodes), self.num_forwards + 1
            level: list[Draw] = []
            running, merged.running = merged.running, {}
            for prefix, times in running.items():
                row = scores.row(1 + merged.nodes[prefix])
                for draw in self._continue(prefix, times, row, room, rng):
                    level.append(draw)
                    if draw.token not in self._eos:
                        merged.grow((*prefix, draw.token))
            levels.append(level)
        return levels

    def _continue(
        self, prefix: Prefix, times: int, row: Row, room: Room, rng: Randomness
    ) -> list[Draw]:
        counts = self._sampling.counted(room.context, self._prompt_length, prefix)
        law = row.law(self._sampling, counts)
        if self._sampling.greedy:
            return [Draw(prefix, int(law.argmax()), None, row)]
        return [Draw(prefix, rng.draw(law), law, row) for _ in range(times)]

    def observe(self, emitted: Sequence[int], accepted: int) -> None:
        """Keep what was scored of the accepted path, append the rest and the next token."""
        session, kept = self.session, []
        if session is None:
            return
        for place in range(1, accepted + 1):
            node = self._scored.get(tuple(emitted[:place]))
            if node is None:
                break
            kept.append(node)
        session.commit(kept, emitted[len(kept)])
        session.extend(list(emitted[len(kept) + 1 :]))
        self._scored = {}
        if session.length >= self._max_context:
            self.close()

    def close(self) -> None:
        """Release the cache."""
        if self.session is not None:
            self.session.close()
            self.session = None
