"""Details of one request, as an engine returns them."""

from __future__ import annotations

import json

import pytest

from speclab.core.errors import BadInput
from speclab.deploy.counts import counts_of_steps, numbers_of, positions_tested
from speclab.deploy.request_details import read_details
from tests.deploy.page_server import by_name

SUMMARY = {
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}


def wrapped(**fields: object) -> str:
    return json.dumps({"choices": [], "metrics": {"speculative_decoding": fields}})


def test_a_summary_gives_the_same_numbers_as_vllm() -> None:
    counts = read_details(wrapped(**SUMMARY))
    values = by_name(numbers_of(counts))
    length = SUMMARY["mean_acceptance_length"]
    assert values["mean_acceptance_length"] == pytest.approx(length)
    assert values["drafted_acceptance_rate"] == pytest.approx(SUMMARY["draft_acceptance_rate"])
    assert counts.per_position == (4, 3, 3)
    assert positions_tested(counts) == 43 + 4 + 3


def test_rows_by_length_and_steps_agree() -> None:
    rows = {"acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]}}
    by_rows = read_details(wrapped(**SUMMARY, **rows))
    accepted = [0] * 39 + [1] + [3] * 3
    steps = {"per_step_accepted": accepted, "per_step_drafted": [3] * 43}
    by_steps = read_details(json.dumps({**SUMMARY, **steps}))
    for counts in (by_rows, by_steps):
        assert (counts.drafted, counts.accepted, counts.tested) == (129, 10, 50)
        assert counts.per_position == (4, 3, 3)
    varied = counts_of_steps([0, 2, 1], [0, 2, 3])
    assert (varied.drafting_rounds, varied.rounds, varied.tested) == (2, 3, 4)
    assert varied.per_position == (2, 1, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        "{" * 100_000,
        '{"metrics": {"speculative_decoding": null}}',
        wrapped(num_spec_steps=-1, num_draft_tokens=1, num_accepted_draft_tokens=1),
        wrapped(num_spec_steps=1.5, num_draft_tokens=1, num_accepted_draft_tokens=1),
        wrapped(**{**SUMMARY, "acceptance_histogram": [1, 1]}),
        wrapped(**SUMMARY, per_step_accepted=[3], per_step_drafted=[2]),
        wrapped(**SUMMARY, per_step_accepted=[1], per_step_drafted=[]),
        wrapped(**SUMMARY, per_step_accepted="11", per_step_drafted=[1]),
        wrapped(**SUMMARY, acceptance_histogram_by_draft_length={"3": [1]}),
        wrapped(**SUMMARY, acceptance_histogram_by_draft_length={"x": [1]}),
        wrapped(**SUMMARY, acceptance_histogram_by_draft_length={"0000003": [1, 1]}),
        wrapped(**SUMMARY, acceptance_histogram_by_draft_length={"1" * 5_000: [1]}),
        wrapped(num_spec_steps=float("nan")),
        " " * 2_000_001,
    ],
    ids=range(18),
)
def test_what_is_no_detail_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="no details of one request"):
        read_details(text)
