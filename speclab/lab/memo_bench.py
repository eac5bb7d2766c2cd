"""How fast the memo session emits once it is warm."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import Any

from speclab.core.laws import Sampling
from speclab.engine.memo import MemoHandle
from speclab.lab.runs import open_run
from speclab.models.pair import Pair

SETTING = Sampling(temperature=1.0, top_k=20)


def with_memo(pair: Pair) -> Pair:
    """Return the pair with a memo over its target and its drafts."""
    return replace(
        pair,
        target=MemoHandle(pair.target),
        drafts=tuple(MemoHandle(draft) for draft in pair.drafts),
    )


def time_memo(
    pair: Pair, *, prompt: str = "Once", length: int = 32, seeds: int = 40, passes: int = 5
) -> dict[str, Any]:
    """Emit the same seeds again and again: the first pass warms the memo, the rest are timed.

    Temperature 1, top-k 20, gamma 4, no laws recorded.
    """
    memo = with_memo(pair)
    tokens = memo.codec.encode(prompt)
    rates = []
    for attempt in range(passes + 1):
        begun, emitted = time.perf_counter(), 0
        for seed in range(seeds):
            run = open_run(
                memo,
                tokens,
                method="draft-model",
                params={"num_speculative_tokens": 4},
                sampling=SETTING,
                seed=seed,
                max_new_tokens=length,
                record_laws=False,
                ignore_eos=True,
            )
            for _ in run:
                pass
            emitted += len(run.emitted)
        if attempt:
            rates.append(emitted / (time.perf_counter() - begun))
    counts = memo.target.counts
    return {
        "tokens_per_s": round(statistics.median(rates)),
        "tokens_per_s_low": round(min(rates)),
        "tokens_per_s_high": round(max(rates)),
        "hit_rate": round(counts.hit_rate or 0.0, 4),
        "held_bytes": counts.held_bytes,
        "evicted": counts.evicted,
    }
