"""Drawing many sequences of one case: together where that is proven equal, else one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np

from speclab.core.protocols import VerifyRule
from speclab.core.randomness import Seeded
from speclab.engine.chain_sampler import PLACE_BY_PLACE, ChainSampler, TextTree
from speclab.engine.memo import MemoHandle
from speclab.engine.prefix_rows import PrefixRows, Text
from speclab.lab.prove_case import Case
from speclab.methods.draft_model import DraftModel
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel

TOGETHER, CONTROL_STREAM = 8_192, 1
LEAST_VISITS, FOLLOWED, MOST_TEXTS = 0.5, 6, 3_000
"""Before the loop, texts of up to `FOLLOWED` tokens that so many sequences may visit are evaluated,
at most `MOST_TEXTS` of them."""


class Sampler(Protocol):
    """Draws sequences of one rule.

    Attributes:
        path: how. num_rounds: propose-verify rounds so far.
    """

    path: Literal["together", "loop"]

    @property
    def num_rounds(self) -> int:
        """Rounds so far."""

    def draw(self, count: int, cancelled: Callable[[], bool]) -> list[Text]:
        """Return `count` sequences, fewer when cancelled."""


class Workbench:
    """The models of one case with their laws held, for as many rules as are compared.

    Attributes:
        target: laws of the target after every text. models: what the loop runs on.
    """

    def __init__(self, case: Case) -> None:
        self.case, pair, sampling = case, case.pair, case.spec.sampling
        self._texts = TextTree()
        self.fast = _draws_chains(case) and case.rule.name in PLACE_BY_PLACE
        memo = not isinstance(pair.target, ToyModel) and not case.on_cache
        keep = memo and not self.fast
        self.target = PrefixRows(pair.target, case.tokens, sampling, keep_rows=keep)
        self.draft: PrefixRows | None = None
        if "draft_model" in case.method.card.needs and pair.drafts:
            of_draft = getattr(case.method, "draft_sampling", None)
            own = of_draft(sampling) if of_draft else sampling
            if len(case.tokens) < pair.drafts[0].max_context:
                self.draft = PrefixRows(pair.drafts[0], case.tokens, own, keep_rows=keep)
        self.models = self._with_memos(pair) if memo else pair
        if keep:
            least = LEAST_VISITS / case.spec.num_samples
            other = self.draft or self.target
            self.target.follow(other, min(case.spec.length, FOLLOWED), least, MOST_TEXTS)

    def _with_memos(self, pair: Pair) -> Pair:
        drafts = [
            MemoHandle(self.draft if place == 0 and self.draft is not None else draft)
            for place, draft in enumerate(pair.drafts)
        ]
        return replace(pair, target=MemoHandle(self.target), drafts=tuple(drafts))

    def sampler(self, rule: VerifyRule, stream: int) -> Sampler:
        """Return what draws sequences under a rule; `stream` keeps its chance apart."""
        if self.fast and self.draft and rule.name in PLACE_BY_PLACE:
            return TogetherSampler(self, rule, self._texts, stream)
        return LoopSampler(self, rule, stream)

    def close(self) -> None:
        """Release the sessions that laws are evaluated in."""
        self.target.close()
        if self.draft is not None:
            self.draft.close()

    @property
    def hit_rate(self) -> float | None:
        """Laws found over laws asked for."""
        hits, misses = 0, 0
        for rows in (self.target, self.draft):
            hits += rows.num_hits if rows else 0
            misses += rows.num_misses if rows else 0
        for handle in (self.models.target, *self.models.drafts):
            if isinstance(handle, MemoHandle):
                hits, misses = hits + handle.counts.hits, misses + handle.counts.misses
        return hits / (hits + misses) if hits + misses else None

    @property
    def num_laws(self) -> int:
        """Laws evaluated."""
        return sum(rows.num_misses for rows in (self.target, self.draft) if rows)

    @property
    def num_passes(self) -> int:
        """Model passes."""
        return sum(rows.num_passes for rows in (self.target, self.draft) if rows)


def _draws_chains(case: Case) -> bool:
    """Whether the method is a draft model that draws its chain by itself, without penalties."""
    method, sampling = case.method, case.spec.sampling
    return (
        isinstance(method, DraftModel)
        and not method.shared_noise
        and method.draft_length == "constant"
        and not sampling.penalised
        and not sampling.greedy
        and not method.draft_sampling(sampling).greedy
    )


class TogetherSampler:
    """Many sequences at once, by `ChainSampler`."""

    path: Literal["together"] = "together"

    def __init__(self, bench: Workbench, rule: VerifyRule, texts: TextTree, stream: int) -> None:
        case, method = bench.case, bench.case.method
        assert isinstance(method, DraftModel) and bench.draft is not None
        self._chains = ChainSampler(
            bench.target,
            bench.draft,
            rule,
            texts,
            gamma=method.num_speculative_tokens,
            length=case.spec.length,
            eos_ids=case.limits.eos_ids,
            min_confidence=method.min_confidence,
            go_on=False,
        )
        self._generator = np.random.default_rng([case.spec.seed, stream])

    @property
    def num_rounds(self) -> int:
        """Rounds so far."""
        return self._chains.num_rounds

    def draw(self, count: int, cancelled: Callable[[], bool]) -> list[Text]:
        """Return `count` sequences, fewer when cancelled."""
        drawn: list[Text] = []
        while len(drawn) < count and not cancelled():
            size = min(TOGETHER, count - len(drawn))
            uniforms = self._generator.random((size, self._chains.num_columns))
            drawn += self._chains.sample(np.ascontiguousarray(uniforms.T))
        return drawn


class LoopSampler:
    """One sequence after another, by the unmodified decode loop on memo sessions."""

    path: Literal["loop"] = "loop"

    def __init__(self, bench: Workbench, rule: VerifyRule, stream: int) -> None:
        self._case, self._models, self._rule = bench.case, bench.models, rule
        self._seeds = np.random.default_rng([bench.case.spec.seed, stream])
        self.num_rounds = 0

    def draw(self, count: int, cancelled: Callable[[], bool]) -> list[Text]:
        """Return `count` sequences, fewer when cancelled."""
        drawn: list[Text] = []
        for seed in self._seeds.integers(2**63 - 1, size=count).tolist():
            if cancelled():
                break
            decoding = self._case.begin(Seeded(seed), self._models, self._rule)
            for _ in decoding:
                self.num_rounds += 1
            drawn.append(tuple(decoding.emitted))
        return drawn
