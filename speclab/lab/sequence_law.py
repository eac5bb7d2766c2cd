"""The target's law of sequences, cut short where no samples are expected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from speclab.engine.prefix_rows import PrefixRows, Text

LEAST_EXPECTED = 5.0
"""A text that expects fewer samples is not followed any further."""


@dataclass(frozen=True, slots=True)
class SequenceLaw:
    """A partition of all sequences by what is expected of them.

    Attributes:
        probs: probability by text: a whole sequence, or the beginning of all that go on from it.
        inner: the texts that are told apart by their next token.
    """

    probs: dict[Text, float]
    inner: frozenset[Text]

    def label(self, text: Text, rows: PrefixRows) -> Text:
        """Return the part that a sequence belongs to; itself, cut, where it is impossible."""
        end = 0
        while end < len(text) and text[:end] in self.inner:
            end += 1
        if text[:end] not in self.probs:
            return text[:end]
        for place in range(end, len(text)):
            law = rows.held(text[:place])
            if law is not None and law.prob(text[place]) == 0.0:
                return text[: place + 1]
        return text[:end]

    def tally(self, texts: Iterable[Text], rows: PrefixRows) -> dict[Text, int]:
        """Return how often each part occurs among sequences."""
        counts: dict[Text, int] = {}
        labels: dict[Text, Text] = {}
        for text in texts:
            label = labels.get(text)
            if label is None:
                label = labels[text] = self.label(text, rows)
            counts[label] = counts.get(label, 0) + 1
        return counts


def sequence_law(
    rows: PrefixRows,
    *,
    length: int,
    eos_ids: frozenset[int],
    num_samples: int,
    least_expected: float = LEAST_EXPECTED,
) -> SequenceLaw:
    """Return the target's law by the chain rule, level by level, on evaluated rows only.

    What is followed depends on expected counts alone, never on what was sampled.

    Args:
        rows: the target's laws. length: most tokens. eos_ids: ids that end a sequence.
        num_samples: N. least_expected: follow texts that expect at least so many of them.
    """
    probs: dict[Text, float] = {}
    inner: list[Text] = []
    frontier: dict[Text, float] = {(): 1.0}
    for step in range(length):
        followed = {t: w for t, w in frontier.items() if w * num_samples >= least_expected}
        probs.update((text, w) for text, w in frontier.items() if text not in followed)
        rows.ensure(followed)
        inner += followed
        frontier = {}
        for text, weight in followed.items():
            law = rows.law(text)
            for token, prob in zip(law.tokens.tolist(), law.probs.tolist()):
                ends = token in eos_ids or step == length - 1
                (probs if ends else frontier)[(*text, token)] = weight * prob
    probs.update(frontier)
    return SequenceLaw(probs, frozenset(inner))
