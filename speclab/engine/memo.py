"""A memo over a model: each distinct prefix is evaluated once, whoever asks for it.

Many samples of one prompt walk the same few prefixes; with the rows at hand a run costs no model
pass at all. A prefix is known by the 128-bit BLAKE2 digest of its tokens; rows are dropped least
recently used first, within a budget of bytes. Misses of concurrent repeats are evaluated together,
in one padded batch.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import MAX_LAWS, Row
from speclab.core.sessions import Evaluates
from speclab.core.trees import EMPTY_TREE, PENDING, TokenTree

DEFAULT_BUDGET_BYTES = 256 * 1024**2
DIGEST_BYTES = 16
LAW_BYTES_PER_TOKEN = 8
T = TypeVar("T")


def _bytes(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, dtype=np.int64).tobytes()


@dataclass(slots=True)
class MemoCounts:
    """How the memo fared.

    Attributes:
        hits, misses: rows asked for. evaluated: rows computed. batches: model passes.
        evicted: rows dropped. held_bytes: bytes held now, with two laws of each row.
    """

    hits: int = 0
    misses: int = 0
    evaluated: int = 0
    batches: int = 0
    evicted: int = 0
    held_bytes: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Hits over rows asked for; None before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None


@dataclass(frozen=True, slots=True)
class Miss:
    """A row that is not held, and a line of prefixes through it to evaluate in one pass.

    Attributes:
        key: digest of the prefix whose row is wanted.
        text: the longest text of the line.
        keys: digests of the line's prefixes, shortest first; the last is `text`'s.
    """

    key: bytes
    text: tuple[int, ...]
    keys: tuple[bytes, ...]


class MemoHandle:
    """A model handle whose sessions look prefixes up before they evaluate.

    Args:
        model: the model.
        budget_bytes: most bytes of rows, with two laws of each, to hold.

    Raises:
        BadInput: if not even one row fits into the budget.
        UnsupportedModel: if the model cannot evaluate whole sequences.
    """

    def __init__(self, model: Evaluates, *, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        if not hasattr(model, "evaluate"):
            raise UnsupportedModel(f"{model.name} cannot evaluate whole sequences.")
        if budget_bytes < model.vocab_size * (MAX_LAWS + 1) * LAW_BYTES_PER_TOKEN:
            raise BadInput(f"A memo of {budget_bytes} bytes cannot hold one row of {model.name}.")
        self.model, self.budget_bytes = model, budget_bytes
        self.name, self.vocab_size = model.name, model.vocab_size
        self.max_context = model.max_context
        self.provides = frozenset({"tree_mask", "rollback"})
        self.source = getattr(model, "source", "")
        self.num_parameters = getattr(model, "num_parameters", 0)
        self.counts = MemoCounts()
        self.gate: BatchGate | None = None
        self._rows: OrderedDict[bytes, Row] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._rows)

    def open(self, prompt: Sequence[int], taps: Sequence[str] = ()) -> MemoSession:
        """Open a session; nothing is evaluated yet.

        Raises:
            BadInput: if the prompt is empty or too long.
            UnsupportedModel: if features are asked for.
        """
        if taps:
            raise UnsupportedModel(
                "A memo session holds no hidden states.", "Use the model's own sessions."
            )
        if not prompt or len(prompt) > self.max_context:
            raise BadInput(f"The prompt has {len(prompt)} tokens; 1 to {self.max_context} fit.")
        return MemoSession(self, prompt)

    def held(self, key: bytes) -> Row | None:
        """Return the row of a prefix if it is held, and mark it as used."""
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                self.counts.misses += 1
            else:
                self.counts.hits += 1
                self._rows.move_to_end(key)
            return row

    def fetch(self, miss: Miss) -> Row:
        """Return the row of a miss, evaluated alone or together with other repeats' misses."""
        gate = self.gate
        return self.evaluate([miss])[0] if gate is None else gate.wait_for(self, miss)

    def evaluate(self, misses: Sequence[Miss]) -> list[Row]:
        """Evaluate what several misses lack in one batch; return their rows in order."""
        with self._lock:
            found: dict[bytes, Row] = {}
            jobs: dict[bytes, tuple[Miss, int]] = {}
            for miss in misses:
                lacking = [place for place, key in enumerate(miss.keys) if key not in self._rows]
                found.update({key: self._rows[key] for key in miss.keys if key in self._rows})
                if miss.key in self._rows or not lacking:
                    continue
                keep = len(miss.keys) - lacking[0]
                known = jobs.get(miss.keys[-1])
                if known is None or known[1] < keep:
                    jobs[miss.keys[-1]] = (miss, keep)
            if jobs:
                self._run(list(jobs.values()), found)
            self._evict()
            return [found[miss.key] for miss in misses]

    def _run(self, jobs: list[tuple[Miss, int]], found: dict[bytes, Row]) -> None:
        texts, keeps = [miss.text for miss, _ in jobs], [keep for _, keep in jobs]
        results = self.model.evaluate(texts, keeps)
        self.counts.batches += 1
        for (miss, keep), rows in zip(jobs, results, strict=True):
            for key, row in zip(miss.keys[-keep:], rows, strict=True):
                if key not in found:
                    found[key] = self._rows[key] = row
                    self.counts.evaluated += 1
                    self.counts.held_bytes += self._size(row)

    @staticmethod
    def _size(row: Row) -> int:
        return row.logits.nbytes + MAX_LAWS * len(row.logits) * LAW_BYTES_PER_TOKEN

    def _evict(self) -> None:
        while self.counts.held_bytes > self.budget_bytes:
            _, row = self._rows.popitem(last=False)
            self.counts.held_bytes -= self._size(row)
            self.counts.evicted += 1


