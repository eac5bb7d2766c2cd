"""Block verification: judge a whole drafted path, not one token after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from speclab.core.errors import NumericalFault
from speclab.core.laws import Law, align, one_hot, residual
from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import CoinFlip, Verdict
from speclab.core.rows import TargetRows
from speclab.core.rules.rejection import at, final_draw


def joint_ratio(before: float, target_prob: float, draft_prob: float) -> float:
    """Return P_i = min(1, P_{i-1} p/q); 0 where q is 0.

    Raises:
        NumericalFault: if a probability is NaN.
    """
    if not (target_prob >= 0.0 and draft_prob >= 0.0):
        raise NumericalFault(f"p = {target_prob} and q = {draft_prob} are not probabilities.")
    return min(1.0, before * target_prob / draft_prob) if draft_prob > 0.0 else 0.0


def success_probability(joint: float, surplus: float) -> float:
    """Return h_i = Z_i / (Z_i + 1 - P_i), and 1 where P_i = 1 and Z_i = 0."""
    total = surplus + 1.0 - joint
    return surplus / total if total > 0.0 else 1.0


def surplus(joint: float, p: Law, q: Law) -> float:
    """Return Z_i, the sum of max(0, P_i p - q), for laws that may differ in width."""
    size = max(len(p), len(q))
    return float(np.maximum(joint * align(p, size) - align(q, size), 0.0).sum())


def settle(coins: list[CoinFlip]) -> tuple[int, tuple[CoinFlip, ...]]:
    """Return how many tokens stay and the coins, those kept by a later success marked.

    The last success decides; failures before it are overruled.
    """
    kept = max((place + 1 for place, coin in enumerate(coins) if coin.accepted), default=0)
    for place, coin in enumerate(coins[:kept]):
        if not coin.accepted:
            coins[place] = replace(coin, overruled=True)
    return kept, tuple(coins)


def verify_block(rows: TargetRows, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
    """Flip one coin per drafted token, all of them, and keep the path up to the last success.

    With P_0 = 1 and P_i = min(1, P_{i-1} p(x_i)/q(x_i)), coin i succeeds with probability
    h_i = Z_i / (Z_i + 1 - P_i), Z_i = sum of max(0, P_i p - q) over the token after x_i; the last
    coin with P_gamma. Short of the end the next token follows norm(max(0, P_i p - q)). A node
    without a law counts as one-hot, where the rule accepts as the ratio test does.

    Example: p = (1/3, 2/3), q = (2/3, 1/3) at both places, draft (0, 1): P = 1/2, then 1;
    Z_1 = 0, h_1 = 0, h_2 = 1: token 0 is kept although its own coin failed. On average 11/9
    tokens are accepted; the ratio test accepts 10/9.

    **Source:** Sun et al. 2403.10444, algorithm 2 and equation 4.
    """
    tree = proposal.tree
    laws = [rows[node] for node in range(len(tree) + 1)]
    drafts = [
        one_hot(token, max(len(p), token + 1)) if q is None else q
        for token, p, q in zip(tree.tokens, laws, proposal.draft_probs)
    ]
    joint, joints, coins = 1.0, [1.0], []
    for node, token in enumerate(tree.tokens):
        target_prob, draft_prob = at(laws[node], token), at(drafts[node], token)
        carried, joint = joint, joint_ratio(joint, target_prob, draft_prob)
        if node + 1 < len(tree):
            rest = surplus(joint, laws[node + 1], drafts[node + 1])
            accept_prob = success_probability(joint, rest)
        else:
            accept_prob = joint
        rows.note(node, laws[node], proposal.draft_probs[node])
        flip = rng.flip(accept_prob)
        joints.append(joint)
        coins.append(
            CoinFlip(
                node=node,
                token=token,
                target_prob=target_prob,
                draft_prob=draft_prob,
                accept_prob=accept_prob,
                u=flip.u,
                accepted=flip.accepted,
                carried=carried,
            )
        )
    kept, flips = settle(coins)
    full = kept == len(tree)
    law = laws[kept] if full else residual(joints[kept] * laws[kept], drafts[kept])
    if not full:
        rows.note_left(kept, law)
    token, outcome = final_draw(law, not tree.tokens, not full, rng, position + kept)
    return Verdict(accepted=tuple(range(kept)), next_token=token, outcome=outcome, flips=flips)


BLOCK = VerifyRule(
    name="block",
    title=LocalText("Block (whole path)", "整块验证"),
    one_liner=LocalText(
        "One coin per drafted token; the last success keeps everything before it.",
        "每个草稿词元一枚硬币；最后一次成功保留它之前的所有词元。",
    ),
    lossless=True,
    needs=frozenset({"chain", "sampled", "independent_noise"}),
    source="Sun et al. 2403.10444, algorithm 2",
    verify=verify_block,
)
