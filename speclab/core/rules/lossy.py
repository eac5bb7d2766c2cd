"""Lossy rules: they accept more than the target's law allows, on purpose, to be faster.

The `bias` of each is the total variation from the target on the standard pair, at the defaults.
"""

from __future__ import annotations

import math

import numpy as np

from speclab.core.laws import Law, residual
from speclab.core.protocols import LocalText, Param, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.rejection import Trial, accept_probability, target_again, walk
from speclab.core.rules.thresholds import THRESHOLD, THRESHOLD_LOG_RATIO

TENSORRT_LLM = "https://github.com/NVIDIA/TensorRT-LLM/pull/3865"


def rank(law: Law, token: int) -> int:
    """Return how many tokens come before `token` by probability; ties go to the lower id."""
    if token >= len(law):
        return len(law)
    return int((law > law[token]).sum() + (law[:token] == law[token]).sum())


def entropy(law: Law) -> float:
    """Return the entropy of a law [vocab], in nats."""
    positive = law[law > 0.0]
    return float(-(positive * np.log(positive)).sum())


def verify_typical(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    epsilon: float = 0.09,
    delta: float = 0.3,
) -> Verdict:
    """Accept x iff p(x) > min(epsilon, delta exp(-H(p))); after a refusal draw from p.

    Example: p = (.5, .3, .15, .05) has H = 1.142, so that the threshold is min(.09, .0957) = .09
    and every token but the last is accepted.

    **Source:** Medusa 2401.10774, section 2.3.1.
    **Deviation:** in a tree the first child that passes is followed; Medusa searches the longest
    path and always accepts the first token, which here is the pending one.
    """

    def accept(trial: Trial) -> float:
        threshold = min(epsilon, delta * math.exp(-entropy(trial.p)))
        return float(trial.target_prob > threshold)

    return walk(rows, proposal, rng, position, accept=accept, left=target_again)


def verify_lenience(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    lenience: float = 0.5,
) -> Verdict:
    """Put l q in q's place: accept with min(1, p/(l q)), else draw from norm(max(0, p - l q)).

    No token is emitted with a probability above p/l. Example: on p = (.5, .3, .15, .05) and
    q = (.2, .6, .1, .1) with l = .5 every p/(l q) is at least 1, so that the law is q.

    **Source:** Leviathan et al. 2211.17192, appendix A.5.
    **Deviation:** the appendix states the test only; the residual here is that of algorithm 1 with
    l q in q's place. The bound p/l holds for it, as it does for norm(max(0, p - q)).
    """

    def accept(trial: Trial) -> float:
        return accept_probability(trial.target_prob, lenience * trial.draft_prob)

    def left(trial: Trial) -> Law:
        if trial.q is not None:
            return residual(trial.p, lenience * trial.q)
        claimed = np.zeros(len(trial.p))
        claimed[trial.token : trial.token + 1] = lenience
        return residual(trial.p, claimed)

    return walk(rows, proposal, rng, position, accept=accept, left=left)


def verify_top_k_membership(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int, *, k: int = 2
) -> Verdict:
    """Accept x iff it is among the k most likely tokens of p; after a refusal draw from p.

    Example: p = (.5, .3, .15, .05), k = 2: tokens 0 and 1 are always accepted; inside the set the
    law is the draft's.

    **Source:** a common shortcut for heads and n-grams without a q.
    """

    def accept(trial: Trial) -> float:
        return float(trial.target_prob > 0.0 and rank(trial.p, trial.token) < k)

    return walk(rows, proposal, rng, position, accept=accept, left=target_again)


def verify_relaxed_greedy(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    top_n: int = 10,
    delta: float = 0.6,
) -> Verdict:
    """Accept x iff it is among the top N of the raw law and within delta of its best token.

    The coin looks at the target's law before temperature and filters; after a refusal the token
    is drawn from p, which at temperature 0 is the best token. Example: raw (.5, .3, .15, .05) with
    N = 2 and delta = .3 accepts tokens 0 and 1.

    **Source:** relaxed acceptance of TensorRT-LLM (pull request 3865), for DeepSeek-R1's thinking.
    **Deviation:** TensorRT-LLM knows temperature 0 only and relaxes during thinking only.
    """

    def accept(trial: Trial) -> float:
        best = float(trial.p.max())
        close = trial.target_prob > 0.0 and trial.target_prob >= best - delta
        return float(close and rank(trial.p, trial.token) < top_n)

    return walk(
        rows,
        proposal,
        rng,
        position,
        look_at=rows.raw,
        accept=accept,
        left=lambda trial: rows[trial.row],
    )


