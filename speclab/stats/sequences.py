"""Tests on whole sequences, the unit of sampling: jointly, and per position given its prefix.

Tokens of one sequence depend on each other, so they are never pooled as if they were separate
draws. What may be compared: whole sequences, or the next token after one given prefix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from speclab.core.errors import BadInput
from speclab.stats.cells import StatTest, check_law, check_samples, pool
from speclab.stats.goodness import chi_square
from speclab.stats.many import holm

Text = tuple[int, ...]
Sample = Iterable[Sequence[int]] | Mapping[Text, int]
"""Emitted sequences, or how often each was emitted."""

END = -1
"""Stands for "nothing follows" where a sequence stops at a prefix of another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceCounts:
    """Sequences as the cells of a test.

    Attributes:
        labels: every possible sequence in lexical order, then those seen at probability zero.
        probs: probability per label. observed: count per label.
    """

    labels: tuple[Text, ...]
    probs: tuple[float, ...]
    observed: tuple[int, ...]


def tally(sample: Sample) -> Counter[Text]:
    """Return how often each sequence was emitted.

    Raises:
        BadInput: if there is none.
    """
    if isinstance(sample, Mapping):
        counts = Counter({tuple(text): int(n) for text, n in sample.items() if n})
    else:
        counts = Counter(tuple(int(token) for token in text) for text in sample)
    check_samples(sum(counts.values()))
    return counts


def sequence_counts(
    sample: Sample, law: Mapping[Text, float], *, also: Iterable[Text] = ()
) -> SequenceCounts:
    """Return emitted sequences as counts over a law of sequences.

    Args:
        sample: emitted sequences. law: probability per stopped sequence; sums to 1.
        also: sequences to list as well, at probability zero unless the law has them.

    Raises:
        BadInput: as `check_law`, or if the sample is empty.
    """
    counts = tally(sample)
    check_law(list(law.values()))
    labels = (*sorted(law), *sorted((counts.keys() | set(also)) - law.keys()))
    return SequenceCounts(
        labels=labels,
        probs=tuple(float(law.get(text, 0.0)) for text in labels),
        observed=tuple(counts[text] for text in labels),
    )


def relabel(result: StatTest, labels: Sequence[Text]) -> StatTest:
    """Return the result with forbidden cells named by their sequence instead of their index."""
    named = tuple((labels[index], count) for index, count in result.forbidden)  # type: ignore[index]
    return replace(result, forbidden=named)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTest:
    """Chi-square of the token that follows one prefix.

    Attributes:
        position: index of the token, from 0. prefix: the tokens before it.
        result: of the sequences that begin so. adjusted_p: Holm's, over all prefixes tested.
    """

    position: int
    prefix: Text
    result: StatTest
    adjusted_p: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixReport:
    """Every position given its prefix. JSON-ready.

    Attributes:
        tests: most likely prefixes first within a position. p_value: Holm's, of "all are right".
        num_samples: sequences. num_untested: prefixes with several continuations that expect too
            few sequences. share_tested: per position, share of continuing sequences whose prefix
            was tested, by the law. forbidden: (impossible beginning, count).
    """

    tests: tuple[PrefixTest, ...]
    p_value: float
    num_samples: int
    num_untested: int
    share_tested: tuple[float, ...]
    forbidden: tuple[tuple[Text, int], ...]


def _continuations(
    weights: Mapping[Text, float], prefixes: frozenset[Text]
) -> dict[Text, dict[int, float]]:
    """Return, per proper prefix, the weight of each next token."""
    after: dict[Text, dict[int, float]] = {}
    for text, weight in sorted(weights.items()):
        steps = [(text[:i], text[i]) for i in range(len(text))]
        if text in prefixes:
            steps.append((text, END))
        for prefix, token in steps:
            branch = after.setdefault(prefix, {})
            branch[token] = branch.get(token, 0.0) + weight
    return after


