"""Work on a loaded pair as a stream of messages: queue, load, work, end; every fault a sentence."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from speclab.core.errors import BadInput, SpeclabError
from speclab.ui.backend import Lab, wait
from speclab.ui.running import StopFlag, Stopped, on_gpu
from speclab.ui.texts import WORDS
from speclab.ui.texts_errors import error_text, sentence
from speclab.ui.texts_prove import PROVE

LOG = logging.getLogger(__name__)
Message = dict[str, Any]
Work = Callable[[Any], Iterator[Message]]


def to_json(message: Message) -> str:
    """Return one message for the page; never equal to the one before it."""
    return json.dumps({**message, "at": time.monotonic_ns()}, ensure_ascii=False)


class ProofRunner:
    """Runs work on a pair for one language of the page.

    Args:
        lab: the lab. lang: language of the messages.
    """

    def __init__(self, lab: Lab, lang: str) -> None:
        self._lab, self._lang = lab, lang

    def stream(self, pair: str, stop: StopFlag, work: Work, **more: Any) -> Iterator[str]:
        """Yield JSON messages until the work ends; `more` goes into every status."""

        def say(text: str, tone: str = "busy") -> str:
            return to_json({"op": "status", "text": text, "tone": tone, **more})

        words, stop.raised, stop.running = PROVE[self._lang], False, True
        ticket = self._lab.turnstile.join()
        try:
            if pair not in self._lab.pairs:
                raise BadInput(
                    f"There is no pair {pair!r}.",
                    code="unknown_pair",
                    values={"name": pair, "known": ", ".join(self._lab.pairs)},
                )
            yield from map(say, self._until_loaded(pair, stop, ticket))
            with closing(self._on_pair(pair, work)) as messages:  # type: ignore[type-var]
                for message in messages:
                    yield to_json(message)
            if more:
                yield say("", "info")
        except Stopped:
            yield say(words["stopped"], "info")
        except SpeclabError as error:
            yield say(error_text(error, self._lang), "bad")
        except Exception as error:
            LOG.exception("a proof failed")
            kind = type(error).__name__
            yield say(WORDS[self._lang]["error_other"].format(kind=kind), "bad")
        finally:
            self._lab.turnstile.leave(ticket)
            stop.running = False

    def _on_pair(self, pair: str, work: Work) -> Iterator[Message]:
        def run() -> Iterator[Message]:
            yield from work(self._lab.cache.get(pair))

        return on_gpu(run)()

    def _until_loaded(self, pair: str, stop: StopFlag, ticket: object) -> Iterator[str]:
        words, turnstile = WORDS[self._lang], self._lab.turnstile
        while ahead := turnstile.ahead(ticket):
            if stop.raised:
                raise Stopped
            yield words["status_queue"].format(n=ahead)
            time.sleep(0.25)
        cache = self._lab.cache
        key = "status_loading" if cache.warm else "status_loading_first"
        loading = cache.request(pair)
        title = getattr(self._lab.pairs[pair].title, self._lang)
        for waited_s in wait(loading.future):
            if stop.raised:
                raise Stopped
            note = sentence(loading.note, self._lang)
            yield f"{words[key].format(pair=title, s=f'{waited_s:.0f}')} {note}".strip()
        loading.future.result()
