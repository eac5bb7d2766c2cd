"""What the tests of readers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.page_server import PageServer, page_server


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    """A server on loopback that gives out recorded pages."""
    with page_server() as running:
        yield running


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on a Space, whatever the machine says."""
    for name in ("SYSTEM", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
