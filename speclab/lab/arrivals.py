"""Requests that arrive at random at one server: latency against throughput, modelled and seeded.

Poisson arrivals, continuous batching, the time of every step from `core.roofline`. With speculation
each sequence draws how many drafts it keeps in every round, so sequences of one batch end at
different steps. `POLICIES`: plain decoding; a fixed length; the length with the most tokens per
second at each batch size (0 included), which is the goodput rule. Plain decoding holds the target
alone; a server that may draft keeps the draft's weights and cache and reads prompts with it too.

A prompt is prefilled in a pass of its own that the others wait for; it emits nothing, as everywhere
in SpecLab. Memory for a whole request is reserved when it is admitted, so nothing is evicted.

Example:
    >>> from speclab.core.roofline_rounds import Speculation
    >>> from speclab.lab.arrivals import Traffic, sweep
    >>> from speclab.lab.hardware import usual_setting
    >>> from speclab.lab.model_shapes import SHAPES, eagle3_head
    >>> here = usual_setting("llama-8b", "rtx-3090")
    >>> drafting = Speculation.chain(0.7, 4, eagle3_head(SHAPES["llama-8b"]))
    >>> found = sweep(here, drafting, qps=(0.5, 8.0), traffic=Traffic(num_requests=100))
    >>> [round(p.tpot_ms[50] / f.tpot_ms[50], 1) for p, f in zip(found.plain, found.fixed)]
    [2.2, 0.9]

**Source:** TurboSpec 2406.14066 for the goodput rule; Orca (Yu et al., OSDI 2022) for batching by
step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.protocols import LocalText
from speclab.core.roofline import ASSUMPTIONS, Setting, check_range
from speclab.core.roofline_rounds import PLAIN, Speculation, crossing
from speclab.lab.step_times import StepTimes

Policy = Literal["plain", "fixed", "adaptive"]
POLICIES: tuple[Policy, ...] = ("plain", "fixed", "adaptive")
PERCENTILES = (50, 90, 99)
MOST_REQUESTS, MOST_QPS, MOST_RATES = 20_000, 10_000, 40
BLOCK = 64
"""Steps computed at once: until an arrival or the end of a sequence nothing else changes."""

MORE_ASSUMPTIONS = (
    *ASSUMPTIONS,
    LocalText(
        "Arrivals are Poisson; a prefill is a pass of its own that running sequences wait for; "
        "acceptance is drawn independently per sequence and round.",
        "到达服从泊松过程；预填充单独占一趟，正在运行的序列需要等待；"
        "每个序列每一轮独立抽取接受长度。",
    ),
    LocalText(
        "Plain decoding holds the target alone; a server that may draft keeps the draft's weights "
        "and cache and reads every prompt with it too.",
        "普通解码只持有目标模型；可能起草的服务器还要保留草稿模型的权重和缓存，"
        "并用它再读一遍每个提示。",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What arrives.

    Attributes:
        prompt_tokens: of every request.
        new_tokens: mean; lengths are uniform from (1 - spread) to (1 + spread) times it.
        max_batch: most sequences decoded together.
    """

    num_requests: int = 1000
    prompt_tokens: int = 512
    new_tokens: int = 128
    spread: float = 0.5
    max_batch: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse traffic that cannot be simulated."""
        check_range("num_requests", self.num_requests, 1, MOST_REQUESTS)
        check_range("prompt_tokens", self.prompt_tokens, 1, 131_072)
        check_range("new_tokens", self.new_tokens, 1, 16_384)
        check_range("spread", self.spread, 0, 1)
        check_range("max_batch", self.max_batch, 1, 1024)
        check_range("seed", self.seed, 0, 2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one rate of arrivals did to the server.

    Attributes:
        tokens_per_s: emitted by all requests, from the first arrival to the last end.
        offered_tokens_per_s: of the requests, over the time in which they arrived.
        latency_s: percentile to seconds, from arrival to the last token. ttft_s: to the first.
        tpot_ms: percentile to milliseconds per token after the first, per request.
        mean_batch: sequences in a step, over steps. busy: share of the time in a pass.
        mean_drafted: tokens drafted per sequence and round, over rounds.
        tokens_per_pass: emitted per sequence and round.
    """

    qps: float
    policy: Policy
    num_requests: int
    tokens_per_s: float
    offered_tokens_per_s: float
    latency_s: dict[int, float]
    ttft_s: dict[int, float]
    tpot_ms: dict[int, float]
    mean_batch: float
    busy: float
    mean_drafted: float
    tokens_per_pass: float

    @property
    def saturated(self) -> bool:
        """Whether the server kept up with less than nine tenths of what arrived."""
        return self.tokens_per_s < 0.9 * self.offered_tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSweep:
    """Loads by rate of arrivals, the same requests under each policy.

    Attributes:
        crossing_qps: rate at which the median time per token of `fixed` passes that of `plain`;
            None if it never does within the sweep. Where the median request ends in its first
            round there is no such time, and medians of the whole request are compared instead.
    """

    plain: tuple[Load, ...]
    fixed: tuple[Load, ...]
    adaptive: tuple[Load, ...]
    crossing_qps: float | None
    traffic: Traffic
    assumptions: tuple[LocalText, ...] = MORE_ASSUMPTIONS

    def of(self, policy: Policy) -> tuple[Load, ...]:
        """Return the loads under a policy."""
        return {"plain": self.plain, "fixed": self.fixed, "adaptive": self.adaptive}[policy]


