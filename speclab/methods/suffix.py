"""Suffix decoding: draft what followed the same suffix most often, here or in earlier texts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from speclab.core.earlier_texts import EarlierTexts
from speclab.core.laws import Sampling
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
from speclab.core.records import Evidence
from speclab.core.trees import TokenTree
from speclab.methods.prompt_lookup import NO_MATCH
from speclab.methods.suffix_candidates import Bounds, Candidate, likeliest_path, likeliest_tree
from speclab.methods.suffix_tree import ROOT, SuffixTrie, longer_trie

ROUNDING = 1e-9
"""Scores that differ by less are equal."""


class SuffixRun:
    """One request's trie, and one over the earlier texts of its session."""

    def __init__(self, method: Suffix, kit: DraftKit) -> None:
        self._method, self._eos = method, kit.eos_ids
        self._key = "" if kit.store is None else kit.store.key
        self._here = SuffixTrie(method.max_depth)
        self._earlier = _trie_of(kit.store, method.max_depth)
        self._tail = [ROOT]
        self._read(kit.prompt)

    def _read(self, text: Sequence[int]) -> None:
        """Read what is new of the text: at most `max_depth` steps per token and trie."""
        for token in text[self._here.length :]:
            self._here.extend((token,))
            self._tail = self._earlier.follow(self._tail, token)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Draft the candidate with the highest score over all match lengths and both tries.

        A longer match wins a tie, and this text before earlier ones.

        **Source:** Oliaro et al. 2411.04975, section 3; budgets of the released ArcticInference.
        **Deviation:** earlier texts are counted with their prompts, where the authors' global tree
        holds only what was generated; texts of other sessions are never among them.
        """
        self._read(room.context)
        if min(room.max_depth, room.max_nodes) < 1:
            return NO_PROPOSAL
        best, earlier = Candidate(match=0), False
        for match in range(max(len(self._here.tail), len(self._tail)) - 1, 0, -1):
            bounds = self._bounds(match, room)
            for trie, tail in ((self._here, self._here.tail), (self._earlier, self._tail)):
                if match >= len(tail) or self._most(bounds, match) <= best.score + ROUNDING:
                    continue
                grow = likeliest_tree if self._method.mode == "tree" else likeliest_path
                found = grow(trie, tail[match], match, bounds)
                if found.score > best.score + ROUNDING:
                    best, earlier = found, trie is self._earlier
        return _proposal(best, earlier) if best.tokens else NO_MATCH

    def _bounds(self, match: int, room: Room) -> Bounds:
        method = self._method
        budget = math.floor(match * method.factor + method.offset + ROUNDING)
        return Bounds(
            nodes=min(budget, method.num_speculative_tokens, room.max_nodes),
            depth=room.max_depth,
            least=method.min_probability,
            eos_ids=self._eos,
        )

    def _most(self, bounds: Bounds, match: int) -> int:
        """Return the highest score that a candidate within its bounds can have."""
        if self._method.mode == "tree":
            return bounds.nodes
        return min(bounds.nodes, bounds.depth, self._method.max_depth - match)

    def observe(self, feedback: Feedback) -> None:
        """Nothing to learn: the next proposal reads the text."""

    def state_key(self) -> Hashable | None:
        """The counts are a function of the text and of the earlier ones."""
        return self._key

    def close(self) -> None:
        """Forget all texts."""
        self._here, self._earlier = SuffixTrie(1), SuffixTrie(1)
        self._tail = [ROOT]


def _trie_of(store: EarlierTexts | None, max_depth: int) -> SuffixTrie:
    """Return the trie of earlier texts; runs of one store read the same one and change none."""
    if store is None:
        return SuffixTrie(max_depth)
    build = partial(longer_trie, max_depth=max_depth)
    return store.built((SuffixTrie.__name__, max_depth), build)


def _proposal(found: Candidate, earlier: bool) -> Proposal:
    """Return a candidate as a proposal, with what a learner should see of it."""
    tree = TokenTree(tuple(found.tokens), tuple(found.parents))
    evidence = [Evidence(kind="confidence", values=tuple(found.probs))]
    if earlier:
        evidence.append(Evidence(kind="from_earlier_text", value=float(found.match)))
    else:
        depths = tree.position_offsets
        evidence += [
            Evidence(
                kind="copied_from",
                node=-1 if tree.is_chain else leaf,
                start=found.ends[leaf] - depths[leaf],
                stop=found.ends[leaf],
            )
            for leaf in tree.leaves()
        ]
    return Proposal(tree=tree, draft_probs=(None,) * len(tree), evidence=tuple(evidence))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """No model drafts: what followed the same last words most often, the longer the better.

    Attributes:
        num_speculative_tokens: most nodes drafted per round.
        mode: "path" (a chain) or "tree".
        max_depth: longest sequence counted, match and draft together.
        factor, offset: a match of m tokens drafts at most floor(m * factor + offset) nodes.
        min_probability: smallest share of a drafted path among all that followed.
    """

    num_speculative_tokens: int = 16
    mode: Literal["path", "tree"] = "path"
    max_depth: int = 24
    factor: float = 1.0
    offset: float = 0.0
    min_probability: float = 0.1

    card: ClassVar[MethodCard] = MethodCard(
        name="suffix",
        title=LocalText("Suffix decoding", "后缀解码"),
        one_liner=LocalText(
            "Counts what followed each run of words, in this text and in earlier ones of the same "
            "session, and drafts the most frequent continuation; a longer match drafts more.",
            "统计每个片段之后出现过什么（本文，以及同一会话的较早文本），"
            "起草最常见的后续；匹配越长，起草越多。",
        ),
        paper="SuffixDecoding, Oliaro et al. 2024 (2411.04975)",
        paper_url="https://arxiv.org/abs/2411.04975",
        provides=frozenset({"chain", "tree", "deterministic", "top_k_siblings"}),
        reads_earlier_texts=True,
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="γ",
                kind="int",
                default=16,
                low=1,
                high=32,
                step=1,
                unit="tokens",
                help=LocalText("Most tokens drafted per round.", "每轮最多起草多少个词元。"),
            ),
            Param(
                name="mode",
                symbol="",
                kind="choice",
                default="path",
                options=("path", "tree"),
                help=LocalText(
                    "path: the most frequent continuation; tree: several, the most frequent first.",
                    "path：只取最常见的后续；tree：取若干个，按常见程度排序。",
                ),
            ),
            Param(
                name="max_depth",
                symbol="D",
                kind="int",
                default=24,
                low=2,
                high=64,
                step=1,
                unit="tokens",
                help=LocalText(
                    "Longest sequence counted: match and draft together.",
                    "统计的最长片段：匹配与草稿合计。",
                ),
            ),
            Param(
                name="factor",
                symbol="α",
                kind="float",
                default=1.0,
                low=0.0,
                high=4.0,
                step=0.25,
                help=LocalText(
                    "Tokens drafted per matched token.", "每匹配一个词元，可起草多少个词元。"
                ),
            ),
            Param(
                name="offset",
                symbol="",
                kind="float",
                default=0.0,
                low=0.0,
                high=8.0,
                step=1.0,
                unit="tokens",
                help=LocalText(
                    "Tokens drafted in addition, whatever the match.",
                    "无论匹配多长，额外起草多少个词元。",
                ),
            ),
            Param(
                name="min_probability",
                symbol="",
                kind="float",
                default=0.1,
                low=0.0,
                high=1.0,
                step=0.05,
                help=LocalText(
                    "A path that followed less often than this share is not drafted.",
                    "出现比例低于该值的路径不起草。",
                ),
            ),
        ),
        colour_token="method-11",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """A chain, or a tree of chosen siblings."""
        if self.mode == "path":
            return frozenset({"chain", "deterministic"})
        return frozenset({"tree", "deterministic", "top_k_siblings"})

    def needs(self) -> frozenset[str]:
        """A tree needs a target that can attend to one."""
        return frozenset({"tree_mask"} if self.mode == "tree" else ())

    def start(self, kit: DraftKit) -> SuffixRun:
        """Count the prompt, and what the session's store holds."""
        return SuffixRun(self, kit)
