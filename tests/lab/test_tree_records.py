"""Records of real trees: what the page draws of them is there, and they stay small."""

from __future__ import annotations

import pytest

from speclab.core.records import Trace
from speclab.lab.presets import PRESETS
from speclab.lab.record_traces import EXTRA, record
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair

BYTES_PER_TOKEN = 3_000


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


@pytest.mark.parametrize(("preset", "method"), EXTRA[-2:])
def test_a_recorded_tree_is_whole_and_small(pocket: Pair, preset: str, method: str) -> None:
    trace = record(pocket, PRESETS[preset], method)
    text = trace.to_json()
    assert len(text.encode()) <= BYTES_PER_TOKEN * len(trace.emitted)
    assert Trace.from_json(text) == trace
    assert any(not round_.tree.is_chain for round_ in trace.rounds)
    mentioned = {str(token) for item in all_evidence(trace) for token in item.tokens}
    assert mentioned <= trace.pieces.keys(), "a candidate without a name cannot be drawn"


def test_a_dynamic_tree_records_every_level_it_looked_at(pocket: Pair) -> None:
    trace = record(pocket, PRESETS["story"], "eagle-3")
    params = trace.spec.params
    for round_ in trace.rounds:
        grown = [item for item in round_.evidence if item.kind == "grown"]
        if not len(round_.tree):
            assert grown == []
            continue
        (item,) = grown
        depths = list(round_.tree.position_offsets)
        for parent in item.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        fed = [depths[place] for place in item.expanded]
        assert fed == sorted(fed)
        assert all(fed.count(level) <= params["top_k"] for level in fed)
        assert round_.num_draft_forwards == 1 + len(set(fed))
        looked_at = len(depths) + int(item.value)
        assert looked_at == params["top_k"] * (1 + len(item.expanded))


def all_evidence(trace: Trace) -> list:
    return [item for round_ in trace.rounds for item in round_.evidence]
