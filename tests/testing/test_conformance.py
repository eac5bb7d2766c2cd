"""The shipped conformance kit: passes for what we ship, fails for what is broken."""

from __future__ import annotations

import pytest
from toy_methods import TOY_METHODS

from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.methods import METHODS, make_method
from speclab.models.toy import FEATURE_TAP, ToyModel
from speclab.testing import check_method, check_model, check_rule


@pytest.mark.parametrize("method", [*map(make_method, METHODS), *TOY_METHODS], ids=repr)
def test_methods(method) -> None:
    check_method(method)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules(rule) -> None:
    check_rule(rule)


def test_toy_model() -> None:
    check_model(ToyModel.random(7), (0, 1, 0), tolerance=0.0, taps=(FEATURE_TAP,))
    check_model(ToyModel.random(7), (0,), tolerance=0.0, tree=TokenTree.chain((1, 2, 0)))
