"""Depth, width and node budget under whatever names a method gives them."""

from __future__ import annotations

from speclab.core.protocols import Param
from speclab.lab.labels import parse_label
from speclab.methods import METHODS, make_method

DEPTHS = ("num_speculative_tokens", "num_heads", "depth")
WIDTHS = ("width", "top_k", "num_drafts")
BUDGETS = ("tree_nodes", "total_tokens")


def knob(method: str, names: tuple[str, ...]) -> Param | None:
    """Return the method's parameter that goes by one of `names`; None if it has none."""
    params = {param.name: param for param in METHODS[method].card.params}
    return next((params[name] for name in names if name in params), None)


def label_of(method: str, params: dict[str, object]) -> str:
    """Return a method and its parameters in one word, as `parse_label` reads it."""
    return ":".join((method, *(f"{name}={_word(value)}" for name, value in params.items())))


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_knobs(
    label: str, *, depth: int | None = None, width: int | None = None, nodes: int | None = None
) -> str | None:
    """Return the label with other settings; None if its method lacks one or its range.

    Args:
        label: a method with its parameters.
        depth: levels of the draft. width: candidates per node. nodes: of a whole tree.
    """
    method, params = parse_label(label)
    for names, value in ((DEPTHS, depth), (WIDTHS, width), (BUDGETS, nodes)):
        if value is None:
            continue
        param = knob(method, names)
        if param is None or not param.low <= value <= param.high:
            return None
        params[param.name] = value
    return label_of(method, params)


def chain_label(label: str, gamma: int) -> str | None:
    """Return the label drafting a chain of `gamma` tokens; None if its method cannot.

    A draft tree is left out: one node wide it is the chain of `draft-model`.
    """
    method, _ = parse_label(label)
    if knob(method, ("width",)) is not None:
        return None
    width = 1 if knob(method, WIDTHS) is not None else None
    nodes = gamma if knob(method, BUDGETS) is not None else None
    return with_knobs(label, depth=gamma, width=width, nodes=nodes)


def depth_of(label: str) -> int | None:
    """Return how deep the labelled method drafts at most; None when it has no such parameter."""
    method, params = parse_label(label)
    param = knob(method, DEPTHS)
    return None if param is None else int(getattr(make_method(method, params), param.name))
