"""Broken rules for one candidate per place: mistakes that have been made, each with its bias.

They run in the real loop beside the right rules, so that a test which passes them proves nothing.
The `bias` of each is the total variation from the target on the standard pair.
"""

from __future__ import annotations

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.laws import Law, align, softmax
from speclab.core.protocols import LocalText, Param, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.matching import draw_and_compare
from speclab.core.rules.rejection import Candidates, Trial, as_drafted, at, target_again, walk


def verify_redraw_after_mismatch(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Draw y from p and compare; on a mismatch throw y away and draw again.

    Example: p = (.5, .5), q = (.9, .1): the law is p (q + 1 - sum p q) = (.7, .3).

    **Source:** the wrong reading of draw-and-compare, which is exact when y itself is emitted.
    """

    def draw_again(p: Law, drawn: int) -> int:
        return rng.draw(p)

    return draw_and_compare(rows, proposal, rng, position, mismatch=draw_again)


def verify_redraw_from_p(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Test with min(1, p/q), then draw from p itself instead of the residual.

    Example: p = (.5, .5), q = (.9, .1): the law is min(p, q) + (1 - .6) p = (.7, .3).

    **Source:** Leviathan et al. 2211.17192, algorithm 1, without its adjusted law.
    """
    left = target_again
    return walk(rows, proposal, rng, position, left=left)


def verify_softmax_residual(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Pass max(0, p - q) through a softmax instead of dividing it by its sum.

    Example: p = (.5, .3, .15, .05), q = (.1, .2, .3, .4): tokens whose residual is zero still
    come out, and the law is (.2623, .3202, .2588, .1588).

    **Source:** Leviathan et al. 2211.17192, algorithm 1, with its norm misread.
    """

    def left(trial: Trial) -> Law:
        if trial.q is None:
            rest = trial.p.copy()
            rest[trial.token : trial.token + 1] = 0.0
        else:
            rest = np.maximum(trial.p - align(trial.q, len(trial.p)), 0.0)
        return softmax(rest)

    return walk(rows, proposal, rng, position, left=left)


def by_raw_law(proposal: Proposal, children: list[int]) -> Candidates:
    """Judge every child by the draft's law before processing, whatever it was drawn from.

    Raises:
        BadInput: if the proposal does not carry it.
    """
    makers = [proposal.raw_draft[child] if proposal.raw_draft else None for child in children]
    if None in makers:
        raise BadInput("This rule needs the draft's law before processing.")
    return [(child, make()) for child, make in zip(children, makers, strict=True) if make]


def verify_argmax_draft_softmax_q(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Judge a draft's argmax by its softmax, as if it had been drawn from it.

    Example: p = (.5, .3, .2), q = (.4, .35, .25): the draft always offers token 0, p/q is above 1
    and token 0 comes out every time.

    **Source:** Leviathan et al. 2211.17192, algorithm 1, with a q nobody drew from.
    """
    candidates = by_raw_law
    return walk(rows, proposal, rng, position, candidates=candidates)


def verify_top_p_one_side(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Judge a token drawn from the filtered draft law by the unfiltered one.

    Without a filter (and at temperature 1) the two are equal and the rule is exact. Example:
    p = (.5, .5, 0, 0), q = (.4, .3, .2, .1) cut to its top 2: the law is (4/7, 3/7, 0, 0).

    **Source:** Leviathan et al. 2211.17192, algorithm 1, with a q nobody drew from.
    """
    candidates = by_raw_law
    return walk(rows, proposal, rng, position, candidates=candidates)


def tempered(law: Law, temperature: float) -> Law:
    """Return norm(law^(1/temperature)) [vocab]."""
    weights = (law / law.max()) ** (1.0 / temperature)
    return weights / weights.sum()


def verify_wrong_temperature(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    recorded_temperature: float = 0.5,
) -> Verdict:
    """Judge by the draft's law at another temperature than it was drawn at.

    Example: q = (.2, .6, .1, .1) recorded at half the temperature is (.095, .857, .024, .024), so
    that token 1 of p = (.5, .3, .15, .05) is accepted 35 % of the time instead of 50 %.

    **Source:** Leviathan et al. 2211.17192, algorithm 1, with a q nobody drew from.
    """

    def candidates(proposal: Proposal, children: list[int]) -> Candidates:
        return [
            (child, None if q is None else tempered(q, recorded_temperature))
            for child, q in as_drafted(proposal, children)
        ]

    return walk(rows, proposal, rng, position, candidates=candidates)


def verify_undrawing(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    min_probability: float = 0.2,
) -> Verdict:
    """Drop a drawn token whose q is small, as if nothing had been drafted there.

    Example: p = (.5, .5), q = (.9, .1): the law is (.55, .45). To keep the token and stop after it
    is exact.

    **Source:** Leviathan et al. 2211.17192, whose proof needs every drawn token to be judged.
    """

    def candidates(proposal: Proposal, children: list[int]) -> Candidates:
        return [
            (child, q)
            for child, q in as_drafted(proposal, children)
            if q is None or at(q, proposal.tree.tokens[child]) >= min_probability
        ]

    return walk(rows, proposal, rng, position, candidates=candidates)


def verify_accept_above_q(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Accept only where p(x) >= q(x), without a coin; else draw from the residual.

    Example: p = (.5, .5), q = (.9, .1): token 0 is never accepted and never in the residual, so
    that token 1 comes out every time.

    **Source:** half of Leviathan et al. 2211.17192, algorithm 1: below 1 the ratio is a chance.
    """

    def accept(trial: Trial) -> float:
        return float(trial.target_prob > 0.0 and trial.target_prob >= trial.draft_prob)

    return walk(rows, proposal, rng, position, accept=accept)


REDRAW_AFTER_MISMATCH = VerifyRule(
    name="broken-redraw-after-mismatch",
    title=LocalText("Broken: draw again after a mismatch", "错误：不匹配后重新采样"),
    one_liner=LocalText(
        "Draw from the target and compare; on a mismatch draw once more.",
        "先从目标采样再比对；不匹配就再采样一次。",
    ),
    lossless=False,
    why_not=LocalText(
        "The second draw is from all of p although the drafted tokens already had their turn, so "
        "what the draft likes is counted twice.",
        "草稿词元已经有过机会，第二次却仍从整个 p 采样，草稿偏爱的词元被计了两次。",
    ),
    bias=0.09,
    needs=frozenset({"independent_noise"}),
    source="draw-and-compare whose mismatching draw is thrown away",
    verify=verify_redraw_after_mismatch,
)

REDRAW_FROM_P = VerifyRule(
    name="broken-redraw-from-p",
    title=LocalText("Broken: draw from p after a rejection", "错误：拒绝后直接从 p 采样"),
    one_liner=LocalText(
        "The ratio test, but the correction comes from p instead of the residual.",
        "使用比值检验，但修正词元来自 p 而不是残差分布。",
    ),
    lossless=False,
    why_not=LocalText(
        "Accepted drafts already delivered min(p, q); drawing from all of p gives tokens both "
        "models like a second helping.",
        "被接受的草稿已经贡献了 min(p, q)；再从整个 p 采样，会让两个模型都喜欢的词元被重复计入。",
    ),
    bias=0.125,
    needs=frozenset({"independent_noise"}),
    source="Leviathan et al. 2211.17192, algorithm 1, without the residual",
    verify=verify_redraw_from_p,
)

SOFTMAX_RESIDUAL = VerifyRule(
    name="broken-softmax-residual",
    title=LocalText("Broken: residual through softmax", "错误：对残差做 softmax"),
    one_liner=LocalText(
        "The residual is softmaxed instead of divided by its sum.",
        "残差没有除以总和，而是经过了 softmax。",
    ),
    lossless=False,
    why_not=LocalText(
        "A softmax gives mass to tokens whose residual is zero, even to those the target forbids.",
        "softmax 会给残差为零的词元分配概率，甚至包括目标模型禁止的词元。",
    ),
    shipped_by=(
        "Hugging Face Transformers, until this repair: "
        "https://github.com/huggingface/transformers/pull/28508"
    ),
    bias=0.1927,
    needs=frozenset({"independent_noise"}),
    source="Leviathan et al. 2211.17192, algorithm 1, with norm read as softmax",
    verify=verify_softmax_residual,
)

ARGMAX_DRAFT_SOFTMAX_Q = VerifyRule(
    name="broken-argmax-draft-softmax-q",
    title=LocalText("Broken: argmax draft, softmax q", "错误：取最大值的草稿配 softmax 的 q"),
    one_liner=LocalText(
        "The draft takes its best token; the test pretends it was drawn from the softmax.",
        "草稿直接取最可能的词元，检验时却当作是按 softmax 采样得到的。",
    ),
    lossless=False,
    why_not=LocalText(
        "The token was proposed with certainty, so its q is 1; dividing by a smaller q accepts it "
        "too often.",
        "该词元是必然被提出的，q 应为 1；除以更小的 q 会接受得过多。",
    ),
    shipped_by=(
        "Hugging Face Transformers with a greedy assistant: "
        "https://github.com/huggingface/transformers/issues/32867; the Space "
        "HandsomeSB/Speculative-Decoding-Demo: https://github.com/HandsomeSB/Speculative-Decoding"
    ),
    bias=0.2,
    needs=frozenset({"deterministic", "raw_draft", "independent_noise"}),
    source="Leviathan et al. 2211.17192, algorithm 1, with the wrong q",
    verify=verify_argmax_draft_softmax_q,
)

TOP_P_ONE_SIDE = VerifyRule(
    name="broken-top-p-one-side",
    title=LocalText("Broken: filter on one side only", "错误：只在一侧过滤"),
    one_liner=LocalText(
        "The draft is drawn after top-k or top-p; the test and the residual use the raw q.",
        "草稿在 top-k/top-p 过滤后采样，检验和残差却使用未过滤的 q。",
    ),
    lossless=False,
    why_not=LocalText(
        "The filter raised the chance of every kept token; the raw q is too small, so they are "
        "accepted too often.",
        "过滤提高了保留词元的概率；未过滤的 q 偏小，因此接受得过多。",
    ),
    shipped_by=(
        "Hugging Face Transformers, its DFlash and MTP drafters: "
        "https://github.com/huggingface/transformers/issues/47932; DeepSpec: "
        "https://github.com/deepseek-ai/DeepSpec/issues/31"
    ),
    bias=0.09375,
    needs=frozenset({"sampled", "raw_draft", "independent_noise"}),
    source="Leviathan et al. 2211.17192, algorithm 1, with the wrong q",
    verify=verify_top_p_one_side,
)

WRONG_TEMPERATURE = VerifyRule(
    name="broken-wrong-temperature",
    title=LocalText("Broken: q at another temperature", "错误：q 的温度不对"),
    one_liner=LocalText(
        "The q in the test is that of another temperature than the token was drawn at.",
        "检验所用 q 的温度与词元采样时的温度不同。",
    ),
    lossless=False,
    why_not=LocalText(
        "The law in the ratio is not the law of the draw: sharper or flatter, it misjudges every "
        "token.",
        "比值中的分布并非采样所用的分布：偏尖或偏平，每个词元都被误判。",
    ),
    shipped_by=(
        "The same family, a verifier that ignores the request's temperature: lattice, "
        "https://github.com/ohdearquant/lattice/issues/388; ATOM, "
        "https://github.com/ROCm/ATOM/pull/2318"
    ),
    bias=0.1067,
    needs=frozenset({"sampled", "independent_noise"}),
    params=(
        Param(
            name="recorded_temperature",
            symbol="T'/T",
            kind="float",
            default=0.5,
            low=0.1,
            high=3.0,
            step=0.1,
            help=LocalText(
                "Temperature at which q is recorded, relative to the draw's; 1 is exact.",
                "记录 q 时的温度与采样温度之比；取 1 即为精确。",
            ),
        ),
    ),
    source="Leviathan et al. 2211.17192, algorithm 1, with the wrong q",
    verify=verify_wrong_temperature,
)

UNDRAWING = VerifyRule(
    name="broken-undrawing",
    title=LocalText("Broken: un-drawing", "错误：抽到后又丢弃"),
    one_liner=LocalText(
        "A drawn token with a small q is dropped, as if it had never been drawn.",
        "抽到的词元若 q 很小就丢弃，当作从未抽到。",
    ),
    lossless=False,
    why_not=LocalText(
        "Whether a token is judged depends on the token itself, so those that are judged no longer "
        "follow q.",
        "是否接受检验取决于词元本身，因此受检词元不再服从 q。",
    ),
    bias=0.1171,
    needs=frozenset({"sampled", "independent_noise"}),
    params=(
        Param(
            name="min_probability",
            symbol="q_min",
            kind="float",
            default=0.2,
            low=0.0,
            high=0.95,
            step=0.05,
            help=LocalText("A token with a smaller q is dropped.", "q 小于此值的词元被丢弃。"),
        ),
    ),
    source="a confidence threshold that forgets what was drawn",
    verify=verify_undrawing,
)

ACCEPT_ABOVE_Q = VerifyRule(
    name="broken-accept-above-q",
    title=LocalText("Broken: accept only when p >= q", "错误：仅当 p >= q 时接受"),
    one_liner=LocalText(
        "Accept where the target likes the token at least as much as the draft; no coin.",
        "只有目标给出的概率不低于草稿时才接受，不掷硬币。",
    ),
    lossless=False,
    why_not=LocalText(
        "Below 1 the ratio is still a chance; a token with p < q is never accepted and is not in "
        "the residual either, so it never comes out.",
        "比值小于 1 时仍应以该概率接受；p < q 的词元永不被接受，也不在残差中，因此永远不会输出。",
    ),
    bias=0.35,
    needs=frozenset({"independent_noise"}),
    source="half of Leviathan et al. 2211.17192, algorithm 1",
    verify=verify_accept_above_q,
)
