"""Lossy rules that turn the ratio test's chance into a pass mark."""

from __future__ import annotations

import math

from speclab.core.protocols import LocalText, Param, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.rejection import Trial, target_again, walk


def verify_threshold(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    threshold: float = 0.5,
) -> Verdict:
    """Accept x iff p(x)/q(x) >= threshold, without a coin; after a refusal draw from p.

    Example: on the standard pair the ratios are 2.5, .5, 1.5 and .5: at .5 all are accepted and
    the law is q; at 1 only tokens 0 and 2 are.

    **Source:** a common shortcut; the ratio is that of Leviathan et al. 2211.17192.
    """

    def accept(trial: Trial) -> float:
        target_prob = trial.target_prob
        return float(target_prob > 0.0 and target_prob >= threshold * trial.draft_prob)

    return walk(rows, proposal, rng, position, accept=accept, left=target_again)


def verify_threshold_log_ratio(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    slack: float = 0.5,
) -> Verdict:
    """Accept x iff log p(x) - log q(x) >= -slack; after a refusal draw from p.

    Example: a slack of .5 nats accepts ratios down to .607, so that on the standard pair the
    tokens 0 and 2 are accepted and 1 and 3 (ratio .5) are not.

    **Source:** the threshold on p/q, on the scale on which engines keep log-probabilities.
    """

    def accept(trial: Trial) -> float:
        if not trial.target_prob > 0.0:
            return 0.0
        gap = math.log(trial.target_prob) - math.log(trial.draft_prob or math.ulp(0.0))
        return float(gap >= -slack)

    return walk(rows, proposal, rng, position, accept=accept, left=target_again)


THRESHOLD = VerifyRule(
    name="threshold",
    title=LocalText("Threshold on p/q", "p/q 阈值"),
    one_liner=LocalText(
        "Accept iff p/q reaches a threshold; no coin.", "当且仅当 p/q 达到阈值时接受，不掷硬币。"
    ),
    lossless=False,
    why_not=LocalText(
        "Below 1 the ratio is a chance, not a pass mark: a threshold accepts a token always or "
        "never.",
        "比值小于 1 时它是一个概率而不是及格线：阈值要么总接受，要么总拒绝。",
    ),
    shipped_by=(
        "SGLang, as accept_threshold_single and accept_threshold_acc below 1 (off by default)"
    ),
    bias=0.35,
    needs=frozenset({"independent_noise"}),
    params=(
        Param(
            name="threshold",
            symbol="θ",
            kind="float",
            default=0.5,
            low=0.0,
            high=2.0,
            step=0.05,
            help=LocalText("Smallest p/q that is accepted.", "可接受的最小 p/q。"),
        ),
    ),
    source="a hard threshold on the ratio of Leviathan et al. 2211.17192",
    verify=verify_threshold,
)

THRESHOLD_LOG_RATIO = VerifyRule(
    name="threshold-log-ratio",
    title=LocalText("Threshold on log p - log q", "log p - log q 阈值"),
    one_liner=LocalText(
        "Accept iff log p - log q is at least -x; no coin.",
        "当且仅当 log p - log q ≥ -x 时接受，不掷硬币。",
    ),
    lossless=False,
    why_not=LocalText(
        "The same pass mark on the log scale: tokens within the slack are accepted as often as "
        "the draft proposes them.",
        "对数尺度上的同一条及格线：在余量之内的词元，草稿提出多少次就接受多少次。",
    ),
    bias=0.105,
    needs=frozenset({"independent_noise"}),
    params=(
        Param(
            name="slack",
            symbol="x",
            kind="float",
            default=0.5,
            low=0.0,
            high=5.0,
            step=0.1,
            unit="nats",
            help=LocalText(
                "How far log p may fall below log q.", "log p 最多可以比 log q 低多少。"
            ),
        ),
    ),
    source="a hard threshold on the log-ratio of Leviathan et al. 2211.17192",
    verify=verify_threshold_log_ratio,
)
