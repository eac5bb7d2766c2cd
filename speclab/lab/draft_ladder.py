"""The draft ladder: drafts of one target from a table to the target itself, measured side by side.

Climbing it the draft agrees more and costs more; the speed peaks somewhere below the top.

The report (JSON): `schema_version` 1, `kind` "ladder", the facts of the machine, `plan`,
`complete`, `seconds`, `costs` of raw passes, `missing` (rungs without weights, with a reason key),
`curves` (lines of equal speed) and `rungs`: `name`, `kind` (a key of `KINDS`), `parameters`,
`acceptance_rate`, `cost_ratio` (seconds of drafting per drafted token over a plain pass), `best`
(the gamma that was fastest), `best_modelled` and `points`: per gamma what `measuring.point_of`
returns, with `gamma` and `modelled` (S from the rung's alpha and c, and v(n)).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.core.laws import Sampling
from speclab.core.theory import best_gamma, walltime_speedup
from speclab.lab.bench_prompts import check_fits
from speclab.lab.bigrams import bigram_model
from speclab.lab.head_numbers import Measured
from speclab.lab.measuring import (
    BASELINE,
    Stopped,
    Unit,
    check_bounds,
    machine_facts,
    measure,
    never,
    plain_types,
    point_of,
)
from speclab.lab.pass_costs import measure_costs, verify_cost_of
from speclab.lab.sweep_prompts import prompts_of
from speclab.models.pair import Pair

KINDS: dict[str, str] = {
    "bigram": "A table of which token follows which, counted from the corpus",
    "tiny": "A model of a fifth of the draft's size, trained on the corpus alone",
    "undistilled": "The draft's twin, trained on the corpus and never shown the target",
    "draft": "The pair's draft",
    "half": "The target's first half: its lower layers, then its own last norm and output",
    "target": "The target itself",
}
"""The closed set of rungs, from the bottom, with English."""

BUNDLED = {"tiny": "bundled:pocket-tiny", "undistilled": "bundled:pocket/draft_undistilled"}
LEVELS = (1.0, 1.25, 1.5, 2.0, 3.0)
RATIOS = tuple(round(0.04 * step, 2) for step in range(31))
MOST_GAMMA = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPlan:
    """How much is run.

    Attributes:
        rungs: of KINDS; empty: all that there are. gammas: drafted tokens per round.
        temperature: 0 is greedy. num_prompts, max_new_tokens: per rung and gamma.
        documents: that the bigram table is counted from.
        passes: raw ones timed per width of v(n).
    """

    rungs: tuple[str, ...] = ()
    gammas: tuple[int, ...] = (1, 2, 4, 8)
    temperature: float = 0.0
    num_prompts: int = 9
    max_new_tokens: int = 32
    documents: int = 4000
    passes: int = 15

    def __post_init__(self) -> None:
        unknown = [name for name in self.rungs if name not in KINDS]
        if unknown:
            known = ", ".join(KINDS)
            raise BadInput(
                f"There is no rung {unknown[0]!r}.",
                f"Rungs: {known}.",
                code="unknown_rung",
                values={"name": unknown[0], "known": known},
            )
        for gamma in self.gammas or (0,):
            check_bounds("gamma", gamma, 1, MOST_GAMMA)
        for name, most in (
            ("num_prompts", 180),
            ("max_new_tokens", 4096),
            ("documents", 120_000),
            ("passes", 1000),
        ):
            check_bounds(name, getattr(self, name), 1, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One draft of the target.

    Attributes:
        kind: of KINDS. pair: the target with this draft.
    """

    kind: str
    pair: Pair

    @property
    def parameters(self) -> int:
        """Parameters of the draft; the entries of a table."""
        draft = self.pair.drafts[0]
        rows = getattr(getattr(draft, "laws", None), "entries", 0)
        return getattr(draft, "num_parameters", rows)