class MemoScores:
    """Rows of one memo pass, looked up when asked for; see `core.sessions.Scores`."""

    def __init__(self, session: MemoSession, tree: TokenTree, passengers: TokenTree) -> None:
        self._handle, self._tree, self._passengers = session.handle, tree, passengers
        self._text, self._base = tuple(session.tokens), session.digests[-1]

    def row(self, index: int) -> Row:
        """Row 0 follows the pending token, row 1 + i follows node i."""
        return self._row(self._tree, index - 1)

    def passenger_row(self, index: int) -> Row:
        """Row after passenger `index`."""
        return self._row(self._passengers, index)

    def _row(self, tree: TokenTree, node: int) -> Row:
        path = tree.path(node) if node != PENDING else ()
        digest, keys = self._base, [self._base.digest()]
        for step in path:
            digest = _longer(digest, tree.tokens[step])
            keys.append(digest.digest())
        wanted = keys[-1]
        row = self._handle.held(wanted)
        if row is not None:
            return row
        line = list(path)
        while children := tree.children(line[-1] if line else PENDING):
            line.append(children[0])
            digest = _longer(digest, tree.tokens[line[-1]])
            keys.append(digest.digest())
        text = (*self._text, *(tree.tokens[step] for step in line))
        return self._handle.fetch(Miss(wanted, text, tuple(keys)))

    def features(self, path: Sequence[int]) -> dict[str, NDArray]:
        """A memo holds no features."""
        return {}


def _longer(digest: Any, token: int) -> Any:
    """Return the running digest of the text with one more token."""
    longer = digest.copy()
    longer.update(int(token).to_bytes(8, "little"))
    return longer


