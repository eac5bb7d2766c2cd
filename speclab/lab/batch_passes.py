"""Batching and speculation on raw passes: t(n, B), seconds of a pass on n tokens of B texts each.

The decode loop of the lab has batch 1. A server that verifies gamma + 1 tokens for each of B texts
runs one pass on B (gamma + 1) tokens: this is measured here, and the speedup that such passes leave
is modelled from them, for texts that all speculate with the same gamma.

The report (JSON): `schema_version` 1, `kind` "batch", the facts of the machine, `plan`, `complete`,
`seconds`, `target_s` (seconds by batch and tokens, both in decimal) and `draft_s` (of a pass on one
token, by batch; {} without a draft).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.theory import speedup_from_tokens
from speclab.lab.measuring import Stopped, check_bounds, machine_facts, never, plain_types
from speclab.models.pair import Pair

MOST_BATCH, MOST_TOKENS, MOST_CONTEXT, MOST_PASSES = 256, 64, 4096, 1000
WARM = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """Which passes are timed.

    Attributes:
        batches: texts per pass, ascending. tokens: of each text, ascending from 1.
        context: cached tokens of each text. passes: timed per place.
    """

    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    tokens: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    context: int = 64
    passes: int = 7

    def __post_init__(self) -> None:
        for name, most in (("batches", MOST_BATCH), ("tokens", MOST_TOKENS)):
            for value in getattr(self, name) or (0,):
                check_bounds(name, value, 1, most)
        if self.tokens[0] != 1 or len(self.tokens) < 2 or not _ascending(self.tokens):
            given = ", ".join(map(str, self.tokens))
            raise BadInput(
                f"Tokens of each text must ascend from 1, the first, and be two at least; not "
                f"{given}.",
                "For example 1, 2, 4.",
                code="batch_tokens",
                values={"given": given},
            )
        if not _ascending(self.batches):
            given = ", ".join(map(str, self.batches))
            raise BadInput(
                f"Batches must ascend, not {given}.",
                "For example 1, 4, 16.",
                code="batch_sizes",
                values={"given": given},
            )
        for name, most in (("context", MOST_CONTEXT), ("passes", MOST_PASSES)):
            check_bounds(name, getattr(self, name), 1, most)


def _ascending(values: Sequence[int]) -> bool:
    return all(left < right for left, right in pairwise(values))


class BatchPasses:
    """Batch passes on their way: iterate them for (places done, places), then ask `report()`.

    Raises:
        UnsupportedModel: for a target that is no plain Llama.
    """

    def __init__(
        self, pair: Pair, plan: BatchPlan | None = None, *, stopped: Stopped = never
    ) -> None:
        self.pair, self.plan, self._stopped = pair, plan or BatchPlan(), stopped
        self._target = batched(pair.target)
        self._draft = batched(pair.drafts[0]) if pair.drafts else None
        self.target_s: dict[str, dict[str, float]] = {}
        self.draft_s: dict[str, float] = {}
        self._facts, self._seconds, self._complete = machine_facts(pair), 0.0, False

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Time the passes, small batches first."""
        begun, done = time.perf_counter(), 0
        total = len(self.plan.batches) * (len(self.plan.tokens) + (self._draft is not None))
        for batch in self.plan.batches:
            row = self.target_s.setdefault(str(batch), {})
            for tokens in self.plan.tokens:
                if self._stopped():
                    return
                row[str(tokens)] = self._time(self._target, batch, tokens)
                done += 1
                self._seconds = time.perf_counter() - begun
                yield done, total
            if self._draft is not None:
                self.draft_s[str(batch)] = self._time(self._draft, batch, 1)
                done += 1
                yield done, total
        self._complete = True

    def _time(self, make: Callable[[int, int, int], Callable[[], None]], b: int, n: int) -> float:
        run, times = make(b, self.plan.context, n), []
        for attempt in range(self.plan.passes + WARM):
            begun = time.perf_counter()
            run()
            if attempt >= WARM:
                times.append(time.perf_counter() - begun)
        return statistics.median(times)

    def report(self) -> dict[str, Any]:
        """Return the seconds measured so far (JSON types; see the module)."""
        return {
            "schema_version": 1,
            "kind": "batch",
            "plan": plain_types(asdict(self.plan)),
            "complete": self._complete,
            "seconds": round(self._seconds, 1),
            **self._facts,
            "target_s": self.target_s,
            "draft_s": self.draft_s,
        }


def batched(handle: Any) -> Callable[[int, int, int], Callable[[], None]]:
    """Return a maker of passes: (batch, context, tokens) -> a pass to time.

    Raises:
        UnsupportedModel: for a model that is no plain Llama.
    """
    from speclab.models.llama import PackedCache

    cache = handle.new_cache() if hasattr(handle, "new_cache") else None
    if not isinstance(cache, PackedCache):
        raise UnsupportedModel(
            f"{handle.name} is no plain Llama: its passes cannot be batched here.",
            "Choose another pair.",
            code="no_batched_pass",
            values={"model": handle.name},
        )
    llama = cache.llama

    def make(batch: int, context: int, tokens: int) -> Callable[[], None]:
        import torch

        room = (batch, llama.kv_heads, context + tokens, llama.head_dim)
        held = torch.zeros((len(llama.layers), 2, *room), dtype=llama.dtype, device=llama.device)
        ids = torch.arange(batch * tokens, device=llama.device) % len(llama.embedding)
        ids = ids.view(batch, tokens)

        def run() -> None:
            batch_pass(llama, held, ids, context)
            if llama.device.type == "cuda":
                torch.cuda.synchronize()

        return run

    return make


