"""The explicit table of verification rules, in teaching order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speclab.core.errors import BadInput
from speclab.core.protocols import VerifyRule
from speclab.core.rules.block import BLOCK
from speclab.core.rules.broken_trees import BROKEN
from speclab.core.rules.coupled import COUPLED
from speclab.core.rules.k_seq import K_SEQ
from speclab.core.rules.lossy import LOSSY
from speclab.core.rules.matching import MATCH
from speclab.core.rules.rejection import ONE_HOT, TOKEN
from speclab.core.rules.siblings import (
    SIBLINGS_IID,
    SIBLINGS_TOP_K,
    SIBLINGS_WITHOUT_REPLACEMENT,
)

LOSSLESS: tuple[VerifyRule, ...] = (
    TOKEN,
    ONE_HOT,
    MATCH,
    BLOCK,
    SIBLINGS_IID,
    SIBLINGS_WITHOUT_REPLACEMENT,
    SIBLINGS_TOP_K,
    K_SEQ,
    COUPLED,
)

RULES: dict[str, VerifyRule] = {rule.name: rule for rule in (*LOSSLESS, *LOSSY, *BROKEN)}


def lossless_rules(given: frozenset[str]) -> tuple[str, ...]:
    """Return the names of the lossless rules that can judge proposals which are `given`."""
    return tuple(rule.name for rule in RULES.values() if rule.lossless and rule.needs <= given)


def rule_named(name: str, values: Mapping[str, Any] | None = None) -> VerifyRule:
    """Return the rule called `name`, with `values` bound to its parameters.

    Raises:
        BadInput: if there is none, or for an unknown parameter or a value out of range.
    """
    if name not in RULES:
        raise BadInput(
            f"There is no rule {name!r}.",
            f"Rules: {', '.join(RULES)}.",
            code="unknown_rule",
            values={"name": name, "known": ", ".join(RULES)},
        )
    return RULES[name].configured(values) if values else RULES[name]
