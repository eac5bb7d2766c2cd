"""What the file of a module does not say, chosen by measured acceptance.

A wrong order of the halves or a wrong stage of a norm raises no error and changes no text: the
drafts only get worse. So every combination drafts along text that the target has written itself,
and the one whose laws overlap most with the target's is used. Overlaps tell apart what counts of
accepted tokens, which are few, cannot.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import NumericalFault
from speclab.core.laws import Sampling
from speclab.core.randomness import Seeded
from speclab.models.heads.mtp import MtpFlags

OPTIONS: dict[str, tuple[str, str]] = {
    "concat": ("embedding-first", "state-first"),
    "norm_in": ("after", "before"),
    "norm_recycle": ("after", "before"),
}
"""Flags that a file does not state, and their values."""

NUM_TEXTS, DRAWN, GREEDY = 4, 16, 32
DEPTH, STRIDE = 3, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagChoice:
    """Flags and how they came about.

    Attributes:
        flags: the best ones.
        accepted: drafted tokens that the target would accept per round, of every combination; 0
            where the drafts are not numbers.
    """

    flags: MtpFlags
    accepted: Mapping[MtpFlags, float]


def choose_flags(
    make: Callable[[MtpFlags], Any],
    target: Any,
    start: MtpFlags,
    names: Sequence[str] = tuple(OPTIONS),
    prompts: Sequence[Sequence[int]] | None = None,
) -> FlagChoice:
    """Measure every combination of the flags `names`; the family's own wins a tie.

    Args:
        make: (flags) -> head handle.
        target: the handle it drafts for.
        start: the family's flags; those not in `names` stay.
        names: flags that nobody stated.
        prompts: token ids that the texts begin with; None: the target begins them itself.
    """
    values = [dict(zip(names, found, strict=True)) for found in product(*map(OPTIONS.get, names))]
    every = [start, *(dataclasses.replace(start, **one) for one in values)]
    heads = {flags: make(flags) for flags in dict.fromkeys(every)}
    taps = next(iter(heads.values())).taps
    texts = [target_text(target, prompt, taps) for prompt in prompts or opening_prompts(target)]
    accepted = {flags: mean_accepted(head, texts) for flags, head in heads.items()}
    return FlagChoice(flags=max(accepted, key=lambda flags: accepted[flags]), accepted=accepted)


@dataclass(frozen=True, slots=True)
class TargetText:
    """A prompt and the target's own continuation at temperature 0.

    Attributes:
        tokens: both. start: length of the prompt.
        features: the target's, per tap [len(tokens) - 1, width].
        laws: the target's after every token [len(tokens), vocab].
    """

    tokens: tuple[int, ...]
    start: int
    features: Mapping[str, Any]
    laws: NDArray


def opening_prompts(target: Any) -> list[list[int]]:
    """Return what the target draws after its first token, with fixed seeds."""
    first = getattr(target.model.config, "bos_token_id", None)
    rng, prompts = Seeded(0), []
    for _ in range(NUM_TEXTS):
        session = target.open([int(first or 0)])
        for _ in range(DRAWN):
            session.commit((), rng.draw(session.score().row(0).law(Sampling())))
        prompts.append(list(session.tokens))
        session.close()
    return prompts


def target_text(target: Any, prompt: Sequence[int], taps: Sequence[str]) -> TargetText:
    """Return a prompt, continued by the target at temperature 0, with its features and laws."""
    session = target.open(list(prompt))
    for _ in range(GREEDY):
        session.commit((), session.score().row(0).top())
    tokens = tuple(session.tokens)
    session.close()
    session = target.open(tokens, tuple(taps))
    features = session.prefill_features
    session.close()
    (rows,) = target.evaluate([tokens], [len(tokens)])
    laws = np.stack([row.raw() for row in rows])
    return TargetText(tokens, len(prompt), features, laws)


def mean_accepted(head: Any, texts: Sequence[TargetText]) -> float:
    """Return `accepted_per_round` over all texts; none where the head's numbers are not finite."""
    try:
        mean = sum(accepted_per_round(head, text) for text in texts) / len(texts)
    except NumericalFault:
        return 0.0
    return mean if math.isfinite(mean) else 0.0


def accepted_per_round(head: Any, text: TargetText) -> float:
    """Return how many of `DEPTH` drafted tokens the target would accept, on average over the text.

    A token drawn from q is accepted with probability sum of min(p, q); of later tokens only if
    those before were. The drafts before are the text's.

    **Source:** Leviathan et al. 2211.17192, theorem 3.5.
    """
    session, taken, rounds, fed = head.open(), 0.0, 0, 0
    for place in range(max(2, text.start), len(text.tokens) - DEPTH, STRIDE):
        part = {tap: values[fed : place - 1] for tap, values in text.features.items()}
        session.extend(part, text.tokens[fed + 1 : place])
        fed, drafted, reached = place - 1, session.root(), 1.0
        rounds += 1
        for depth in range(DEPTH):
            q = head.row(drafted.logits[0]).raw()
            reached *= float(np.minimum(q, text.laws[place - 1 + depth]).sum())
            taken += reached
            if depth + 1 < DEPTH:
                token = text.tokens[place + depth]
                drafted = session.grow(drafted.features, [token], None, depth + 1)
    session.close()
    return taken / rounds
