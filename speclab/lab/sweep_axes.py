"""What a sweep can vary, and what varying it does to a method, its sampling or its prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from speclab.core.errors import BadInput
from speclab.lab.head_plan import reason_against
from speclab.lab.knobs import BUDGETS, WIDTHS, chain_label, knob, with_knobs
from speclab.lab.labels import parse_label
from speclab.lab.measuring import BASELINE
from speclab.methods import METHODS
from speclab.models.pair import Pair

Value = float | int | str
Kind = Literal["method", "sampling", "request"]
TREE_DEPTH, TREE_WIDTH, TREE_NODES = 5, 4, 16
"""Of the trees that another axis than theirs leaves as they are."""

DRAFT_TREE_DEPTH = 3
"""A draft tree has as many nodes as its width allows: deeper ones grow too fast."""

USUAL_METHODS = (
    "draft-model",
    "draft-tree",
    "prompt-lookup",
    "kangaroo",
    "medusa",
    "eagle-3",
    "mtp",
)
"""What a sweep measures unless told otherwise: each way of drafting once, so that a minute allows
several prompts."""

ALL_METHODS = ("all",)
"""Asks for every method that the pair can run and the axis changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing to vary.

    Attributes:
        name: public name. kind: what it changes: the method's parameters, the sampling or the
            request. symbol: of formulas, or empty. unit: of the values. values: usual ones.
        low, high: bounds of what may be asked; None for words.
        usual_prompts: per value, so that a whole sweep of the bundled pair takes under a minute.
    """

    name: str
    kind: Kind
    symbol: str = ""
    unit: str = ""
    values: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None
    usual_prompts: int = 9

    def check(self, value: Value) -> None:
        """Refuse a value outside the bounds.

        Raises:
            BadInput: naming the value and the bounds.
        """
        if self.low is None or self.high is None:
            return
        whole = self.unit == "tokens"
        fine = isinstance(value, int | float) and self.low <= value <= self.high
        low, high, name = self.low, self.high, self.name
        within = f"between {low:g} and {high:g}, not {value!r}."
        if whole and (not fine or value != int(value)):
            raise BadInput(
                f"{name} takes a whole number {within}",
                code="axis_whole",
                values={"axis": name, "low": low, "high": high, "value": value},
            )
        if not fine:
            raise BadInput(
                f"{name} takes a number {within}",
                code="axis_number",
                values={"axis": name, "low": low, "high": high, "value": value},
            )


AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis(
            name="gamma",
            kind="method",
            symbol="γ",
            unit="tokens",
            values=(1, 2, 3, 4, 6, 8),
            low=1,
            high=32,
        ),
        Axis(
            name="width",
            kind="method",
            symbol="w",
            unit="tokens",
            values=(1, 2, 3, 4),
            low=1,
            high=10,
        ),
        Axis(
            name="depth",
            kind="method",
            symbol="d",
            unit="tokens",
            values=(1, 2, 3, 4, 6),
            low=1,
            high=12,
        ),
        Axis(
            name="nodes",
            kind="method",
            symbol="n",
            unit="tokens",
            values=(4, 8, 16, 24, 32),
            low=1,
            high=64,
        ),
        Axis(
            name="temperature",
            kind="sampling",
            symbol="T",
            values=(0.0, 0.4, 0.7, 1.0, 1.4),
            low=0.0,
            high=2.0,
        ),
        Axis(
            name="top-p",
            kind="sampling",
            symbol="p",
            values=(0.3, 0.6, 0.8, 0.95, 1.0),
            low=0.05,
            high=1.0,
        ),
        Axis(name="family", kind="request", usual_prompts=3),
        Axis(
            name="output-length",
            kind="request",
            unit="tokens",
            values=(8, 16, 32, 64, 128),
            low=2,
            high=4096,
            usual_prompts=5,
        ),
        Axis(
            name="prompt-length",
            kind="request",
            unit="tokens",
            values=(16, 64, 192, 448),
            low=4,
            high=100_000,
            usual_prompts=6,
        ),
    )
}


def axis_named(name: str) -> Axis:
    """Return an axis.

    Raises:
        BadInput: for an unknown one.
    """
    if name not in AXES:
        known = ", ".join(AXES)
        raise BadInput(
            f"There is no axis {name!r}.",
            f"Axes: {known}.",
            code="unknown_axis",
            values={"name": name, "known": known},
        )
    return AXES[name]


def label_at(axis: Axis, label: str, value: Value) -> str | None:
    """Return the label at a value of the axis; None where its method has no such setting."""
    if axis.kind != "method":
        return label
    count, method = int(value), parse_label(label)[0]
    if axis.name == "gamma":
        return chain_label(label, count)
    if knob(method, WIDTHS) is None:
        return None
    budget = TREE_NODES if knob(method, BUDGETS) is not None else None
    if axis.name == "nodes":
        return (
            None
            if budget is None
            else with_knobs(label, depth=TREE_DEPTH, width=TREE_WIDTH, nodes=count)
        )
    if axis.name == "width":
        depth = DRAFT_TREE_DEPTH if budget is None else TREE_DEPTH
        return with_knobs(label, depth=depth, width=count, nodes=budget)
    return with_knobs(label, depth=count, width=2 if budget is None else TREE_WIDTH, nodes=budget)


def methods_for(pair: Pair, axis: Axis, asked: Sequence[str] = ()) -> tuple[list[str], dict]:
    """Return the labels to sweep, and why others are left out.

    Args:
        asked: labels; empty: those of USUAL_METHODS that the pair can run and the axis changes,
            or every other one where none is; ("all",): every one.

    Returns:
        Labels; reasons by method, each {"what", "code", "values"}.

    Raises:
        BadInput: if none is left, or one that was asked for cannot run.
    """
    usual, asked = not asked, () if tuple(asked) == ALL_METHODS else asked
    labels, skipped = [], {}
    for label in asked or [name for name in METHODS if name != BASELINE]:
        method = parse_label(label)[0]
        if method == BASELINE:
            continue
        reason = reason_against(pair, method)
        if reason is not None:
            if asked:
                raise reason
            skipped[method] = {"what": reason.what, "code": reason.code, "values": reason.values}
        elif axis.kind == "method" and not any(
            label_at(axis, label, value) for value in axis.values
        ):
            skipped[method] = {
                "what": f"{method} has nothing that {axis.name} changes.",
                "code": "axis_without_effect",
                "values": {"method": method, "axis": axis.name},
            }
        else:
            labels.append(label)
    if not labels:
        raise BadInput(
            f"No method of the pair {pair.name} can be swept over {axis.name}.",
            "Choose another axis or pair.",
            code="nothing_to_sweep",
            values={"pair": pair.name, "axis": axis.name},
        )
    return [name for name in labels if usual and name in USUAL_METHODS] or labels, skipped
