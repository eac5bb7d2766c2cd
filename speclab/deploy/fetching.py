"""Asks one address that a person typed for one page: bounded in time and size, and nothing else.

No proxy is asked, no credentials are sent, no other host is followed, nothing is decompressed.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from speclab.core.errors import BadInput
from speclab.models.catalogue import on_space

TIME_LIMIT_S = 5.0
MOST_BYTES = 4 * 1024**2
MOST_REDIRECTS = 3
MOST_ADDRESS_CHARS = 2_000
HINT = "An address looks like http://127.0.0.1:8000/metrics."


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to ask.

    Attributes:
        secure: https. host: as the socket wants it. port. path: with the query.
        whole: as typed. shown: its beginning, for people.
    """

    secure: bool
    host: str
    port: int
    path: str
    whole: str
    shown: str

    def same_server(self, other: Address) -> bool:
        """Whether another address is of the same scheme, host and port."""
        mine = (self.secure, self.host.lower(), self.port)
        return mine == (other.secure, other.host.lower(), other.port)


def check_reading_allowed() -> None:
    """Refuse to ask any address on a public Space.

    Raises:
        BadInput: with the reason.
    """
    if on_space() or os.environ.get("SPACE_ID"):
        raise BadInput(
            "Reading a server is switched off on a Space: it would ask addresses for anyone.",
            "Run SpecLab beside your server, or paste the page of its metrics.",
            code="metrics_space",
        )


def parse_address(address: str) -> Address:
    """Check an address.

    Raises:
        BadInput: naming what is wrong with it.
    """
    plain = address.strip()
    shown = plain[:120]
    if not plain:
        raise BadInput("There is no address.", HINT, code="metrics_empty")
    odd = any(char.isspace() or not char.isprintable() for char in plain)
    if len(plain) > MOST_ADDRESS_CHARS or odd or "\\" in plain:
        raise _malformed(shown)
    try:
        parts = urlsplit(plain)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _malformed(shown) from None
    if parts.scheme.lower() not in ("http", "https"):
        raise BadInput(
            f"Only http and https addresses are read, not {shown!r}.",
            HINT,
            code="metrics_scheme",
            values={"address": shown},
        )
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise BadInput(
            "The address holds a user name or password; SpecLab sends none.",
            "Leave out everything before the @.",
            code="metrics_credentials",
        )
    if not host or port == 0:
        raise _malformed(shown)
    secure = parts.scheme.lower() == "https"
    path = (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else "")
    try:
        path.encode("ascii")
        name = _ascii_host(host)
    except UnicodeError:
        raise _malformed(shown) from None
    return Address(
        secure=secure,
        host=name,
        port=port or (443 if secure else 80),
        path=path,
        whole=plain,
        shown=shown,
    )


def _ascii_host(host: str) -> str:
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host.encode("idna").decode("ascii")


def _malformed(shown: str) -> BadInput:
    return BadInput(
        f"{shown!r} is not an address.",
        HINT,
        code="metrics_malformed",
        values={"address": shown},
    )


def fetch_page(
    address: str, *, time_limit_s: float = TIME_LIMIT_S, most_bytes: int = MOST_BYTES
) -> str:
    """Return the text of a page; characters that are not UTF-8 become U+FFFD.

    Args:
        address: that the person typed. time_limit_s: for everything, names and redirects included.
        most_bytes: of the page.

    Raises:
        BadInput: on a Space, for a bad address, or for whatever went wrong, as a sentence.
    """
    check_reading_allowed()
    visit = _Visit(parse_address(address), time_limit_s, most_bytes)
    return visit.page().decode("utf-8", errors="replace")


class _Connection(http.client.HTTPConnection):
    """A connection that is not opened once its visit is given up, however long the name took."""

    def __init__(self, here: Address, time_limit_s: float, check_time: Callable[[], None]) -> None:
        super().__init__(here.host, here.port, timeout=time_limit_s)
        self.default_port = 443 if here.secure else 80
        self._secure, self._check_time = here.secure, check_time

    def connect(self) -> None:
        """Ask for the name once and try its addresses in turn."""
        error: OSError = OSError(f"{self.host} has no address")
        for family, kind, proto, _, place in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            self._check_time()
            self.sock = socket.socket(family, kind, proto)
            self.sock.settimeout(self.timeout)
            self._check_time()
            try:
                self.sock.connect(place)
                break
            except OSError as failed:
                self.sock.close()
                error = failed
        else:
            raise error
        if self._secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)
        self._check_time()


