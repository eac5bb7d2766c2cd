"""Rules for siblings: several candidates for one position, tested in turn.

Each is the ratio test against what is left of p; they differ in the law that a sibling was drawn
from, which the rule works out itself from that of the first sibling. `token` reads it off every
node instead, and so covers any mixture.
"""

from __future__ import annotations

from speclab.core.laws import Law
from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.rejection import Candidates, as_one_hot, walk


def drawn_independently(proposal: Proposal, children: list[int]) -> Candidates:
    """Give every sibling the law of the first."""
    return [(child, proposal.draft_probs[children[0]]) for child in children]


def drawn_without_replacement(proposal: Proposal, children: list[int]) -> Candidates:
    """Take the first sibling's law and leave out, one by one, the tokens drawn before.

    Once that law is used up, a further sibling is judged by the law its node carries.
    """
    candidates: Candidates = []
    q: Law | None = proposal.draft_probs[children[0]] if children else None
    for child in children:
        own = q if q is not None and q.any() else proposal.draft_probs[child]
        candidates.append((child, own))
        if q is not None:
            q = q.copy()
            q[proposal.tree.tokens[child] : proposal.tree.tokens[child] + 1] = 0.0
            total = q.sum()
            q = q / total if total > 0.0 else q
    return candidates


def verify_siblings_iid(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Test i.i.d. siblings in turn; after each refusal p becomes norm(max(0, p - q)), q stays.

    A token drawn twice is tested twice. Example: p = (.5, .5), q = (.9, .1), siblings 0 and 0: the
    first is accepted with probability 5/9, the second never, as nothing of p(0) is left.

    **Source:** SpecInfer 2305.09781, algorithm 2 (multi-step speculative sampling).
    """
    return walk(rows, proposal, rng, position, candidates=drawn_independently)


def verify_siblings_without_replacement(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Test siblings drawn without replacement in draw order, updating p and q after each refusal.

    Example: p = (.5, .5), q = (.9, .1), siblings 0 and 1: the first is accepted with probability
    5/9; after its refusal p = q = (0, 1), so that the second is certain.

    **Source:** recursive rejection sampling, RSD 2402.14160, section 3; Sequoia 2402.12374.
    """
    return walk(rows, proposal, rng, position, candidates=drawn_without_replacement)


def verify_siblings_top_k(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Test siblings that were chosen, not drawn: accept x with what is left of p(x), else drop x.

    The chance that one of them is accepted is the sum of their p, in any order. Example:
    p = (.5, .3, .2), siblings 1 and 2: accepted with probabilities .3 and .2/.7, together .5.

    **Source:** Leviathan et al. 2211.17192 with one-hot q, sibling by sibling; this is what
    EAGLE-2 (2406.16858) does with its top-k trees.
    """
    return walk(rows, proposal, rng, position, candidates=as_one_hot)


SIBLINGS_IID = VerifyRule(
    name="siblings-iid",
    title=LocalText("Siblings, drawn independently", "同级候选（独立抽取）"),
    one_liner=LocalText(
        "Ratio test on one sibling after another; what a refusal leaves of p meets the same q.",
        "逐个对同级候选做比值检验；每次拒绝后用剩余的 p 面对同一个 q。",
    ),
    lossless=True,
    needs=frozenset({"sampled", "iid_siblings", "independent_noise"}),
    source="SpecInfer 2305.09781, algorithm 2",
    verify=verify_siblings_iid,
)

SIBLINGS_WITHOUT_REPLACEMENT = VerifyRule(
    name="siblings-without-replacement",
    title=LocalText("Siblings, drawn without replacement", "同级候选（不放回抽取）"),
    one_liner=LocalText(
        "Ratio test in draw order; a refusal takes its share out of p and its token out of q.",
        "按抽取顺序做比值检验；每次拒绝后更新 p，并把该词元从 q 中去掉。",
    ),
    lossless=True,
    needs=frozenset({"sampled", "siblings_without_replacement", "independent_noise"}),
    source="recursive rejection sampling, RSD 2402.14160; Sequoia 2402.12374",
    verify=verify_siblings_without_replacement,
)

SIBLINGS_TOP_K = VerifyRule(
    name="siblings-topk",
    title=LocalText("Siblings, the k most likely", "同级候选（最可能的 k 个）"),
    one_liner=LocalText(
        "Chosen siblings are accepted with what is left of p; a refused token is dropped.",
        "确定性选出的候选以剩余的 p 接受；被拒绝的词元从 p 中去掉。",
    ),
    lossless=True,
    needs=frozenset({"deterministic", "top_k_siblings", "independent_noise"}),
    source="Leviathan et al. 2211.17192 with one-hot q; EAGLE-2 2406.16858",
    verify=verify_siblings_top_k,
)