def prefix_tests(
    sample: Sample,
    law: Mapping[Text, float],
    *,
    min_sequences: float = 100.0,
    min_expected: float = 5.0,
    max_cells: int | None = None,
) -> PrefixReport:
    """Return a chi-square test of the next token after each prefix that is likely enough.

    Given how many sequences begin with a prefix, their next tokens are independent draws from its
    conditional law. Which prefixes are tested depends on expected counts; how far cells are pooled,
    on the number of sequences that begin so.

    Args:
        sample: emitted sequences. law: probability per stopped sequence.
        min_sequences: test prefixes that expect at least so many sequences.
        min_expected, max_cells: as for `pool`.

    Raises:
        BadInput: as `check_law`, or if no prefix can be tested and none is impossible.
    """
    counts, possible = tally(sample), _possible(law)
    prefixes = frozenset(text[:i] for text in possible for i in range(len(text)))
    laws, seen = _continuations(possible, prefixes), _continuations(counts, prefixes)
    total = sum(counts.values())
    forbidden = _impossible(counts, possible, laws)
    found: list[tuple[Text, StatTest]] = []
    untested, mass, covered = 0, Counter[int](), Counter[int]()
    for prefix, branch in sorted(laws.items(), key=lambda item: (len(item[0]), item[0])):
        weight = sum(branch.values())
        mass[len(prefix)] += weight
        result = None
        if len(branch) > 1 and total * weight >= min_sequences:
            result = _test(branch, seen.get(prefix, {}), min_expected, max_cells)
        if result is not None:
            found.append((prefix, result))
        untested += len(branch) > 1 and result is None
        # a single continuation leaves nothing to test
        covered[len(prefix)] += weight * (result is not None or len(branch) == 1)
    if not found and not forbidden:
        raise BadInput(
            f"With {total} sequences no prefix expects enough of them to be tested.",
            "Draw more sequences.",
            code="no_prefix",
            values={"samples": total},
        )
    adjusted = holm([result.p_value for _, result in found])
    tests = tuple(
        PrefixTest(position=len(prefix), prefix=prefix, result=result, adjusted_p=p)
        for (prefix, result), p in zip(found, adjusted)
    )
    return PrefixReport(
        tests=tests,
        p_value=0.0 if forbidden else min(adjusted),
        num_samples=total,
        num_untested=untested,
        share_tested=tuple(covered[i] / mass[i] for i in sorted(mass)),
        forbidden=tuple(sorted(forbidden.items())),
    )


def _possible(law: Mapping[Text, float]) -> dict[Text, float]:
    """Return the sequences of a law that can be emitted."""
    check_law(list(law.values()))
    return {text: float(prob) for text, prob in law.items() if prob > 0.0}


def _impossible(
    counts: Mapping[Text, int],
    possible: Mapping[Text, float],
    laws: Mapping[Text, Mapping[int, float]],
) -> Counter[Text]:
    """Return how often each impossible beginning was emitted."""
    found: Counter[Text] = Counter()
    for text, n in counts.items():
        if text not in possible:
            found[_first_impossible(text, laws)] += n
    return found


def _first_impossible(text: Text, laws: Mapping[Text, Mapping[int, float]]) -> Text:
    """Return the shortest beginning that the law gives probability zero; END if it stopped."""
    for i, token in enumerate(text):
        if token not in laws.get(text[:i], {}):
            return text[: i + 1]
    return (*text, END)


def _test(
    law: Mapping[int, float],
    seen: Mapping[int, float],
    min_expected: float,
    max_cells: int | None,
) -> StatTest | None:
    """Return the test of one prefix; None where its sequences pool to one cell."""
    weight = sum(law.values())
    observed = [int(seen.get(token, 0)) for token in law]
    if not sum(observed):
        return None
    probs = [prob / weight for prob in law.values()]
    cells = pool(
        probs, sum(observed), min_expected=min_expected, max_cells=max_cells, allow_one=True
    )
    return chi_square(cells.count(observed)) if len(cells.members) > 1 else None