class _Visit:
    """One page, asked for in a thread of its own so that the time limit holds whatever happens."""

    def __init__(self, address: Address, time_limit_s: float, most_bytes: int) -> None:
        self.address, self.time_limit_s, self.most_bytes = address, time_limit_s, most_bytes
        self._connection: _Connection | None = None
        self._given_up = threading.Event()
        self._page = b""
        self._error: BaseException | None = None

    def page(self) -> bytes:
        thread = threading.Thread(target=self._run, daemon=True, name="metrics")
        thread.start()
        thread.join(self.time_limit_s)
        if thread.is_alive():
            self._given_up.set()
            self._hang_up()
            raise self._too_late()
        if isinstance(self._error, BadInput):
            raise self._error
        if self._error is not None:
            raise self._sentence(self._error) from self._error
        return self._page

    def _run(self) -> None:
        try:
            self._page = self._ask()
        except Exception as error:
            self._error = error
        finally:
            self._close()

    def check_time(self) -> None:
        """Stop the thread if nobody waits for it any more.

        Raises:
            TimeoutError: if the time is over.
        """
        if self._given_up.is_set():
            raise TimeoutError

    def _hang_up(self) -> None:
        """End whatever the thread waits for."""
        sock = getattr(self._connection, "sock", None)
        with suppress(OSError, ValueError):
            if sock is not None:
                sock.shutdown(socket.SHUT_RDWR)

    def _close(self) -> None:
        with suppress(OSError, ValueError):
            if self._connection is not None:
                self._connection.close()

    def _ask(self) -> bytes:
        here = self.address
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._answer(here)
            if answer.status not in (301, 302, 303, 307, 308):
                return self._body(answer)
            there = parse_address(urljoin(here.whole, answer.headers.get("Location", "")))
            if not there.same_server(self.address):
                raise BadInput(
                    f"The server sends on to {there.shown!r}, which is another address.",
                    "Type that address if you trust it.",
                    code="metrics_redirect",
                    values={"address": there.shown},
                )
            self._close()
            here = there
        raise BadInput(
            f"The server sends on more than {MOST_REDIRECTS} times.",
            "Type the address of the page itself.",
            code="metrics_redirects",
            values={"limit": MOST_REDIRECTS},
        )

    def _answer(self, here: Address) -> http.client.HTTPResponse:
        connection = _Connection(here, self.time_limit_s, self.check_time)
        self._connection = connection
        headers = {
            "Accept": "text/plain",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": "speclab",
        }
        connection.request("GET", here.path, headers=headers)
        return connection.getresponse()

    def _body(self, answer: http.client.HTTPResponse) -> bytes:
        if answer.status != 200:
            raise self._status(answer.status)
        coding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if coding not in ("identity", ""):
            raise BadInput(
                f"The server sends the page compressed ({coding[:20]}) though plain text was "
                "asked for.",
                "Ask the server itself, not a proxy before it.",
                code="metrics_compressed",
                values={"coding": coding[:20]},
            )
        page = bytearray()
        while piece := answer.read1(65_536):
            self.check_time()
            page += piece
            if len(page) > self.most_bytes:
                raise BadInput(
                    f"The page is larger than {self.most_bytes:,} bytes.",
                    "Check the address: pages of metrics are smaller.",
                    code="metrics_large",
                    values={"limit": f"{self.most_bytes:,}"},
                )
        return bytes(page)

    def _status(self, status: int) -> BadInput:
        hints = {
            401: "It wants a key; SpecLab sends none.",
            403: "It refuses; SpecLab sends no key.",
            404: "Is the path right? Most engines answer at /metrics.",
            501: "llama.cpp answers only when started with --metrics.",
        }
        return BadInput(
            f"The server answered with status {status}.",
            hints.get(status, "Open the address in a browser to see more."),
            code="metrics_status",
            values={"status": status},
        )

    def _too_late(self) -> BadInput:
        return BadInput(
            f"{self.address.shown} did not give the page within {self.time_limit_s:g} s.",
            "Check that the server runs and the port is right.",
            code="metrics_late",
            values={"address": self.address.shown, "limit": f"{self.time_limit_s:g}"},
        )

    def _sentence(self, error: BaseException) -> BadInput:
        if isinstance(error, TimeoutError):
            return self._too_late()
        kind = "certificate" if isinstance(error, ssl.SSLError) else type(error).__name__
        if isinstance(error, http.client.HTTPException):
            return BadInput(
                f"{self.address.shown} does not answer as a web server does ({kind}).",
                "Check the port; https servers need https:// in front.",
                code="metrics_not_http",
                values={"address": self.address.shown, "kind": kind},
            )
        return BadInput(
            f"{self.address.shown} cannot be reached ({kind}).",
            "Check that the server runs and the port is right.",
            code="metrics_unreachable",
            values={"address": self.address.shown, "kind": kind},
        )
