"""The roofline against published batch curves: how wrong it is, first without and then with a fit.

1. *Nothing fitted*: device, shapes and acceptance from the papers; the engine loses no time.
2. *Engine fitted*: two numbers, seconds lost per round and per sequence in a round, are fitted to
   every other batch size, and the error is that of the sizes left out.

The first is an upper bound on what a perfect engine could give; the gap is shown in milliseconds.

Example:
    >>> from speclab.lab.published_check import check_curve
    >>> found = check_curve("sglang-eagle-3")
    >>> print(found.sentence().en)  # doctest: +ELLIPSIS
    EAGLE-3, chain of 3, SGLang on H100: modelled vs published, median error ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText
from speclab.core.roofline import Setting
from speclab.core.roofline_rounds import (
    RoundCost,
    Speculation,
    batch_curve,
    crossing,
    with_engine,
)
from speclab.core.theory import DrawnRounds, draw_rounds, expected_tokens, operations_factor
from speclab.lab.hardware import usual_setting
from speclab.lab.model_shapes import HEADS, SHAPES
from speclab.lab.published import CURVES, TABLES, BatchCurve

EAGLE_RATES = (0.71, 0.683, 0.656)
EAGLE_3_RATES = (0.79, 0.786, 0.781)
"""n-alpha of MT-bench and Llama 3.1 8B, read off Figure 7 of EAGLE-3 at n = 0 and 7, and taken as
linear between: .71 to .52 and .79 to .76 over eight positions."""
CHAT_CONTEXT, MATHS_CONTEXT = 512, 1024
"""Tokens in the cache on average: assumed, no paper prints them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveCheck:
    """One published curve and the model's two answers.

    Attributes:
        modelled: speedups with nothing fitted. fitted: with the engine's two numbers.
        held_out: whether each batch size was left out of the fit.
        missing_s: seconds of a round that the passes do not account for, by batch size.
        round_overhead_s, sequence_overhead_s: the fit.
        plain_modelled: tokens/s of plain decoding, to set beside `published.plain_tokens_per_s`.
    """

    published: BatchCurve
    setting: Setting
    speculation: Speculation
    context: int
    rounds: tuple[RoundCost, ...]
    modelled: tuple[float, ...]
    fitted: tuple[float, ...]
    held_out: tuple[bool, ...]
    missing_s: tuple[float, ...]
    round_overhead_s: float
    sequence_overhead_s: float
    plain_modelled: tuple[float, ...]

    @property
    def error(self) -> float:
        """Median |modelled / published - 1| with nothing fitted."""
        return float(np.median(_errors(self.modelled, self.published.speedups)))

    @property
    def held_out_error(self) -> float:
        """Median |fitted / published - 1| over the batch sizes left out of the fit."""
        return float(np.median(self._left_out()))

    @property
    def worst_held_out_error(self) -> float:
        """The largest of these."""
        return float(np.max(self._left_out()))

    @property
    def plain_error(self) -> float | None:
        """Median error of plain tokens/s; None where the table has only ratios."""
        if not self.published.plain_tokens_per_s:
            return None
        return float(np.median(_errors(self.plain_modelled, self.published.plain_tokens_per_s)))

    @property
    def crossings(self) -> tuple[float | None, float | None]:
        """Batch size at which the published and the fitted curve fall through 1."""
        sizes = self.published.batches
        return crossing(sizes, self.published.speedups), crossing(sizes, self.fitted)

    def _left_out(self) -> NDArray[np.float64]:
        errors = _errors(self.fitted, self.published.speedups)
        return errors[np.array(self.held_out)]

    def sentence(self) -> LocalText:
        """Return the errors as one sentence."""
        free, held, worst = (
            f"{100 * x:.0f} %" for x in (self.error, self.held_out_error, self.worst_held_out_error)
        )
        lost = f"{1e3 * self.round_overhead_s:.1f}", f"{1e3 * self.sequence_overhead_s:.2f}"
        title = self.published.title
        return LocalText(
            f"{title}: modelled vs published, median error {free} with nothing fitted (an engine "
            f"that loses no time); {held} (at most {worst}) at the batch sizes left out of a fit "
            f"of {lost[0]} ms per round and {lost[1]} ms per sequence.",
            f"{title}：建模值与发表值相比，不做任何拟合（引擎不损失时间）时误差中位数 {free}；"
            f"拟合每轮 {lost[0]} 毫秒、每个序列 {lost[1]} 毫秒之后，"
            f"在未参与拟合的批量上为 {held}（最大 {worst}）。",
        )


def _errors(modelled: tuple[float, ...], published: tuple[float, ...]) -> NDArray[np.float64]:
    return np.abs(np.array(modelled) / np.array(published) - 1.0)


Case = tuple[str, str, Callable[[], Speculation], int]
"""Target, device, what drafts, tokens in the cache."""


def _chain(rates: tuple[float, ...], head: str) -> Callable[[], Speculation]:
    return lambda: Speculation.chain(rates, draft=HEADS[head](SHAPES["llama-8b"]))


def _block(curve: str, target: str) -> Callable[[], Speculation]:
    return lambda: Speculation.block(CURVES[curve].tau or 1.0, 15, HEADS["dflash"](SHAPES[target]))


def _tree() -> Speculation:
    tau = CURVES["sglang-eagle-3-tree"].tau or 1.0
    return Speculation.tree(tau, 60, 7, 10, HEADS["eagle-3"](SHAPES["llama-8b"]))


