"""Broken rules for several candidates at one place, and the table of all broken rules."""

from __future__ import annotations

from speclab.core.laws import Law
from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.broken import (
    ACCEPT_ABOVE_Q,
    ARGMAX_DRAFT_SOFTMAX_Q,
    REDRAW_AFTER_MISMATCH,
    REDRAW_FROM_P,
    SOFTMAX_RESIDUAL,
    TOP_P_ONE_SIDE,
    UNDRAWING,
    WRONG_TEMPERATURE,
)
from speclab.core.rules.broken_noise import REDRAW_AFTER_RACE, SHARED_NOISE
from speclab.core.rules.rejection import Candidates, as_drafted, at, walk, without


def _claim(proposal: Proposal, child: int, q: Law | None) -> float:
    return 1.0 if q is None else at(q, proposal.tree.tokens[child])


def verify_best_of_samples(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Keep the i.i.d. sibling with the largest q and judge it as if it were the only one.

    Example: with two samples of q = (.2, .6, .1, .1) token 1 is kept with probability .84, not .6.

    **Source:** Leviathan et al. 2211.17192, algorithm 1, with a q nobody drew from.
    """

    def candidates(proposal: Proposal, children: list[int]) -> Candidates:
        drafted = as_drafted(proposal, children)
        return sorted(drafted, key=lambda item: -_claim(proposal, *item))[:1]

    return walk(rows, proposal, rng, position, candidates=candidates)


def verify_naive_multi_draft(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Test every i.i.d. sibling with min(1, p/q) against p itself; one residual at the end.

    Example: two samples on the standard pair are accepted with mass min(p, q) (1 + .35), after
    which norm(max(0, p - q)) no longer fits.

    **Source:** SpecInfer 2305.09781, algorithm 2, without the update of p between siblings.
    """
    look_at = rows.__getitem__
    return walk(rows, proposal, rng, position, look_at=look_at)


def verify_sorted_siblings(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Test siblings drawn without replacement by descending q, as if drawn in that order.

    Example: siblings 0 and 1 of q = (.2, .6, .1, .1) are tested 1 first with q(1) = .6, then 0 with
    q(0) = .5, whichever came first; but 1 is tested first with probability .84, not .6.

    **Source:** RSD 2402.14160, whose recursive rejection is exact in the order of the draws.
    """

    def candidates(proposal: Proposal, children: list[int]) -> Candidates:
        drafted = as_drafted(proposal, children)
        if not drafted or drafted[0][1] is None:
            return drafted
        q = drafted[0][1]
        ordered: Candidates = []
        for child in sorted(children, key=lambda child: -_claim(proposal, child, drafted[0][1])):
            ordered.append((child, q))
            q = without(q, proposal.tree.tokens[child])
        return ordered

    return walk(rows, proposal, rng, position, candidates=candidates)


BEST_OF_SAMPLES = VerifyRule(
    name="broken-best-of-samples",
    title=LocalText("Broken: best of several samples", "错误：取若干样本中最好的"),
    one_liner=LocalText(
        "Of several drawn tokens keep the one with the largest q and judge it with q.",
        "抽取若干词元，只留 q 最大的一个，仍用 q 检验。",
    ),
    lossless=False,
    why_not=LocalText(
        "The kept token is the best of several draws, not a draw from q: likely tokens are "
        "proposed more often than q says.",
        "留下的是多次采样中最好的，而不是 q 的一次采样：高概率词元被提出的次数多于 q 所示。",
    ),
    bias=0.12,
    needs=frozenset({"tree", "sampled", "independent_noise", "iid_siblings"}),
    source="reranking of sampled drafts by their own q",
    verify=verify_best_of_samples,
)

NAIVE_MULTI_DRAFT = VerifyRule(
    name="broken-naive-multi-draft",
    title=LocalText("Broken: independent tests of several drafts", "错误：多个草稿各自独立检验"),
    one_liner=LocalText(
        "K ratio tests against the same p, then the residual of a single one.",
        "K 次比值检验都针对同一个 p，最后却用单个草稿的残差。",
    ),
    lossless=False,
    why_not=LocalText(
        "Each further test adds accepted mass in the shape of min(p, q), which the residual of one "
        "test does not subtract.",
        "每多检验一次，就多接受一份 min(p, q) 形状的概率，而单次检验的残差并未将其扣除。",
    ),
    bias=0.125,
    needs=frozenset({"tree", "sampled", "independent_noise", "iid_siblings"}),
    source="SpecInfer 2305.09781, algorithm 2, without the update of p",
    verify=verify_naive_multi_draft,
)

SORTED_SIBLINGS = VerifyRule(
    name="broken-sorted-siblings",
    title=LocalText("Broken: sampled siblings sorted by q", "错误：采样的同级候选按 q 排序"),
    one_liner=LocalText(
        "Siblings drawn without replacement are tested in order of q, not in the order drawn.",
        "不放回抽取的同级候选按 q 的大小检验，而不是按抽取顺序。",
    ),
    lossless=False,
    why_not=LocalText(
        "After sorting, the first one tested is no longer a draw from q, nor the second one from "
        "the rest of q.",
        "排序之后，第一个受检者不再是 q 的采样，第二个也不再来自 q 的剩余部分。",
    ),
    bias=0.1417,
    needs=frozenset({"tree", "sampled", "independent_noise", "siblings_without_replacement"}),
    source="RSD 2402.14160 in the wrong order",
    verify=verify_sorted_siblings,
)

BROKEN = (
    REDRAW_AFTER_MISMATCH,
    REDRAW_FROM_P,
    SOFTMAX_RESIDUAL,
    ARGMAX_DRAFT_SOFTMAX_Q,
    TOP_P_ONE_SIDE,
    WRONG_TEMPERATURE,
    UNDRAWING,
    ACCEPT_ABOVE_Q,
    SHARED_NOISE,
    REDRAW_AFTER_RACE,
    BEST_OF_SAMPLES,
    NAIVE_MULTI_DRAFT,
    SORTED_SIBLINGS,
)
"""In teaching order."""
