"""Is a group of rare tokens never emitted? A test that does not know which group it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from speclab.core.errors import BadInput
from speclab.stats.cells import StatTest, check_counts, check_law, check_samples

BAND_EDGES = tuple(2.0**k for k in range(-4, 5))
"""Expected counts that part the bands: up to 1/16, 1/16 to 1/8, ..., 8 to 16, above 16."""
_SURE = 40.0
"""A token that expects more samples is unseen with probability below 5e-18."""
_RARE_SHARE, _MOST_COUNTS = 0.25, 30_000_000


@dataclass(frozen=True, slots=True)
class _Band:
    tokens: NDArray[np.int64]
    mean_prob: float
    pmf: NDArray[np.float64]
    tail: NDArray[np.float64]
    """tail[k] = P(at least k tokens of the band unseen)."""
    mean: float
    spread: float

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Return how many tokens are unseen, [size], if each is so independently."""
        cumulative = np.cumsum(self.pmf)
        return np.searchsorted(cumulative, rng.random(size) * cumulative[-1])


def _count_law(unseen: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the law of how many of independent events happen, [n + 1], by convolution in pairs."""
    size = 1 << max(int(np.ceil(np.log2(unseen.size))), 0)
    probs = np.zeros(size)
    probs[: unseen.size] = np.sort(unseen)
    laws = np.column_stack([1.0 - probs, probs])
    while len(laws) > 1:
        width = 2 * laws.shape[1] - 1
        if width <= 64:
            merged = np.zeros((len(laws) // 2, width))
            for shift in range(laws.shape[1]):
                stop = shift + laws.shape[1]
                merged[:, shift:stop] += laws[0::2, shift, None] * laws[1::2]
        else:
            left, right = np.fft.rfft(laws[0::2], 2 * width), np.fft.rfft(laws[1::2], 2 * width)
            merged = np.fft.irfft(left * right, 2 * width)[:, :width].clip(0.0)
        laws = merged
    return laws[0, : unseen.size + 1]


def _unseen_probs(law: NDArray[np.float64], num_samples: int) -> NDArray[np.float64]:
    """Return (1 - p)^N per token."""
    with np.errstate(divide="ignore"):
        return np.exp(num_samples * np.log1p(-law))


def missing_mass_moments(expected_probs: ArrayLike, num_samples: int) -> tuple[float, float]:
    """Return mean and standard deviation of the probability of all unseen tokens.

    The sum of p_i over unseen tokens has mean sum p_i (1 - p_i)^N and the covariances
    p_i p_j [(1 - p_i - p_j)^N - (1 - p_i)^N (1 - p_j)^N]. With r = p / (1 - p) the bracket is
    (1 - p_i)^N (1 - p_j)^N [(1 - r_i r_j)^N - 1], whose binomial series sums over all pairs at
    once; pairs with a token of N r^2 > 1 (at most about sqrt(N)) are taken one by one.

    **Source:** Good 1953; McAllester and Schapire 2000.
    """
    law, n = check_law(expected_probs), check_samples(num_samples)
    law = law[(law > 0.0) & (law < 1.0) & (law * n < _SURE)]
    unseen = _unseen_probs(law, n)
    odds, weight = law / (1.0 - law), law * unseen
    total = math.fsum(law * weight * (1.0 - unseen))
    light = n * odds**2 <= 1.0
    r, w = odds[light], weight[light]
    for k in range(1, min(n, 30) + 1):
        # w holds the root of the binomial too: r sqrt(n) <= 1 stays in range at any N
        w = w * (r * math.sqrt((n - k + 1) / k))
        total += (-1) ** k * (float(w.sum()) ** 2 - float((w**2).sum()))
    for i in np.flatnonzero(~light):
        product = np.minimum(odds[i] * odds, 1.0)
        with np.errstate(divide="ignore"):
            pairs = weight[i] * weight * np.expm1(n * np.log1p(-product))
        pairs[i] = 0.0
        total += float(pairs.sum() + pairs[light].sum())
    return math.fsum(weight), math.sqrt(max(total, 0.0))


class MissingMass:
    """The test for one law and one N; its null law is computed once and used for many samples.

    Tokens fall into bands by their expected count. Within each band the number of unseen tokens has
    a known law, and so has the unseen probability over all bands. The statistic is the smallest of
    these one-sided p-values, calibrated by simulating the band counts, so the p-value accounts for
    having looked everywhere. Far out it is Bonferroni's bound over the bands.

    Tokens are treated as independently unseen, each with its exact (1 - p)^N. For a fixed N they
    are negatively associated, which makes this safe, and too safe when rare tokens (expected up to
    16) carry much of the mass. Beyond a quarter of it, whole multinomial tables are simulated
    instead, as long as that takes at most 30 million counts.

    Args:
        expected_probs: target law [vocab]. num_samples: N.
        draws: simulated tables; a tenth of them where whole tables are simulated.
        seed: of the simulation.

    Raises:
        BadInput: for what is not a law, or N = 0.

    **Source:** negative association of occupancy: Joag-Dev and Proschan 1983.
    """

    def __init__(
        self, expected_probs: ArrayLike, num_samples: int, *, draws: int = 99_999, seed: int = 0
    ) -> None:
        self.law, self.num_samples = check_law(expected_probs), check_samples(num_samples)
        self.draws, self.seed = draws, seed
        which = np.searchsorted(BAND_EDGES, self.law * self.num_samples, side="left")
        which[self.law == 0.0] = -1
        unseen = _unseen_probs(self.law, self.num_samples)
        used = np.unique(which[which >= 0])
        self.bands = [_band(self.law, unseen, which == band) for band in used]
        self.moments = missing_mass_moments(self.law, self.num_samples)
        self.flagged_mass = self.smallest_group()
        self._simulate()

    def _simulate(self) -> None:
        """Draw the band counts of a right sampler and keep what decides."""
        rng = np.random.default_rng(self.seed)
        rare = math.fsum(self.law[self.law * self.num_samples <= BAND_EDGES[-1]])
        if rare > _RARE_SHARE and self.draws // 10 * self.law.size <= _MOST_COUNTS:
            self.draws //= 10
            per_band = self._whole_tables(rng)
        else:
            per_band = [band.draw(rng, self.draws) for band in self.bands]
        total, least = np.zeros(self.draws), np.ones(self.draws)
        for band, counts in zip(self.bands, per_band):
            total += band.mean_prob * counts
            least = np.minimum(least, band.tail[counts])
        self.null_totals = np.sort(total)
        self.null_least = np.sort(np.minimum(least, self._total_p(total)))

    def _whole_tables(self, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return how many tokens of each band multinomial tables leave unseen, [draws] each."""
        order = np.argsort(-self.law, kind="stable")
        law, band_of = self.law[order], np.full(self.law.size, -1)
        for index, band in enumerate(self.bands):
            band_of[np.isin(order, band.tokens)] = index
        columns = [np.flatnonzero(band_of == index) for index in range(len(self.bands))]
        parts: list[list[NDArray[np.int64]]] = [[] for _ in self.bands]
        for rows in np.array_split(np.arange(self.draws), max(self.draws * law.size >> 20, 1)):
            unseen = rng.multinomial(self.num_samples, law, rows.size) == 0
            for part, column in zip(parts, columns):
                part.append(np.count_nonzero(unseen[:, column], axis=1))
        return [np.concatenate(part) for part in parts]

    def _total_p(self, total: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of right samplers whose unseen probability is at least this."""
        below = np.searchsorted(self.null_totals, total * (1.0 - 1e-9))
        return (self.draws - below + 1) / (self.draws + 1)

    def test(self, observed: ArrayLike) -> StatTest:
        """Return the one-sided test on counts [vocab] that sum to N.

        Raises:
            BadInput: as `check_counts`, or if the counts do not sum to N.
        """
        counts = check_counts(observed, self.law.size)
        if int(counts.sum()) != self.num_samples:
            raise BadInput(
                f"The counts sum to {int(counts.sum())}, but the test is for {self.num_samples} "
                "samples.",
                "Build the test for the number of samples drawn.",
                code="counts_total",
                values={"total": int(counts.sum()), "samples": self.num_samples},
            )
        unseen = [int(np.count_nonzero(counts[band.tokens] == 0)) for band in self.bands]
        total = sum(band.mean_prob * k for band, k in zip(self.bands, unseen))
        tails = [float(band.tail[k]) for band, k in zip(self.bands, unseen)]
        least = min(*tails, float(self._total_p(np.array([total]))[0]))
        slack = 1e-9
        at_least = int(np.searchsorted(self.null_least, least * (1.0 + slack), side="right"))
        further = int(np.searchsorted(self.null_least, least * (1.0 - slack), side="left"))
        p_value, p_strict = (1 + at_least) / (1 + self.draws), further / (1 + self.draws)
        bound = min(tails) * (len(self.bands) + 1)
        if bound < p_value and at_least < 10:
            p_value = p_strict = bound
        return self._result(counts, unseen, tails, p_value, p_strict)

    def _result(
        self,
        counts: NDArray[np.int64],
        unseen: list[int],
        tails: list[float],
        p_value: float,
        p_strict: float,
    ) -> StatTest:
        stray = np.flatnonzero((self.law == 0.0) & (counts > 0))
        if stray.size:
            p_value = p_strict = 0.0
        worst = int(np.argmin(tails))
        band = self.bands[worst]
        expected = self.law[band.tokens] * self.num_samples
        mean, spread = self.moments
        return StatTest(
            test="missing-mass",
            statistic=math.fsum(self.law[counts == 0]),
            p_value=p_value,
            p_strict=p_strict,
            num_samples=self.num_samples,
            num_cells=len(self.bands),
            forbidden=tuple((int(token), int(counts[token])) for token in stray),
            details=(
                ("missing_mass_mean", mean),
                ("missing_mass_sd", spread),
                ("flagged_mass", self.flagged_mass),
                ("unseen_tokens", float(sum(unseen))),
                ("band_expected_low", float(expected.min())),
                ("band_expected_high", float(expected.max())),
                ("band_tokens", float(band.tokens.size)),
                ("band_unseen", float(unseen[worst])),
                ("band_unseen_mean", band.mean),
                ("band_p_value", tails[worst]),
            ),
        )

    def smallest_group(self, *, level: float = 1e-3, power: float = 0.8) -> float:
        """Return a total p above which the absence of any group is flagged with `power`.

        The group lies inside one band, and the worst band counts. Where one missing token is enough
        a band adds nothing; where even the whole band is not, it adds its whole mass. By the normal
        approximation of the band's count.
        """
        worst = 0.0
        for band in self.bands:
            critical = int(np.argmax(np.append(band.tail, 0.0) * (len(self.bands) + 1) <= level))
            needed = critical - band.mean + stats.norm.isf(1.0 - power) * band.spread
            seen_share = 1.0 - band.mean / band.tokens.size
            tokens = min(needed / max(seen_share, 1e-300), float(band.tokens.size))
            if tokens > 1.0:
                worst = max(worst, tokens * band.mean_prob)
        return worst


def missing_mass_test(
    observed: ArrayLike, expected_probs: ArrayLike, *, draws: int = 99_999, seed: int = 0
) -> StatTest:
    """Return the missing-mass test of one sample; see `MissingMass`."""
    law = check_law(expected_probs)
    counts = check_counts(observed, law.size)
    return MissingMass(law, int(counts.sum()), draws=draws, seed=seed).test(counts)


def _band(
    law: NDArray[np.float64], unseen: NDArray[np.float64], members: NDArray[np.bool_]
) -> _Band:
    tokens = np.flatnonzero(members)
    pmf = _count_law(unseen[tokens])
    tail = np.minimum(np.cumsum(pmf[::-1])[::-1], 1.0)
    counts = np.arange(pmf.size)
    mean = float(pmf @ counts)
    spread = math.sqrt(float(pmf @ (counts - mean) ** 2))
    return _Band(tokens, math.fsum(law[tokens]) / tokens.size, pmf, tail, mean, spread)
