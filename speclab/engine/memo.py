"""A memo over a model: each distinct prefix is evaluated once, whoever asks for it.

Many samples of one prompt walk the same few prefixes; with the rows at hand a run costs no model
pass at all. Prefixes live in a trie; rows are dropped least recently used first, within a budget
of bytes. Misses of concurrent repeats are evaluated together, in one padded batch.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from numpy.typing import NDArray

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.laws import Row
from speclab.core.trees import EMPTY_TREE, PENDING, TokenTree

DEFAULT_BUDGET_BYTES = 256 * 1024**2
LAW_BYTES_PER_TOKEN = 8
T = TypeVar("T")


class Evaluates(Protocol):
    """A model that can evaluate whole sequences without a cache."""

    name: str
    vocab_size: int
    max_context: int
    provides: frozenset[str]

    def evaluate(self, sequences: Sequence[Sequence[int]], keep: Sequence[int]) -> list[list[Row]]:
        """Return, per sequence, the rows after its last `keep` tokens."""


class _Prefix:
    """One node of the trie: a prefix, and its row if it is held."""

    __slots__ = ("children", "parent", "row", "token")

    def __init__(self, parent: _Prefix | None, token: int) -> None:
        self.parent, self.token = parent, token
        self.children: dict[int, _Prefix] = {}
        self.row: Row | None = None

    def child(self, token: int) -> _Prefix:
        found = self.children.get(token)
        return found or self.children.setdefault(token, _Prefix(self, token))

    def prune(self) -> None:
        """Drop this node and its ancestors as far as they hold nothing."""
        node = self
        while node.parent is not None and not node.children and node.row is None:
            node.parent.children.pop(node.token, None)
            node = node.parent

    def text(self) -> list[int]:
        tokens = []
        node: _Prefix | None = self
        while node is not None and node.parent is not None:
            tokens.append(node.token)
            node = node.parent
        return tokens[::-1]


@dataclass(slots=True)
class MemoCounts:
    """How the memo fared.

    Attributes:
        hits, misses: rows asked for. evaluated: rows computed. batches: model passes.
        evicted: rows dropped. held_bytes: bytes held now.
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