def rungs_of(pair: Pair, plan: LadderPlan) -> tuple[list[Rung], dict[str, str]]:
    """Return the rungs of a pair from the bottom, and why others are missing.

    Returns:
        Rungs; by kind "other_target", "no_weights", "no_draft" or "not_a_llama".
    """
    makers: dict[str, Callable[[], Any]] = {
        "bigram": lambda: bigram_model(pair, plan.documents),
        "tiny": lambda: _bundled(pair, "tiny"),
        "undistilled": lambda: _bundled(pair, "undistilled"),
        "draft": lambda: pair.drafts[0] if pair.drafts else "no_draft",
        "half": lambda: lower_layers(pair.target),
        "target": lambda: pair.target,
    }
    found, missing = [], {}
    for kind in KINDS:
        if plan.rungs and kind not in plan.rungs:
            continue
        draft = makers[kind]()
        if isinstance(draft, str):
            missing[kind] = draft
        else:
            found.append(Rung(kind=kind, pair=replace(pair, drafts=(draft,))))
    return found, missing


def _bundled(pair: Pair, kind: str) -> Any:
    """Return a bundled draft of pocket's target, or why there is none."""
    if pair.name not in ("pocket", "pocket-undistilled"):
        return "other_target"
    from speclab.models.loading import load_model
    from speclab.models.transformer import TransformerHandle
    from speclab.models.weight_files import locate

    try:
        weights = locate(BUNDLED[kind], lambda text: None)
    except ModelUnavailable:
        return "no_weights"
    return TransformerHandle(
        model=load_model(weights, pair.dtype, pair.device),
        name=BUNDLED[kind].removeprefix("bundled:"),
        vocab_size=pair.target.vocab_size,
        source=weights.source,
    )


def lower_layers(target: Any, layers: int | None = None) -> Any:
    """Return a model of the target's lower layers, with its last norm and output; half by default.

    It was never trained to speak from there: an early exit as it stands, on a copy of the weights.
    """
    from transformers import LlamaForCausalLM

    from speclab.models.transformer import TransformerHandle

    whole = getattr(target, "model", None)
    if type(whole) is not LlamaForCausalLM:
        return "not_a_llama"
    config = LlamaForCausalLM.config_class(**whole.config.to_dict())
    config.num_hidden_layers = layers or config.num_hidden_layers // 2
    cut = LlamaForCausalLM(config).to(device=whole.device, dtype=whole.dtype)
    cut.model.rotary_emb = whole.model.rotary_emb  # its frequencies never leave float32
    names = set(cut.state_dict())
    cut.load_state_dict({k: v for k, v in whole.state_dict().items() if k in names})
    return TransformerHandle(
        model=cut.eval(),
        name=f"{target.name}, layers 1 to {config.num_hidden_layers}",
        vocab_size=target.vocab_size,
        source=target.source,
    )