_CASES: dict[str, Case] = {
    "sglang-eagle-1": ("llama-8b", "h100", _chain(EAGLE_RATES, "eagle-1"), CHAT_CONTEXT),
    "sglang-eagle-3": ("llama-8b", "h100", _chain(EAGLE_3_RATES, "eagle-3"), CHAT_CONTEXT),
    "vllm-eagle-1": ("llama-8b", "rtx-3090", _chain(EAGLE_RATES[:2], "eagle-1"), CHAT_CONTEXT),
    "vllm-eagle-3": ("llama-8b", "rtx-3090", _chain(EAGLE_3_RATES[:2], "eagle-3"), CHAT_CONTEXT),
    "sglang-dflash-math": (
        "qwen3-8b",
        "b200",
        _block("sglang-dflash-math", "qwen3-8b"),
        MATHS_CONTEXT,
    ),
    "sglang-eagle-3-tree": ("llama-8b", "b200", _tree, CHAT_CONTEXT),
    "sglang-dflash-moe": (
        "qwen3-30b-a3b",
        "b200",
        _block("sglang-dflash-moe", "qwen3-30b-a3b"),
        CHAT_CONTEXT,
    ),
}


def check_curve(name: str, *, hardware: str | None = None) -> CurveCheck:
    """Compare the roofline with a published curve.

    Args:
        name: of the curve. hardware: another device than the paper's text names.

    Raises:
        BadInput: naming the curves.
    """
    if name not in _CASES:
        raise BadInput(f"There is no published curve {name!r}.", f"Curves: {', '.join(_CASES)}.")
    target, device, drafting, context = _CASES[name]
    published, setting = CURVES[name], usual_setting(target, hardware or device)
    speculation = drafting()
    rounds = batch_curve(setting, speculation, batches=published.batches, context=context)
    printed = np.array(published.speedups)
    tokens_s = speculation.tokens_per_pass * np.array([cost.plain.seconds for cost in rounds])
    missing = tokens_s / printed - np.array([cost.seconds for cost in rounds])
    sizes = np.array(published.batches, dtype=np.float64)
    held_out = np.arange(len(sizes)) % 2 == 1
    engine = _fit_engine(sizes[~held_out], missing[~held_out], (printed / tokens_s)[~held_out])
    slower = with_engine(speculation, *engine)
    fitted = batch_curve(setting, slower, batches=published.batches, context=context)
    return CurveCheck(
        published=published,
        setting=setting,
        speculation=speculation,
        context=context,
        rounds=rounds,
        modelled=tuple(cost.speedup for cost in rounds),
        fitted=tuple(cost.speedup for cost in fitted),
        held_out=tuple(bool(x) for x in held_out),
        missing_s=tuple(float(x) for x in missing),
        round_overhead_s=engine[0],
        sequence_overhead_s=engine[1],
        plain_modelled=tuple(cost.plain_tokens_per_s for cost in rounds),
    )


def check_curves() -> dict[str, CurveCheck]:
    """Return the check of every curve, in the order of `published.CURVES`."""
    return {name: check_curve(name) for name in CURVES}


def _fit_engine(
    sizes: NDArray[np.float64], missing_s: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    """Return seconds per round and per sequence, neither negative, by least squares.

    Args:
        weights: turn seconds into relative errors of the speedup.
    """
    both = np.stack([np.ones_like(sizes), sizes], axis=1) * weights[:, None]
    wanted = missing_s * weights
    candidates = [(0.0, 0.0)]
    for used in ((0,), (1,), (0, 1)):
        part = np.linalg.lstsq(both[:, used], wanted, rcond=None)[0]
        whole = [0.0, 0.0]
        for place, value in zip(used, part, strict=True):
            whole[place] = float(value)
        if min(whole) >= 0.0:
            candidates.append((whole[0], whole[1]))
    return min(candidates, key=lambda c: float(np.sum((both @ np.array(c) - wanted) ** 2)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOneRow:
    """One line of Leviathan's Table 1 three times: printed, by formula, drawn by coin.

    Attributes:
        speed: E[N], as c is 0. operations: (gamma + 1) / E[N].
        drawn: rounds with their mean and its standard error.
    """

    alpha: float
    gamma: int
    printed_operations: float
    printed_speed: float
    operations: float
    speed: float
    drawn: DrawnRounds

    @property
    def drawn_operations(self) -> float:
        """Operations per token of plain decoding, by coin."""
        return (self.gamma + 1) / self.drawn.tokens

    @property
    def agrees(self) -> bool:
        """Whether the print rounds the formula, and the coins lie within four standard errors."""
        rounded = (
            abs(self.speed - self.printed_speed) <= 0.0051
            and abs(self.operations - self.printed_operations) <= 0.0051
        )
        return rounded and self.drawn.sigmas_from(self.speed) < 4.0


def leviathan_table_1(num_rounds: int = 100_000, seed: int = 1) -> tuple[TableOneRow, ...]:
    """Return Leviathan's Table 1 by formula and by Bernoulli simulation.

    **Source:** 2211.17192, Table 1.
    """
    rows = []
    for alpha, gamma, operations, speed in TABLES["leviathan-1"].rows:
        rate, length = float(alpha), int(gamma)
        rows.append(
            TableOneRow(
                alpha=rate,
                gamma=length,
                printed_operations=float(operations),
                printed_speed=float(speed),
                operations=operations_factor(rate, length),
                speed=expected_tokens(rate, length),
                drawn=draw_rounds([rate] * length, num_rounds, seed),
            )
        )
    return tuple(rows)
