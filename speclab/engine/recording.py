"""From a round's outcome to its record: counts only, or with the laws a learner looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from speclab.core.laws import Law, align, one_hot, overlap
from speclab.core.records import Round, Slice, StopReason
from speclab.core.trees import PENDING

if TYPE_CHECKING:
    from speclab.engine.loop import RoundOutcome

SLICE_TOKENS = 24
NEAR_TIE_GAP = {"float64": 1e-9, "float32": 1e-4}
"""Difference of the two largest logits below which another kernel may pick the other token."""

NARROW_MANTISSA_BITS = {"bfloat16": 7, "float16": 10}
NARROW_ULPS = 4
"""In a narrow dtype that difference is counted in units of the last place of the largest."""


def record_counts(
    index: int,
    context_length: int,
    outcome: RoundOutcome,
    emitted: tuple[int, ...],
    stop_reason: StopReason | None,
) -> Round:
    """Record a round without laws: for timed runs and statistics."""
    return _record(index, context_length, outcome, emitted, stop_reason, (), False)


class LawRecorder:
    """Records a round with its slices.

    Args:
        dtype: of the target, for the near-tie test.
        greedy: whether near ties matter.
    """

    def __init__(self, dtype: str = "float32", greedy: bool = False) -> None:
        self._dtype, self._greedy = dtype, greedy

    def __call__(
        self,
        index: int,
        context_length: int,
        outcome: RoundOutcome,
        emitted: tuple[int, ...],
        stop_reason: StopReason | None,
    ) -> Round:
        """Return the full record of the round."""
        near_tie = self._greedy and any(
            is_near_tie(outcome.rows.judged_logits(row), self._dtype) for row in outcome.row_path
        )
        slices = _slices(outcome, context_length)
        return _record(index, context_length, outcome, emitted, stop_reason, slices, near_tie)


def is_near_tie(logits: NDArray, dtype: str) -> bool:
    """Whether rounding in `dtype` may change which of `logits` [vocab] is the largest."""
    if len(logits) < 2:
        return False
    second, first = np.sort(np.partition(np.asarray(logits, dtype=np.float64), -2)[-2:])
    gap = NEAR_TIE_GAP.get(dtype, 1e-4)
    if dtype in NARROW_MANTISSA_BITS and np.isfinite(first):
        exponent = np.floor(np.log2(max(abs(first), 1e-30)))
        gap = NARROW_ULPS * 2.0 ** (exponent - NARROW_MANTISSA_BITS[dtype])
    return bool(first - second < gap)


def _record(
    index: int,
    context_length: int,
    outcome: RoundOutcome,
    emitted: tuple[int, ...],
    stop_reason: StopReason | None,
    slices: tuple[Slice, ...],
    near_tie: bool,
) -> Round:
    proposal = outcome.proposal
    return Round(
        index=index,
        context_length=context_length,
        tree=proposal.tree,
        sampled=tuple(law is not None for law in proposal.draft_probs),
        num_draft_forwards=proposal.num_draft_forwards,
        draft_passes=proposal.draft_passes,
        evidence=proposal.evidence,
        verdict=outcome.verdict,
        emitted=emitted,
        timing=outcome.timing,
        stop_reason=stop_reason,
        near_tie=near_tie,
        slices=slices,
    )


def _slices(outcome: RoundOutcome, context_length: int) -> tuple[Slice, ...]:
    """Return one slice per tested node, and one for a draw that followed no test."""
    proposal, tree = outcome.proposal, outcome.proposal.tree
    slices = []
    for flip in outcome.verdict.flips:
        if flip.node not in outcome.rows.used:
            continue
        law, draft = outcome.rows.used[flip.node]
        raw_draft = proposal.raw_draft[flip.node] if proposal.raw_draft else None
        slices.append(
            cut_slice(
                node=flip.node,
                position=context_length + tree.depth(flip.node) - 1,
                target=law,
                draft=_one_hot_draft(flip.token, law) if draft is None else draft,
                raw_target=outcome.rows.raw(tree.parents[flip.node] + 1),
                raw_draft=raw_draft() if raw_draft is not None else None,
                must_show=(flip.token, outcome.verdict.next_token),
                deterministic=draft is None,
                left=_normalised(outcome.rows.left.get(flip.node)),
            )
        )
    if outcome.verdict.outcome != "correction":
        accepted = outcome.verdict.accepted
        row = 1 + (accepted[-1] if accepted else PENDING)
        slices.append(
            cut_slice(
                node=None,
                position=context_length + len(accepted),
                target=outcome.rows[row],
                draft=None,
                raw_target=outcome.rows.raw(row),
                raw_draft=None,
                must_show=(outcome.verdict.next_token,),
                deterministic=False,
            )
        )
    return tuple(slices)


def _normalised(weights: Law | None) -> Law | None:
    return None if weights is None else weights / weights.sum()


def _one_hot_draft(token: int, target: Law) -> Law:
    """Return the one-hot law of a token that may lie outside the target's vocabulary."""
    return one_hot(token, max(len(target), token + 1))


def cut_slice(
    *,
    node: int | None,
    position: int,
    target: Law,
    draft: Law | None,
    raw_target: Law,
    raw_draft: Law | None,
    must_show: Sequence[int],
    deterministic: bool,
    left: Law | None = None,
) -> Slice:
    """Cut laws [vocab] to the tokens that matter and round them to five digits.

    A draft's laws may be narrower or wider than the target's; ids it lacks have probability 0.
    """
    draft, raw_draft, left = (
        law if law is None else align(law, max(len(law), len(target)))
        for law in (draft, raw_draft, left)
    )
    weight = target
    for law in (draft, left):
        weight = weight if law is None else np.maximum(weight, law[: len(target)])
    size = min(SLICE_TOKENS, len(weight))
    top = np.argpartition(-weight, size - 1)[:size]
    top = top[np.argsort(-weight[top], kind="stable")]
    chosen = [int(token) for token in top if weight[token] > 0.0 or raw_target[token] > 1e-4]
    chosen += [token for token in must_show if token not in chosen and token < len(weight)]

    def pick(law: Law | None) -> tuple[float, ...]:
        if law is None:
            return ()
        return tuple(float(f"{law[token]:.5g}") for token in chosen)

    def rest(law: Law) -> float:
        return float(f"{max(0.0, law.sum() - law[chosen].sum()):.5g}")

    return Slice(
        node=node,
        position=position,
        tokens=tuple(chosen),
        target=pick(target),
        draft=pick(draft),
        raw_target=pick(raw_target),
        raw_draft=pick(raw_draft),
        left=pick(left),
        overlap=0.0 if draft is None else float(f"{overlap(target, draft):.8g}"),
        rest_target=rest(target),
        rest_draft=0.0 if draft is None else rest(draft),
        rest_left=0.0 if left is None else rest(left),
        deterministic=deterministic,
    )
