"""Which sublayers a target can leave out when it drafts for itself: a search on its own texts.

A set is worth E[N] / (gamma c + 1) at its best gamma: acceptance is measured, c is the share of the
weights that a draft multiplies, and a verification of several tokens is taken to cost one step
(a machine bound by memory). No pass is timed: a search that its evaluations end, or that finds
nothing new, finds the same set on a busy machine. One that a limit of minutes ends may not.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np

from speclab.core.errors import BadInput
from speclab.core.theory import expected_tokens
from speclab.lab.bench_prompts import bench_prompts, unseen_prompts
from speclab.lab.runs import generate, provenance
from speclab.models.pair import Pair
from speclab.models.skips import SkipSet

LONGEST = 8
"""Longest draft considered."""
PATIENCE = 10
"""Sets in a row that may be worse before no more sublayers are added, and restarts that may find
nothing new."""
KICK = 3
"""Sublayers changed where no single change helps."""
Progress = Callable[[str], None]
Ended = Literal["evaluations", "cancelled", "nothing new"]
"""Why a search was over: its budget was spent, it was told to, or restarts found nothing new."""
Sublayer = tuple[str, int]
"""("a" or "m", layer): its attention or its MLP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """How long a search may take, and on what.

    Attributes:
        texts: of the target, sampled at temperature 1; as many others are held out.
        tokens: generated per text. evaluations: sets to try at most. seed: of texts and search.

    Raises:
        BadInput: for a number out of range.
    """

    texts: int = 6
    tokens: int = 48
    evaluations: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("texts", 1, 12),
            ("tokens", 2, 256),
            ("evaluations", 1, 100_000),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadInput(f"{name} must be between {low} and {high}, not {value}.")


PLANS: dict[str, SearchPlan] = {"smollm2-135m": SearchPlan(texts=3, tokens=24, evaluations=250)}
"""Plans of targets that are slower than the bundled one."""


class Probe(Protocol):
    """What measures a set; see `models.skip_probe.SkipProbe`."""

    num_layers: int
    positions: int
    attention_cost: list[int]
    mlp_cost: list[int]
    head_cost: int

    def acceptance(self, attention: set[int], mlp: set[int]) -> tuple[float, float]:
        """Return the mean overlap and how often the likeliest tokens agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What a set is worth.

    Attributes:
        overlap, agree: acceptance of a first draft at temperature 1 and at 0.
        cost: of a draft step over a target step. gamma: the best length.
        speedup: modelled, at that length.
    """

    overlap: float
    agree: float
    cost: float
    gamma: int
    speedup: float


def worth_of(probe: Probe, skipped: frozenset[Sublayer]) -> Worth:
    """Measure a set."""
    attention = {layer for kind, layer in skipped if kind == "a"}
    mlp = {layer for kind, layer in skipped if kind == "m"}
    overlap, agree = probe.acceptance(attention, mlp)
    whole = sum(probe.attention_cost) + sum(probe.mlp_cost) + probe.head_cost
    left_out = sum(probe.attention_cost[n] for n in attention)
    left_out += sum(probe.mlp_cost[n] for n in mlp)
    cost = 1.0 - left_out / whole
    rate = min(overlap, 1.0)
    speedups = [expected_tokens(rate, g) / (g * cost + 1.0) for g in range(1, LONGEST + 1)]
    best = int(np.argmax(speedups))
    return Worth(overlap=overlap, agree=agree, cost=cost, gamma=best + 1, speedup=speedups[best])


