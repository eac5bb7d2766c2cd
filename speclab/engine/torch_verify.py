"""Torch mirrors of the rules for chains: laws are made on the model's device, in one batch.

Given the same uniforms a mirror decides as the numpy rule does: always in float64; from float32
logits except where a uniform lies within 1e-6 of a boundary, since exponentials may differ in the
last bit. Trees, penalties and other sessions are left to the numpy rule (a mirror returns None).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from speclab.core.errors import NumericalFault
from speclab.core.laws import Law, Sampling, residual
from speclab.core.protocols import Proposal
from speclab.core.randomness import Noise, Randomness
from speclab.core.records import CoinFlip, Verdict
from speclab.core.rules.block import joint_ratio, settle, success_probability
from speclab.core.rules.rejection import accept_probability, final_draw, without
from speclab.engine.loop import Mirror


def process_rows(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Return float64 laws [n, vocab] of logits [n, vocab]; see `core.laws.process`.

    Raises:
        NumericalFault: if a row's largest logit is not finite.
    """
    x = logits.to(torch.float64)
    top = x.amax(-1, keepdim=True)
    if not bool(torch.isfinite(top).all()):
        raise NumericalFault("The model's largest logit is not finite; no law can be made of it.")
    if sampling.greedy:
        ids = torch.arange(x.shape[-1], device=x.device)
        winner = torch.where(x == top, ids, x.shape[-1]).amin(-1, keepdim=True)
        return torch.zeros_like(x).scatter_(-1, winner, 1.0)
    law = torch.softmax((x - top) / sampling.temperature, -1)
    return _filter_rows(law, sampling) if sampling.filtered else law


