"""Greedy text of a drafting method beside the target's own, on real pairs."""

from __future__ import annotations

from typing import Any

from speclab.core.laws import Sampling
from speclab.core.records import Trace
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.runs import generate
from speclab.models.pair import Pair

GREEDY = Sampling(temperature=0.0)
NEAR_TIE = 1e-4


def greedy(pair: Pair, text: str, name: str, tokens: int = 32, **params: Any) -> Trace:
    """Return a greedy run without laws."""
    request = {"method": name, "sampling": GREEDY, "max_new_tokens": tokens, "params": params}
    return generate(pair, text, record_laws=False, **request)


def check_greedy_text(pair: Pair, pair64: Pair, name: str, prompts: int) -> tuple[int, int]:
    """Assert that greedy text is the target's own but for near ties.

    Where the texts part, float64 must see a near tie there and no difference.

    Args:
        pair: in float32. pair64: the same in float64. name: of the method. prompts: how many.

    Returns:
        Texts that parted, and tokens accepted in all.
    """
    ties = accepted = 0
    for _, text in bench_prompts(False, prompts):
        plain, fast = greedy(pair, text, "autoregressive"), greedy(pair, text, name)
        accepted += sum(round_.num_accepted for round_ in fast.rounds)
        if fast.emitted == plain.emitted:
            continue
        ties += 1
        both = zip(plain.emitted, fast.emitted, strict=False)
        parting = next(place for place, (a, b) in enumerate(both) if a != b)
        context = [*plain.prompt_tokens, *plain.emitted[:parting]]
        ((row,),) = pair64.target.evaluate([context], [1])
        assert row.top_gap() < NEAR_TIE
        exact, want = (greedy(pair64, text, n) for n in (name, "autoregressive"))
        assert exact.emitted == want.emitted
    return ties, accepted
