"""A run on its way: its rounds one by one, and the trace of what there is so far."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from speclab.core.earlier_texts import TextStore
from speclab.core.errors import NotEnoughMemory
from speclab.core.records import Round, RunSpec, Trace
from speclab.engine.loop import Decoding
from speclab.models.pair import Pair


@contextmanager
def memory_guard(when: str) -> Iterator[None]:
    """Turn running out of memory into an error for people.

    Raises:
        NotEnoughMemory: saying when it happened.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        from speclab.models.transformer import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        raise NotEnoughMemory(
            f"Memory ran out {when}.",
            "Use a shorter prompt, fewer tokens or a smaller pair.",
            code="out_of_memory",
            values={"when": when},
        ) from error


class LiveRun:
    """A run on its way: iterate it for its rounds, ask `trace()` at any time.

    Attributes:
        spec: everything needed to run it again.
        prompt_tokens: token ids of the prompt.
        prefill_s: seconds of target and draft prefill.
        rounds: the rounds so far.
        warnings: sentences for the user.
    """

    def __init__(
        self,
        pair: Pair,
        spec: RunSpec,
        prompt_tokens: tuple[int, ...],
        decoding: Decoding,
        prefill_s: float,
        warnings: tuple[str, ...] = (),
        store: TextStore | None = None,
    ) -> None:
        self.spec, self.prompt_tokens, self.prefill_s = spec, prompt_tokens, prefill_s
        self.rounds: list[Round] = []
        self.warnings = warnings
        self._pair, self._decoding, self._store = pair, decoding, store
        self._iterator = iter(decoding)

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        with memory_guard(f"in round {len(self.rounds) + 1}"):
            round_ = next(self._iterator, None)
        if round_ is None:
            self._remember()
            raise StopIteration
        self.rounds.append(round_)
        return round_

    @property
    def emitted(self) -> tuple[int, ...]:
        """Token ids emitted so far."""
        return tuple(self._decoding.emitted)

    def close(self) -> None:
        """End the run now and release its caches."""
        self._iterator.close()  # type: ignore[attr-defined]
        self._decoding.run.close()
        self._decoding.session.close()
        self._remember()

    def _remember(self) -> None:
        """Leave the text to later runs of the session; one without a new token is not a text."""
        store, self._store = self._store, None
        if store is not None and self.emitted:
            store.add((*self.prompt_tokens, *self.emitted))

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token id."""
        return self._pair.codec.piece(token)

    def pieces(self, rounds: Sequence[Round]) -> dict[str, str]:
        """Return the bytes, base64, of every token id that `rounds` mention."""
        return encode_pieces(tokens_mentioned(rounds), self._pair.codec.piece)

    def trace(self) -> Trace:
        """Return everything so far as a trace."""
        return Trace(
            spec=self.spec,
            prompt_tokens=self.prompt_tokens,
            rounds=tuple(self.rounds),
            prefill_s=self.prefill_s,
            pieces=self.pieces(self.rounds)
            | encode_pieces(set(self.prompt_tokens), self._pair.codec.piece),
            warnings=self.warnings,
            ended_by=self._decoding.stop_reason,
        )


def tokens_mentioned(rounds: Sequence[Round]) -> set[int]:
    """Return every token id that appears in `rounds`."""
    tokens: set[int] = set()
    for round_ in rounds:
        tokens.update(round_.tree.tokens, round_.emitted, (round_.verdict.next_token,))
        tokens.update(f.drawn_token for f in round_.verdict.flips if f.drawn_token is not None)
        for part in (*round_.slices, *round_.evidence):
            tokens.update(part.tokens)
    return tokens


def encode_pieces(tokens: set[int], piece: Callable[[int], bytes]) -> dict[str, str]:
    """Return base64 bytes by decimal token id."""
    return {str(token): base64.b64encode(piece(token)).decode() for token in sorted(tokens)}
