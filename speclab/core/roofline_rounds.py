"""Rounds of speculation on the roofline: batch curves, v(n), the best length. All modelled.

Example: see `speclab.core.roofline`.

**Source:** Leviathan et al. 2211.17192, theorem 3.8; TurboSpec 2406.14066 for the goodput rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from speclab.core.protocols import LocalText
from speclab.core.roofline import (
    ASSUMPTIONS,
    ModelShape,
    PassCost,
    Setting,
    check_range,
    pass_cost,
)
from speclab.core.theory import acceptance_for, expected_tokens_by_position


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How a method drafts, as far as its time is concerned.

    Attributes:
        rates: conditional acceptance by position of the (longest) path.
        tokens_per_pass: E[N] or a published tau, the extra token included.
        drafted: tokens of each sequence in the target pass besides the pending one.
        draft: the drafting model or head; None drafts for free (a lookup).
        draft_passes: per round. draft_width: tokens of each sequence in one of them.
        draft_window: most cache tokens the draft reads; None for all.
        round_overhead_s: of a round, for what no pass accounts for; 0 is an ideal engine.
        sequence_overhead_s: likewise, for each sequence of the batch.
    """

    rates: tuple[float, ...]
    tokens_per_pass: float
    drafted: int
    draft: ModelShape | None = None
    draft_passes: int = 0
    draft_width: int = 1
    draft_window: int | None = None
    round_overhead_s: float = 0.0
    sequence_overhead_s: float = 0.0

    @classmethod
    def chain(
        cls,
        acceptance: float | Sequence[float],
        gamma: int | None = None,
        draft: ModelShape | None = None,
        *,
        window: int | None = None,
    ) -> Speculation:
        """Return a chain of `gamma` tokens, one draft pass each.

        Args:
            acceptance: alpha (with gamma), or the conditional rate of every position.
            window: most cache tokens the draft reads.
        """
        if isinstance(acceptance, (int, float)):
            check_range("gamma", -1 if gamma is None else gamma, 0, 64)
            rates = (float(acceptance),) * int(gamma or 0)
        else:
            rates = tuple(acceptance)
        return cls(
            rates=rates,
            tokens_per_pass=expected_tokens_by_position(rates),
            drafted=len(rates),
            draft=draft,
            draft_passes=len(rates) if draft else 0,
            draft_window=window,
        )

    @classmethod
    def block(cls, tau: float, drafted: int, draft: ModelShape) -> Speculation:
        """Return a drafter that fills `drafted` places in one pass, as DFlash does."""
        rates = (acceptance_for(tau, drafted),) * drafted
        return cls(
            rates=rates,
            tokens_per_pass=tau,
            drafted=drafted,
            draft=draft,
            draft_passes=1,
            draft_width=drafted + 1,
        )

    @classmethod
    def tree(cls, tau: float, nodes: int, depth: int, width: int, draft: ModelShape) -> Speculation:
        """Return a tree of `nodes` tokens drafted in `depth` passes of `width` tokens each."""
        return cls(
            rates=(acceptance_for(tau, depth),) * depth,
            tokens_per_pass=tau,
            drafted=nodes,
            draft=draft,
            draft_passes=depth,
            draft_width=width,
        )


def with_engine(
    speculation: Speculation, round_overhead_s: float, sequence_overhead_s: float = 0.0
) -> Speculation:
    """Return the same drafting in an engine that loses time in every round."""
    check_range("round_overhead_s", round_overhead_s, 0, 10)
    check_range("sequence_overhead_s", sequence_overhead_s, 0, 10)
    return replace(
        speculation,
        round_overhead_s=round_overhead_s,
        sequence_overhead_s=sequence_overhead_s,
    )