def batch_pass(llama: Any, held: Any, ids: Any, start: int) -> Any:
    """Run one pass on several texts of equal length and return its logits [batch, n, vocab].

    Args:
        llama: packed weights. held: keys and values [layers, 2, batch, kv heads, start + n,
            head size]; those of the new tokens are written.
        ids: new token ids [batch, n]. start: cached tokens.
    """
    import torch
    from torch.nn import functional

    with torch.inference_mode():
        batch, count = ids.shape
        heads, kv_heads, head_dim = llama.heads, llama.kv_heads, llama.head_dim
        places = torch.arange(start, start + count, device=ids.device)
        cos, sin = llama.rotary(places, start + count)
        seen = torch.ones(count, start + count, dtype=torch.bool, device=ids.device).tril_(start)
        x = llama.embedding[ids].view(batch * count, -1)
        for index, layer in enumerate(llama.layers):
            qkv = functional.linear(llama.normed(x, layer.norm), layer.qkv)
            qkv = qkv.view(batch, count, -1, head_dim)
            turning = qkv[:, :, : heads + kv_heads]
            turned = torch.addcmul(turning * cos, turning.roll(head_dim // 2, -1), sin)
            held[index, 0, :, :, start:] = turned[:, :, heads:].transpose(1, 2)
            held[index, 1, :, :, start:] = qkv[:, :, heads + kv_heads :].transpose(1, 2)
            mixed = functional.scaled_dot_product_attention(
                turned[:, :, :heads].transpose(1, 2),
                held[index, 0],
                held[index, 1],
                attn_mask=None if count == 1 else seen,
                enable_gqa=True,
            )
            mixed = mixed.transpose(1, 2).reshape(batch * count, -1)
            x = x + functional.linear(mixed, layer.out)
            gate_up = functional.linear(llama.normed(x, layer.mlp_norm), layer.gate_up)
            gate, up = gate_up.chunk(2, -1)
            x = x + functional.linear(functional.silu(gate).mul_(up), layer.down)
        x = llama.normed(x, llama.final_norm)
        return functional.linear(x, llama.head).view(batch, count, -1)


# --- what the passes mean -------------------------------------------------------------------------


def verify_at(report: Mapping[str, Any], batch: int) -> Callable[[int], float]:
    """Return v(n) at a batch: a pass on n tokens of each text / on one, linear in between."""
    row = report["target_s"][str(batch)]
    widths, times = [int(n) for n in row], list(row.values())
    return lambda tokens: float(np.interp(tokens, widths, times)) / times[0]


def whole_batches(report: Mapping[str, Any]) -> list[int]:
    """Return the batches whose passes were all measured."""
    wanted = {str(n) for n in report["plan"]["tokens"]}
    return [
        int(batch)
        for batch, row in report["target_s"].items()
        if set(row) == wanted and (not report["draft_s"] or batch in report["draft_s"])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpeed:
    """What speculation leaves at one batch, modelled on measured passes.

    Attributes:
        batch: texts per pass. gammas: 1, 2, ... speedup: S by gamma, over plain decoding of the
            same batch. best_gamma: 0 where plain decoding is faster. cost_ratio: c at this batch.
        plain_tokens_per_s, tokens_per_s: of the whole batch, plain and at the best gamma.
    """

    batch: int
    gammas: tuple[int, ...]
    speedup: tuple[float, ...]
    best_gamma: int
    cost_ratio: float
    plain_tokens_per_s: float
    tokens_per_s: float


def speed_by_batch(
    report: Mapping[str, Any], tokens_per_pass: Callable[[int], float], *, free: bool = False
) -> list[BatchSpeed]:
    """Return the speed of speculation at every batch.

    Args:
        report: of `BatchPasses`. tokens_per_pass: E[N] by gamma.
        free: drafting costs nothing (prompt lookup); else a draft pass per drafted token.
    """
    found = []
    gammas = tuple(n - 1 for n in report["plan"]["tokens"] if n > 1)
    for batch in whole_batches(report):
        step = report["target_s"][str(batch)]["1"]
        ratio = 0.0 if free else report["draft_s"].get(str(batch), 0.0) / step
        verify = verify_at(report, batch)
        speeds = tuple(
            speedup_from_tokens(tokens_per_pass(gamma), gamma, ratio, verify) for gamma in gammas
        )
        top = max(speeds, default=1.0)
        found.append(
            BatchSpeed(
                batch=batch,
                gammas=gammas,
                speedup=speeds,
                best_gamma=gammas[speeds.index(top)] if top > 1.0 else 0,
                cost_ratio=ratio,
                plain_tokens_per_s=batch / step,
                tokens_per_s=batch / step * max(top, 1.0),
            )
        )
    return found


def stops_helping_at(speeds: Sequence[BatchSpeed]) -> int | None:
    """Return the smallest batch from which on no gamma helps; None if it still does at the end."""
    last = None
    for each in reversed(speeds):
        if each.best_gamma:
            break
        last = each.batch
    return last
