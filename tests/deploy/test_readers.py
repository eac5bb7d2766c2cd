"""Readers of an engine's metrics: recorded pages, what lies between two, what is no count."""

from __future__ import annotations

import json
import time

import pytest

from speclab.core.errors import BadInput
from speclab.core.glossary import number_named
from speclab.deploy.counts import Counts, counts_of_steps, numbers_of, positions_tested
from speclab.deploy.exposition import read_samples
from speclab.deploy.fetching import fetch_page
from speclab.deploy.server_pages import between, read_page, reading_from
from tests.deploy.page_server import PageServer, by_name, page

pytestmark = pytest.mark.usefixtures("at_home")


def test_vllm_since_the_start(server: PageServer) -> None:
    found = between(None, read_page(fetch_page(f"{server.address}/vllm-1")))
    values = by_name(found.values)
    assert found.engine == "vllm" and not found.notes
    assert values["num_drafting_rounds"] == 100 and values["drafted_tokens"] == 300
    assert values["accepted_tokens"] == 166 and values["discarded_tokens"] == 134
    assert values["drafted_acceptance_rate"] == pytest.approx(166 / 300)
    assert values["mean_acceptance_length"] == pytest.approx(2.66)
    assert values["block_efficiency"] == pytest.approx(280 / (280 - 166))
    assert values["acceptance_rate"] == pytest.approx(166 / (100 + 71 + 53))
    rates = [values[f"acceptance_rate_per_position[{i}]"] for i in (1, 2, 3)]
    assert rates == pytest.approx([0.71, 0.53, 0.42])
    notes = {value.name: value.note.en for value in found.values}
    assert notes["acceptance_rate_per_position[2]"].startswith("74.6 %")


def test_two_reads_give_what_happened_between_them(server: PageServer) -> None:
    first, second = (read_page(fetch_page(f"{server.address}/vllm-{i}")) for i in (1, 2))
    kept = reading_from(json.loads(json.dumps(first.to_data())))
    assert kept.to_data() == first.to_data()
    values = by_name(between(kept, second).values)
    assert values["num_drafting_rounds"] == 250 and values["accepted_tokens"] == 450
    assert values["mean_acceptance_length"] == pytest.approx(1 + 450 / 250)
    assert values["acceptance_rate"] == pytest.approx(450 / (250 + 200 + 140))
    assert values["acceptance_rate_per_position[3]"] == pytest.approx(110 / 250)


def test_llama_cpp_with_drafts_of_several_lengths_tells_no_alpha() -> None:
    found = between(None, read_page(page("llamacpp")))
    values = by_name(found.values)
    assert found.engine == "llama.cpp"
    assert values["mean_acceptance_length"] == pytest.approx(2.2)
    assert values["acceptance_rate"] is None
    assert any("several lengths" in value.note.en for value in found.values)


def test_alpha_is_told_only_where_every_draft_had_the_greatest_length() -> None:
    mixed = counts_of_steps([1, 1], [1, 3])
    alpha = by_name(numbers_of(mixed))["acceptance_rate"]
    assert alpha == pytest.approx(2 / 3)
    seen = {"drafting_rounds": 2, "drafted": 4, "accepted": 2}
    for every in (False, True):
        known = Counts(**seen, per_position=(2, 0, 0), every_position=every)
        assert positions_tested(known) is None, "lengths 1 and 3 look like 2 and 2"
    assert positions_tested(Counts(**seen, per_position=(2, 0))) is None, "a series may be missing"
    even = Counts(**seen, per_position=(2, 0), every_position=True)
    assert positions_tested(even) == counts_of_steps([1, 1], [2, 2]).tested == 4
    text = page("vllm-1").replace("vllm:", "llamacpp:")
    assert by_name(between(None, read_page(text)).values)["acceptance_rate"] is None


def test_sglang_counts_and_reports() -> None:
    first, second = (read_page(page(f"sglang-{i}")) for i in (1, 2))
    found = between(first, second)
    counted = {v.name: v.value for v in found.values if v.badge == "counted"}
    reported = {v.name: v.value for v in found.values if v.badge == "reported"}
    assert counted["num_rounds"] == 200 and counted["emitted_tokens"] == 600
    assert counted["block_efficiency"] == pytest.approx(3.0)
    assert reported["mean_acceptance_length"] == pytest.approx(3.05)
    assert "block_efficiency" not in reported, "its own mean of one interval is no tau"
    assert reported["speculative_num_draft_tokens"] == 8
    notes = {v.name: v.note.en for v in found.values if v.badge == "reported"}
    assert notes["drafted_acceptance_rate"] == notes["mean_acceptance_length"]
    assert "interval" in notes["drafted_acceptance_rate"] and "tree" not in str(notes)


def test_every_number_is_in_the_glossary_or_a_setting_of_the_engine() -> None:
    for name in ("vllm-1", "llamacpp", "sglang-1"):
        for value in between(None, read_page(page(name))).values:
            own = value.name.startswith("speculative_")
            assert own or number_named(value.name) is not None, value.name


