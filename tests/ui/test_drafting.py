"""The header of the player names what drafted: the draft model, the head, or neither."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from speclab.ui import messages
from speclab.ui.backend import default_lab


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("draft-model", {"kind": "draft_model"}),
        ("eagle-2", {"kind": "head", "label": "head", "name": "eagle1"}),
        ("eagle-3", {"kind": "head", "label": "head", "name": "eagle3"}),
        ("medusa", {"kind": "head", "label": "head", "name": "medusa"}),
        ("prompt-lookup", {"kind": "none"}),
        ("autoregressive", {"kind": "none"}),
        ("of-a-plug-in", None),
    ],
)
def test_a_run_says_what_drafted(method: str, expected: dict[str, str] | None) -> None:
    lab = default_lab()
    trace = lab.recorded["pocket-story-draft-model.json"].trace
    trace = replace(trace, spec=replace(trace.spec, method=method))
    message = json.loads(messages.load_message(lab, trace, "en", badge=""))
    assert message["drafting"] == expected
    assert messages.drafting(lab, trace, "zh") == (
        {**expected, "label": "草稿头"} if expected and "label" in expected else expected
    )
