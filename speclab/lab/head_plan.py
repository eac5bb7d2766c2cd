"""What a table of heads holds: every drafting method of a target, as a chain and as a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from speclab.core.errors import BadInput, SpeclabError
from speclab.core.laws import Sampling
from speclab.core.protocols import MethodCard
from speclab.core.rules import rule_named
from speclab.lab.runs import check_compatible
from speclab.methods import METHODS, make_method
from speclab.models.pair import Pair

Shape = Literal["plain", "chain", "drawn", "tree"]
BASELINE = "autoregressive"
RULE = "token"
"""Judges chains and trees of every kind, drawn or chosen, without loss."""

WITHOUT_HEADS = ("draft-model", "prompt-lookup", "draft-tree")
HEAD_METHODS = ("medusa", "hydra", "eagle-1", "eagle-2", "eagle-3", "mtp", "parallel-mtp")
"""Methods that draft with trained parts of the target; others that need a head come after them."""

COMPARED = ("eagle-1", "eagle-2")
"""One head, a static and a dynamic tree: compared at equal budgets."""

CHAIN_DEPTH = 5
TREE_DEPTH, TREE_WIDTH = 6, 4
DRAFT_TREE = {"depth": 3, "width": 2}
"""The draft model's own tree: every node has two children, fourteen nodes in all."""

_DEPTH = ("num_speculative_tokens", "num_heads", "depth")
_NODES = ("tree_nodes", "total_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of the table.

    Attributes:
        method: a key of METHODS. params: its parameters by name.
        shape: "plain" drafts nothing, "chain" has one candidate per position; so has "drawn",
            which is drawn from the head's law where "chain" takes the head's best.
        budget: drafted tokens per round at most; None where the method decides.
    """

    method: str
    params: tuple[tuple[str, int | str], ...] = ()
    shape: Shape
    budget: int | None = None

    @property
    def label(self) -> str:
        """The setting in one word, as `bench` takes it."""
        return ":".join((self.method, *(f"{name}={value}" for name, value in self.params)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPlan:
    """How much of a table is run.

    Attributes:
        max_new_tokens: per prompt, EOS ignored. num_prompts: see `unseen_prompts`.
        repeats: timed repeats when greedy. sampled_repeats: at temperature 1, each with new seeds;
            0 leaves temperature 1 out.
        budgets: nodes of the trees when greedy. sampled_budgets: the same at temperature 1.
        compared_budgets: further greedy ones of EAGLE-1 and EAGLE-2 only, which share a head.
        widths: of the passes whose cost v(n) is measured. passes: timed per width.
    """

    max_new_tokens: int = 64
    num_prompts: int = 20
    repeats: int = 2
    sampled_repeats: int = 2
    budgets: tuple[int, ...] = (8, 16, 24)
    sampled_budgets: tuple[int, ...] = (8, 16, 24)
    compared_budgets: tuple[int, ...] = ()
    widths: tuple[int, ...] = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65)
    passes: int = 30

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "num_prompts", "repeats", "passes"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.sampled_repeats < 0:
            raise BadInput(f"sampled_repeats must be 0 or more, not {self.sampled_repeats}.")
        if self.widths[:1] != (1,):
            raise BadInput("The first width must be 1: v(n) is relative to it.")

    def temperatures(self) -> dict[float, int]:
        """Return the repeats by temperature."""
        return {0.0: self.repeats} | ({1.0: self.sampled_repeats} if self.sampled_repeats else {})

    def budgets_of(self, method: str, temperature: float) -> tuple[int, ...]:
        """Return the nodes of a method's trees."""
        if temperature > 0.0:
            return self.sampled_budgets
        more = self.compared_budgets if method in COMPARED else ()
        return tuple(sorted({*self.budgets, *more}))


PLANS: dict[str, HeadPlan] = {
    "smollm2-135m": HeadPlan(
        max_new_tokens=24,
        num_prompts=10,
        repeats=1,
        sampled_repeats=1,
        budgets=(8, 16),
        sampled_budgets=(8,),
        widths=(1, 2, 3, 5, 9, 13, 17, 25),
        passes=10,
    ),
}
"""Plans of targets that are slower than the bundled one."""


def usual_plan(pair: str) -> HeadPlan:
    """Return how much of a pair's table fits into some ten minutes on two CPU cores."""
    return PLANS.get(pair, HeadPlan())


def settings_for(
    pair: Pair, plan: HeadPlan, temperature: float
) -> tuple[list[Setting], dict[str, SpeclabError]]:
    """Return the settings that a pair can run, and why it cannot run the others.

    Returns:
        Settings, plain decoding first; reasons by method.
    """
    settings, skipped = [Setting(method=BASELINE, shape="plain")], {}
    for name in (*WITHOUT_HEADS, *_methods_with_heads()):
        reason = reason_against(pair, name)
        if reason is None:
            settings += _shapes_of(
                METHODS[name].card, plan.budgets_of(name, temperature), drawn=temperature > 0.0
            )
        else:
            skipped[name] = reason
    return settings, skipped


def _methods_with_heads() -> tuple[str, ...]:
    others = (
        name
        for name, method in METHODS.items()
        if any(need.startswith("head:") for need in method.card.needs)
    )
    return tuple(dict.fromkeys((*HEAD_METHODS, *others)))


def reason_against(pair: Pair, name: str) -> SpeclabError | None:
    """Return why a pair cannot run a method; None if it can."""
    try:
        check_compatible(make_method(name), rule_named(RULE), pair, Sampling(temperature=0.0))
    except SpeclabError as error:
        return error
    return None


def _shapes_of(card: MethodCard, budgets: tuple[int, ...], *, drawn: bool) -> list[Setting]:
    if card.name == "draft-tree":
        return [_setting(card, "tree", 14, DRAFT_TREE)]
    params = _params(card, CHAIN_DEPTH, CHAIN_DEPTH, 1)
    chains = [_setting(card, "chain", CHAIN_DEPTH, params)]
    known = {param.name for param in card.params}
    if drawn and "draft_sampling" in known:
        chains.append(_setting(card, "drawn", CHAIN_DEPTH, params | {"draft_sampling": "drawn"}))
    if "top_k" not in known or known.isdisjoint(_NODES):
        return chains
    trees = (
        _setting(card, "tree", nodes, _params(card, TREE_DEPTH, nodes, TREE_WIDTH))
        for nodes in budgets
    )
    return [*chains, *trees]


def _params(card: MethodCard, depth: int, nodes: int, width: int) -> dict[str, int]:
    """Return the method's own names for depth, nodes and width, within its bounds."""
    wanted = {**dict.fromkeys(_DEPTH, depth), **dict.fromkeys(_NODES, nodes), "top_k": width}
    return {
        param.name: int(min(max(wanted[param.name], param.low), param.high))
        for param in card.params
        if param.name in wanted
    }


def _setting(card: MethodCard, shape: Shape, budget: int, params: dict[str, Any]) -> Setting:
    return Setting(method=card.name, shape=shape, budget=budget, params=tuple(params.items()))
