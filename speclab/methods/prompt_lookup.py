"""Prompt lookup: draft by copying what followed the same n-gram earlier in the text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import (
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
from speclab.core.trees import PENDING, TokenTree

Match = Literal["recent", "frequent", "first"]
NO_MATCH = Proposal(evidence=(Evidence(kind="no_match"),))

MOST_COMPARED = 64
"""Places of one n-gram that are looked at where several continuations are wanted."""


@dataclass(slots=True)
class NgramIndex:
    """Where each n-gram of a growing text ends, for n in [min_n, max_n].

    Attributes:
        ends: positions just after each n-gram, in order of appearance.
        length: tokens indexed so far.
    """

    min_n: int
    max_n: int
    ends: dict[tuple[int, ...], list[int]] = field(default_factory=lambda: defaultdict(list))
    length: int = 0

    def update(self, text: Sequence[int]) -> None:
        """Index the tokens of `text` that are new."""
        for end in range(self.length + 1, len(text) + 1):
            for n in range(self.min_n, min(self.max_n, end) + 1):
                self.ends[tuple(text[end - n : end])].append(end)
        self.length = len(text)

    def find(self, text: Sequence[int], span: int, match: Match = "recent") -> int | None:
        """Return where the best earlier continuation of the text's tail begins."""
        return next(self.ranked(text, span, match), None)

    def ranked(
        self,
        text: Sequence[int],
        span: int,
        match: Match = "recent",
        most: int | None = None,
    ) -> Iterator[int]:
        """Yield where earlier continuations of the text's tail begin, the best first.

        Those of a longer n-gram come first; the tail never matches itself. Among the occurrences
        of one n-gram: "recent", the one with most tokens after it (up to `span`), then the last;
        "first", the leftmost; "frequent", as `by_frequency`.

        Args:
            text: the text, all of which is indexed. span: most tokens copied.
            match: which place of an n-gram is best.
            most: look at no more than so many places per n-gram: the last ones, for "first" the
                first ones; None: at all.
        """
        for n in range(min(self.max_n, len(text) - 1), self.min_n - 1, -1):
            ends = self.ends.get(tuple(text[-n:]), [])
            if most is not None:
                ends = ends[:most] if match == "first" else ends[-most - 1 :]
            earlier = [end for end in ends if end < len(text)]
            if match == "recent":
                earlier.sort(key=lambda end: (min(span, len(text) - end), end), reverse=True)
            yield from by_frequency(earlier, text, span) if match == "frequent" else earlier


def by_frequency(ends: list[int], text: Sequence[int], span: int, place: int = 0) -> list[int]:
    """Return places of a text, those first whose next tokens followed most often.

    Counted token by token: the places whose next token most of them share come first, of equals
    those with the last place; among them the token after that decides, up to `span` tokens.

    Args:
        ends: where the continuations begin, ascending. text: the text. span: tokens compared.
        place: tokens compared already.
    """
    if len(ends) < 2 or place == span:
        return ends[::-1]
    sharing: dict[int, list[int]] = defaultdict(list)
    over = []
    for end in ends:
        if end + place < len(text):
            sharing[text[end + place]].append(end)
        else:
            over.append(end)
    groups = sorted(sharing.values(), key=lambda group: (len(group), group[-1]), reverse=True)
    return [end for group in groups for end in by_frequency(group, text, span, place + 1)] + over


@dataclass(slots=True)
class CopiedTree:
    """Continuations merged into one trie; a continuation that adds no node is none of its own.

    Attributes:
        most: nodes it may have.
        tokens, parents: of its nodes.
        sources: per branch its last node, and the span of the text that it was copied from.
    """

    most: int
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    sources: list[tuple[int, int, int]] = field(default_factory=list)
    _child: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, tokens: Sequence[int], start: int) -> None:
        """Merge a continuation that stands at `start`, as far as there is room."""
        node, depth, size = PENDING, 0, len(self.tokens)
        for token in tokens:
            child = self._child.get((node, token))
            if child is None:
                if len(self.tokens) == self.most:
                    break
                child = self._child[node, token] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(node)
            node, depth = child, depth + 1
        if len(self.tokens) > size:
            self.sources.append((node, start, start + depth))


