"""Settings shared by all tests: property tests are repeatable and do not watch the clock."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("speclab", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.load_profile("speclab")
