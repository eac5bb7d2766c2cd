"""A draft model that drafts a tree: several candidates for each position, judged in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Law, Row, Sampling, most_likely
from speclab.core.protocols import (
    NO_PROPOSAL,
    DraftKit,
    Feedback,
    LocalText,
    MethodCard,
    Param,
    Proposal,
    Room,
)
from speclab.core.randomness import Randomness
from speclab.core.sessions import ModelHandle, Session
from speclab.core.trees import PENDING, TokenTree
from speclab.methods.draft_temperature import draft_temperature_param

SiblingKind = Literal["without-replacement", "iid", "top-k"]
WORDS: dict[str, frozenset[str]] = {
    "iid": frozenset({"sampled", "iid_siblings"}),
    "without-replacement": frozenset({"sampled", "siblings_without_replacement"}),
    "top-k": frozenset({"deterministic", "top_k_siblings"}),
}


@dataclass(slots=True)
class GrowingTree:
    """A tree under construction, level by level."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    laws: list[Law | None] = field(default_factory=list)
    raw: list[Callable[[], Law]] = field(default_factory=list)

    def tree(self) -> TokenTree:
        """Return the tree so far."""
        return TokenTree(tuple(self.tokens), tuple(self.parents))

    def add(self, parent: int, token: int, law: Law | None, row: Row) -> int:
        """Append a node and return its id."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.laws.append(law)
        self.raw.append(row.raw)
        return len(self.tokens) - 1


def check_attends(draft: ModelHandle) -> None:
    """Refuse a draft model that cannot evaluate a tree in one pass.

    Raises:
        UnsupportedModel: naming it.
    """
    if not draft.provides & {"tree_mask", "path_batch"}:
        raise UnsupportedModel(
            f"The draft {draft.name} cannot attend to a tree.",
            "Choose the method draft-model, or another pair.",
            code="draft_no_tree",
            values={"draft": draft.name},
        )


class DraftTreeRun:
    """One request's draft session and the tree it scored last."""

    def __init__(
        self,
        draft: ModelHandle,
        kit: DraftKit,
        sampling: Sampling,
        depth: int,
        width: int,
        siblings: str,
    ) -> None:
        self._sampling, self._depth, self._width = sampling, depth, width
        self._siblings, self._eos = siblings, kit.eos_ids
        self._prompt_length, self._max_context = len(kit.prompt), draft.max_context
        self._num_scored = 0
        fits = len(kit.prompt) < draft.max_context
        self.session: Session | None = draft.open(kit.prompt) if fits else None

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Grow the tree level by level; one pass over the tree so far per level.

        How many children a node gets is settled before any is drawn; nothing drawn is left out.

        **Source:** SpecInfer 2305.09781, section 3; RSD 2402.14160, algorithm 1 (RSD-C).
        """
        session = self.session
        if session is None:
            return NO_PROPOSAL
        depth = min(self._depth, room.max_depth, self._max_context - session.length)
        grown, level, forwards = GrowingTree(), [PENDING], 0
        for _ in range(depth):
            if not level or len(grown.tokens) >= room.max_nodes:
                break
            tree = grown.tree()
            scores = session.score(tree)
            self._num_scored, forwards = len(tree), forwards + 1
            following: list[int] = []
            for parent in level:
                count = min(self._width, room.max_nodes - len(grown.tokens))
                if count == 0:
                    break
                row, path = scores.row(1 + parent), tree.path_tokens(parent)
                for token, law in self._children(row, count, self._counts(path, room), rng):
                    node = grown.add(parent, token, law, row)
                    if token not in self._eos:
                        following.append(node)
            level = following
        return Proposal(
            tree=grown.tree(),
            draft_probs=tuple(grown.laws),
            raw_draft=tuple(grown.raw),
            num_draft_forwards=forwards,
        )

    def _children(
        self, row: Row, count: int, counts: Counter[int] | None, rng: Randomness
    ) -> list[tuple[int, Law | None]]:
        """Return up to `count` siblings, each with the law it was drawn from (None: chosen)."""
        if self._siblings == "top-k":
            ranked = row.law(replace(self._sampling, temperature=1.0), counts)
            best = most_likely(ranked, count)
            return [(int(token), None) for token in best if ranked[token] > 0.0]
        q = row.law(self._sampling, counts)
        drawn: list[tuple[int, Law | None]] = []
        for _ in range(count):
            drawn.append((rng.draw(q), q))
            if self._siblings == "without-replacement":
                q = left_to_draw(q, drawn[-1][0])
                if not q.any():
                    break
        return drawn

    def _counts(self, path: tuple[int, ...], room: Room) -> Counter[int] | None:
        return self._sampling.counted(room.context, self._prompt_length, path)

    def observe(self, feedback: Feedback) -> None:
        """Keep what was scored of the accepted path, append the rest and the next token."""
        session = self.session
        if session is None:
            return
        kept = [node for node in feedback.verdict.accepted if node < self._num_scored]
        rest = feedback.emitted[len(kept) :]
        session.commit(kept, rest[0])
        session.extend(rest[1:])
        self._num_scored = 0
        if session.length >= self._max_context:
            self.close()

    def state_key(self) -> Hashable | None:
        """The session is a function of the text."""
        return ()

    def close(self) -> None:
        """Release the draft's cache."""
        if self.session is not None:
            self.session.close()
            self.session = None