class LayerSearch:
    """Tries sets within a budget and remembers them all.

    First every sublayer alone, then the least harmful ones together, then changes of one or two
    sublayers, each kept if it helps; where none does, on from the best set with a few changed.

    Args:
        probe: what measures. evaluations: sets to measure at most. seed: of the changes.
        progress: called now and then. cancelled: asked before every set.

    Attributes:
        tried: what each set is worth. best: of them. history: (sets tried, speedup) at each better
            one. ended: why `run` was over; None before.

    **Source:** Zhang et al. 2309.08168, section 3.3, which searches the same sets by Bayesian
    optimisation.
    **Deviation:** a local search; acceptance at every place of a text in one pass, and the model
    of cost above, instead of timed decoding.
    """

    def __init__(
        self,
        probe: Probe,
        *,
        evaluations: int,
        seed: int = 0,
        progress: Progress = lambda text: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._probe, self._left, self._progress = probe, evaluations, progress
        self._cancelled, self._rng = cancelled, np.random.default_rng(seed)
        self._sublayers = [(kind, n) for n in range(probe.num_layers) for kind in "am"]
        self.tried: dict[frozenset[Sublayer], Worth] = {}
        self.best: frozenset[Sublayer] = frozenset()
        self.history: list[tuple[int, float]] = []
        self.ended: Ended | None = None
        self._told = False

    def run(self) -> frozenset[Sublayer]:
        """Return the best set found within the budget, or until it was cancelled."""
        self._measure(frozenset())
        self._together(self._least_harmful())
        here, vain = self.best, 0
        while not self._is_over() and vain < PATIENCE:
            before = len(self.tried)
            self._climb(here)
            vain = vain + 1 if len(self.tried) == before else 0
            here = self._kicked()
        self.ended = "nothing new"
        if self._is_over():
            self.ended = "cancelled" if self._told else "evaluations"
        return self.best

    def _measure(self, skipped: frozenset[Sublayer]) -> Worth | None:
        """Return what a set is worth; None if it is not known and the budget is spent."""
        known = self.tried.get(skipped)
        if known is not None or self._is_over():
            return known
        self._left -= 1
        worth = self.tried[skipped] = worth_of(self._probe, skipped)
        if len(self.tried) == 1 or worth.speedup > self.tried[self.best].speedup:
            self.best = skipped
            self.history.append((len(self.tried), worth.speedup))
            self._progress(
                f"{len(self.tried)}: {len(skipped)} of {len(self._sublayers)} skipped, acceptance "
                f"{worth.overlap:.3f}, cost {worth.cost:.2f}, modelled speedup {worth.speedup:.3f}"
            )
        return worth

    def _is_over(self) -> bool:
        self._told = self._told or (self._left > 0 and self._cancelled())
        return self._told or self._left <= 0

    def _least_harmful(self) -> list[Sublayer]:
        """Return sublayers by what skipping each alone costs in acceptance per work saved."""
        alone: dict[Sublayer, float] = {}
        for one in self._sublayers:
            worth = self._measure(frozenset({one}))
            if worth is not None:
                alone[one] = (1.0 - worth.overlap) / max(1.0 - worth.cost, 1e-9)
        return sorted(alone, key=lambda one: (alone[one], one))

    def _together(self, ranked: Sequence[Sublayer]) -> None:
        vain = 0
        for count in range(2, len(ranked) + 1):
            before = self.best
            self._measure(frozenset(ranked[:count]))
            vain = vain + 1 if self.best is before else 0
            if vain > PATIENCE:
                return

    def _climb(self, here: frozenset[Sublayer]) -> None:
        """Go from a set to the first better one among its neighbours, while there is one."""
        worth = self._measure(here)
        while worth is not None:
            better = None
            for changed in self._neighbours(here):
                found = self._measure(changed)
                if found is None:
                    return
                if found.speedup > worth.speedup:
                    better = changed, found
                    break
            if better is None:
                return
            here, worth = better

    def _neighbours(self, here: frozenset[Sublayer]) -> Iterator[frozenset[Sublayer]]:
        """Yield every set with one sublayer more or fewer, then as many swaps, at random."""
        for place in self._rng.permutation(len(self._sublayers)):
            yield here ^ {self._sublayers[place]}
        out, inside = [one for one in self._sublayers if one not in here], sorted(here)
        for _ in range(len(self._sublayers) if out and inside else 0):
            gone = inside[int(self._rng.integers(len(inside)))]
            come = out[int(self._rng.integers(len(out)))]
            yield (here - {gone}) | {come}

    def _kicked(self) -> frozenset[Sublayer]:
        """Return the best set with a few sublayers changed."""
        count = min(KICK, len(self._sublayers))
        places = self._rng.choice(len(self._sublayers), count, replace=False)
        return self.best ^ {self._sublayers[place] for place in places}


def usual_plan(pair: str) -> SearchPlan:
    """Return how long a pair is searched unless asked otherwise."""
    return PLANS.get(pair, SearchPlan())


def search_prompts(chat: bool, count: int) -> list[str]:
    """Return prompts that no benchmark of the lab begins with."""
    if chat:
        return [prompt for _, prompt in bench_prompts(True, 24)[-count:]]
    return [prompt for _, prompt in unseen_prompts(False, count)]


def own_texts(pair: Pair, prompts: Sequence[str], plan: SearchPlan) -> list[tuple[list[int], int]]:
    """Return texts that the target wrote at temperature 1, and where its own words begin."""
    texts = []
    for place, prompt in enumerate(prompts):
        trace = generate(
            pair,
            prompt,
            method="autoregressive",
            temperature=1.0,
            seed=plan.seed + place,
            max_new_tokens=plan.tokens,
            record_laws=False,
        )
        texts.append(([*trace.prompt_tokens, *trace.emitted], len(trace.prompt_tokens) - 1))
    return texts


def run_search(
    pair: Pair,
    plan: SearchPlan,
    *,
    minutes: float | None = None,
    progress: Progress = lambda text: None,
) -> dict[str, Any]:
    """Search on a pair's target and return the report: the set, its worth, and on what.

    Args:
        minutes: after which the best set so far is taken; None: no limit. With one, how many sets
            are tried depends on the machine.

    Raises:
        BadInput: for minutes that are no finite number of 0 or more.
        UnsupportedModel: for a target whose layers cannot be run one by one.
    """
    from speclab.models.skip_probe import SkipProbe

    if minutes is not None and not 0.0 <= minutes < math.inf:
        raise BadInput(f"minutes must be a finite number of 0 or more, not {minutes:g}.")
    begun = time.monotonic()
    prompts = search_prompts(pair.codec.chat_by_default, 2 * plan.texts)
    progress(f"The target writes {len(prompts)} texts")
    texts = own_texts(pair, prompts, plan)
    probe: Any = SkipProbe(pair.target, texts[: plan.texts])  # type: ignore[arg-type]
    search = LayerSearch(
        probe,
        evaluations=plan.evaluations,
        seed=plan.seed,
        progress=progress,
        cancelled=lambda: minutes is not None and time.monotonic() - begun > 60.0 * minutes,
    )
    try:
        best = search.run()
        stopped = "minutes" if search.ended == "cancelled" else search.ended
    except KeyboardInterrupt:
        progress("Stopped; the best set so far is kept")
        best, stopped = search.best, "interrupted"
        if best not in search.tried:
            raise
    taken_s = time.monotonic() - begun
    held_out: Any = SkipProbe(pair.target, texts[plan.texts :])  # type: ignore[arg-type]
    skips = SkipSet(
        layers=probe.num_layers,
        attention=frozenset(layer for kind, layer in best if kind == "a"),
        mlp=frozenset(layer for kind, layer in best if kind == "m"),
    )
    return {
        "format": 1,
        "what": "sublayers that a draft leaves out, for draft-and-verify with skipped_layers=auto",
        "pair": pair.name,
        "target": getattr(pair.target, "source", pair.target.name),
        "dtype": pair.dtype,
        "layers": skips.layers,
        "attention": sorted(skips.attention),
        "mlp": sorted(skips.mlp),
        "worth": _rounded(search.tried[best]),
        "held_out": _rounded(worth_of(held_out, best)),
        "positions": {"search": probe.positions, "held_out": held_out.positions},
        "tried": len(search.tried),
        "stopped": stopped,
        "minutes": round(taken_s / 60.0, 2),
        "minutes_limit": minutes,
        "history": [[count, round(speedup, 4)] for count, speedup in search.history],
        "plan": asdict(plan),
        "command": f"search-layers --pair {pair.name} --keep"
        + (f" --minutes {minutes:g}" if minutes is not None else ""),
        "versions": provenance(),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _rounded(worth: Worth) -> dict[str, float | int]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in asdict(worth).items()
    }
