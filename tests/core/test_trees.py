"""Trees: masks, positions and paths agree with each other, for any parents array."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclab.core.errors import BadInput
from speclab.core.trees import EMPTY_TREE, PENDING, TokenTree


@st.composite
def trees(draw: st.DrawFn, max_nodes: int = 10) -> TokenTree:
    size = draw(st.integers(0, max_nodes))
    parents = tuple(draw(st.integers(PENDING, node - 1)) for node in range(size))
    tokens = tuple(draw(st.integers(0, 4)) for _ in range(size))
    return TokenTree(tokens, parents)


@given(trees())
def test_mask_is_the_path(tree: TokenTree) -> None:
    mask = tree.ancestor_mask()
    assert mask.shape == (len(tree) + 1, len(tree) + 1)
    assert mask[0].tolist() == [True] + [False] * len(tree)
    for node in range(len(tree)):
        seen = {int(column) - 1 for column in np.flatnonzero(mask[node + 1])}
        assert seen == {PENDING, *tree.path(node)}


@given(trees())
def test_no_node_sees_a_sibling_or_a_descendant(tree: TokenTree) -> None:
    mask = tree.ancestor_mask()
    assert not np.triu(mask, 1).any()
    for node in range(len(tree)):
        for sibling in tree.children(tree.parents[node]):
            assert sibling == node or not mask[node + 1, sibling + 1]


@given(trees())
def test_position_is_the_number_of_ancestors(tree: TokenTree) -> None:
    mask = tree.ancestor_mask()
    assert list(tree.position_offsets) == [int(row.sum()) - 1 for row in mask[1:]]
    assert tree.max_depth == max((tree.depth(node) for node in range(len(tree))), default=0)


@given(trees())
def test_path_runs_from_the_first_level_to_the_node(tree: TokenTree) -> None:
    for node in range(len(tree)):
        path = tree.path(node)
        assert path[-1] == node and tree.parents[path[0]] == PENDING
        assert all(tree.parents[b] == a for a, b in pairwise(path))
        assert tree.path_tokens(node) == tuple(tree.tokens[step] for step in path)
    assert tree.path(PENDING) == ()


@given(trees())
def test_children_and_leaves_partition_the_nodes(tree: TokenTree) -> None:
    everyone = [child for node in range(-1, len(tree)) for child in tree.children(node)]
    assert sorted(everyone) == list(range(len(tree)))
    assert set(tree.leaves()) == {n for n in range(len(tree)) if not tree.children(n)}


@given(st.lists(st.integers(0, 9), max_size=8))
def test_chain(tokens: list[int]) -> None:
    tree = TokenTree.chain(tokens)
    assert tree.is_chain and tree.tokens == tuple(tokens)
    assert tree.position_offsets == tuple(range(1, len(tokens) + 1))
    assert np.array_equal(tree.ancestor_mask(), np.tril(np.ones((len(tokens) + 1,) * 2, bool)))


def test_the_empty_tree_is_a_chain() -> None:
    assert EMPTY_TREE.is_chain and EMPTY_TREE.max_depth == 0
    assert EMPTY_TREE.ancestor_mask().tolist() == [[True]]


@pytest.mark.parametrize("parents", [(0,), (1, -1), (-1, 1), (-2,), (-1, 5)])
def test_a_parent_must_precede_its_child(parents: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="parent"):
        TokenTree((0,) * len(parents), parents)


def test_lengths_must_agree() -> None:
    with pytest.raises(BadInput, match="2 tokens but 1 parents"):
        TokenTree((0, 1), (-1,))
