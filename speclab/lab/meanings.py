"""Three meanings of lossless, measured: exact laws, a near tie that bits decide, tied noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.core.rules import RULES
from speclab.core.rules.standard_pair import STANDARD_P, STANDARD_Q
from speclab.engine.compiled import compile_rule
from speclab.lab.runs import generate
from speclab.models.pair import Pair

MAX_TEXT = 160
"""Positions of one text that are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGap:
    """How far a rule's exact law is from the target's on the standard pair. JSON-ready."""

    rule: str
    kind: str
    bias: float


def rule_gaps() -> tuple[RuleGap, ...]:
    """Return every rule's exact gap, enumerated now, in teaching order."""
    gaps = []
    for rule in RULES.values():
        compiled = compile_rule(rule, STANDARD_P, STANDARD_Q)
        bias = float(np.abs(compiled.law - compiled.target).sum() / 2.0)
        gaps.append(RuleGap(rule=rule.name, kind=rule.kind, bias=bias))
    return tuple(gaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearTie:
    """A place where two number formats disagree on the most likely token. JSON-ready.

    Attributes:
        context: the text before it. tokens: the two winners as text, the wide format's first.
        wide, narrow: log-probabilities of these two tokens in each format.
        num_flips, num_positions: how many of the positions compared flip.
        largest_change: largest absolute change of any log-probability of the two most likely
            tokens between the formats, over all positions.
    """

    context: str
    tokens: tuple[str, str]
    wide: tuple[float, float]
    narrow: tuple[float, float]
    num_flips: int
    num_positions: int
    largest_change: float


def near_tie(wide: Pair, narrow: Pair, texts: Sequence[str]) -> NearTie | None:
    """Evaluate the same texts with the same target in two number formats, and compare.

    Args:
        wide: loaded in the wider format. narrow: the same target in the narrower one.
        texts: compared position by position.

    Returns:
        The flip whose two tokens are closest in the wide format; None if nothing flips.
    """
    best: tuple[float, NearTie] | None = None
    flips = positions = 0
    change = 0.0
    for text in texts:
        tokens = tuple(wide.codec.encode(text))[:MAX_TEXT]
        rows = [_log_laws(pair, tokens) for pair in (wide, narrow)]
        for place, (one, two) in enumerate(zip(*rows, strict=True)):
            first, second = int(one.argmax()), int(two.argmax())
            positions += 1
            top = np.argsort(one)[-2:]
            change = max(change, float(np.abs(one[top] - two[top]).max()))
            if first == second:
                continue
            flips += 1
            margin = float(one[first] - one[second])
            if best is None or margin < best[0]:
                found = NearTie(
                    context=wide.codec.decode(tokens[: place + 1]),
                    tokens=(wide.codec.decode([first]), wide.codec.decode([second])),
                    wide=(float(one[first]), float(one[second])),
                    narrow=(float(two[first]), float(two[second])),
                    num_flips=0,
                    num_positions=0,
                    largest_change=0.0,
                )
                best = (margin, found)
    if best is None:
        return None
    return replace(best[1], num_flips=flips, num_positions=positions, largest_change=change)


def _log_laws(pair: Pair, tokens: Sequence[int]) -> list[NDArray[np.float64]]:
    """Return log-probabilities [vocab] after each token."""
    (rows,) = pair.target.evaluate([list(tokens)], [len(tokens)])  # type: ignore[attr-defined]
    return [np.log(np.maximum(row.law(Sampling()), 1e-300)) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class TiedRun:
    """One way to decode a prompt under one seed. JSON-ready.

    Attributes:
        key: "plain", "match" or "token". text: what came out. tokens: how many.
        rounds: target passes. same: leading tokens equal to plain decoding's; shared: their text.
    """

    key: str
    text: str
    tokens: int
    rounds: int
    same: int
    shared: str


def tied_noise(
    pair: Pair,
    prompt: str,
    *,
    seed: int,
    max_new_tokens: int = 40,
    temperature: float = 1.0,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[TiedRun, ...]:
    """Decode a prompt plainly, with noise tied to the position, and with the ratio test.

    All three use one seed. Under `match` each position's token is drawn with the noise of that
    position, as plain decoding does, so the texts are equal; under `token` they share only the law.

    **Source:** noise keyed by position: Gumbel or inverse-CDF coupling, 2408.07978.
    """
    ways = (
        ("plain", "autoregressive", "match"),
        ("match", "draft-model", "match"),
        ("token", "draft-model", "token"),
    )
    request: dict[str, Any] = {
        "sampling": Sampling(temperature=temperature),
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "record_laws": False,
        "cancelled": cancelled,
    }
    traces = [generate(pair, prompt, method=m, rule=r, **request) for _, m, r in ways]
    plain = traces[0].emitted
    return tuple(
        _run(key, pair, trace, plain) for (key, _, _), trace in zip(ways, traces, strict=True)
    )


def _run(key: str, pair: Pair, trace: Trace, plain: Sequence[int]) -> TiedRun:
    said = [token for token in trace.emitted if token not in pair.eos_ids]
    text, same = pair.codec.decode(said), _common(plain, trace.emitted)
    shared = pair.codec.decode(said[:same])
    return TiedRun(
        key=key,
        text=text,
        tokens=len(trace.emitted),
        rounds=len(trace.rounds),
        same=same,
        shared=shared if text.startswith(shared) else text[: len(shared) - 1],
    )


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the length of the common beginning."""
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
