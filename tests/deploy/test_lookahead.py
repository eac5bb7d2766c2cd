"""What engines say when asked for Jacobi or Lookahead: none has an option for either."""

from __future__ import annotations

import pytest

from speclab.deploy.engines import ENGINES
from speclab.deploy.plans import Refusal, make_wish
from speclab.methods import METHODS


@pytest.mark.parametrize("method", ["jacobi", "lookahead", "lookahead-draft"])
@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_has_an_option(method: str, engine: str) -> None:
    """Nothing close is put in its place, and the paper is named."""
    found = ENGINES[engine].configure(make_wish(method))
    assert isinstance(found, Refusal)
    assert "has no option for" in found.reason.en and "没有" in found.reason.zh
    assert METHODS[method].card.paper_url in found.instead.en
    told = "llama-lookahead" in found.reason.en and "llama-lookahead" in found.reason.zh
    assert told == (engine == "llama.cpp" and method == "lookahead")
