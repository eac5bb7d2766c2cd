"""The explicit table of verification rules, in teaching order."""

from __future__ import annotations

from speclab.core.errors import BadInput
from speclab.core.protocols import VerifyRule
from speclab.core.rules.matching import MATCH
from speclab.core.rules.rejection import ONE_HOT, TOKEN

RULES: dict[str, VerifyRule] = {rule.name: rule for rule in (TOKEN, ONE_HOT, MATCH)}


def rule_named(name: str) -> VerifyRule:
    """Return the rule called `name`.

    Raises:
        BadInput: if there is none.
    """
    if name not in RULES:
        raise BadInput(
            f"There is no rule {name!r}.",
            f"Rules: {', '.join(RULES)}.",
            code="unknown_rule",
            values={"name": name, "known": ", ".join(RULES)},
        )
    return RULES[name]
