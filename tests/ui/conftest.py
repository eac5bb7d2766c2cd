"""Browser fixtures: a server on a free port, one browser, pages that fail on errors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
BROWSER_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
START_TIMEOUT_S = 60.0


def free_port() -> int:
    """Return a TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Start a script that listens on $PORT; returns its address. A file's servers end with it."""
    started: list[subprocess.Popen] = []

    def start(script: Path, *arguments: str, **environment: str) -> str:
        port, folder = free_port(), tmp_path_factory.mktemp("server")
        log = folder / "log.txt"
        env = {
            **os.environ,
            "GRADIO_ANALYTICS_ENABLED": "False",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "GRADIO_TEMP_DIR": str(folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "PORT": str(port),
            **environment,
        }
        with log.open("w") as sink:
            process = subprocess.Popen(
                [sys.executable, str(script), *arguments],
                env=env,
                stdout=sink,
                stderr=sink,
                cwd=ROOT,
            )
        started.append(process)
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                pytest.fail(f"The server ended:\n{log.read_text()}")
            try:
                urllib.request.urlopen(url + "/gradio_api/startup-events", timeout=1).read()
                return url
            except OSError:
                time.sleep(0.1)
        pytest.fail(f"The server did not answer:\n{log.read_text()}")

    yield start
    for process in started:
        process.terminate()
    for process in started:
        process.wait(10)


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """One Chromium for the whole session."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"There is no browser at {CHROMIUM}; set CHROMIUM.")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_ARGS)
        yield chromium
        chromium.close()


@pytest.fixture
def player(browser) -> Iterator[Callable]:
    """Open players; the test fails if a page reported an error or lost the network's silence."""
    from tests.ui.player_harness import open_player

    pages = []

    def open_(message: str | None, **options):
        page = open_player(browser, message, **options)
        pages.append(page)
        return page

    yield open_
    problems = [problem for page in pages for problem in page.problems]
    for page in pages:
        page.context.close()
    assert not problems


@pytest.fixture
def open_page(browser) -> Iterator[Callable]:
    """Open addresses in fresh contexts; the test fails on any console error or foreign request."""
    problems: list[str] = []
    contexts = []

    def open_(url: str, **options):
        home = "/".join(url.split("/")[:3])
        settings = {"viewport": {"width": 1280, "height": 900}, "locale": "en-US", **options}
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: problems.append(f"page error: {error}"))
        page.on(
            "console",
            lambda message: (
                problems.append(f"console: {message.text}") if message.type == "error" else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                problems.append(f"foreign request: {request.url}")
                if not request.url.startswith((home, "data:", "blob:"))
                else None
            ),
        )
        page.goto(url, wait_until="domcontentloaded")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not problems, problems