def _filter_rows(law: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    mass, order = torch.sort(law, dim=-1, descending=True, stable=True)
    keep = torch.ones_like(mass, dtype=torch.bool)
    if sampling.top_k:
        keep[:, sampling.top_k :] = False
    if sampling.top_p < 1.0:
        kept = torch.where(keep, mass, 0.0)
        before = kept.cumsum(-1) / kept.sum(-1, keepdim=True)
        keep[:, 1:] &= before[:, :-1] < sampling.top_p
    if sampling.min_p > 0.0:
        keep &= mass >= sampling.min_p * mass[:, :1]
    kept = torch.where(keep, mass, 0.0)
    kept = kept / kept.sum(-1, keepdim=True)
    return torch.zeros_like(law).scatter_(-1, order, kept)


def _chain_laws(scores: Any, proposal: Proposal, sampling: Sampling) -> torch.Tensor | None:
    logits = getattr(scores, "target_logits", None)
    if not isinstance(logits, torch.Tensor) or not proposal.tree.is_chain:
        return None
    widths = [len(law) for law in proposal.draft_probs if law is not None]
    if any(token >= min([logits.shape[-1], *widths]) for token in proposal.tree.tokens):
        return None
    return process_rows(logits[: 1 + len(proposal.tree)], sampling)


def _host(row: torch.Tensor) -> Law:
    return row.cpu().numpy()


def _rejection(
    scores: Any,
    proposal: Proposal,
    sampling: Sampling,
    rng: Randomness,
    position: int,
    use_draft_law: bool,
) -> Verdict | None:
    laws = _chain_laws(scores, proposal, sampling)
    if laws is None:
        return None
    tokens = proposal.tree.tokens
    index = torch.tensor(tokens, dtype=torch.long, device=laws.device)
    target_probs = laws[torch.arange(len(tokens)), index].tolist() if tokens else []
    flips: list[CoinFlip] = []
    for node, token in enumerate(tokens):
        q = proposal.draft_probs[node] if use_draft_law else None
        draft_prob = 1.0 if q is None else float(q[token])
        accept_prob = accept_probability(target_probs[node], draft_prob)
        flip = rng.flip(accept_prob)
        flips.append(
            CoinFlip(
                node=node,
                token=token,
                target_prob=target_probs[node],
                draft_prob=draft_prob,
                accept_prob=accept_prob,
                u=flip.u,
                accepted=flip.accepted,
            )
        )
        if not flip.accepted:
            p = _host(laws[node])
            rest = without(p, token) if q is None else residual(p, q)
            return _verdict(node, rest, True, flips, rng, position)
    return _verdict(len(tokens), _host(laws[-1]), False, flips, rng, position)


def _verdict(
    accepted: int, law: Law, tested: bool, flips: list[CoinFlip], rng: Randomness, position: int
) -> Verdict:
    empty = not flips
    token, outcome = final_draw(law, empty, tested, rng, position + accepted)
    return Verdict(
        accepted=tuple(range(accepted)), next_token=token, outcome=outcome, flips=tuple(flips)
    )


def mirror_token(
    scores: Any, proposal: Proposal, sampling: Sampling, rng: Randomness, position: int
) -> Verdict | None:
    """Mirror of `verify_token`."""
    return _rejection(scores, proposal, sampling, rng, position, use_draft_law=True)


def mirror_one_hot(
    scores: Any, proposal: Proposal, sampling: Sampling, rng: Randomness, position: int
) -> Verdict | None:
    """Mirror of `verify_one_hot`."""
    return _rejection(scores, proposal, sampling, rng, position, use_draft_law=False)


def mirror_block(
    scores: Any, proposal: Proposal, sampling: Sampling, rng: Randomness, position: int
) -> Verdict | None:
    """Mirror of `verify_block`: the surpluses Z_i of all places in one batch."""
    laws = _chain_laws(scores, proposal, sampling)
    if laws is None:
        return None
    tokens, width = proposal.tree.tokens, laws.shape[-1]
    if any(q is not None and len(q) > width for q in proposal.draft_probs):
        return None
    drafts = _draft_rows(proposal, laws)
    places = torch.arange(len(tokens), device=laws.device)
    index = torch.tensor(tokens, dtype=torch.long, device=laws.device)
    target_probs, draft_probs = laws[places, index].tolist(), drafts[places, index].tolist()
    joints = [1.0]
    for target_prob, draft_prob in zip(target_probs, draft_probs, strict=True):
        joints.append(joint_ratio(joints[-1], target_prob, draft_prob))
    scale = torch.tensor(joints[:-1], dtype=laws.dtype, device=laws.device)[:, None]
    rests = (scale * laws[:-1] - drafts).clamp_min(0.0).sum(-1).tolist()
    coins: list[CoinFlip] = []
    for node, token in enumerate(tokens):
        joint = joints[node + 1]
        inner = node + 1 < len(tokens)
        accept_prob = success_probability(joint, rests[node + 1]) if inner else joint
        flip = rng.flip(accept_prob)
        coins.append(
            CoinFlip(
                node=node,
                token=token,
                target_prob=target_probs[node],
                draft_prob=draft_probs[node],
                accept_prob=accept_prob,
                u=flip.u,
                accepted=flip.accepted,
                carried=joints[node],
            )
        )
    kept, flips = settle(coins)
    law, full = _host(laws[kept]), kept == len(tokens)
    if not full:
        law = residual(joints[kept] * law, _host(drafts[kept]))
    return _verdict(kept, law, not full, list(flips), rng, position)


def _draft_rows(proposal: Proposal, laws: torch.Tensor) -> torch.Tensor:
    """Return the draft's laws [n, vocab] beside the target's; one-hot where there is none."""
    rows = np.zeros((len(proposal.tree), laws.shape[-1]))
    for row, token, q in zip(rows, proposal.tree.tokens, proposal.draft_probs, strict=True):
        if q is None:
            row[token] = 1.0
        else:
            row[: len(q)] = q
    return torch.from_numpy(rows).to(laws.device)


def mirror_match(
    scores: Any, proposal: Proposal, sampling: Sampling, rng: Randomness, position: int
) -> Verdict | None:
    """Mirror of `verify_match`."""
    return _draw_and_compare(scores, proposal, sampling, rng, position, "inverse")


def mirror_coupled(
    scores: Any, proposal: Proposal, sampling: Sampling, rng: Randomness, position: int
) -> Verdict | None:
    """Mirror of `verify_coupled`."""
    return _draw_and_compare(scores, proposal, sampling, rng, position, "gumbel")


def _draw_and_compare(
    scores: Any,
    proposal: Proposal,
    sampling: Sampling,
    rng: Randomness,
    position: int,
    noise: Noise,
) -> Verdict | None:
    laws = _chain_laws(scores, proposal, sampling)
    if laws is None:
        return None
    flips: list[CoinFlip] = []
    for node, token in enumerate((*proposal.tree.tokens, None)):
        law = _host(laws[node])
        drawn = rng.draw(law, at=("target", position + node), noise=noise)
        if token is None:
            outcome = "bonus" if flips else "plain"
            break
        prob = float(law[token]) if token < len(law) else 0.0
        flips.append(
            CoinFlip(
                node=node,
                token=token,
                target_prob=prob,
                draft_prob=1.0,
                accept_prob=prob,
                drawn_token=drawn,
                accepted=token == drawn,
            )
        )
        if token != drawn:
            outcome = "correction"
            break
    accepted = sum(flip.accepted for flip in flips)
    return Verdict(
        accepted=tuple(range(accepted)), next_token=drawn, outcome=outcome, flips=tuple(flips)
    )


MIRRORS: dict[str, Mirror] = {
    "token": mirror_token,
    "one-hot": mirror_one_hot,
    "match": mirror_match,
    "block": mirror_block,
    "coupled": mirror_coupled,
}