PLAIN = Speculation(rates=(), tokens_per_pass=1.0, drafted=0)
"""Plain decoding, as the speculation that drafts nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCost:
    """One round of speculation beside one step of plain decoding, for a whole batch.

    Attributes:
        plain: a target pass with one token per sequence. verify: the pass with the drafts.
        draft: one draft pass; None for a free draft.
    """

    batch: int
    context: int
    plain: PassCost
    verify: PassCost
    draft: PassCost | None
    speculation: Speculation
    memory_bytes: float
    fits: bool
    assumptions: tuple[LocalText, ...] = field(default=ASSUMPTIONS, repr=False)

    @property
    def draft_s(self) -> float:
        """Seconds of all draft passes of a round."""
        return self.speculation.draft_passes * self.draft.seconds if self.draft else 0.0

    @property
    def seconds(self) -> float:
        """Of a round."""
        return self.draft_s + self.verify.seconds + self.engine_s

    @property
    def engine_s(self) -> float:
        """Seconds of a round outside its passes."""
        found = self.speculation
        return found.round_overhead_s + self.batch * found.sequence_overhead_s

    @property
    def cost_ratio(self) -> float:
        """c: one draft pass / one plain target pass."""
        return self.draft.seconds / self.plain.seconds if self.draft else 0.0

    @property
    def verify_cost(self) -> float:
        """v: the target pass with the drafts / with one token per sequence."""
        return self.verify.seconds / self.plain.seconds

    @property
    def speedup(self) -> float:
        """Seconds per token of plain decoding / of speculation."""
        return self.speculation.tokens_per_pass * self.plain.seconds / self.seconds

    @property
    def tokens_per_s(self) -> float:
        """Of the whole batch, with speculation."""
        return self.batch * self.speculation.tokens_per_pass / self.seconds

    @property
    def plain_tokens_per_s(self) -> float:
        """Of the whole batch, plain."""
        return self.batch / self.plain.seconds


def models_in_memory(target: ModelShape, draft: ModelShape | None) -> tuple[ModelShape, ...]:
    """Return the models whose weights and caches are held: a target that drafts for itself once."""
    return (target,) if draft is None or draft == target else (target, draft)


def memory_bytes(
    setting: Setting, *, batch: int, context: int, draft: ModelShape | None = None
) -> float:
    """Return bytes of weights and caches, the draft's included."""
    return sum(
        model.total_params * setting.weight_bytes
        + batch * context * model.kv_bytes_per_token(setting.kv_bytes)
        for model in models_in_memory(setting.target, draft)
    )


def round_cost(
    setting: Setting, speculation: Speculation, *, batch: int = 1, context: int = 1024
) -> RoundCost:
    """Return a round of `speculation` beside a plain step.

    Args:
        batch: sequences decoded together. context: tokens in each one's cache.
    """
    draft = None
    if speculation.draft is not None and speculation.draft_passes:
        seen = context if speculation.draft_window is None else speculation.draft_window
        draft = pass_cost(
            setting,
            batch=batch,
            tokens=speculation.draft_width,
            context=min(context, seen),
            shape=speculation.draft,
        )
    needed = memory_bytes(setting, batch=batch, context=context, draft=speculation.draft)
    return RoundCost(
        batch=batch,
        context=context,
        plain=pass_cost(setting, batch=batch, context=context),
        verify=pass_cost(setting, batch=batch, tokens=speculation.drafted + 1, context=context),
        draft=draft,
        speculation=speculation,
        memory_bytes=needed,
        fits=needed <= setting.hardware.memory_bytes,
    )


def batch_curve(
    setting: Setting, speculation: Speculation, *, batches: Sequence[int], context: int = 1024
) -> tuple[RoundCost, ...]:
    """Return one `RoundCost` per batch size."""
    return tuple(round_cost(setting, speculation, batch=b, context=context) for b in batches)


def verify_costs(
    setting: Setting, *, widths: Sequence[int], batch: int = 1, context: int = 1024
) -> dict[int, float]:
    """Return v(n) per width n: a target pass on n tokens of each sequence / on 1."""
    one = pass_cost(setting, batch=batch, context=context).seconds
    return {
        n: pass_cost(setting, batch=batch, tokens=n, context=context).seconds / one for n in widths
    }


def best_chain(
    setting: Setting,
    acceptance: float,
    draft: ModelShape | None,
    *,
    batch: int = 1,
    context: int = 1024,
    longest: int = 16,
) -> RoundCost:
    """Return the chain of 0 to `longest` tokens with the most tokens per second (goodput)."""
    chains = (Speculation.chain(acceptance, gamma, draft) for gamma in range(longest + 1))
    rounds = [round_cost(setting, chain, batch=batch, context=context) for chain in chains]
    return max(rounds, key=lambda found: (found.tokens_per_s, -found.speculation.drafted))


def crossing(xs: Sequence[float], ys: Sequence[float], level: float = 1.0) -> float | None:
    """Return the first x at which a falling curve meets `level`, linear between points.

    Returns:
        None if it never does; the first x if it starts below.
    """
    if ys and ys[0] < level:
        return float(xs[0])
    for i in range(1, len(xs)):
        if ys[i] < level <= ys[i - 1]:
            share = (ys[i - 1] - level) / (ys[i - 1] - ys[i])
            return float(xs[i - 1] + share * (xs[i] - xs[i - 1]))
    return None
