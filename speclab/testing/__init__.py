"""Shipped with the library: the exact law of any method, and conformance checks for new code."""

from speclab.testing.conformance import check_method, check_model, check_rule
from speclab.testing.exact import ExactLaw, exact_law, largest_difference, target_law
from speclab.testing.rule_law import exact_bias, rule_law

__all__ = [
    "ExactLaw",
    "check_method",
    "check_model",
    "check_rule",
    "exact_bias",
    "exact_law",
    "largest_difference",
    "rule_law",
    "target_law",
]
