"""Fetching a page of metrics over loopback: only that address, in time, within bounds."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from speclab.core.errors import BadInput
from speclab.deploy.fetching import fetch_page, parse_address
from speclab.deploy.server_pages import between, read_page
from tests.deploy.page_server import PageServer, by_name, page, page_server

pytestmark = pytest.mark.usefixtures("at_home")


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