class MemoSession:
    """A session that remembers prefixes; it never holds a key or a value.

    Attributes:
        digests: running digests of the text from the prompt's end on; the last is the whole text's.
    """

    def __init__(self, handle: MemoHandle, prompt: Sequence[int]) -> None:
        self.handle, self.tokens = handle, list(prompt)
        self.prefill_features: dict[str, NDArray] = {}
        self.digests = [hashlib.blake2b(_bytes(prompt), digest_size=DIGEST_BYTES)]
        self._scored: TokenTree = EMPTY_TREE

    @property
    def length(self) -> int:
        """Committed tokens."""
        return len(self.tokens)

    @property
    def cache_length(self) -> int:
        """What a cached session would hold."""
        return self.length - 1

    def score(self, tree: TokenTree = EMPTY_TREE, passengers: TokenTree = EMPTY_TREE) -> MemoScores:
        """Return lazily looked-up rows."""
        if self.length + max(tree.max_depth, passengers.max_depth) > self.handle.max_context:
            raise BadInput(f"{self.handle.name} holds {self.handle.max_context} tokens.")
        self._scored = tree
        return MemoScores(self, tree, passengers)

    def commit(self, path: Sequence[int], next_token: int) -> None:
        """Append the tokens of `path` and `next_token`."""
        tree, self._scored = self._scored, EMPTY_TREE
        self.extend([*(tree.tokens[node] for node in path), next_token])

    def rollback(self, length: int) -> None:
        """Forget every token from position `length` on.

        Raises:
            BadInput: if `length` is not between 1 and the committed length.
        """
        if not 1 <= length <= self.length:
            raise BadInput(f"Cannot roll back to {length} of {self.length} tokens.")
        surplus = self.length - length
        del self.tokens[length:]
        if surplus < len(self.digests):
            del self.digests[len(self.digests) - surplus :]
        else:
            self.digests = [hashlib.blake2b(_bytes(self.tokens), digest_size=DIGEST_BYTES)]

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        self.tokens += tokens
        for token in tokens:
            self.digests.append(_longer(self.digests[-1], token))

    def close(self) -> None:
        """Nothing to release."""


@dataclass(slots=True)
class BatchGate:
    """Collects misses until every active repeat waits for one, then evaluates them together.

    Attributes:
        active: repeats that are running or waiting.
    """

    active: int = 0
    _waiting: list[tuple[int, MemoHandle, Miss]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _answers: dict[int, Row | BaseException] = field(default_factory=dict)
    _tickets: int = 0

    def enter(self) -> None:
        """A repeat begins."""
        with self._changed:
            self.active += 1

    def leave(self) -> None:
        """A repeat ends; those who wait may be all that is left."""
        with self._changed:
            self.active -= 1
            self._answer_if_all_wait()

    def wait_for(self, handle: MemoHandle, miss: Miss) -> Row:
        """Return the row of a miss, evaluated together with whatever others wait for."""
        with self._changed:
            ticket = self._tickets = self._tickets + 1
            self._waiting.append((ticket, handle, miss))
            self._answer_if_all_wait()
            while ticket not in self._answers:
                self._changed.wait()
            answer = self._answers.pop(ticket)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _answer_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self.active:
            return
        waiting, self._waiting = self._waiting, []
        for handle in {id(owner): owner for _, owner, _ in waiting}.values():
            mine = [(ticket, miss) for ticket, owner, miss in waiting if owner is handle]
            try:
                rows: Sequence[Row | BaseException] = handle.evaluate([miss for _, miss in mine])
            except Exception as error:
                rows = [error] * len(mine)
            self._answers.update({ticket: row for (ticket, _), row in zip(mine, rows, strict=True)})
        self._changed.notify_all()


def run_repeats(
    repeat: Callable[[int], T], count: int, handles: Sequence[MemoHandle], *, workers: int = 32
) -> list[T]:
    """Run `repeat(0) ... repeat(count - 1)` concurrently, batching the misses of `handles`.

    Args:
        repeat: one repeat; its memo handles must be among `handles`.
        count: how many.
        handles: the memo handles in use; one group of repeats at a time may use them.
        workers: how many run at once: the largest batch.

    Returns:
        The results in order; the first error of a repeat is raised after its group has ended.
    """
    gate = BatchGate()

    def guarded(index: int) -> T:
        try:
            return repeat(index)
        finally:
            gate.leave()

    results: list[T] = []
    for handle in handles:
        handle.gate = gate
    try:
        with ThreadPoolExecutor(max_workers=workers) as pool:
            for start in range(0, count, workers):
                group = range(start, min(count, start + workers))
                for _ in group:
                    gate.enter()
                futures = [pool.submit(guarded, index) for index in group]
                wait(futures)
                results += [future.result() for future in futures]
    finally:
        for handle in handles:
            handle.gate = None
    return results
