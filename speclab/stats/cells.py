"""Counts grouped into the cells of a test, by what is expected and never by what was seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from speclab.core.errors import BadInput

SUM_TOLERANCE = 1e-6
TIE_TOLERANCE = 1e-9
"""Probabilities closer than this, relatively, are a tie: tied tokens are never told apart."""
MOST_SAMPLES = 10**15
"""Counts up to here are exact in float64, with room for their sums."""

Label = int | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatTest:
    """What a test found. JSON-ready.

    Attributes:
        test: name of the test. statistic: its value; None where an impossible token decided.
        p_value: probability, if the sampler is right, of a result at least this far off.
        p_strict: the same of one strictly further off. Equal for continuous statistics; for
            discrete ones `p_strict + u * (p_value - p_strict)` is exactly uniform.
        df: degrees of freedom; None where the null law is exact or simulated.
        num_samples: N. num_cells: cells compared.
        pooled: (tokens, expected count, observed count) of every cell of several tokens.
        forbidden: (token or sequence, count) of what was emitted at probability zero.
        details: further numbers by name.
    """

    test: str
    statistic: float | None
    p_value: float
    p_strict: float
    df: int | None = None
    num_samples: int
    num_cells: int
    pooled: tuple[tuple[int, float, int], ...] = ()
    forbidden: tuple[tuple[Label, int], ...] = ()
    details: tuple[tuple[str, float], ...] = ()

    def detail(self, name: str) -> float:
        """Return one of the further numbers."""
        return dict(self.details)[name]


def check_law(probs: ArrayLike, name: str = "p") -> NDArray[np.float64]:
    """Return `probs` as float64 [vocab] that sums to one.

    Args:
        probs: probabilities [vocab]. name: how errors call it.

    Raises:
        BadInput: for NaN or infinity, a negative entry, one token, or a sum other than 1.
    """
    law = np.array(probs, dtype=np.float64).ravel()
    if law.size < 2:
        raise BadInput(
            f"{name} has {law.size} token; a test needs at least two.",
            "Add a token.",
            code="law_one_token",
            values={"name": name, "size": law.size},
        )
    if not np.isfinite(law).all():
        token = int(np.flatnonzero(~np.isfinite(law))[0])
        raise BadInput(
            f"{name} is not a number at token {token}.",
            "Give every token a probability between 0 and 1.",
            code="law_not_number",
            values={"name": name, "token": token},
        )
    if (law < 0.0).any():
        token = int(np.flatnonzero(law < 0.0)[0])
        raise BadInput(
            f"{name} is {law[token]:.6g} at token {token}: a probability cannot be negative.",
            "Give every token a probability between 0 and 1.",
            code="law_negative",
            values={"name": name, "token": token, "value": f"{law[token]:.6g}"},
        )
    total = math.fsum(law)
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise BadInput(
            f"The probabilities of {name} sum to {total:.6g}, not to 1.",
            "Divide them by their sum.",
            code="law_sum",
            values={"name": name, "total": f"{total:.6g}"},
        )
    return law / total


def check_samples(num_samples: float) -> int:
    """Return N as an integer.

    Raises:
        BadInput: unless N is a whole number from 1 to `MOST_SAMPLES`.
    """
    number = isinstance(num_samples, int | float | np.number)
    if not (number and 1 <= num_samples <= MOST_SAMPLES and int(num_samples) == num_samples):
        shown = (
            f"{num_samples:g}" if number and abs(num_samples) < 1e300 else f"{num_samples!r:.40}"
        )
        raise BadInput(
            f"There are {shown} samples; a test needs a whole number from 1 to {MOST_SAMPLES:g}.",
            "Draw some samples first.",
            code="no_samples",
            values={"samples": shown, "limit": f"{MOST_SAMPLES:g}"},
        )
    return int(num_samples)


def check_counts(observed: ArrayLike, vocab_size: int) -> NDArray[np.int64]:
    """Return counts as int64 [vocab].

    Raises:
        BadInput: for a count outside the vocabulary, fewer counts than tokens, a count that is
            negative or not whole, or no sample at all.
    """
    given = _numbers(observed, vocab_size)
    if given.size > vocab_size and np.any(given[vocab_size:] != 0):
        raise _outside(vocab_size + int(np.flatnonzero(given[vocab_size:])[0]), vocab_size)
    given = given[:vocab_size]
    whole = given.size == vocab_size and np.isfinite(given).all()
    if not whole or (given < 0).any() or (given != np.floor(given)).any():
        raise _no_counts(vocab_size)
    check_samples(float(given.sum(dtype=np.float64)))
    return given.astype(np.int64)


def _numbers(observed: ArrayLike, vocab_size: int) -> NDArray[Any]:
    """Return what was given as a flat array of numbers."""
    try:
        given = np.asarray(observed).ravel()
        if given.dtype == object and all(type(value) is int for value in given):
            return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_counts(vocab_size) from error
    if given.size and given.dtype.kind not in "biuf":
        raise _no_counts(vocab_size)
    return given


def _no_counts(vocab_size: int) -> BadInput:
    return BadInput(
        f"Counts must be {vocab_size} whole numbers >= 0, one per token.",
        "Count how often each token was emitted.",
        code="counts_invalid",
        values={"size": vocab_size},
    )


def _outside(token: int, vocab_size: int) -> BadInput:
    return BadInput(
        f"Token {token} was observed, but the vocabulary has {vocab_size} tokens (0 to "
        f"{vocab_size - 1}).",
        "Give the law over the whole vocabulary.",
        code="outside_vocabulary",
        values={"token": token, "size": vocab_size, "last": vocab_size - 1},
    )


def count_tokens(tokens: Iterable[int], vocab_size: int) -> NDArray[np.int64]:
    """Return how often each token occurs, int64 [vocab].

    Raises:
        BadInput: naming a token outside the vocabulary, or if there is none.
    """
    ids = np.fromiter(tokens, dtype=np.int64)
    check_samples(ids.size)
    wrong = ids[(ids < 0) | (ids >= vocab_size)]
    if wrong.size:
        raise _outside(int(wrong[0]), vocab_size)
    return np.bincount(ids, minlength=vocab_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A partition of the possible tokens. Tokens in no cell have probability zero.

    Attributes:
        members: token ids per cell, most likely cell first among single tokens.
        probs: probability per cell; sums to 1. vocab_size: of the law.
        num_samples: the N it was pooled for. min_expected: smallest expected count asked for;
            above the caller's where `max_cells` made it larger.
    """

    members: tuple[tuple[int, ...], ...]
    probs: tuple[float, ...]
    vocab_size: int
    num_samples: int
    min_expected: float

    def count(self, observed: ArrayLike) -> Table:
        """Return the observed counts [vocab] in these cells.

        Raises:
            BadInput: as `check_counts`.
        """
        return self._fill(check_counts(observed, self.vocab_size))

    def _fill(self, counts: NDArray[np.int64]) -> Table:
        cell_of = np.full(self.vocab_size, len(self.members))
        sizes = [len(cell) for cell in self.members]
        flat = np.fromiter((token for cell in self.members for token in cell), np.int64)
        cell_of[flat] = np.repeat(np.arange(len(sizes)), sizes)
        per_cell = np.bincount(cell_of, weights=counts, minlength=len(sizes) + 1)
        stray = np.flatnonzero((cell_of == len(sizes)) & (counts > 0))
        return Table(
            cells=self,
            observed=tuple(int(n) for n in per_cell[:-1]),
            forbidden=tuple((int(token), int(counts[token])) for token in stray),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Observed counts in cells.

    Attributes:
        cells: the partition. observed: count per cell.
        forbidden: (token, count) of observed tokens of probability zero: a right sampler never
            emits them, so one is enough to reject.
    """

    cells: Cells
    observed: tuple[int, ...]
    forbidden: tuple[tuple[int, int], ...] = ()

    @property
    def num_samples(self) -> int:
        """Return N, forbidden tokens included."""
        return sum(self.observed) + sum(count for _, count in self.forbidden)

    @property
    def expected(self) -> tuple[float, ...]:
        """Return the expected count per cell."""
        return tuple(self.num_samples * prob for prob in self.cells.probs)

    def residuals(self) -> tuple[float, ...]:
        """Return (observed - expected) / sqrt(expected) per cell; squares sum to chi-square."""
        return tuple((o - e) / math.sqrt(e) for o, e in zip(self.observed, self.expected))

    def result(self, test: str, statistic: float | None, **values: Any) -> StatTest:
        """Return a result on this table; p-value 0 where an impossible token was emitted."""
        pooled = tuple(
            (len(cell), e, o)
            for cell, e, o in zip(self.cells.members, self.expected, self.observed)
            if len(cell) > 1
        )
        if self.forbidden:
            statistic, values = None, {**values, "p_value": 0.0, "p_strict": 0.0}
        return StatTest(
            test=test,
            statistic=statistic,
            num_samples=self.num_samples,
            num_cells=len(self.observed),
            pooled=pooled,
            forbidden=self.forbidden,
            **values,
        )


Unit = tuple[float, tuple[tuple[int, ...], ...]]
"""Mean expected count per cell, and cells that may only be moved together: they tie."""


def _tie_units(expected: NDArray[np.float64]) -> list[Unit]:
    """Return the possible tokens as units of tied tokens, most expected first."""
    order = np.lexsort((np.arange(expected.size), -expected))
    order = order[expected[order] > 0.0]
    values = expected[order]
    breaks = np.flatnonzero(values[1:] < values[:-1] * (1.0 - TIE_TOLERANCE)) + 1
    starts = [0, *breaks.tolist(), len(order)]
    ids = order.tolist()
    means = np.add.reduceat(values, starts[:-1]) / np.diff(starts)
    return [
        (float(mean), tuple((token,) for token in ids[low:high]))
        for mean, low, high in zip(means, starts, starts[1:])
    ]


def _merge(units: list[Unit], least: float) -> list[Unit]:
    """Pool units, most expected first, until every cell expects at least `least`."""
    done: list[Unit] = []
    waiting: list[tuple[int, ...]] = []
    mass, enough = 0.0, least * (1.0 - TIE_TOLERANCE)
    for mean, cells in units:
        if not waiting and mean >= enough:
            done.append((mean, cells))
            continue
        waiting.extend(cells)
        mass += mean * len(cells)
        if mass >= enough:
            done.append((mass, (tuple(token for cell in waiting for token in cell),)))
            waiting, mass = [], 0.0
    if waiting:
        last_mean, last = done.pop() if done else (0.0, ())
        whole = tuple(token for cell in (*last, *waiting) for token in cell)
        done.append((last_mean * len(last) + mass, (whole,)))
    return done


def _num_cells(units: list[Unit]) -> int:
    return sum(len(cells) for _, cells in units)


def _at_most(units: list[Unit], least: float, max_cells: int, num_samples: int) -> float:
    """Return the smallest expected count (to 0.1 %) that leaves at most `max_cells` cells."""
    low, high = math.log(max(least, 1e-3)), math.log(num_samples)
    while high - low > 1e-3:
        middle = (low + high) / 2.0
        if _num_cells(_merge(units, math.exp(middle))) > max_cells:
            low = middle
        else:
            high = middle
    return math.exp(high)


def pool(
    expected_probs: ArrayLike,
    num_samples: int,
    *,
    min_expected: float = 5.0,
    max_cells: int | None = None,
    allow_one: bool = False,
) -> Cells:
    """Group tokens into cells that each expect enough samples.

    Tokens that expect `min_expected` stay alone. The others are pooled in falling order of
    probability until a cell expects that much; a remainder joins the cell before it. Observed
    counts play no part, and tied tokens share one fate, so renumbering tokens renumbers cells.

    Args:
        expected_probs: target law [vocab]. num_samples: N.
        min_expected: smallest expected count of a cell; 0 pools nothing.
        max_cells: pool on until there are no more cells than this; None for no limit.
        allow_one: return a single cell instead of refusing it.

    Raises:
        BadInput: for what is not a law, N = 0, or when everything falls into one cell.

    **Source:** Cochran 1952 (smallest expected count).
    """
    law, num_samples = check_law(expected_probs), check_samples(num_samples)
    units = _tie_units(law * num_samples)
    merged = _merge(units, min_expected)
    if max_cells is not None and _num_cells(merged) > max_cells:
        min_expected = _at_most(merged, min_expected, max_cells, num_samples)
        merged = _merge(merged, min_expected)
    members = tuple(cell for _, cells in merged for cell in cells)
    if len(members) < 2 and not allow_one:
        raise BadInput(
            f"With {num_samples} samples the table pools to one cell: nothing to compare.",
            "Draw more samples, allow smaller or more cells, or use a law that is less peaked.",
            code="one_cell",
            values={"samples": num_samples},
        )
    return Cells(
        members=members,
        probs=tuple(math.fsum(law[list(cell)]) for cell in members),
        vocab_size=law.size,
        num_samples=num_samples,
        min_expected=min_expected,
    )


def tabulate(
    observed: ArrayLike,
    expected_probs: ArrayLike,
    *,
    min_expected: float = 5.0,
    max_cells: int | None = None,
) -> Table:
    """Return observed counts [vocab] in cells pooled for their number.

    Raises:
        BadInput: as `pool` and `check_counts`; one cell is refused unless an impossible token
            was observed, which decides alone.
    """
    law = check_law(expected_probs)
    counts = check_counts(observed, law.size)
    cells = pool(
        law,
        int(counts.sum()),
        min_expected=min_expected,
        max_cells=max_cells,
        allow_one=bool(counts[law == 0.0].any()),
    )
    return cells._fill(counts)
