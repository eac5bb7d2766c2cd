"""Which parameters make a method's proposals what a rule needs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from speclab.core.errors import BadInput
from speclab.core.laws import Sampling
from speclab.core.protocols import Param, VerifyRule, provided
from speclab.lab.presets import ParamValue
from speclab.methods import METHODS, make_method


def _options(param: Param, given: Mapping[str, ParamValue]) -> list[ParamValue]:
    """Return values that change what proposals are, the given or usual one first."""
    usual = given.get(param.name, param.default)
    if param.name in given:
        return [usual]
    more: tuple[ParamValue, ...] = ()
    if param.kind == "choice":
        more = param.options
    elif param.kind == "bool":
        more = (False, True)
    elif param.kind == "optional_float":
        more = (0.0,)
    return [usual, *(value for value in more if value != usual)]


def fitting_params(
    method: str, rule: VerifyRule, sampling: Sampling, given: Mapping[str, ParamValue]
) -> dict[str, ParamValue] | None:
    """Return parameters under which the rule can judge the method: as few changed as needed.

    Args:
        method: a key of METHODS. rule: the rule. sampling: the request's.
        given: parameters that are settled.

    Returns:
        Parameters, `given` included; None if no choice meets the rule's needs.
    """
    params = METHODS[method].card.params
    choices = product(*(_options(param, given) for param in params))
    usual = [_options(param, given)[0] for param in params]
    ranked = sorted(choices, key=lambda values: sum(a != b for a, b in zip(values, usual)))
    for values in ranked:
        named = dict(zip((param.name for param in params), values, strict=True))
        try:
            built = make_method(method, named)
        except BadInput:
            continue
        if rule.needs <= provided(built, sampling):
            return named
    return None
