"""Trained heads in the repository: whole, small enough, for the target they name, and some use."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from speclab.models.catalogue import load_pair
from speclab.models.heads.shelf import LOADERS
from speclab.models.pair import Pair
from speclab.models.weight_files import ASSETS

FOLDERS = sorted(path.parent for path in (ASSETS / "heads").glob("*/*/manifest.json"))
POCKET = [folder.name for folder in FOLDERS if folder.parent.name == "pocket"]
MOST_BYTES_PER_TARGET = 40_000_000


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


def test_there_are_heads_and_each_kind_has_a_loader() -> None:
    assert {"medusa", "hydra"} <= set(POCKET)
    assert {folder.name for folder in FOLDERS} <= LOADERS.keys()


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}"
)
def test_files_are_those_of_the_manifest(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    there = {path.name for path in folder.iterdir()} - {"manifest.json"}
    assert there == manifest["files"].keys()
    for name, facts in manifest["files"].items():
        data = (folder / name).read_bytes()
        assert len(data) == facts["bytes"] < 10_000_000
        assert hashlib.sha256(data).hexdigest() == facts["sha256"]
    assert manifest["training"]["step"] > 0 and manifest["licence"] == "Apache-2.0"


def test_heads_of_one_target_stay_within_their_budget() -> None:
    for target in {folder.parent for folder in FOLDERS}:
        total = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        assert total <= MOST_BYTES_PER_TARGET, target.name


@pytest.mark.parametrize("name", ["medusa", "hydra"])
def test_accuracies_are_laws_and_better_than_chance(pocket: Pair, name: str) -> None:
    head = pocket.heads[name]
    table = head.accuracies
    assert len(table) == head.num_heads == 4
    for ranks in table:
        assert len(ranks) == 10 and 0.0 < sum(ranks) <= 1.0
        assert ranks[0] == max(ranks) > 0.1
