"""The explicit table of methods, in teaching order. Names are a public interface."""

from __future__ import annotations

from typing import Any

from speclab.core.errors import BadInput
from speclab.core.protocols import Method
from speclab.methods.autoregressive import Autoregressive
from speclab.methods.cascade import Cascade
from speclab.methods.draft_and_verify import DraftAndVerify
from speclab.methods.draft_model import DraftModel
from speclab.methods.draft_tree import DraftTree
from speclab.methods.eagle1 import Eagle1
from speclab.methods.eagle2 import Eagle2
from speclab.methods.eagle3 import Eagle3
from speclab.methods.early_exit import EarlyExit
from speclab.methods.hydra import Hydra
from speclab.methods.jacobi import Jacobi
from speclab.methods.kangaroo import Kangaroo
from speclab.methods.lookahead import Lookahead
from speclab.methods.lookahead_draft import LookaheadDraft
from speclab.methods.medusa import Medusa
from speclab.methods.mtp import Mtp
from speclab.methods.multi_draft import MultiDraft
from speclab.methods.parallel_mtp import ParallelMtp
from speclab.methods.prompt_lookup import PromptLookup
from speclab.methods.quantspec import QuantSpec
from speclab.methods.staged import Staged
from speclab.methods.string_match import StringMatch
from speclab.methods.suffix import Suffix
from speclab.methods.token_intersection import TokenIntersection

METHODS: dict[str, type[Method]] = {
    method.card.name: method
    for method in (
        Autoregressive,
        DraftModel,
        PromptLookup,
        Suffix,
        Jacobi,
        Lookahead,
        LookaheadDraft,
        EarlyExit,
        DraftAndVerify,
        Kangaroo,
        QuantSpec,
        Staged,
        Cascade,
        MultiDraft,
        StringMatch,
        TokenIntersection,
        DraftTree,
        Medusa,
        Hydra,
        Eagle1,
        Eagle2,
        Eagle3,
        Mtp,
        ParallelMtp,
    )
}


def make_method(name: str, params: dict[str, Any] | None = None) -> Method:
    """Return the method `name` with its parameters checked.

    Args:
        name: a key of METHODS.
        params: values by parameter name; the rest keep their defaults.

    Raises:
        BadInput: for an unknown method or parameter, or a value out of range.
    """
    if name not in METHODS:
        raise BadInput(
            f"There is no method {name!r}.",
            f"Methods: {', '.join(METHODS)}.",
            code="unknown_method",
            values={"name": name, "known": ", ".join(METHODS)},
        )
    kind = METHODS[name]
    known = {param.name: param for param in kind.card.params}
    values: dict[str, Any] = {}
    for key, value in (params or {}).items():
        if key not in known:
            options = ", ".join(known) or "none"
            raise BadInput(
                f"{name} has no parameter {key!r}.",
                f"Its parameters: {options}.",
                code="unknown_parameter",
                values={"method": name, "name": key},
            )
        known[key].check(value)
        values[key] = int(value) if known[key].kind == "int" else value
    return kind(**values)


def heads_of(method: Method) -> list[str]:
    """Return the names of the trained heads that a method needs."""
    return sorted(
        need.removeprefix("head:") for need in method.card.needs if need.startswith("head:")
    )