def test_a_restart_between_the_reads_is_told() -> None:
    first, second = read_page(page("vllm-2")), read_page(page("vllm-1"))
    found = between(first, second)
    assert "restarted" in found.notes[0].en and by_name(found.values)["accepted_tokens"] == 166
    spoilt = read_page(page("vllm-2").replace("} 616.0", "} NaN"))
    (note,) = between(second, spoilt).notes
    assert "restarted" not in note.en and "num_accepted_tokens_total" in note.en


def test_nothing_between_two_reads_is_no_number() -> None:
    reading = read_page(page("vllm-1"))
    found = between(reading, reading)
    values = by_name(found.values)
    assert values["drafted_acceptance_rate"] is None and "mean_acceptance_length" not in values
    assert "Nothing was drafted" in found.notes[0].en


def test_values_that_are_no_counts_are_left_out_by_name() -> None:
    for bad in ("NaN", "+Inf", "-3.0", "1e400", "x"):
        text = page("vllm-1").replace("} 166.0", f"}} {bad}")
        found = between(None, read_page(text))
        assert "accepted_tokens" not in by_name(found.values)
        assert bad == "x" or "num_accepted_tokens_total" in found.notes[0].en
    nan = "sglang:spec_accept_length NaN\nsglang:spec_verify_calls_total 4\n"
    assert "spec_accept_length" in between(None, read_page(nan)).notes[0].en
    more = page("vllm-1").replace("} 166.0", "} 500.0")
    assert any("contradict" in note.en for note in between(None, read_page(more)).notes)


def test_series_add_up_and_gauges_that_differ_are_left_out() -> None:
    text = "".join(
        f'vllm:spec_decode_num_drafts_total{{engine="{i}",model_name="m{i}"}} {10 + i}.0\n'
        for i in range(2)
    )
    found = between(None, read_page(text))
    assert by_name(found.values)["num_drafting_rounds"] == 21
    assert "m0, m1" in found.notes[0].en
    ranks = "".join(f'sglang:spec_accept_length{{dp_rank="{i}"}} {2 + i}\n' for i in range(2))
    found = between(None, read_page(ranks))
    assert not found.values and "sglang:spec_accept_length" in found.notes[0].en


def test_positions_are_bounded_and_legacy_names_ignored() -> None:
    text = page("vllm-1") + "".join(
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{p}"}} 7\n'
        for p in ("-1", "x", "999999999999", "²", "128", "000001100000", "9" * 5_000)
    )
    assert len(read_page(text).per_position) == 3
    old = "vllm:spec_decode_draft_acceptance_rate 0.5\nvllm:spec_decode_efficiency 0.4\n"
    with pytest.raises(BadInput, match="without speculation"):
        read_page(old)


def test_labels_with_braces_quotes_and_exemplars() -> None:
    line = 'vllm:a_total{model_name="x\\"}{\\\\ \\n",position="3"} 5 1700000000 # {id="q"} 9 1.0'
    (sample,) = read_samples(f"# HELP x\n{line}\nnot a line\n{{}} 3\nvllm:b\n", lambda name: True)
    assert sample.value == 5 and sample.labels == {"model_name": 'x"}{\\ \n', "position": "3"}
    started = time.monotonic()
    read_samples('a{b="' + "\\" * 7_000 + "\n" + "a{" * 3_000 + "\n" + "a " * 3_000, bool)
    long = "vllm:x{" + "a" * 7_900 + "} 1\n"
    assert [sample.labels for sample in read_samples(long * 20, bool)] == [{}] * 20
    assert time.monotonic() - started < 5
    (cut,) = read_samples('a{b="1",c d="2",e="3"} 1', bool)
    assert cut.labels == {"b": "1"}, "whatever follows what is no label is left alone"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no metrics"),
        ("<!doctype html><p>vllm</p>", "web page"),
        ("process_cpu_seconds_total 3\n", "no metrics"),
        ("vllm:num_requests_running 1\n", "runs vllm without speculation"),
        ("llamacpp:n_decode_total 1\n", "--spec-type and --metrics"),
        ("\ufffd\ufffd\x00", "no metrics"),
    ],
)
def test_pages_without_counters_say_what_to_do(text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_page(text)
    assert words in str(caught.value)


def test_pages_are_bounded() -> None:
    with pytest.raises(BadInput, match="200,001 lines"):
        read_page("\n" * 200_001)


def test_two_engines_cannot_be_compared() -> None:
    with pytest.raises(BadInput, match="first read is of vllm, the second of sglang"):
        between(read_page(page("vllm-1")), read_page(page("sglang-1")))


@pytest.mark.parametrize(
    "broken",
    [
        {"engine": "x"},
        {"engine": "vllm", "counters": {"drafted": -1}},
        {"engine": "vllm", "counters": {"drafted": 1.5}},
        {"engine": "vllm", "counters": {"drafted": True}},
        {"engine": "vllm", "counters": []},
        {"engine": "vllm", "counters": {}, "per_position": ["1"]},
        [],
        None,
    ],
)
def test_a_reading_that_a_browser_changed_is_refused(broken: object) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        reading_from(broken)


def test_counts_without_rounds_give_no_rates() -> None:
    assert by_name(numbers_of(Counts())) == {}
    empty = Counts(drafting_rounds=0, drafted=0, accepted=0)
    assert by_name(numbers_of(empty))["drafted_acceptance_rate"] is None
