"""Runs with known acceptance and known costs: what tests of speed compare against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from speclab.core.laws import Sampling
from speclab.core.records import ModelId, Round, RunSpec, Timing, Trace, Verdict
from speclab.core.trees import EMPTY_TREE, TokenTree
from speclab.lab.head_numbers import Measured

STEP_S, PLAIN_OTHER_S, OTHER_S, PASS_S = 0.010, 0.0005, 0.001, 0.002
PREFILL_S, OUTSIDE_S = 0.004, 0.003


def growing(tokens: int) -> float:
    """Return v(n) = 1 + 0.1 (n - 1)."""
    return 1.0 + 0.1 * (tokens - 1)


def spec_of(method: str, tokens: int, temperature: float = 0.0) -> RunSpec:
    """Return the spec of a made-up run."""
    return RunSpec(
        method=method,
        rule="token",
        pair="made-up",
        target=ModelId(name="target"),
        sampling=Sampling(temperature=temperature),
        max_new_tokens=tokens,
    )


def chain_trace(
    prompt: int,
    tokens: int,
    rates: Sequence[float],
    *,
    verify: Callable[[int], float] = growing,
    pass_s: float = PASS_S,
    method: str = "draft-model",
    found: float = 1.0,
    slowness: float = 1.0,
) -> Trace:
    """Return a run whose chains are accepted by the given rates and cost what the kit says.

    Args:
        prompt: number of the prompt: its seed and its only token. tokens: to emit.
        rates: conditional acceptance by position. found: share of rounds that draft.
        slowness: all seconds are multiplied by it.
    """
    generator, rounds, out = np.random.default_rng(prompt), [], 0
    while out < tokens:
        drafts = bool(generator.random() < found)
        depth = min(len(rates), tokens - out - 1) if drafts else 0
        fails = [i for i in range(depth) if generator.random() >= rates[i]]
        accepted = fails[0] if fails else depth
        other = OTHER_S if rates else PLAIN_OTHER_S
        timing = Timing(
            draft_s=pass_s * depth * slowness,
            target_s=STEP_S * verify(depth + 1) * slowness,
            verify_s=other * slowness,
        )
        rounds.append(
            Round(
                index=len(rounds),
                context_length=1 + out,
                tree=TokenTree.chain(range(depth)) if depth else EMPTY_TREE,
                num_draft_forwards=depth,
                verdict=Verdict(
                    accepted=tuple(range(accepted)),
                    next_token=0,
                    outcome="bonus" if accepted == depth else "correction",
                ),
                emitted=(0,) * (accepted + 1),
                timing=timing,
            )
        )
        out += accepted + 1
    return Trace(
        spec=spec_of(method, tokens),
        prompt_tokens=(prompt,),
        rounds=tuple(rounds),
        prefill_s=PREFILL_S * slowness,
    )


def measured_of(traces: Sequence[Trace]) -> Measured:
    """Return traces with the seconds of their requests."""
    measured = Measured()
    for place, trace in enumerate(traces):
        seconds = trace.prefill_s + sum(round_.timing.total_s for round_ in trace.rounds)
        measured.seconds[0, place] = seconds + OUTSIDE_S
        measured.traces[0, place] = trace
    return measured
