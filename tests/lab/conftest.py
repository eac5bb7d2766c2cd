"""The bundled pair, loaded once for all tests of experiments that ask for it."""

from __future__ import annotations

import pytest

from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair


@pytest.fixture(scope="session")
def pocket() -> Pair:
    """Return the bundled pair on the CPU."""
    return load_pair("pocket", device="cpu")