TYPICAL = VerifyRule(
    name="typical",
    title=LocalText("Typical acceptance (Medusa)", "典型接受（Medusa）"),
    one_liner=LocalText(
        "Accept whatever the target finds likely enough for its entropy; no coin.",
        "只要目标模型（按其熵）认为足够可能就接受，不掷硬币。",
    ),
    lossless=False,
    why_not=LocalText(
        "Every token above the threshold is accepted as often as the draft proposes it, so inside "
        "that set the text follows the draft.",
        "高于阈值的词元，草稿提出多少次就接受多少次，因此在该集合内文本服从草稿分布。",
    ),
    shipped_by="Medusa, its default above temperature 0: https://github.com/FasterDecoding/Medusa",
    bias=0.33,
    needs=frozenset({"independent_noise"}),
    params=(
        Param(
            name="epsilon",
            symbol="ε",
            kind="float",
            default=0.09,
            low=0.0,
            high=1.0,
            step=0.01,
            help=LocalText("Highest threshold on p(x).", "p(x) 阈值的上限。"),
        ),
        Param(
            name="delta",
            symbol="δ",
            kind="float",
            default=0.3,
            low=0.0,
            high=1.0,
            step=0.01,
            help=LocalText(
                "Scales exp(-H): the threshold falls where the target is unsure.",
                "与 exp(-H) 相乘：目标越不确定，阈值越低。",
            ),
        ),
    ),
    source="Medusa 2401.10774, section 2.3.1",
    verify=verify_typical,
)

LENIENCE = VerifyRule(
    name="lenience",
    title=LocalText("Lenience", "宽松系数"),
    one_liner=LocalText(
        "The ratio test with q multiplied by l: more is accepted, no token above p/l.",
        "把比值检验中的 q 乘以 l：接受更多，但任何词元的概率不超过 p/l。",
    ),
    lossless=False,
    why_not=LocalText(
        "A token is accepted with min(1, p/(l q)) instead of min(1, p/q): too often wherever q is "
        "above p.",
        "以 min(1, p/(l q)) 而不是 min(1, p/q) 接受：凡 q 大于 p 之处都接受得过多。",
    ),
    bias=0.35,
    needs=frozenset({"independent_noise"}),
    params=(
        Param(
            name="lenience",
            symbol="l",
            kind="float",
            default=0.5,
            low=0.05,
            high=1.0,
            step=0.05,
            help=LocalText("1 is the exact rule.", "取 1 即为精确规则。"),
        ),
    ),
    source="Leviathan et al. 2211.17192, appendix A.5",
    verify=verify_lenience,
)

TOP_K_MEMBERSHIP = VerifyRule(
    name="top-k-membership",
    title=LocalText("Among the target's top k", "属于目标的前 k 名"),
    one_liner=LocalText(
        "Accept iff the token is among the target's k most likely ones.",
        "当且仅当词元属于目标最可能的 k 个时接受。",
    ),
    lossless=False,
    why_not=LocalText(
        "Inside the top k nothing weighs p against q: there the text follows the draft.",
        "在前 k 名之内没有比较 p 与 q：那里文本服从草稿分布。",
    ),
    bias=0.36,
    needs=frozenset({"independent_noise"}),
    params=(
        Param(
            name="k",
            symbol="k",
            kind="int",
            default=2,
            low=1,
            high=50,
            step=1,
            unit="tokens",
            help=LocalText("How many tokens pass.", "多少个词元可以通过。"),
        ),
    ),
    source="a common shortcut for drafts without a q",
    verify=verify_top_k_membership,
)

RELAXED_GREEDY = VerifyRule(
    name="relaxed-greedy",
    title=LocalText("Relaxed greedy", "放宽的贪心"),
    one_liner=LocalText(
        "Accept a token among the target's top N whose probability is within delta of the best.",
        "接受目标前 N 名中概率与最大值之差不超过 delta 的词元。",
    ),
    lossless=False,
    why_not=LocalText(
        "Near-best tokens pass although greedy decoding would never emit them; above temperature 0 "
        "they pass as often as the draft proposes them.",
        "接近最优的词元会通过，而贪心解码绝不会输出它们；"
        "温度大于 0 时，草稿提出多少次就通过多少次。",
    ),
    shipped_by=f"TensorRT-LLM, for DeepSeek-R1's thinking phase: {TENSORRT_LLM}",
    bias=0.35,
    needs=frozenset({"independent_noise"}),
    params=(
        Param(
            name="top_n",
            symbol="N",
            kind="int",
            default=10,
            low=1,
            high=50,
            step=1,
            unit="tokens",
            help=LocalText("How many of the best tokens are candidates.", "前多少名算候选。"),
        ),
        Param(
            name="delta",
            symbol="δ",
            kind="float",
            default=0.6,
            low=0.0,
            high=1.0,
            step=0.05,
            help=LocalText(
                "How far below the best probability a candidate may be.",
                "候选概率最多可比最大概率低多少。",
            ),
        ),
    ),
    source="relaxed acceptance, TensorRT-LLM (N = 10 and delta = .6 in its DeepSeek-R1 recipe)",
    verify=verify_relaxed_greedy,
)

LOSSY = (TYPICAL, LENIENCE, THRESHOLD, THRESHOLD_LOG_RATIO, TOP_K_MEMBERSHIP, RELAXED_GREEDY)
"""In teaching order."""