def sweep(
    setting: Setting,
    speculation: Speculation,
    *,
    qps: Sequence[float],
    traffic: Traffic | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> LoadSweep:
    """Simulate each rate of arrivals under each policy, on the same requests.

    Args:
        qps: requests per second, rising.
        stopped: asked between rates; what was simulated until then is returned.
    """
    traffic = traffic or Traffic()
    check_range("rates", len(qps), 1, MOST_RATES)
    if list(qps) != sorted(set(qps)):
        given = ", ".join(f"{x:g}" for x in qps)
        raise BadInput(
            f"The rates must rise, not {given}.", code="rates_must_rise", values={"given": given}
        )
    drafting = StepTimes(setting, speculation, traffic.prompt_tokens)
    alone = StepTimes(setting, PLAIN, traffic.prompt_tokens)
    loads: dict[Policy, list[Load]] = {policy: [] for policy in POLICIES}
    for rate in qps:
        if stopped() and loads["plain"]:
            break
        for policy in POLICIES:
            times = alone if policy == "plain" else drafting
            loads[policy].append(_Server(times, traffic, rate, policy).run())
    slower = _speedups(loads["plain"], loads["fixed"])
    return LoadSweep(
        plain=tuple(loads["plain"]),
        fixed=tuple(loads["fixed"]),
        adaptive=tuple(loads["adaptive"]),
        crossing_qps=crossing(list(qps)[: len(slower)], slower),
        traffic=traffic,
    )


def simulate(
    setting: Setting,
    speculation: Speculation,
    *,
    qps: float,
    traffic: Traffic | None = None,
    policy: Policy = "fixed",
) -> Load:
    """Simulate one rate of arrivals under one policy."""
    traffic = traffic or Traffic()
    held = PLAIN if policy == "plain" else speculation
    times = StepTimes(setting, held, traffic.prompt_tokens)
    return _Server(times, traffic, qps, policy).run()


def _speedups(plain: Sequence[Load], fixed: Sequence[Load]) -> list[float]:
    """Return the median times per token of plain decoding over those of a fixed length, by rate.

    A request that ends in its first round leaves no time after it: then the same requests are
    compared by their whole time, waiting included, at every rate.
    """
    if all(load.tpot_ms[50] > 0.0 for load in (*plain, *fixed)):
        return [p.tpot_ms[50] / f.tpot_ms[50] for p, f in zip(plain, fixed, strict=True)]
    return [p.latency_s[50] / f.latency_s[50] for p, f in zip(plain, fixed, strict=True)]


class _Server:
    """One server and its requests, from the first arrival to the last end."""

    def __init__(self, times: StepTimes, traffic: Traffic, qps: float, policy: Policy) -> None:
        check_range("qps", qps, 1e-4, MOST_QPS)
        self._times, self._traffic, self._qps, self._policy = times, traffic, qps, policy
        requests = np.random.default_rng([traffic.seed, 0])
        gaps = requests.exponential(1.0, traffic.num_requests)
        self._arrivals = np.cumsum(gaps) / qps
        low = max(1, round(traffic.new_tokens * (1.0 - traffic.spread)))
        high = max(low, round(traffic.new_tokens * (1.0 + traffic.spread)))
        self._lengths = requests.integers(low, high + 1, traffic.num_requests)
        longest = traffic.prompt_tokens + high
        if longest > times.room:
            raise BadInput(
                f"A request of {longest:,} tokens does not fit beside the weights.",
                "Choose a smaller model, shorter requests or a larger device.",
                code="request_too_long",
                values={"tokens": f"{longest:,}"},
            )
        self._needs = self._lengths + traffic.prompt_tokens
        self._needed: list[int] = self._needs.tolist()
        self._coins = np.random.default_rng([traffic.seed, 1])
        self._pools: dict[int, NDArray[np.int64]] = {}
        self._first = np.zeros(traffic.num_requests)
        self._end = np.zeros(traffic.num_requests)
        self._now = self._busy = 0.0
        self._steps = self._sequence_steps = self._drafted = 0

    def run(self) -> Load:
        """Serve every request."""
        waiting = deque(range(self._traffic.num_requests))
        running = np.empty(0, dtype=np.int64)
        left = np.empty(0, dtype=np.int64)
        cached = reserved = 0
        while waiting or len(running):
            new = self._admit(waiting, len(running), reserved)
            if new:
                running = np.concatenate([running, np.array(new)])
                left = np.concatenate([left, self._lengths[new]])
                cached += len(new) * self._traffic.prompt_tokens
                reserved += self._reservation(new)
                spent = self._times.prefill_s * len(new)
                self._now += spent
                self._busy += spent
            elif not len(running):
                self._now = self._arrivals[waiting[0]]
                continue
            wake = self._arrivals[waiting[0]] if waiting else np.inf
            if wake <= self._now:  # it has come and there is no room: only an end makes some
                wake = np.inf
            emitted, ends = self._steps_until(left, cached, wake)
            if new:
                self._first[new] = self._now + ends[0]
            self._now += ends[-1]
            self._busy += ends[-1]
            cached += int(np.minimum(emitted, left).sum())
            left = left - emitted
            done = left <= 0
            if done.any():
                gone = running[done]
                self._end[gone] = self._now
                reserved -= self._reservation(gone)
                cached -= self._reservation(gone)
                running, left = running[~done], left[~done]
        return self._load()

    def _reservation(self, requests: Sequence[int] | NDArray[np.int64]) -> int:
        return int(self._needs[requests].sum())

    def _admit(self, waiting: deque[int], running: int, reserved: int) -> list[int]:
        """Return the requests that have arrived and for which there is room, in order."""
        new: list[int] = []
        while waiting and self._arrivals[waiting[0]] <= self._now:
            needed = self._needed[waiting[0]]
            full = running + len(new) >= self._traffic.max_batch
            if full or reserved + needed > self._times.room:
                break
            reserved += needed
            new.append(waiting.popleft())
        return new

    def _steps_until(
        self, left: NDArray[np.int64], cached: int, wake: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return what each sequence emitted [batch], and the end of each step from now [steps].

        Stops after the step in which a sequence ends or `wake` passes. Which step that is depends
        on nothing drawn after it, so drawing a block ahead changes no law.
        """
        batch = len(left)
        gamma = self._times.length(self._policy, batch)
        ahead = int(min(BLOCK, left.min()))
        emitted = self._draw(gamma, ahead * batch).reshape(ahead, batch).cumsum(axis=0)
        totals = emitted.sum(axis=1)
        before = cached + np.concatenate([[0], totals[:-1]])
        ends = self._times.step_s(gamma, batch, before).cumsum()
        last = ahead - 1
        over = (emitted >= left).any(axis=1)
        if over[last]:
            last = int(over.argmax())
        if self._now + ends[last] > wake:
            last = min(last, int(np.searchsorted(ends, wake - self._now)))
        used = last + 1
        self._pools[gamma] = self._pools[gamma][used * batch :]
        self._steps += used
        self._sequence_steps += used * batch
        self._drafted += used * batch * self._times.drafted(gamma)
        return emitted[last], ends[:used]

    def _draw(self, gamma: int, count: int) -> NDArray[np.int64]:
        """Return tokens emitted in `count` rounds, without using them up."""
        pool = self._pools.get(gamma)
        if pool is None or len(pool) < count:
            coins = self._coins.random(max(count, 1 << 15))
            fresh = 1 + np.searchsorted(self._times.law(gamma), coins, side="right")
            pool = fresh if pool is None else np.concatenate([pool, fresh])
            self._pools[gamma] = pool
        return pool[:count]

    def _arrival_span(self) -> float:
        """Return seconds in which the requests arrived: drawn, not n / qps."""
        return max(float(self._arrivals[-1] - self._arrivals[0]), 1.0 / self._qps)

    def _load(self) -> Load:
        tokens = int(self._lengths.sum())
        gaps = np.maximum(self._lengths - 1, 1)
        tpot = 1000.0 * (self._end - self._first) / gaps
        span = float(self._now - self._arrivals[0])
        return Load(
            qps=self._qps,
            policy=self._policy,
            num_requests=len(self._lengths),
            tokens_per_s=tokens / span,
            offered_tokens_per_s=tokens / self._arrival_span(),
            latency_s=_percentiles(self._end - self._arrivals),
            ttft_s=_percentiles(self._first - self._arrivals),
            tpot_ms=_percentiles(tpot),
            mean_batch=self._sequence_steps / self._steps,
            busy=min(1.0, float(self._busy) / span),
            mean_drafted=self._drafted / self._sequence_steps,
            tokens_per_pass=tokens / self._sequence_steps,
        )


def _percentiles(values: NDArray[np.float64]) -> dict[int, float]:
    return {
        p: float(x) for p, x in zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True)
    }
