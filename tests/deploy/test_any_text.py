"""Properties: whatever is typed, pasted or served, the answer is a result or a sentence."""

from __future__ import annotations

import ast
import contextlib
import json
import math
import shlex

from hypothesis import given, settings
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.deploy.counts import counts_of_steps, numbers_of, positions_tested
from speclab.deploy.engines import ENGINES
from speclab.deploy.fetching import parse_address
from speclab.deploy.lint import lint
from speclab.deploy.plans import Configuration, make_wish
from speclab.deploy.request_details import read_details
from speclab.deploy.server_pages import between, read_page

PIECES = st.sampled_from(
    (
        *("vllm serve m", "--speculative-config", "--spec-type", "'", '"', "\\", "\n", "$(", "`"),
        *(
            "{",
            "}",
            "[",
            "speculative_config={",
            '{"method":',
            "decoding_type:",
            "assistant_model=",
        ),
        *("(", ",", "=", "—", "\u200b", "-md", "--draft-max", "8", "sglang.launch_server"),
    )
)
PASTED = st.lists(PIECES | st.text(max_size=8), max_size=14).map(" ".join)
LINES = st.lists(
    st.sampled_from(
        (
            "vllm:spec_decode_num_drafts_total",
            'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"}',
            "sglang:spec_accept_rate{a=",
            *(" 1", " NaN", "\n", "{", "}", '"', "\\", "# {", " -1", " 1e300"),
        )
    )
    | st.text(max_size=5),
    max_size=16,
).map("".join)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=40))
def test_any_name_is_one_word_or_refused(name: str) -> None:
    try:
        wish = make_wish("draft-model", target=name, draft="d")
    except BadInput:
        return
    for engine in ("vllm", "sglang", "llama.cpp"):
        found = ENGINES[engine].configure(wish)
        assert isinstance(found, Configuration)
        assert wish.target in shlex.split(found.blocks[0].text)
    program = ENGINES["transformers"].configure(wish)
    assert isinstance(program, Configuration)
    tree = ast.parse(program.blocks[0].text)
    assert wish.target in {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}


@settings(max_examples=80, deadline=None)
@given(PASTED, st.sampled_from(["", *ENGINES]))
def test_any_command_gets_remarks_or_a_sentence(text: str, engine: str) -> None:
    with contextlib.suppress(BadInput):
        report = lint(text, engine)
        assert all(finding.text.zh for finding in report.findings)


@settings(max_examples=80, deadline=None)
@given(LINES)
def test_any_page_gives_numbers_or_a_sentence(text: str) -> None:
    with contextlib.suppress(BadInput):
        values = between(None, read_page(text)).values
        assert all(one.value is None or math.isfinite(one.value) for one in values)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60) | st.text(max_size=30).map(lambda tail: f"http://127.0.0.1{tail}"))
def test_any_address_is_plain_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        address = parse_address(text)
        assert 0 < address.port < 65_536 and "@" not in address.host
        assert address.path.isprintable() and address.path.isascii() and " " not in address.path


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_rounds_one_by_one_and_vllms_details_agree(rounds: list[tuple[int, int]]) -> None:
    drafted = [max(pair) for pair in rounds]
    accepted = [min(pair) for pair in rounds]
    counts = counts_of_steps(accepted, drafted)
    details = {"num_spec_steps": len(rounds)}
    details |= {"per_step_accepted": accepted, "per_step_drafted": drafted}
    assert read_details(json.dumps(details)) == counts
    assert sum(counts.per_position) == counts.accepted == sum(accepted)
    tested = positions_tested(counts)
    assert tested is not None and tested >= (counts.drafting_rounds or 0)
    alpha = [v.value for v in numbers_of(counts) if v.name == "acceptance_rate"]
    assert all(value is None or 0 <= value <= 1 for value in alpha)
