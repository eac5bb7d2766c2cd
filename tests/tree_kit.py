"""What tests of trees share: random trees, what their paths say alone, and checks that can fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speclab.core.trees import PENDING, TokenTree
from speclab.models.caches import PathsCache, TransformersCache
from speclab.models.transformer import TransformerHandle

FEW, SHAPES = 40, ("bush", "chain with twigs", "uniform", "levels", "duplicates")


class Unpacked(TransformerHandle):
    """A plain Llama that is run by Transformers all the same."""

    def new_cache(self) -> TransformersCache:
        """Return Transformers' own cache."""
        return TransformersCache(self.model)


class ByPaths(TransformerHandle):
    """A model whose trees are batches of paths, although it could attend to them."""

    def new_cache(self) -> PathsCache:
        """Return a cache that holds a row per path."""
        return PathsCache(self.model)


def variant(kind: type[TransformerHandle], handle: TransformerHandle) -> TransformerHandle:
    """Return the same model with another kind of session."""
    return kind(model=handle.model, name=handle.name, vocab_size=handle.vocab_size)


def random_tree(generator: np.random.Generator, vocab_size: int, most: int = FEW) -> TokenTree:
    """Return a tree of 1 to `most` nodes, of one of several shapes; siblings may be equal."""
    size = int(generator.integers(1, most + 1))
    shape = SHAPES[int(generator.integers(len(SHAPES)))]
    parents: list[int] = []
    for node in range(size):
        if shape == "bush":
            low, high = PENDING, min(node, 3)
        elif shape == "chain with twigs":
            low, high = (node - 1 if generator.random() < 0.7 else PENDING), node
        elif shape == "levels":
            low, high = max(PENDING, node // 3 - 1), max(0, node // 3)
        else:
            low, high = PENDING, node
        parents.append(int(generator.integers(low, max(low + 1, high))))
    tokens = generator.integers(0, 3 if shape == "duplicates" else vocab_size, size)
    return TokenTree(tuple(tokens.tolist()), tuple(parents))


def random_cases(
    count: int, vocab_size: int, lengths: Sequence[int], seed: int = 0
) -> Iterator[tuple[list[int], TokenTree]]:
    """Yield (prompt, tree); prompts take the lengths in turn."""
    generator = np.random.default_rng(seed)
    for number in range(count):
        prompt = generator.integers(0, vocab_size, lengths[number % len(lengths)])
        yield prompt.tolist(), random_tree(generator, vocab_size)


def rows_of_paths(handle: Any, prompt: Sequence[int], tree: TokenTree) -> NDArray[np.float64]:
    """Return the logits after the prompt and after every node [1+n, vocab].

    Every path is a plain text of its own: one padded batch, no cache, no tree mask.
    """
    leaves = list(tree.leaves()) or [PENDING]
    texts = [[*prompt, *tree.path_tokens(leaf)] for leaf in leaves]
    keeps = [len(text) - len(prompt) + 1 for text in texts]
    found: dict[int, NDArray] = {}
    for leaf, rows in zip(leaves, handle.evaluate(texts, keeps), strict=True):
        path = tree.path(leaf)
        found |= {n: row.logits for n, row in zip((PENDING, *path), rows, strict=True)}
    return np.array([found[node] for node in range(PENDING, len(tree))], dtype=np.float64)


def rows_of_pass(scores: Any, tree: TokenTree) -> NDArray[np.float64]:
    """Return the logits of one pass over a tree [1+n, vocab]."""
    rows = [scores.row(index).logits for index in range(len(tree) + 1)]
    return np.array(rows, dtype=np.float64)


def check_tree(
    handle: Any, prompt: Sequence[int], tree: TokenTree, logits: float, probs: float
) -> None:
    """Check that a pass over a tree says what its paths say, one by one.

    Args:
        handle: the model. logits, probs: largest differences.

    Raises:
        AssertionError: naming the node that differs most.
    """
    session = handle.open(prompt)
    found = rows_of_pass(session.score(tree), tree)
    session.close()
    wanted = rows_of_paths(handle, prompt, tree)
    gaps = np.abs(found - wanted).max(1)
    worst = int(gaps.argmax())
    where = f"{len(prompt)} tokens, {tree}: node {worst - 1}"
    assert gaps[worst] <= logits, f"{where}: logits {gaps[worst]:.2g} apart"
    apart = np.abs(softmax(found) - softmax(wanted)).max()
    assert apart <= probs, f"{where}: probabilities {apart:.2g} apart"


def softmax(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return laws of logits [n, vocab]."""
    weights = np.exp(rows - rows.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def check_commits(
    handle: Any, prompt: Sequence[int], tree: TokenTree, node: int, within: float
) -> None:
    """Check that committing the path to a node leaves the cache of that text, and no more.

    The next pass, over the same tree, must say what it says in a session opened on the text.

    Raises:
        AssertionError: naming the state that differs.
    """
    session = handle.open(prompt)
    session.score(tree)
    session.commit(tree.path(node), 1)
    text = [*prompt, *(tree.path_tokens(node) if node != PENDING else ()), 1]
    assert session.tokens == text
    assert session.cache_rows() == session.cache_length == len(text) - 1, "the cache is off"
    again = rows_of_pass(session.score(tree), tree)
    gap = np.abs(again - rows_of_paths(handle, text, tree)).max()
    assert gap <= within, f"after the commit of node {node}: logits {gap:.2g} apart"
    session.rollback(len(prompt))
    assert session.cache_rows() == session.cache_length == len(prompt)
    gap = np.abs(rows_of_pass(session.score(tree), tree) - rows_of_paths(handle, prompt, tree))
    assert gap.max() <= within, "after a rollback"
