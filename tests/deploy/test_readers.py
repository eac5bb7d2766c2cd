"""Readers of engines: recorded pages over loopback, details of a request, a Parquet log."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from speclab.core.errors import BadInput
from speclab.core.glossary import number_named
from speclab.deploy.counts import Counts, counts_of_steps, numbers_of, positions_tested
from speclab.deploy.exposition import read_samples
from speclab.deploy.fetching import fetch_page, parse_address
from speclab.deploy.request_details import read_details
from speclab.deploy.server_pages import between, read_page, reading_from
from speclab.deploy.specspecs import counts_of_rows, read_log
from tests.deploy.page_server import PAGES, PageServer, page_server


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with page_server() as running:
        yield running


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SYSTEM", "SPACE_ID"):
        monkeypatch.delenv(name, raising=False)


def page(name: str) -> str:
    return (PAGES / f"{name}.txt").read_text()


def by_name(values) -> dict[str, float | None]:
    return {value.name: value.value for value in values}


# --- pages ----------------------------------------------------------------------------------------


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


# --- the wire -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("", "metrics_empty"),
        ("file:///etc/passwd", "metrics_scheme"),
        ("ftp://127.0.0.1/metrics", "metrics_scheme"),
        ("gopher://127.0.0.1:70/", "metrics_scheme"),
        ("127.0.0.1:8000/metrics", "metrics_scheme"),
        ("//127.0.0.1/metrics", "metrics_scheme"),
        ("http://user:secret@127.0.0.1/metrics", "metrics_credentials"),
        ("http://user@127.0.0.1/metrics", "metrics_credentials"),
        ("http://@127.0.0.1/metrics", "metrics_credentials"),
        ("http://", "metrics_malformed"),
        ("http://[::1/metrics", "metrics_malformed"),
        ("http://127.0.0.1:99999/", "metrics_malformed"),
        ("http://127.0.0.1:0/", "metrics_malformed"),
        ("http://a b/metrics", "metrics_malformed"),
        ("http://a\r\nHost: evil/metrics", "metrics_malformed"),
        ("http://127.0.0.1\\@evil/metrics", "metrics_malformed"),
        ("http://127.0.0.1/\u202emetrics", "metrics_malformed"),
        ("http://" + "a" * 70 + ".example/", "metrics_malformed"),
        ("http://x/" + "a" * 2_000, "metrics_malformed"),
        ("http://127.0.0.1/mé", "metrics_malformed"),
    ],
)
def test_what_is_no_address(address: str, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        fetch_page(address)
    assert caught.value.code == code and "secret" not in str(caught.value)


def test_addresses_are_read_as_they_are_meant() -> None:
    plain = parse_address(" HTTP://LOCALHOST:8000 ")
    assert (plain.host, plain.port, plain.path, plain.secure) == (
        "localhost",
        8000,
        "/metrics",
        False,
    )
    six = parse_address("https://[::1]/m?x=1")
    assert (six.host, six.port, six.path, six.secure) == ("::1", 443, "/m?x=1", True)
    assert parse_address("http://bücher.example/").host == "xn--bcher-kva.example"


def test_ipv6_is_asked() -> None:
    with pytest.raises(BadInput, match=r"\[::1\]:1/metrics cannot be reached"):
        fetch_page("http://[::1]:1/metrics")


def test_only_the_address_is_asked_and_nothing_is_forwarded(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    server.asked.clear()
    assert "vllm:" in fetch_page(f"{server.address}/vllm-1")
    ((path, headers),) = server.asked
    assert path == "/vllm-1"
    assert not {"Authorization", "Cookie", "Proxy-Authorization"} & set(headers)
    assert headers["Accept-Encoding"] == "identity"


def test_redirects_stay_on_the_server(server: PageServer) -> None:
    assert "vllm:" in fetch_page(f"{server.address}/here")
    with page_server() as other:
        server.elsewhere = f"{other.address}/vllm-1"
        with pytest.raises(BadInput, match="another address"):
            fetch_page(f"{server.address}/there")
        for place, code in (
            ("file:///etc/passwd", "metrics_scheme"),
            (server.address.replace("http", "https"), "metrics_redirect"),
            (f"http://me:you@127.0.0.1:{server.server_port}/vllm-1", "metrics_credentials"),
        ):
            server.elsewhere = place
            with pytest.raises(BadInput) as caught:
                fetch_page(f"{server.address}/there")
            assert caught.value.code == code
        assert not other.asked
    with pytest.raises(BadInput, match="more than 3 times"):
        fetch_page(f"{server.address}/round")


@pytest.mark.parametrize("path", ["slow-body", "slow-head", "silent"])
def test_a_slow_server_is_left_in_time(server: PageServer, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(BadInput, match=r"within 0\.3 s"):
        fetch_page(f"{server.address}/{path}", time_limit_s=0.3)
    assert time.monotonic() - started < 3


def test_no_connection_is_made_after_the_time_is_over(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = socket.getaddrinfo
    told = threading.Event()

    def slow_name(*args: object, **more: object) -> list:
        told.wait(5)
        return known("127.0.0.1", server.server_port, type=socket.SOCK_STREAM)

    monkeypatch.setattr(socket, "getaddrinfo", slow_name)
    server.asked.clear()
    with pytest.raises(BadInput, match=r"within 0\.05 s"):
        fetch_page(f"http://slow.example:{server.server_port}/vllm-1", time_limit_s=0.05)
    told.set()
    for thread in [one for one in threading.enumerate() if one.name == "metrics"]:
        thread.join(5)
        assert not thread.is_alive()
    assert not server.asked
    assert "vllm:" in fetch_page(f"http://known.example:{server.server_port}/vllm-1")


def test_pages_without_end_and_packed_ones_are_refused(server: PageServer) -> None:
    with pytest.raises(BadInput, match="larger than 100,000 bytes"):
        fetch_page(f"{server.address}/endless", most_bytes=100_000, time_limit_s=20)
    with pytest.raises(BadInput, match="compressed"):
        fetch_page(f"{server.address}/bomb", time_limit_s=20)


def test_other_answers_become_sentences(server: PageServer) -> None:
    for path, words in (("nothing", "status 404"), ("key", "SpecLab sends none")):
        with pytest.raises(BadInput) as caught:
            fetch_page(f"{server.address}/{path}")
        assert words in str(caught.value)
    with pytest.raises(BadInput, match="does not answer as a web server"):
        fetch_page(f"{server.address}/garbage")
    secure = server.address.replace("http", "https")
    with pytest.raises(BadInput, match=r"cannot be reached \(certificate\)"):
        fetch_page(f"{secure}/vllm-1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(BadInput, match="cannot be reached"):
        fetch_page(f"http://127.0.0.1:{port}/metrics")


def test_pages_that_are_not_utf_8_are_read_as_far_as_they_go(server: PageServer) -> None:
    server.pages["/latin"] = page("vllm-1").replace("Llama", "Ll\u00e4ma").encode("latin-1")
    values = by_name(between(None, read_page(fetch_page(f"{server.address}/latin"))).values)
    assert values["accepted_tokens"] == 166
    server.pages["/bytes"] = bytes(range(256)) * 40
    with pytest.raises(BadInput, match="no metrics"):
        read_page(fetch_page(f"{server.address}/bytes"))


@pytest.mark.parametrize(("name", "value"), [("SPACE_ID", "me/lab"), ("SYSTEM", "spaces")])
def test_nothing_is_asked_on_a_space(
    server: PageServer, monkeypatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    server.asked.clear()
    with pytest.raises(BadInput, match="switched off on a Space"):
        fetch_page(f"{server.address}/vllm-1")
    assert not server.asked


# --- details of a request -------------------------------------------------------------------------

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


# --- a log of specspecs ---------------------------------------------------------------------------


def row(sequence: str, step: int, draft: list[int], accepted: int, emitted: int) -> dict:
    flags = [i < accepted for i in range(len(draft))]
    return {
        "sequence_id": sequence,
        "step": step,
        "draft_tokens": draft,
        "acceptances": flags,
        "emitted_token": emitted,
    }


def test_rows_of_specspecs_become_counts() -> None:
    rows = [row("b", 0, [5, 6], 2, 9), row("a", 1, [7, 8, 9], 1, 3), row("a", 0, [1, 2], 0, 4)]
    counts = counts_of_rows(rows)
    assert (counts.drafting_rounds, counts.drafted, counts.accepted) == (3, 7, 3)
    assert counts.tested == 2 + 2 + 1 and counts.per_position == (2, 1, 0)


def test_a_pending_token_at_the_head_of_a_draft_is_no_draft() -> None:
    rows = [row("a", 0, [1, 2], 1, 4), row("a", 1, [4, 5, 6], 2, 7), row("a", 2, [7, 8], 1, 9)]
    counts = counts_of_rows(rows)
    assert (counts.drafted, counts.accepted) == (2 + 2 + 1, 1 + 1 + 0)
    rows[2]["draft_tokens"][0] = 99
    assert counts_of_rows(rows).drafted == 7, "not in every round, so it was a draft"


def test_damaged_logs_and_a_missing_package_are_told(tmp_path: Path, monkeypatch) -> None:
    bad = row("a", 0, [1, 2], 1, 4) | {"acceptances": [True]}
    with pytest.raises(BadInput, match="different lengths"):
        counts_of_rows([bad])
    with pytest.raises(BadInput, match="no file drafts"):
        read_log(tmp_path)
    (tmp_path / "drafts-1-00000.parquet").write_bytes(b"PAR1 not really")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadInput, match="pip install pyarrow"):
        read_log(tmp_path)


def test_a_real_parquet_log(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [row("a", 0, [1, 2], 1, 4), row("a", 1, [5, 6], 2, 7)]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "drafts-7-00000.parquet")
    assert read_log(tmp_path).accepted == 3
    parquet.write_table(arrow.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadInput, match="column sequence_id is missing"):
        read_log(tmp_path / "other.parquet")
    (tmp_path / "broken.parquet").write_bytes(os.urandom(99))
    with pytest.raises(BadInput, match="no log of specspecs"):
        read_log(tmp_path / "broken.parquet")


def test_counts_without_rounds_give_no_rates() -> None:
    assert by_name(numbers_of(Counts())) == {}
    empty = Counts(drafting_rounds=0, drafted=0, accepted=0)
    assert by_name(numbers_of(empty))["drafted_acceptance_rate"] is None
