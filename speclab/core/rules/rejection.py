"""Rejection rules: accept with probability p/q, else draw from what is left of p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from speclab.core.errors import NumericalFault
from speclab.core.laws import Law, residual
from speclab.core.protocols import LocalText, Proposal, VerifyRule
from speclab.core.randomness import Randomness
from speclab.core.records import CoinFlip, Outcome, Verdict
from speclab.core.rows import TargetRows
from speclab.core.trees import PENDING


def without(p: Law, token: int) -> Law:
    """Return p with `token` zeroed and renormalised: the residual of a one-hot draft."""
    if token >= len(p):
        return p
    rest = p.copy()
    rest[token] = 0.0
    total = rest.sum()
    return rest / total if total > 0.0 else p


def accept_probability(target_prob: float, draft_prob: float) -> float:
    """Return min(1, p/q); 0 where q is 0, since such a token cannot have been drawn.

    Raises:
        NumericalFault: if either is NaN.
    """
    if not (target_prob >= 0.0 and draft_prob >= 0.0):
        raise NumericalFault(f"p = {target_prob} and q = {draft_prob} are not probabilities.")
    if draft_prob == 0.0:
        return 0.0
    return min(1.0, target_prob / draft_prob)


def final_draw(
    p: Law, tree_is_empty: bool, tested: bool, rng: Randomness, position: int
) -> tuple[int, Outcome]:
    """Draw the round's last token from p and name it.

    Plain decoding draws with the noise of the position, so that any other method which spends the
    same noise there emits the same token.
    """
    if tree_is_empty:
        return rng.draw(p, at=("target", position)), "plain"
    return rng.draw(p), "correction" if tested else "bonus"


def at(law: Law, token: int) -> float:
    """Return law[token]; 0 beyond its width."""
    return float(law[token]) if token < len(law) else 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One drafted token about to be tested.

    Attributes:
        p: what is left of the target's law after the siblings refused before it [vocab].
        q: the draft's law to judge by [vocab]; None: one-hot at the token.
        token: the drafted token id.
        row: index of the target's row at this place.
    """

    p: Law
    q: Law | None
    token: int
    row: int = 0

    @property
    def target_prob(self) -> float:
        """p of the token."""
        return at(self.p, self.token)

    @property
    def draft_prob(self) -> float:
        """q of the token."""
        return 1.0 if self.q is None else at(self.q, self.token)


def ratio(trial: Trial) -> float:
    """Return the chance min(1, p/q)."""
    return accept_probability(trial.target_prob, trial.draft_prob)


def remainder(trial: Trial) -> Law:
    """Return what is left of p after a refusal: norm(max(0, p - q)) [vocab]."""
    return without(trial.p, trial.token) if trial.q is None else residual(trial.p, trial.q)


def target_again(trial: Trial) -> Law:
    """Return p as it was: after a refusal the token comes from p itself."""
    return trial.p


Candidates = list[tuple[int, Law | None]]
"""The children to test, in order, each with the q to judge it by."""


def as_drafted(proposal: Proposal, children: list[int]) -> Candidates:
    """Test every child in draft order by the law it was drawn from."""
    return [(child, proposal.draft_probs[child]) for child in children]


def as_one_hot(proposal: Proposal, children: list[int]) -> Candidates:
    """Test every child in draft order as if it had been proposed with certainty."""
    return [(child, None) for child in children]


def walk(
    rows: TargetRows,
    proposal: Proposal,
    rng: Randomness,
    position: int,
    *,
    candidates: Callable[[Proposal, list[int]], Candidates] = as_drafted,
    accept: Callable[[Trial], float] = ratio,
    left: Callable[[Trial], Law] = remainder,
    look_at: Callable[[int], Law] | None = None,
    last: Callable[..., tuple[int, Outcome]] = final_draw,
) -> Verdict:
    """Walk down the tree: one coin per child until one is accepted, else a draw and the end.

    Args:
        candidates: which children are tested, in which order, by which q.
        accept: the chance that a child is accepted.
        left: the law that takes p's place after a refusal.
        look_at: the law by row index that every sibling is tested against; None: what is left of
            the target's after the siblings before it.
        last: makes the round's last draw.
    """
    tree = proposal.tree
    node, accepted, flips = PENDING, [], []
    while True:
        p = rows[node + 1]
        children = candidates(proposal, tree.children(node))
        for child, q in children:
            seen = look_at(node + 1) if look_at else p
            trial = Trial(seen, q, tree.tokens[child], node + 1)
            accept_prob = accept(trial)
            rows.note(child, seen, q)
            flip = rng.flip(accept_prob)
            flips.append(
                CoinFlip(
                    node=child,
                    token=trial.token,
                    target_prob=trial.target_prob,
                    draft_prob=trial.draft_prob,
                    accept_prob=accept_prob,
                    u=flip.u,
                    accepted=flip.accepted,
                )
            )
            if flip.accepted:
                accepted.append(child)
                node = child
                break
            p = left(trial)
            rows.note_left(child, p)
        else:
            token, outcome = last(p, not tree.tokens, bool(children), rng, position + len(accepted))
            return Verdict(
                accepted=tuple(accepted), next_token=token, outcome=outcome, flips=tuple(flips)
            )


def verify_token(rows: TargetRows, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
    """Accept x with probability min(1, p(x)/q(x)); after a rejection p becomes the residual.

    Siblings are tested in draft order against the residual of those before them; a node whose law
    is None counts as one-hot. Example: p = (.5, .5), q = (.9, .1), x = 0: accepted with
    probability 5/9, and the correction is then token 1 with certainty.

    **Source:** Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2;
    siblings: SpecInfer 2305.09781, algorithm 2.
    """
    return walk(rows, proposal, rng, position)


def verify_one_hot(rows: TargetRows, proposal: Proposal, rng: Randomness, position: int) -> Verdict:
    """Accept x with probability p(x), else zero it and renormalise, however x was chosen.

    Example: p = (.2, .5, .3), x = 0: accepted 20 % of the time, else the law is (0, .625, .375).

    **Source:** Leviathan et al. 2211.17192 with a one-hot q.
    """
    return walk(rows, proposal, rng, position, candidates=as_one_hot)


TOKEN = VerifyRule(
    name="token",
    title=LocalText("Token by token (ratio test)", "逐词元（比值检验）"),
    one_liner=LocalText(
        "Accept with probability min(1, p/q); after a rejection draw from the residual.",
        "以概率 min(1, p/q) 接受；拒绝后从残差分布采样。",
    ),
    lossless=True,
    needs=frozenset({"independent_noise"}),
    source="Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2",
    verify=verify_token,
)

ONE_HOT = VerifyRule(
    name="one-hot",
    title=LocalText("One-hot (accept with p)", "独热（以 p 接受）"),
    one_liner=LocalText(
        "Accept with probability p(x), whatever the draft thought; else drop x and renormalise.",
        "不看草稿概率，以概率 p(x) 接受；否则去掉 x 并重新归一化。",
    ),
    lossless=True,
    needs=frozenset({"independent_noise"}),
    source="Leviathan et al. 2211.17192 with a one-hot q",
    verify=verify_one_hot,
)
