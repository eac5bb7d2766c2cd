"""A live run as a stream of updates: queue, load, prefill, rounds, end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from speclab.core.earlier_texts import TextStore
from speclab.core.errors import NotEnoughMemory, SpeclabError
from speclab.core.records import Round, Trace
from speclab.ui import messages
from speclab.ui.backend import GPU_S, Lab, keeps_texts, on_zero_gpu, wait
from speclab.ui.custom import check_allowed
from speclab.ui.session_texts import SessionTexts
from speclab.ui.settings import Settings
from speclab.ui.texts import WORDS
from speclab.ui.texts_errors import sentence

LOG = logging.getLogger(__name__)
FLUSH_S = 0.1
"""Seconds between two messages to the browser: the player redraws in less."""


class StopFlag:
    """One visitor's wish to stop; lives in the visitor's session."""

    def __init__(self) -> None:
        self.raised = False
        self.running = False


class Stopped(Exception):
    """The visitor pressed Stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What changes on the page; None leaves a part as it is."""

    player: str | None = None
    status: str


def on_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap for ZeroGPU when the lab runs there; otherwise return the function itself."""
    if not on_zero_gpu():
        return function
    try:
        import spaces
    except ImportError:
        return function
    return spaces.GPU(duration=GPU_S)(function)


Snapshot = tuple[Trace | None, tuple[Round, ...], dict[str, str]]
"""The run's head (first only), the rounds that are new, and the bytes of the tokens in them."""


def decode(
    lab: Lab, settings: Settings, stop: StopFlag, store: TextStore | None = None
) -> Iterator[Snapshot]:
    """Yield the head of the trace after prefill, then every round."""
    kept: dict[str, Any] = {} if store is None else {"store": store}
    run = lab.open_run(
        lab.cache.get(settings.pair),
        settings.prompt,
        method=settings.method,
        params=settings.params,
        rule=settings.rule,
        sampling=settings.sampling,
        seed=settings.seed,
        max_new_tokens=settings.max_new_tokens,
        chat=settings.chat,
        cancelled=lambda: stop.raised,
        **kept,
    )
    try:
        yield run.trace(), (), {}
        for round_ in run:
            yield None, (round_,), run.pieces((round_,))
    finally:
        run.close()


class Runner:
    """Runs settings for one language of the page.

    Args:
        lab: the lab.
        lang: language of the messages.
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self._lab, self._lang, self._words = lab, lang, WORDS[lang]

        def snapshots(
            settings: Settings, stop: StopFlag, store: TextStore | None
        ) -> Iterator[Snapshot]:
            yield from decode(lab, settings, stop, store)

        self._decode = on_gpu(snapshots)

    def stream(
        self, settings: Settings, stop: StopFlag, texts: SessionTexts | None = None
    ) -> Iterator[Update]:
        """Yield updates until the run ends; every fault becomes a status line.

        Args:
            settings: what runs. stop: the visitor's wish to stop.
            texts: the visitor's earlier texts, for methods that copy from them.
        """
        stop.raised, stop.running = False, True
        ticket = self._lab.turnstile.join()
        try:
            if not settings.prompt.strip():
                yield Update(status=messages.status(self._words["error_empty_prompt"], "error"))
                return
            check_allowed(self._lab, settings.pair)
            yield from self._wait_for_turn(ticket, stop)
            yield from self._load(settings, stop)
            yield from self._rounds(settings, stop, self._store(settings, texts))
        except Stopped:
            yield Update(status=messages.status(self._words["status_stopped_early"]))
        except SpeclabError as error:
            yield Update(status=messages.error_status(error, self._lang))
        except MemoryError:
            error = NotEnoughMemory(
                f"The pair {settings.pair!r} or its cache does not fit into memory.",
                "Choose a smaller pair or fewer new tokens.",
                code="out_of_memory",
            )
            yield Update(status=messages.error_status(error, self._lang))
        except Exception as error:
            LOG.exception("a run failed")
            title = self._words["error_other"].format(kind=type(error).__name__)
            yield Update(status=messages.status(title, "error", str(error)[:300]))
        finally:
            self._lab.turnstile.leave(ticket)
            stop.running = False

    def _say(self, key: str, **values: object) -> Update:
        return Update(status=messages.status(self._words[key].format(**values), "busy"))

    def _wait_for_turn(self, ticket: object, stop: StopFlag) -> Iterator[Update]:
        while ahead := self._lab.turnstile.ahead(ticket):
            if stop.raised:
                raise Stopped
            yield self._say("status_queue", n=ahead)
            time.sleep(0.25)

    def _load(self, settings: Settings, stop: StopFlag) -> Iterator[Update]:
        cache = self._lab.cache
        warm, loading = cache.warm, cache.request(settings.pair)
        entry = self._lab.pairs.get(settings.pair)
        title = getattr(entry.title, self._lang) if entry else settings.pair
        key = "status_loading" if warm else "status_loading_first"
        for waited_s in wait(loading.future):
            if stop.raised:
                raise Stopped
            text = self._words[key].format(pair=title, s=f"{waited_s:.0f}")
            note = sentence(loading.note, self._lang)
            if not loading.begun:
                note = self._words["status_load_line"]
            yield Update(status=messages.status(text, "busy", note))
        loading.future.result()

    def _store(self, settings: Settings, texts: SessionTexts | None) -> TextStore | None:
        """Return the visitor's store if the method copies from it.

        There is none where no text would come back (see `backend.keeps_texts`).
        """
        reads = self._lab.methods[settings.method].card.reads_earlier_texts
        if texts is None or not reads or not keeps_texts():
            return None
        return texts.of(settings.pair)

    def _rounds(
        self, settings: Settings, stop: StopFlag, store: TextStore | None
    ) -> Generator[Update, None, None]:
        """Stream the rounds, several in one message when they come fast."""
        live = messages.LiveMessages(self._lab, self._lang)
        yield self._say("status_prefill")
        snapshots = self._decode(settings, stop, store)
        sent_s = 0.0
        try:
            for head, rounds, pieces in snapshots:
                if head is not None:
                    message = live.begin(head, badge=self._words["live"])
                    yield Update(player=message, status=self._say("status_prefill").status)
                live.add(rounds, pieces)
                if rounds and time.monotonic() - sent_s >= FLUSH_S:
                    yield Update(player=live.flush(), status=self._round_status(live.trace))
                    sent_s = time.monotonic()
                if stop.raised:
                    break
        finally:
            close = getattr(snapshots, "close", None)
            if close is not None:
                close()
        yield self._end(live, stopped=stop.raised)

    def _round_status(self, trace: Trace) -> str:
        text = self._words["status_round"].format(n=len(trace.rounds), tokens=len(trace.emitted))
        return messages.status(text, "busy")

    def _end(self, live: messages.LiveMessages, *, stopped: bool) -> Update:
        trace = live.trace
        counts = {"n": len(trace.rounds), "tokens": len(trace.emitted)}
        reason = trace.stop_reason or "cancelled"
        stopped = stopped and reason == "cancelled"
        if stopped:
            text, tone = self._words["status_stopped"].format(**counts), "info"
        else:
            reason = self._words[f"reason_{reason}"]
            text, tone = self._words["status_done"].format(reason=reason, **counts), "good"
        warnings = (sentence(warning, self._lang) for warning in trace.warnings)
        notes = messages.status(text, tone, " ".join(warnings))
        return Update(player=live.end(stopped=stopped), status=notes)
