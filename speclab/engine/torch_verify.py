"""Torch mirrors of the rules for chains: laws are made on the model's device, in one batch.

Given the same uniforms a mirror decides as the numpy rule does: always in float64; from float32
logits except where a uniform lies within 1e-6 of a boundary, since exponentials may differ in the
last bit. Trees, penalties and other sessions are left to the numpy rule (a mirror returns None).
"""

from __future__ import annotations

from typing import Any

import torch

from speclab.core.errors import NumericalFault
from speclab.core.laws import Law, Sampling, residual
from speclab.core.protocols import Proposal
from speclab.core.randomness import Randomness
from speclab.core.records import CoinFlip, Verdict
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


def mirror_match(
    scores: Any, proposal: Proposal, sampling: Sampling, rng: Randomness, position: int
) -> Verdict | None:
    """Mirror of `verify_match`."""
    laws = _chain_laws(scores, proposal, sampling)
    if laws is None:
        return None
    flips: list[CoinFlip] = []
    for node, token in enumerate((*proposal.tree.tokens, None)):
        law = _host(laws[node])
        drawn = rng.draw(law, at=("target", position + node))
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
}
