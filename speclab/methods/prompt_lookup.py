"""Prompt lookup: draft by copying what followed the same n-gram earlier in the text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from speclab.core.errors import BadInput
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
from speclab.core.trees import TokenTree

NO_MATCH = Proposal(evidence=(Evidence(kind="no_match"),))


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

    def find(self, text: Sequence[int], span: int) -> int | None:
        """Return where the best earlier continuation of the text's tail begins.

        The longest n-gram wins; among its occurrences the one with most tokens after it (up to
        `span`), then the most recent. The tail never matches itself.
        """
        for n in range(min(self.max_n, len(text) - 1), self.min_n - 1, -1):
            earlier = [end for end in self.ends.get(tuple(text[-n:]), ()) if end < len(text)]
            if earlier:
                return max(earlier, key=lambda end: (min(span, len(text) - end), end))
        return None


class PromptLookupRun:
    """One request's n-gram index."""

    def __init__(self, gamma: int, min_ngram: int, max_ngram: int, eos: frozenset[int]) -> None:
        self._gamma, self._eos = gamma, eos
        self._index = NgramIndex(min_ngram, max_ngram)

    def propose(self, room: Room, rng: Randomness) -> Proposal:
        """Copy up to gamma tokens; nothing when no n-gram matches.

        Example: after (5, 6, 7, 8, 9, 10, 11, 7, 8) with n = 2 and gamma = 3: (9, 10, 11).

        **Source:** Saxena 2023, apoorvumang/prompt-lookup-decoding.
        **Deviation:** prefers the most recent occurrence with a full continuation, not the first.
        """
        text = room.context
        self._index.update(text)
        span = min(self._gamma, room.max_depth, room.max_nodes)
        start = self._index.find(text, span) if span > 0 else None
        if start is None:
            return NO_MATCH
        tokens = list(text[start : start + span])
        for place, token in enumerate(tokens):
            if token in self._eos:
                tokens = tokens[: place + 1]
                break
        return Proposal(
            tree=TokenTree.chain(tokens),
            draft_probs=(None,) * len(tokens),
            evidence=(Evidence(kind="copied_from", start=start, stop=start + len(tokens)),),
        )

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
        num_speculative_tokens: most tokens copied per round.
        max_ngram, min_ngram: longest and shortest tail that is looked up.

    Raises:
        BadInput: if min_ngram is above max_ngram.
    """

    num_speculative_tokens: int = 8
    max_ngram: int = 3
    min_ngram: int = 1

    card: ClassVar[MethodCard] = MethodCard(
        name="prompt-lookup",
        title=LocalText("Prompt lookup", "提示词查找"),
        one_liner=LocalText(
            "Copies what followed the same words earlier in the text; no draft model.",
            "把前文中相同片段之后的内容抄来当草稿；不需要草稿模型。",
        ),
        paper="Saxena 2023, prompt lookup decoding",
        paper_url="https://github.com/apoorvumang/prompt-lookup-decoding",
        provides=frozenset({"chain", "deterministic"}),
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

    def start(self, kit: DraftKit) -> PromptLookupRun:
        """Begin one request."""
        return PromptLookupRun(
            self.num_speculative_tokens, self.min_ngram, self.max_ngram, kit.eos_ids
        )
