"""Batch passes: the right rows, every place timed, and where speculation stops helping."""

from __future__ import annotations

import json

import numpy as np
import pytest

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.theory import expected_tokens, walltime_speedup
from speclab.core.trees import TokenTree
from speclab.lab.batch_passes import (
    BatchPasses,
    BatchPlan,
    batch_pass,
    batched,
    speed_by_batch,
    stops_helping_at,
    verify_at,
    whole_batches,
)
from speclab.models.toy_pair import load_toy


def report_of(seconds: dict[int, list[float]], draft_s: float) -> dict:
    """Return a report with the given seconds by batch, for 1, 2, ... tokens."""
    width = len(next(iter(seconds.values())))
    return {
        "plan": {"tokens": list(range(1, 1 + width))},
        "target_s": {
            str(batch): {str(n + 1): each for n, each in enumerate(row)}
            for batch, row in seconds.items()
        },
        "draft_s": {str(batch): draft_s for batch in seconds},
    }


def test_rows_are_those_of_a_session(pocket) -> None:
    import torch

    llama = pocket.target.new_cache().llama
    context, new = list(range(30, 42)), [50, 60, 70]
    room = (len(llama.layers), 2, 2, llama.kv_heads, len(context) + len(new), llama.head_dim)
    held = torch.zeros(room)
    both = torch.tensor([context, context[::-1]])
    batch_pass(llama, held[:, :, :, :, : len(context)], both, 0)
    rows = batch_pass(llama, held, torch.tensor([new, new]), len(context)).numpy()
    for place, prompt in enumerate((context, context[::-1])):
        session = pocket.target.open([*prompt, new[0]])
        scores = session.score(TokenTree.chain(new[1:]))
        expected = np.array([scores.row(i).logits for i in range(3)])
        np.testing.assert_allclose(rows[place], expected, rtol=1e-3, atol=1e-3)


def test_every_place_is_timed(pocket) -> None:
    plan = BatchPlan(batches=(1, 2), tokens=(1, 3), context=8, passes=1)
    work = BatchPasses(pocket, plan)
    assert list(work)[-1] == (6, 6)
    report = work.report()
    assert json.loads(json.dumps(report)) == report and report["complete"]
    assert set(report["target_s"]) == set(report["draft_s"]) == {"1", "2"}
    assert all(second > 0 for row in report["target_s"].values() for second in row.values())
    assert whole_batches(report) == [1, 2]
    asked = []
    early = BatchPasses(pocket, plan, stopped=lambda: bool(asked.append(1)) or len(asked) > 3)
    list(early)
    assert not early.report()["complete"] and whole_batches(early.report()) == [1]


def test_speed_is_the_closed_form_on_measured_passes() -> None:
    report = report_of({1: [1.0, 1.1, 1.2, 1.3], 32: [4.0, 8.0, 12.0, 16.0]}, 0.2)
    alone, crowd = speed_by_batch(report, lambda gamma: expected_tokens(0.8, gamma))
    assert alone.speedup == pytest.approx(
        [walltime_speedup(0.8, g, 0.2, lambda n: 1 + 0.1 * (n - 1)) for g in (1, 2, 3)]
    )
    assert alone.best_gamma == 3 and crowd.best_gamma == 0
    assert crowd.cost_ratio == pytest.approx(0.05)
    assert crowd.tokens_per_s == crowd.plain_tokens_per_s == 8.0
    assert stops_helping_at([alone, crowd]) == 32
    assert stops_helping_at([alone]) is None
    assert verify_at(report, 32)(3) == 3.0
    free = speed_by_batch(report, lambda gamma: expected_tokens(0.8, gamma), free=True)
    assert free[0].speedup[0] == pytest.approx(1.8 / 1.1)


def test_a_bad_plan_or_model_is_refused() -> None:
    for changed, word in (
        ({"batches": (0,)}, "batches"),
        ({"tokens": (2, 3)}, "first"),
        ({"tokens": (1,)}, "two at least"),
        ({"tokens": (1, 8, 4)}, "1, 8, 4"),
        ({"tokens": (1, 2, 2)}, "ascend"),
        ({"batches": (4, 1)}, "4, 1"),
        ({"context": 0}, "context"),
    ):
        with pytest.raises(BadInput, match=word):
            BatchPlan(**changed)
    with pytest.raises(UnsupportedModel, match="plain Llama"):
        batched(load_toy().target)
