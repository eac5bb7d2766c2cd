"""Matching rule: draw from the target first, then see whether the draft had guessed it."""

from __future__ import annotations

from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import CoinFlip, Verdict
from speclab.core.rows import TargetRows
from speclab.core.trees import PENDING


def verify_match(rows: TargetRows, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
    """Draw y from p; follow the child that carries y, else emit y itself and stop.

    The draw uses the noise of its position, so the text equals plain decoding with the same seed.
    Example: p = (.5, .5) and a draft that guesses token 0 with probability .9: accepted with
    probability .5, and the law stays (.5, .5).

    **Source:** used by prompt lookup in Transformers and by DFlash (2602.06036); exact because
    the mismatching draw itself is emitted.
    """
    tree = proposal.tree
    node, accepted, flips = PENDING, [], []
    while True:
        p = rows[node + 1]
        drawn = rng.draw(p, at=("target", position + len(accepted)))
        children = tree.children(node)
        hit = None
        for child in children:
            token = tree.tokens[child]
            prob = float(p[token]) if token < len(p) else 0.0
            rows.note(child, p, None)
            flips.append(
                CoinFlip(
                    node=child,
                    token=token,
                    target_prob=prob,
                    draft_prob=1.0,
                    accept_prob=prob,
                    drawn_token=drawn,
                    accepted=token == drawn,
                )
            )
            if token == drawn:
                hit = child
                break
        if hit is None:
            outcome = "plain" if not tree.tokens else "correction" if children else "bonus"
            return Verdict(
                accepted=tuple(accepted), next_token=drawn, outcome=outcome, flips=tuple(flips)
            )
        accepted.append(hit)
        node = hit


MATCH = VerifyRule(
    name="match",
    title=LocalText("Draw and compare", "先采样再比对"),
    one_liner=LocalText(
        "Draw the target's own token; keep the draft while it guessed that very token.",
        "先由目标模型采样；只要草稿恰好猜中就继续，否则输出目标自己的词元。",
    ),
    lossless=True,
    source="draw-and-compare, exact because the mismatching draw is emitted (2602.06036)",
    verify=verify_match,
)
