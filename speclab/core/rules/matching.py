"""Matching rule: draw from the target first, then see whether the draft had guessed it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from speclab.core.laws import Law, align
from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Noise, Randomness
from speclab.core.records import CoinFlip, Verdict
from speclab.core.rows import TargetRows
from speclab.core.trees import PENDING


def agreement(p: Law, q: Law, token: int) -> float:
    """Return the chance that p's race is won by `token`, given that it won q's with the same noise.

    Both are won with probability 1 / sum over k of max(p_k/p_x, q_k/q_x).

    **Source:** Daliri, Musco, Suresh 2408.07978, lemma on the Gumbel coupling.
    """
    if token >= len(p) or p[token] <= 0.0 or q[token] <= 0.0:
        return 0.0
    size = max(len(p), len(q))
    rates = np.maximum(align(p, size) * (q[token] / p[token]), align(q, size))
    return min(1.0, 1.0 / float(rates.sum()))


def draw_and_compare(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    noise: Noise = "inverse",
    mismatch: Callable[[Law, int], int] = lambda p, drawn: drawn,
) -> Verdict:
    """Draw y from p and follow the child that carries it; else emit `mismatch(p, y)` and stop."""
    tree = proposal.tree
    node, accepted, flips = PENDING, [], []
    while True:
        p = rows[node + 1]
        drawn = rng.draw(p, at=("target", position + len(accepted)), noise=noise)
        children = tree.children(node)
        hit = None
        for child in children:
            token = tree.tokens[child]
            prob = float(p[token]) if token < len(p) else 0.0
            q = proposal.draft_probs[child] if noise == "gumbel" else None
            rows.note(child, p, q)
            flips.append(
                CoinFlip(
                    node=child,
                    token=token,
                    target_prob=prob,
                    draft_prob=1.0 if q is None else float(q[token]),
                    accept_prob=prob if q is None else agreement(p, q, token),
                    drawn_token=drawn,
                    accepted=token == drawn,
                )
            )
            if token == drawn:
                hit = child
                break
        if hit is None:
            emitted = mismatch(p, drawn) if children else drawn
            outcome = "plain" if not tree.tokens else "correction" if children else "bonus"
            return Verdict(
                accepted=tuple(accepted), next_token=emitted, outcome=outcome, flips=tuple(flips)
            )
        accepted.append(hit)
        node = hit


def verify_match(rows: TargetRows, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
    """Draw y from p; follow the child that carries y, else emit y itself and stop.

    The draw uses the noise of its position, so the text equals plain decoding with the same seed.
    Example: p = (.5, .5) and a draft that guesses token 0 with probability .9: accepted with
    probability .5, and the law stays (.5, .5).

    **Source:** used by prompt lookup in Transformers and by DFlash (2602.06036); exact because
    the mismatching draw itself is emitted.
    """
    return draw_and_compare(rows, proposal, rng, position)


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