class PromptLookupRun:
    """One request's n-gram index."""

    def __init__(self, method: PromptLookup, eos: frozenset[int]) -> None:
        self._method, self._eos = method, eos
        self._index = NgramIndex(method.min_ngram, method.max_ngram)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Copy up to gamma tokens, from several places if there are branches; else nothing.

        Example: after (5, 6, 7, 8, 9, 10, 11, 7, 8) with n = 2 and gamma = 3: (9, 10, 11).

        **Source:** Saxena 2023, apoorvumang/prompt-lookup-decoding.
        **Deviation:** prefers the most recent occurrence with a full continuation, not the first
        (that is `match` = "first"); several continuations are merged into a tree, for which at
        most `MOST_COMPARED` places of each n-gram are looked at.
        """
        text, method = room.context, self._method
        self._index.update(text)
        span = min(method.num_speculative_tokens, room.max_depth, room.max_nodes)
        grown = CopiedTree(room.max_nodes)
        most = MOST_COMPARED if method.branches > 1 else None
        for start in self._index.ranked(text, span, method.match, most) if span > 0 else ():
            grown.add(self._until_eos(text[start : start + span]), start)
            if len(grown.sources) == method.branches or len(grown.tokens) == room.max_nodes:
                break
        if not grown.tokens:
            return NO_MATCH
        return Proposal(
            tree=TokenTree(tuple(grown.tokens), tuple(grown.parents)),
            draft_probs=(None,) * len(grown.tokens),
            evidence=tuple(
                Evidence(
                    kind="copied_from",
                    node=-1 if method.branches == 1 else node,
                    start=start,
                    stop=stop,
                )
                for node, start, stop in grown.sources
            ),
        )

    def _until_eos(self, tokens: Sequence[int]) -> Sequence[int]:
        ended = [place for place, token in enumerate(tokens) if token in self._eos]
        return tokens[: ended[0] + 1] if ended else tokens

    def observe(self, feedback: Feedback) -> None:
        """Nothing to learn: the next proposal reads the text."""

    def state_key(self) -> Hashable | None:
        """The index is a function of the text."""
        return ()

    def close(self) -> None:
        """Forget the text."""
        self._index = NgramIndex(1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLookup:
    """No model drafts: tokens are copied from an earlier place with the same last words.

    Attributes:
        num_speculative_tokens: most tokens copied per round and branch.
        max_ngram, min_ngram: longest and shortest tail that is looked up.
        match: which of several places is copied: the most "recent" one, the one whose words
            followed most often ("frequent"), or the "first" one.
        branches: most different continuations that are drafted at once; 1: a chain. More are
            looked for among at most 64 places of each n-gram: the last ones, for "first" the first.

    Raises:
        BadInput: if min_ngram is above max_ngram.
    """

    num_speculative_tokens: int = 8
    max_ngram: int = 3
    min_ngram: int = 1
    match: Match = "recent"
    branches: int = 1

    card: ClassVar[MethodCard] = MethodCard(
        name="prompt-lookup",
        title=LocalText("Prompt lookup", "提示词查找"),
        one_liner=LocalText(
            "Copies what followed the same words earlier in the text; no draft model.",
            "把前文中相同片段之后的内容抄来当草稿；不需要草稿模型。",
        ),
        paper="Saxena 2023, prompt lookup decoding",
        paper_url="https://github.com/apoorvumang/prompt-lookup-decoding",
        provides=frozenset({"chain", "tree", "deterministic", "top_k_siblings"}),
        params=(
            Param(
                name="num_speculative_tokens",
                symbol="γ",
                kind="int",
                default=8,
                low=1,
                high=32,
                step=1,
                unit="tokens",
                help=LocalText("Most tokens copied per round.", "每轮最多抄多少个词元。"),
            ),
            Param(
                name="max_ngram",
                symbol="n_max",
                kind="int",
                default=3,
                low=1,
                high=8,
                step=1,
                unit="tokens",
                help=LocalText("Longest tail that is looked up.", "用于查找的最长结尾。"),
            ),
            Param(
                name="min_ngram",
                symbol="n_min",
                kind="int",
                default=1,
                low=1,
                high=8,
                step=1,
                unit="tokens",
                help=LocalText("Shortest tail that is looked up.", "用于查找的最短结尾。"),
            ),
            Param(
                name="match",
                symbol="",
                kind="choice",
                default="recent",
                options=("recent", "frequent", "first"),
                help=LocalText(
                    "Which of several places is copied: the last one, the one whose words followed "
                    "most often, or the first one.",
                    "有多处匹配时抄哪一处：最近的、后续最常见的，或最早的。",
                ),
            ),
            Param(
                name="branches",
                symbol="k",
                kind="int",
                default=1,
                low=1,
                high=8,
                step=1,
                help=LocalText(
                    "Different continuations drafted at once, merged into a tree; 1: a chain.",
                    "同时起草多少种不同的后续，合并成一棵树；1 为链。",
                ),
            ),
        ),
        colour_token="method-2",
    )
    taps: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.min_ngram > self.max_ngram:
            raise BadInput(
                f"min_ngram = {self.min_ngram} is above max_ngram = {self.max_ngram}.",
                "Lower min_ngram.",
                code="ngram_order",
                values={"low": self.min_ngram, "high": self.max_ngram},
            )

    def provides(self, sampling: Sampling) -> frozenset[str]:
        """A chain, or a tree of chosen siblings."""
        if self.branches == 1:
            return frozenset({"chain", "deterministic"})
        return frozenset({"tree", "deterministic", "top_k_siblings"})

    def needs(self) -> frozenset[str]:
        """A tree needs a target that can attend to one."""
        return frozenset({"tree_mask"} if self.branches > 1 else ())

    def start(self, kit: DraftKit) -> PromptLookupRun:
        """Begin one request."""
        return PromptLookupRun(self, kit.eos_ids)
