"""A broken rule for drafts that were drawn with the target's own noise."""

from __future__ import annotations

from speclab.core.laws import Law
from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Outcome, Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.matching import draw_and_compare
from speclab.core.rules.rejection import final_draw, walk


def verify_shared_noise(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Test with min(1, p/q), then draw the correction with the noise that drew the draft.

    Example: on the standard pair token 1 was refused, so in the noise of its race it was the
    fastest; what this says of tokens 0 and 2 moves the correction from (.857, .143) to
    (.898, .102).

    **Source:** Leviathan et al. 2211.17192, algorithm 1, whose correction must not depend on the
    draft; noise that may be shared: 2408.07978.
    """

    def last(
        p: Law, tree_is_empty: bool, tested: bool, rng: Randomness, place: int
    ) -> tuple[int, Outcome]:
        if not tested:
            return final_draw(p, tree_is_empty, tested, rng, place)
        return rng.draw(p, at=("target", place), noise="gumbel"), "correction"

    return walk(rows, proposal, rng, position, last=last)


def verify_redraw_after_race(
    rows: TargetRows, proposal: Proposal, rng: Randomness, position: int
) -> Verdict:
    """Run the target's race on the draft's noise; where another token wins, draw from p afresh.

    Example: p = (.5, .5), q = (.9, .1): token 0 wins both races with probability .5 and token 1
    with .1; the other .4 are drawn again, half each, and the law is (.7, .3).

    **Source:** 2408.07978, algorithm 1, with the winner of the race thrown away.
    """

    def draw_again(p: Law, drawn: int) -> int:
        return rng.draw(p)

    return draw_and_compare(rows, proposal, rng, position, noise="gumbel", mismatch=draw_again)


REDRAW_AFTER_RACE = VerifyRule(
    name="broken-redraw-after-race",
    title=LocalText("Broken: shared noise, redraw on mismatch", "错误：共享噪声，不一致时重抽"),
    one_liner=LocalText(
        "Keep the draft while it wins the target's race as well; else draw from p afresh.",
        "草稿与目标的结果一致就保留；否则丢掉目标的结果，重新从 p 采样。",
    ),
    lossless=False,
    why_not=LocalText(
        "The token that won the target's race is thrown away, so tokens on which both agree come "
        "out too often.",
        "目标自己抽到的词元被丢掉了，因此双方容易一致的词元出现得过多。",
    ),
    bias=0.1266,
    needs=frozenset({"shared_noise"}),
    source="2408.07978, algorithm 1, with a fresh draw after a mismatch",
    verify=verify_redraw_after_race,
)


SHARED_NOISE = VerifyRule(
    name="broken-shared-noise",
    title=LocalText("Broken: ratio test with shared noise", "错误：共享噪声下做比值检验"),
    one_liner=LocalText(
        "Draft and correction are drawn with the same noise of their position.",
        "草稿与修正词元使用同一位置的同一份噪声采样。",
    ),
    lossless=False,
    why_not=LocalText(
        "The noise already chose the refused token, so what is left of it is not fresh: the "
        "correction depends on the draft.",
        "这份噪声已经选出了被拒绝的词元，剩下的不再是新的随机数：修正词元依赖于草稿。",
    ),
    bias=0.0143,
    needs=frozenset({"chain", "shared_noise"}),
    source="the ratio test of 2211.17192 on drafts with the shared noise of 2408.07978",
    verify=verify_shared_noise,
)