class MemoHandle:
    """A model handle whose sessions look prefixes up before they evaluate.

    Args:
        model: the model.
        budget_bytes: most bytes of rows (and one law of each) to hold.

    Raises:
        BadInput: if not even one row fits into the budget.
        UnsupportedModel: if the model cannot evaluate whole sequences.
    """

    def __init__(self, model: Evaluates, *, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        if not hasattr(model, "evaluate"):
            raise UnsupportedModel(f"{model.name} cannot evaluate whole sequences.")
        if budget_bytes < model.vocab_size * (LAW_BYTES_PER_TOKEN + 4):
            raise BadInput(f"A memo of {budget_bytes} bytes cannot hold one row of {model.name}.")
        self.model, self.budget_bytes = model, budget_bytes
        self.name, self.vocab_size = model.name, model.vocab_size
        self.max_context = model.max_context
        self.provides = model.provides & {"tree_mask", "rollback"}
        self.source = getattr(model, "source", "")
        self.num_parameters = getattr(model, "num_parameters", 0)
        self.counts = MemoCounts()
        self.root = _Prefix(None, -1)
        self._recent: OrderedDict[_Prefix, int] = OrderedDict()
        self._lock = threading.RLock()
        self.gate: BatchGate | None = None

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

    def walk(self, tokens: Sequence[int]) -> _Prefix:
        """Return the trie node of a whole text."""
        with self._lock:
            node = self.root
            for token in tokens:
                node = node.child(token)
            return node

    def row(self, prefix: _Prefix, path: Sequence[_Prefix]) -> Row:
        """Return the row after `prefix`; on a miss evaluate all of `path` (which holds it)."""
        row = prefix.row
        if row is not None:
            self.counts.hits += 1
            if self._recent.get(prefix) is not None:
                self._recent.move_to_end(prefix)
            return row
        self.counts.misses += 1
        gate = self.gate
        if gate is not None:
            return gate.wait_for(prefix, path)
        return self.evaluate([(prefix, path)])[0]

    def evaluate(self, wanted: Sequence[tuple[_Prefix, Sequence[_Prefix]]]) -> list[Row]:
        """Evaluate the missing rows of several (prefix, path) in one batch; return the prefixes'.

        A path is a line of trie nodes from a text to a continuation of it.
        """
        with self._lock:
            jobs: dict[_Prefix, int] = {}
            for _, path in wanted:
                missing = next(i for i, node in enumerate(path) if node.row is None)
                tip = path[-1]
                jobs[tip] = max(jobs.get(tip, 0), len(path) - missing)
            texts = [tip.text() for tip in jobs]
            results = self.model.evaluate(texts, list(jobs.values()))
            self.counts.batches += 1
            found: dict[_Prefix, Row] = {}
            for tip, rows in zip(jobs, results, strict=True):
                node: _Prefix | None = tip
                for row in reversed(rows):
                    assert node is not None
                    if node.row is None:
                        self._hold(node, row)
                    found[node] = node.row or row
                    node = node.parent
            out = [prefix.row or found[prefix] for prefix, _ in wanted]
            self._evict()
            return out

    def _hold(self, node: _Prefix, row: Row) -> None:
        node.row = row
        self.counts.evaluated += 1
        size = row.logits.nbytes + len(row.logits) * LAW_BYTES_PER_TOKEN
        self._recent[node] = size
        self.counts.held_bytes += size

    def _evict(self) -> None:
        while self.counts.held_bytes > self.budget_bytes:
            node, size = self._recent.popitem(last=False)
            node.row = None
            self.counts.held_bytes -= size
            self.counts.evicted += 1
            node.prune()


class MemoScores:
    """Rows of one memo pass, looked up when asked for; see `core.protocols.Scores`."""

    def __init__(
        self, handle: MemoHandle, base: _Prefix, tree: TokenTree, extra: TokenTree
    ) -> None:
        self._handle, self._base, self._tree, self._extra = handle, base, tree, extra
        self._nodes: dict[int, _Prefix] = {PENDING: base}

    def _prefix(self, node: int) -> _Prefix:
        found = self._nodes.get(node)
        if found is None:
            tree = self._tree
            parent = self._prefix(tree.parents[node])
            found = self._nodes[node] = parent.child(tree.tokens[node])
        return found

    def row(self, index: int) -> Row:
        """Row 0 follows the pending token, row 1 + i follows node i."""
        prefix = self._prefix(index - 1)
        if prefix.row is not None:
            return self._handle.row(prefix, ())
        line = [PENDING, *self._tree.path(index - 1)] if index else [PENDING]
        while children := self._tree.children(line[-1]):
            line.append(children[0])
        return self._handle.row(prefix, [self._prefix(node) for node in line])

    def passenger_row(self, index: int) -> Row:
        """Row after passenger `index`."""
        line = [self._base]
        for token in self._extra.path_tokens(index):
            line.append(line[-1].child(token))
        return self._handle.row(line[-1], line)

    def features(self, path: Sequence[int]) -> dict[str, NDArray]:
        """A memo holds no features."""
        return {}


class MemoSession:
    """A session that remembers prefixes; it never holds a key or a value."""

    def __init__(self, handle: MemoHandle, prompt: Sequence[int]) -> None:
        self.handle, self.tokens = handle, list(prompt)
        self.prefill_features: dict[str, NDArray] = {}
        self._prefix = handle.walk(prompt)
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
        if self.length + tree.max_depth > self.handle.max_context:
            raise BadInput(f"{self.handle.name} holds {self.handle.max_context} tokens.")
        self._scored = tree
        return MemoScores(self.handle, self._prefix, tree, passengers)

    def commit(self, path: Sequence[int], next_token: int) -> None:
        """Append the tokens of `path` and `next_token`."""
        tree, self._scored = self._scored, EMPTY_TREE
        self.extend([*(tree.tokens[node] for node in path), next_token])

    def rollback(self, length: int) -> None:
        """Forget every token from position `length` on."""
        for _ in range(self.length - length):
            assert self._prefix.parent is not None
            self._prefix = self._prefix.parent
        del self.tokens[length:]

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        self.tokens += tokens
        for token in tokens:
            self._prefix = self._prefix.child(token)

    def close(self) -> None:
        """Forget the end of the text if nobody evaluated it."""
        self._prefix.prune()


@dataclass(slots=True)
class BatchGate:
    """Collects misses until every active repeat waits for one, then evaluates them together.

    Attributes:
        active: repeats that are running or waiting.
    """

    handles: Sequence[MemoHandle]
    active: int = 0
    _waiting: list[tuple[MemoHandle, _Prefix, Sequence[_Prefix]]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _answers: dict[int, Row | BaseException] = field(default_factory=dict)
    _ticket: int = 0
    _tickets: list[int] = field(default_factory=list)

    def enter(self) -> None:
        """A repeat begins."""
        with self._changed:
            self.active += 1

    def leave(self) -> None:
        """A repeat ends; those who wait may be all that is left."""
        with self._changed:
            self.active -= 1
            if self._waiting and len(self._waiting) >= self.active:
                self._answer()

    def wait_for(self, prefix: _Prefix, path: Sequence[_Prefix]) -> Row:
        """Return the row after `prefix`, evaluated together with whatever others wait for."""
        with self._changed:
            ticket = self._ticket = self._ticket + 1
            self._waiting.append((self._owner(prefix), prefix, path))
            self._tickets.append(ticket)
            if len(self._waiting) >= self.active:
                self._answer()
            while ticket not in self._answers:
                self._changed.wait()
            answer = self._answers.pop(ticket)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _owner(self, prefix: _Prefix) -> MemoHandle:
        root = prefix
        while root.parent is not None:
            root = root.parent
        return next(handle for handle in self.handles if handle.root is root)

    def _answer(self) -> None:
        waiting, tickets = self._waiting, self._tickets
        self._waiting, self._tickets = [], []
        for handle in {id(owner): owner for owner, _, _ in waiting}.values():
            mine = [i for i, (owner, _, _) in enumerate(waiting) if owner is handle]
            try:
                rows = handle.evaluate([waiting[i][1:] for i in mine])
                self._answers.update({tickets[i]: row for i, row in zip(mine, rows, strict=True)})
            except BaseException as error:
                self._answers.update({tickets[i]: error for i in mine})
        self._changed.notify_all()


def run_repeats(
    repeat: Callable[[int], T], count: int, handles: Sequence[MemoHandle], *, workers: int = 32
) -> list[T]:
    """Run `repeat(0) ... repeat(count - 1)` concurrently, batching the misses of `handles`.

    Args:
        repeat: one repeat; all its models must be among `handles` (or need no batching).
        count: how many.
        handles: the memo handles in use.
        workers: how many run at once: the largest batch.

    Returns:
        The results in order.
    """
    gate = BatchGate(handles)

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
                batch = range(start, min(count, start + workers))
                for _ in batch:
                    gate.enter()
                results += pool.map(guarded, batch)
    finally:
        for handle in handles:
            handle.gate = None
    return results
