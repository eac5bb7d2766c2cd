"""The exact output law of the real loop, by running it down every branch of every coin."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from speclab.core.errors import BadInput, TooManyBranches
from speclab.core.laws import Sampling
from speclab.core.randomness import Exhaustive, Randomness
from speclab.core.records import Round
from speclab.core.sessions import Evaluates
from speclab.engine.loop import Decoding, Limits

Sequence_ = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExactLaw:
    """A law of stopped sequences.

    Attributes:
        probs: probability per emitted sequence; sums to 1.
        num_leaves: how many branches of one round were run.
    """

    probs: Mapping[Sequence_, float]
    num_leaves: int


@dataclass(frozen=True, slots=True)
class _State:
    weight: float
    path: tuple[int, ...]


def _run_rounds(
    decoding: Decoding, rng: Exhaustive, rounds: int
) -> tuple[Round | None, Hashable | None]:
    """Run `rounds` rounds; return the last one and the method's state key after it.

    The key is None where the method says so, and then the branch is never merged; else it holds the
    noise already spent beyond the text, which the future depends on as well.
    """
    prompt_length = decoding.session.length
    iterator = iter(decoding)
    last = None
    for _ in range(rounds):
        last = next(iterator, None)
    key = decoding.run.state_key()
    iterator.close()  # type: ignore[attr-defined]
    if key is not None:
        key = (key, rng.unspent(prompt_length + len(decoding.emitted)))
    return last, key


def _check_leaves(leaves: int, most: int, rounds: int) -> None:
    """Refuse more branches than were asked for.

    Raises:
        TooManyBranches: with the count reached.
    """
    if leaves > most:
        raise TooManyBranches(
            f"Stopped at branch {leaves} in round {rounds}: the limit is {most}.",
            "Use a smaller vocabulary, draft or number of tokens.",
            code="too_many_branches",
            values={"count": leaves, "limit": most, "rounds": rounds},
        )


def exact_law(
    start: Callable[[Randomness], Decoding],
    *,
    max_leaves: int = 200_000,
    merge: bool = True,
    progress: Callable[[int], None] = lambda leaves: None,
) -> ExactLaw:
    """Return the law of the emitted sequence of `start(rng)`, over every outcome of every coin.

    The loop runs unmodified. Branches merge at round boundaries where the emitted tokens, the
    method's `state_key()` and the noise spent beyond the text agree; a None key is never merged.

    Args:
        start: builds a fresh run that is random only through `rng`.
        max_leaves: refuse beyond this many branches.
        merge: False keeps every branch apart to the end: slow, and equal.
        progress: called with the number of branches so far, before each.

    Raises:
        TooManyBranches: with the count reached; nothing is ever shortened silently.
        BadInput: if the run is random through something else.
    """
    law: dict[Sequence_, float] = {}
    frontier: dict[Hashable, _State] = {(): _State(1.0, ())}
    unique, leaves, rounds = count(), 0, 0
    while frontier:
        rounds += 1
        following: dict[Hashable, _State] = {}
        for state in frontier.values():
            path: list[int] | None = list(state.path)
            while path is not None:
                leaves += 1
                _check_leaves(leaves, max_leaves, rounds)
                progress(leaves)
                rng = Exhaustive(path=path)
                decoding = start(rng)
                last, key = _run_rounds(decoding, rng, rounds)
                weight = math.prod(rng.weights[len(state.path) :], start=state.weight)
                emitted = tuple(decoding.emitted)
                if last is None or last.stop_reason is not None:
                    law[emitted] = law.get(emitted, 0.0) + weight
                else:
                    alike = merge and key is not None
                    merge_key = (emitted, key) if alike else ("unmerged", next(unique))
                    earlier = following.get(merge_key)
                    total = weight + (earlier.weight if earlier else 0.0)
                    kept = earlier.path if earlier else tuple(rng.path[: len(rng.arity)])
                    following[merge_key] = _State(total, kept)
                if len(rng.arity) < len(state.path):
                    raise BadInput("The run did not repeat: it is random outside its rng.")
                path = rng.next_path(keep=len(state.path))
        frontier = following
    return ExactLaw(law, leaves)


def target_law(
    model: Evaluates, prompt: Sequence[int], sampling: Sampling, limits: Limits
) -> dict[Sequence_, float]:
    """Return the law of plain decoding, by the chain rule over cacheless evaluations.

    Independent of the decode loop, its sessions and its rules. Stop strings are not supported.
    """
    if limits.stop_strings:
        raise BadInput("target_law does not know stop strings.")
    law: dict[Sequence_, float] = {}
    frontier: dict[Sequence_, float] = {(): 1.0}
    length = min(limits.max_new_tokens, limits.max_context - len(prompt))
    for step in range(length):
        following: dict[Sequence_, float] = {}
        texts = list(frontier)
        rows = model.evaluate([[*prompt, *text] for text in texts], [1] * len(texts))
        for text, (row,) in zip(texts, rows, strict=True):
            counts = {token: text.count(token) for token in set(text)}
            for token, prob in enumerate(row.law(sampling, counts)):
                if prob <= 0.0:
                    continue
                longer = (*text, token)
                ends = token in limits.eos_ids or step == length - 1
                bucket = law if ends else following
                bucket[longer] = bucket.get(longer, 0.0) + frontier[text] * float(prob)
        frontier = following
    return law or {(): 1.0}


def largest_difference(left: Mapping[Sequence_, float], right: Mapping[Sequence_, float]) -> float:
    """Return the largest absolute difference of two laws over the union of their sequences."""
    return max(
        abs(left.get(text, 0.0) - right.get(text, 0.0)) for text in left.keys() | right.keys()
    )