def left_to_draw(q: Law, token: int) -> Law:
    """Return q [vocab] without `token`, renormalised; zeros when nothing is left."""
    rest = q.copy()
    rest[token] = 0.0
    total = rest.sum()
    return rest / total if total > 0.0 else np.zeros_like(q)


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTree:
    """A small model drafts a tree of candidates, the target judges them all in one pass.

    Attributes:
        depth: levels of the tree. width: children per node.
        siblings: "without-replacement" (drawn, no token twice), "iid" (drawn independently) or
            "top-k" (the most likely, nothing drawn).
        draft_temperature: the draft's own temperature; None: the target's; 0: top-k.
    """

    depth: int = 3
    width: int = 2
    siblings: SiblingKind = "without-replacement"
    draft_temperature: float | None = None

    card: ClassVar[MethodCard] = MethodCard(
        name="draft-tree",
        title=LocalText("Draft tree", "草稿树"),
        one_liner=LocalText(
            "A small model drafts several candidates per position; one target pass judges all.",
            "小模型为每个位置起草多个候选，组成一棵树；目标模型一次前向全部验证。",
        ),
        paper="SpecInfer, Miao et al. 2023; RSD, Jeon et al. 2024 (2402.14160)",
        paper_url="https://arxiv.org/abs/2305.09781",
        needs=frozenset({"draft_model", "tree_mask"}),
        provides=frozenset({"tree", "chain", "raw_draft"}).union(*WORDS.values()),
        params=(
            Param(
                name="depth",
                symbol="d",
                kind="int",
                default=3,
                low=1,
                high=8,
                unit="levels",
                help=LocalText("How many tokens deep the tree is.", "树有多少层。"),
            ),
            Param(
                name="width",
                symbol="k",
                kind="int",
                default=2,
                low=1,
                high=8,
                unit="tokens",
                help=LocalText("How many candidates follow each node.", "每个节点有多少个候选。"),
            ),
            Param(
                name="siblings",
                symbol="",
                kind="choice",
                default="without-replacement",
                options=("without-replacement", "iid", "top-k"),
                help=LocalText(
                    "How candidates for one position are found: drawn without replacement, drawn "
                    "independently (repeats happen), or the most likely ones.",
                    "同一位置的候选如何产生：不放回抽取、独立抽取（可能重复），或取最可能的几个。",
                ),
            ),
            draft_temperature_param(
                LocalText(
                    "The draft's own temperature; empty: the target's; 0: the most likely tokens.",
                    "草稿模型自己的温度；留空则与目标相同；0 表示取最可能的词元。",
                ),
            ),
        ),
        colour_token="method-3",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """Siblings as asked for; a greedy draft has nothing to draw; width 1 is a chain."""
        shape = {"tree", "chain"} if self.width == 1 else {"tree"}
        return WORDS[self._kind(sampling)] | shape | {"raw_draft"}

    def _kind(self, sampling: Sampling) -> str:
        return "top-k" if self.draft_sampling(sampling).greedy else self.siblings

    def draft_sampling(self, sampling: Sampling) -> Sampling:
        """Return the request's sampling at the draft's own temperature."""
        return sampling.at_temperature(self.draft_temperature)

    def start(self, kit: DraftKit) -> DraftTreeRun:
        """Open the draft's session (its prefill).

        Raises:
            UnsupportedModel: if the pair has no draft model, or one that cannot attend to a tree.
        """
        if not kit.drafts:
            raise UnsupportedModel(
                "The method draft-tree needs a draft model, and this pair has none.",
                "Choose another pair, or a method such as prompt-lookup.",
                code="tree_needs_draft",
            )
        draft = kit.drafts[0]
        check_attends(draft)
        sampling = self.draft_sampling(kit.sampling)
        return DraftTreeRun(draft, kit, sampling, self.depth, self.width, self._kind(kit.sampling))