class Ladder:
    """A ladder on its way: iterate it for (prompts done, prompts), then ask `report()`.

    Args:
        pair: its target is drafted for. plan: how much. stopped: asked before every request.
    """

    def __init__(
        self, pair: Pair, plan: LadderPlan | None = None, *, stopped: Stopped = never
    ) -> None:
        self.pair, self.plan, self._stopped = pair, plan or LadderPlan(), stopped
        self.rungs, self.missing = rungs_of(pair, self.plan)
        self.prompts = [tokens for _, tokens in prompts_of(pair, self.plan.num_prompts)]
        check_fits(pair, self.prompts, self.plan.max_new_tokens)
        self.measured: dict[tuple[str, int], Measured] = {}
        self.costs: dict[str, Any] = {}
        self._facts, self._seconds, self._complete = machine_facts(pair), 0.0, False

    def units(self) -> dict[tuple[str, int], Unit]:
        """Return what takes its turn, by (rung, gamma); plain decoding has gamma 0."""
        sampling = Sampling(temperature=self.plan.temperature)
        count = self.plan.max_new_tokens
        plain = Unit(pair=self.pair, label=BASELINE, sampling=sampling, max_new_tokens=count)
        return {(BASELINE, 0): plain} | {
            (rung.kind, gamma): Unit(
                pair=rung.pair,
                label=f"draft-model:num_speculative_tokens={gamma}",
                sampling=sampling,
                max_new_tokens=count,
            )
            for rung in self.rungs
            for gamma in self.plan.gammas
        }

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Measure; costs of raw passes come first."""
        begun = time.perf_counter()
        self.costs = measure_costs(self.pair, self.plan.passes, widths=(1, 2, 3, 5, 7, 9, 13, 17))
        for done in measure(self.units(), self.prompts, self.measured, stopped=self._stopped):
            self._seconds = time.perf_counter() - begun
            self._complete = done == len(self.prompts)
            yield done, len(self.prompts)

    def report(self) -> dict[str, Any]:
        """Return the rungs with what was measured so far (JSON types; see the module)."""
        there = bool(self.measured) and all(each.traces for each in self.measured.values())
        verify = verify_cost_of(self.costs) if self.costs else None
        return {
            "schema_version": 1,
            "kind": "ladder",
            "plan": plain_types(asdict(self.plan)),
            "complete": self._complete,
            "seconds": round(self._seconds, 1),
            **self._facts,
            "costs": self.costs,
            "rungs": [self._rung(rung) for rung in self.rungs] if there else [],
            "missing": self.missing,
            "curves": equal_speed(LEVELS, RATIOS, verify) if verify else [],
        }

    def _rung(self, rung: Rung) -> dict[str, Any]:
        base, units = self.measured[BASELINE, 0], self.units()
        points = [
            {
                "gamma": gamma,
                **point_of(units[rung.kind, gamma], self.measured[rung.kind, gamma], base),
            }
            for gamma in self.plan.gammas
        ]
        return {
            "name": rung.pair.drafts[0].name,
            "kind": rung.kind,
            "parameters": rung.parameters,
            **rung_numbers(points, self._plain_step(), verify_cost_of(self.costs)),
        }

    def _plain_step(self) -> float:
        rounds = [r for t in self.measured[BASELINE, 0].traces.values() for r in t.rounds]
        return sum(round_.timing.target_s for round_ in rounds) / len(rounds)


def rung_numbers(
    points: Sequence[Mapping[str, Any]], plain_step_s: float, verify: Callable[[int], float]
) -> dict[str, Any]:
    """Return alpha and c over all gammas of a rung, its best gamma, and S beside every point.

    Args:
        points: by gamma. plain_step_s: of a plain pass. verify: v(n).
    """
    accepted = sum(sum(point["acceptance"]["reached"]) for point in points)
    refused = sum(_refused(point) for point in points)
    drafted = sum(point["drafted_per_round"] * point["rounds"] for point in points)
    drafting = sum(point["draft_s_per_round"] * point["rounds"] for point in points)
    alpha = accepted / (accepted + refused) if accepted + refused else 0.0
    ratio = drafting / drafted / plain_step_s if drafted else 0.0
    shown = [
        {**point, "modelled": walltime_speedup(alpha, point["gamma"], ratio, verify)}
        for point in points
    ]
    gammas = [point["gamma"] for point in points]
    return {
        "acceptance_rate": alpha,
        "cost_ratio": ratio,
        "best": max(shown, key=lambda point: point["speedup"])["gamma"],
        "best_modelled": best_gamma(alpha, ratio, verify, range(max(gammas) + 1)),
        "points": shown,
    }


def _refused(point: Mapping[str, Any]) -> float:
    """Return how many tested tokens were refused."""
    alpha, accepted = point["acceptance_rate"], sum(point["acceptance"]["reached"])
    if alpha is None:
        return 0.0
    return accepted * (1.0 - alpha) / alpha if alpha else float(point["acceptance"]["drafting"])


def equal_speed(
    levels: Sequence[float], ratios: Sequence[float], verify: Callable[[int], float]
) -> list[dict[str, Any]]:
    """Return, per level of S, the alpha that a draft of each c needs at its best gamma (modelled).

    Returns:
        `speedup`, `cost_ratios` and `acceptance_rates`; ratios that no alpha serves are left out.
    """
    gammas = range(1, MOST_GAMMA + 1)
    table = [0.0, *(verify(n) for n in range(1, MOST_GAMMA + 2))]

    def best(alpha: float, ratio: float) -> float:
        return max(walltime_speedup(alpha, gamma, ratio, table.__getitem__) for gamma in gammas)

    curves = []
    for level in levels:
        found = []
        for ratio in ratios:
            if best(1.0, ratio) < level:
                break
            low, high = 0.0, 1.0
            for _ in range(20):
                middle = (low + high) / 2.0
                low, high = (middle, high) if best(middle, ratio) < level else (low, middle)
            found.append((ratio, high))
        curves.append(
            {
                "speedup": level,
                "cost_ratios": [ratio for ratio, _ in found],
                "acceptance_rates": [round(alpha, 5) for _, alpha in found],
            }
        )
    return curves
