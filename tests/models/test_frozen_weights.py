"""Bundled targets are frozen: later ones are bundled beside them, never in their place."""

from __future__ import annotations

import hashlib

import pytest

from speclab.models.weight_files import ASSETS

FROZEN = {
    "pocket/target/model.safetensors": (
        "f0ae36cf4f4a120c8f3075fb62d895e4043ef690ad1a4829b234dd7334e7ebe9"
    ),
    "pocket/draft/model.safetensors": (
        "78c46d1a5e3ea9aa250485c435bd1fd6ec941522d26be427c9982ba0535f7444"
    ),
    "pocket/draft_undistilled/model.safetensors": (
        "d882971d8265a5312b19e90feccd9b38d8756a6bad0373695387ffba22fb704d"
    ),
    "pocket-mtp/target/model.safetensors": (
        "6c325a59190941edc332d5c9123037a85f4fe45e057869a82409720419e3b75f"
    ),
    "pocket-skip/target/model.safetensors": (
        "ab3bbb74ff980aa7ef4c15784c52cf3da8a801be9125f63725f66393f3229efe"
    ),
    "pocket/tokenizer.json": ("669404ccdfbec283ce4401c842ae4671b8652d1d11ceceb20384c791f04011da"),
}


@pytest.mark.parametrize("name", FROZEN)
def test_files_are_the_ones_that_were_measured(name: str) -> None:
    assert hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() == FROZEN[name]


def test_every_bundled_file_can_go_to_a_space() -> None:
    files = [path for path in ASSETS.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.stat().st_size < 10_000_000, path
