"""Times of the steps of a server, looked up in the roofline once, for `lab.arrivals`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput
from speclab.core.roofline import ModelShape, Setting, pass_cost
from speclab.core.roofline_rounds import PLAIN, Speculation, models_in_memory, round_cost
from speclab.core.theory import expected_tokens_by_position


@dataclass(frozen=True, slots=True)
class _Cache:
    """Seconds of the attention over the cache in one pass, from the tokens cached in all.

    The longer of two straight lines: bytes and operations.
    """

    tokens: int
    byte_s: float
    score_s: float

    def seconds(self, batch: int, cached: NDArray[np.float64]) -> NDArray[np.float64]:
        read = (cached + batch * self.tokens) * self.byte_s
        score = self.tokens * (cached + batch * (self.tokens + 1) / 2) * self.score_s
        return np.maximum(read, score)


def _cache(setting: Setting, model: ModelShape, tokens: int) -> _Cache:
    return _Cache(
        tokens=tokens,
        byte_s=model.kv_bytes_per_token(setting.kv_bytes) / setting.bandwidth,
        score_s=4.0 * model.layers * model.heads * model.head_dim / setting.flops,
    )


class StepTimes:
    """How long a step of `batch` sequences takes, by drafted length and cached tokens.

    Attributes:
        room: tokens that fit in the cache beside the weights.
        prefill_s: seconds to read one prompt, by the target and the draft.

    Args:
        speculation: what a server may draft, 0 included; PLAIN holds no draft at all.
        usual_context: tokens per sequence at which the adaptive length is chosen.
    """

    def __init__(self, setting: Setting, speculation: Speculation, usual_context: int) -> None:
        self._setting, self._context = setting, usual_context
        self._lengths = _lengths(speculation)
        self._base: dict[tuple[int, int], float] = {}
        self._best: dict[int, int] = {}
        models = models_in_memory(setting.target, speculation.draft)
        weights = sum(model.total_params for model in models) * setting.weight_bytes
        per_token = sum(model.kv_bytes_per_token(setting.kv_bytes) for model in models)
        self.room = int((setting.hardware.memory_bytes - weights) / per_token)
        if self.room <= 0:
            raise BadInput(
                f"The weights take {weights / 1e9:.0f} GB and {setting.hardware.title} has "
                f"{setting.hardware.memory_bytes / 1e9:.0f}.",
                "Choose a smaller model, fewer bits or a larger device.",
                code="weights_do_not_fit",
                values={
                    "needed": f"{weights / 1e9:.0f}",
                    "device": setting.hardware.title,
                    "has": f"{setting.hardware.memory_bytes / 1e9:.0f}",
                },
            )
        self.prefill_s = sum(_prefill_s(setting, model, usual_context) for model in models)

    def _base_s(self, gamma: int, batch: int) -> float:
        """Return seconds of a round without the cache's part."""
        if (gamma, batch) not in self._base:
            found = self._lengths[gamma]
            cost = round_cost(self._setting, found, batch=batch, context=0)
            seconds = cost.seconds - _kv_s(cost.verify.groups)
            if cost.draft is not None:
                seconds -= found.draft_passes * _kv_s(cost.draft.groups)
            self._base[gamma, batch] = seconds
        return self._base[gamma, batch]

    def _best_length(self, batch: int) -> int:
        """Return the length that emits the most tokens per second."""
        if batch not in self._best:
            cached = np.array([batch * self._context])
            rates = {
                gamma: found.tokens_per_pass / float(self.step_s(gamma, batch, cached)[0])
                for gamma, found in self._lengths.items()
            }
            self._best[batch] = max(rates, key=lambda gamma: (rates[gamma], -gamma))
        return self._best[batch]

    def length(self, policy: str, batch: int) -> int:
        """Return the drafted length of a policy at a batch size."""
        if policy == "plain":
            return 0
        return self._best_length(batch) if policy == "adaptive" else max(self._lengths)

    def drafted(self, gamma: int) -> int:
        """Return tokens drafted per sequence and round: gamma, or the nodes of a tree."""
        return self._lengths[gamma].drafted

    def law(self, gamma: int) -> NDArray[np.float64]:
        """Return P(N <= n) for n = 1 .. gamma, of the tokens a sequence emits in a round."""
        reached = np.cumprod(self._lengths[gamma].rates)
        return 1.0 - reached

    def step_s(
        self, gamma: int, batch: int, cached: NDArray[np.float64] | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return seconds of a step for each number of tokens cached in all sequences together."""
        found = self._lengths[gamma]
        cached = np.asarray(cached, dtype=np.float64)
        target = _cache(self._setting, self._setting.target, found.drafted + 1)
        seconds = self._base_s(gamma, batch) + target.seconds(batch, cached)
        if found.draft is not None and found.draft_passes:
            own = _cache(self._setting, found.draft, found.draft_width)
            window = np.inf if found.draft_window is None else batch * found.draft_window
            seconds = seconds + found.draft_passes * own.seconds(batch, np.minimum(cached, window))
        return seconds


def _lengths(speculation: Speculation) -> dict[int, Speculation]:
    """Return what a server may draft, by length: all shorter chains; blocks and trees whole."""
    longest = len(speculation.rates)
    lengths = {0: PLAIN, longest: speculation}
    one_each = speculation.draft_passes in (0, longest) and speculation.draft_width == 1
    if one_each and speculation.drafted == longest:
        for gamma in range(1, longest):
            rates = speculation.rates[:gamma]
            lengths[gamma] = replace(
                speculation,
                rates=rates,
                tokens_per_pass=expected_tokens_by_position(rates),
                drafted=gamma,
                draft_passes=min(gamma, speculation.draft_passes),
            )
    return lengths


def _kv_s(groups: Sequence) -> float:
    return sum(group.seconds for group in groups if group.name == "kv")


def _prefill_s(setting: Setting, model: ModelShape, prompt_tokens: int) -> float:
    """Return seconds to read a prompt of any length in one pass."""
    most = min(prompt_tokens, 4096)
    cost = pass_cost(setting, batch=1, tokens=most, context=0, shape=model)
    scores = 2.0 * model.layers * model.heads * model.head_dim * float(prompt_tokens) ** 2
    passes = (cost.seconds - _kv_s(cost.groups)) * prompt_tokens / most
    return passes + scores / setting.flops
