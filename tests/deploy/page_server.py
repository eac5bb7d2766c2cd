"""A small server on loopback that gives out recorded pages, and misbehaves when asked to."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent / "pages"


class PageServer(ThreadingHTTPServer):
    """Gives out pages by path; remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.pages: dict[str, bytes] = {}
        self.elsewhere = ""
        self.over = threading.Event()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PageServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Give out a page, or do what its name says."""
        self.server.asked.append((self.path, dict(self.headers)))
        self.close_connection = True
        name = self.path.strip("/").partition("?")[0]
        with contextlib.suppress(OSError):
            getattr(self, f"do_{name.replace('-', '_')}", self.page)()

    def page(self) -> None:
        """Give out a page set by the test, or a recorded one."""
        path = PAGES / f"{self.path.strip('/')}.txt"
        body = self.server.pages.get(self.path) or (path.read_bytes() if path.is_file() else None)
        if body is None:
            self.send_error(404)
            return
        self.head(200, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Write the beginning of an answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def do_slow_body(self) -> None:
        """Give a byte now and then, for ever."""
        self.head(200, {})
        while not self.server.over.is_set():
            self.wfile.write(b"#")
            self.wfile.flush()
            time.sleep(0.02)

    def do_slow_head(self) -> None:
        """Begin the head of an answer and drip."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.server.over.is_set():
            self.wfile.write(b"X-A: b\r\n"[:1])
            self.wfile.flush()
            time.sleep(0.02)

    def do_silent(self) -> None:
        """Never answer."""
        self.server.over.wait(10)

    def do_endless(self) -> None:
        """Give lines as fast as they go, for ever."""
        self.head(200, {})
        while not self.server.over.is_set():
            self.wfile.write(b"vllm:x 1\n" * 5_000)

    def do_bomb(self) -> None:
        """Give a small answer that would unpack to 50 MB."""
        body = gzip.compress(b"\0" * 50_000_000, 1)
        self.head(200, {"Content-Encoding": "gzip", "Content-Length": str(len(body))})
        self.wfile.write(body)

    def do_here(self) -> None:
        """Send on to a page of this server."""
        self.head(302, {"Location": "/vllm-1", "Content-Length": "0"})

    def do_there(self) -> None:
        """Send on to another server."""
        self.head(302, {"Location": self.server.elsewhere, "Content-Length": "0"})

    def do_round(self) -> None:
        """Send on to itself."""
        self.head(307, {"Location": "/round", "Content-Length": "0"})

    def do_key(self) -> None:
        """Want a key."""
        self.head(401, {"Content-Length": "0"})

    def do_garbage(self) -> None:
        """Answer as no web server does."""
        self.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")


@contextlib.contextmanager
def page_server() -> Iterator[PageServer]:
    """Run a server for the length of a block."""
    server = PageServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def page(name: str) -> str:
    """Return a recorded page."""
    return (PAGES / f"{name}.txt").read_text()


def by_name(values: Iterable[Any]) -> dict[str, float | None]:
    """Return values by their names."""
    return {value.name: value.value for value in values}
