"""A prediction on a real pair: every method takes part, both halves predict each other."""

from __future__ import annotations

import json

import pytest

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.lab.measuring import BASELINE
from speclab.lab.prediction_run import PredictionPlan, PredictionRun, labels_of, usual_labels
from speclab.methods import METHODS


def test_both_halves_predict_each_other(pocket) -> None:
    labels = (
        "draft-model:num_speculative_tokens=3",
        "prompt-lookup:num_speculative_tokens=3",
        "medusa:num_heads=3:tree_nodes=6",
    )
    plan = PredictionPlan(
        labels=labels, temperatures=(0.0,), num_prompts=4, max_new_tokens=8, passes=1
    )
    work = PredictionRun(pocket, plan)
    assert work.report()["rows"] == []
    assert list(work) == [(done, 4) for done in (1, 2, 3, 4)]
    report = work.report()
    assert json.loads(json.dumps(report)) == report
    assert report["complete"] and report["num_requests"] == [2, 2]
    assert [(row["fold"], row["label"]) for row in report["rows"]] == [
        (fold, label) for fold in (0, 1) for label in labels
    ]
    assert {row["shape"] for row in report["rows"]} == {"chain", "tree"}
    for row in report["rows"]:
        assert row["predicted"]["speedup"] > 0 and 1.0 <= row["predicted"]["tau"] <= 8.0
        error = row["predicted"]["speedup"] / row["measured"]["speedup"] - 1.0
        assert row["error"]["positions"] == pytest.approx(error, abs=1e-3)
    assert set(report["by_method"]) == {"draft-model", "prompt-lookup", "medusa"}
    assert set(report["median_error"]) == {"positions", "iid", "formula"}


def test_every_method_of_a_pair_is_predicted(pocket) -> None:
    labels, skipped = usual_labels(pocket)
    there = {label.partition(":")[0] for label in labels}
    assert there | set(skipped) | {BASELINE} == set(METHODS)
    assert {"draft-model", "prompt-lookup", "draft-tree", "medusa", "eagle-3"} <= there
    assert all(labels_of(method) for method in METHODS if method != BASELINE)


def test_what_a_pair_cannot_run_is_refused(pocket) -> None:
    with pytest.raises(UnsupportedModel, match="mtp"):
        PredictionRun(pocket, PredictionPlan(labels=("mtp",)))
    for changed, word in (
        ({"num_prompts": 1}, "num_prompts"),
        ({"labels": ("nope",)}, "nope"),
        ({"temperatures": ()}, "temperature"),
    ):
        with pytest.raises(BadInput, match=word):
            PredictionPlan(**changed)
