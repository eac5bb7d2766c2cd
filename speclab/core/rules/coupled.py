"""Coupled rule: draft and target draw with the same Gumbel noise; the target's draw is emitted."""

from __future__ import annotations

from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.matching import draw_and_compare


def verify_coupled(rows: TargetRows, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
    """Draw y from p in the race that the draft ran at this position; follow the draft while equal.

    The text is a function of the seed alone: it equals plain decoding under this rule word for
    word, whatever the draft. Example: p = (.5, .5), q = (.9, .1): token 0 wins both races with
    probability 1 / (1 + max(.5/.5, .1/.9)) = .5, token 1 both with 1 / (1 + max(1, .9/.1)) = .1:
    accepted .6 of the time, as often as the ratio test; independent draws would agree .5.

    **Source:** Daliri, Musco, Suresh 2408.07978, algorithm 1.
    """
    return draw_and_compare(rows, proposal, rng, position, noise="gumbel")


COUPLED = VerifyRule(
    name="coupled",
    title=LocalText("Shared noise (Gumbel coupling)", "共享噪声（Gumbel 耦合）"),
    one_liner=LocalText(
        "Draft and target run the same race at other speeds; the target's winner is emitted.",
        "草稿与目标用同一份 Gumbel 噪声采样，输出目标的结果；二者相同就继续。",
    ),
    lossless=True,
    needs=frozenset({"shared_noise"}),
    source="Daliri, Musco, Suresh 2408.07978, algorithm 1",
    verify=verify_coupled,
)
