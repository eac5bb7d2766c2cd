"""A server with the real pages over a made-up model: slow on purpose, needs no weights.

The made-up model "answers" with the words of its own prompt, so a test sees whose text it is.
"""

from __future__ import annotations

import base64
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from speclab.core.errors import BadInput, ModelUnavailable
from speclab.core.protocols import LocalText
from speclab.core.records import Round, Trace
from speclab.methods import METHODS
from speclab.stats.counters import banner, summarise
from speclab.ui.backend import Lab, PairCache
from speclab.ui.pages import build, launch_options
from speclab.ui.recorded import Recorded
from tests.ui.player_traces import chain_trace

ROUND_S = float(os.environ.get("FAKE_ROUND_S", "0.15"))
LOAD_S = float(os.environ.get("FAKE_LOAD_S", "0.5"))
MAX_PROMPT = 2_000


@dataclass(frozen=True, kw_only=True)
class FakeEntry:
    """Looks like an entry of the catalogue."""

    title: LocalText
    about: LocalText
    licence: str = "Apache-2.0"
    download_bytes: int = 0
    memory_bytes: int = 20_000_000
    bundled: bool = True


class FakeRun:
    """Looks like a live run."""

    def __init__(
        self, pair: Any, prompt: str, *, method: str, params: dict, rule: str, **given: Any
    ) -> None:
        if len(prompt) > MAX_PROMPT:
            raise BadInput(f"The prompt has {len(prompt)} characters; {MAX_PROMPT} fit.", "Cut it.")
        made = chain_trace(given["max_new_tokens"])
        words = prompt.split() or ["?"]
        pieces = {
            token: base64.b64encode(f" {words[i % len(words)]}".encode()).decode()
            for i, token in enumerate(made.pieces)
        }
        spec = replace(
            made.spec,
            method=method,
            params=params,
            rule=rule,
            pair="fake",
            sampling=given["sampling"],
            seed=given["seed"],
            max_new_tokens=given["max_new_tokens"],
        )
        self._rounds, self._cancelled = made.rounds, given["cancelled"]
        self._store, self._length = given.get("store"), len(prompt)
        self._trace = replace(made, spec=spec, rounds=(), pieces=pieces)

    def __iter__(self) -> Iterator[Round]:
        for index, round_ in enumerate(self._rounds):
            if self._cancelled():
                return
            time.sleep(ROUND_S)
            if index == len(self._rounds) - 1:
                round_ = replace(round_, stop_reason="max_new_tokens")
            self._trace = replace(self._trace, rounds=(*self._trace.rounds, round_))
            yield round_

    def trace(self) -> Trace:
        """The trace so far."""
        return self._trace

    def pieces(self, rounds: Sequence[Round]) -> dict[str, str]:
        """The bytes of every token."""
        return self._trace.pieces

    def close(self) -> None:
        """Leave a text to the session, as a live run does."""
        if self._store is not None:
            self._store.add((self._length,))


class FakeRecorded(Recorded):
    """A recording that lives in memory."""

    trace = chain_trace(80)  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class FakeHubModel:
    """Looks like the hub's answer."""

    weight_bytes: int = 1_200_000_000
    licence: str = "apache-2.0"


def ask_hub(repo: str) -> FakeHubModel:
    """Answer as the hub would; one name is out of reach."""
    if repo == "nobody/offline":
        raise ModelUnavailable(
            f"The hub could not be reached for {repo} (ConnectTimeout).",
            "Check the network.",
            code="hub_unreachable",
            values={"repo": repo, "kind": "ConnectTimeout"},
        )
    return FakeHubModel()


def load(name: str, progress: Callable[[str], None]) -> str:
    """Take a while, as loading does."""
    time.sleep(LOAD_S)
    return name


def fake_lab() -> Lab:
    """Return a lab that needs no weights."""
    entry = FakeEntry(
        title=LocalText("Pocket (5 M and 0.4 M)", "口袋模型（5 M 与 0.4 M）"),
        about=LocalText("A made-up pair for tests.", "测试用的虚构模型。"),
    )
    recorded = FakeRecorded(
        path=Path("story.json"),
        title=LocalText("Story", "讲故事"),
        method="draft-model",
        preset="story",
        date="2026-11-29",
    )
    return Lab(
        methods=METHODS,
        pairs={"pocket": entry},
        open_run=FakeRun,
        cache=PairCache(load),
        summarise=summarise,
        banner=banner,
        ask_hub=ask_hub,
        recorded={recorded.file: recorded},
    )


if __name__ == "__main__":
    build(fake_lab()).launch(server_port=int(os.environ["PORT"]), **launch_options())
