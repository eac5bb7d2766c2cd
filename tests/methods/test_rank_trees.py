"""Static trees by rank paths: the greedy search is the best tree, and shapes are well-formed."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from speclab.core.errors import BadInput
from speclab.methods.rank_trees import (
    RankTree,
    expected_tokens,
    guessed_accuracies,
    path_value,
    search_tree,
)

MEASURED = ((0.5, 0.2, 0.1), (0.3, 0.25, 0.05), (0.2, 0.1, 0.02))


def all_trees(num_nodes: int, depth: int, ranks: int) -> list[RankTree]:
    paths = [p for d in range(1, depth + 1) for p in product(range(ranks), repeat=d)]
    closed = []
    for chosen in combinations(paths, num_nodes):
        if all(path[:-1] in chosen or len(path) == 1 for path in chosen):
            closed.append(RankTree.of(chosen))
    return closed


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_greedy_search_finds_the_best_of_all_trees(num_nodes: int, seed: int) -> None:
    """Also where a later rank is right more often than an earlier one."""
    generator = np.random.default_rng(seed)
    table = tuple(tuple(generator.dirichlet(np.full(4, 0.7))[:3]) for _ in range(2))
    best = max(expected_tokens(tree, table) for tree in all_trees(num_nodes, 2, 3))
    found = search_tree(table, num_nodes, 2)
    assert len(found) == num_nodes
    assert expected_tokens(found, table) == pytest.approx(best, abs=1e-15)


def test_a_tree_worked_out_by_hand() -> None:
    """Likeliest first: .5, .2, .15 (= .5 x .3), .125, .1, .06, ..."""
    tree = search_tree(MEASURED, 5, 3)
    assert tree.paths == ((0,), (1,), (2,), (0, 0), (0, 1))
    assert tree.parents() == (-1, -1, -1, 0, 0)
    assert tree.levels() == [[0, 1, 2], [3, 4]]
    assert (tree.depth, tree.width) == (2, 3)
    assert path_value((0, 1), MEASURED) == pytest.approx(0.125)
    assert expected_tokens(tree, MEASURED) == pytest.approx(1 + 0.5 + 0.2 + 0.1 + 0.15 + 0.125)


def test_one_rank_makes_a_chain_and_limits_hold() -> None:
    assert search_tree(MEASURED, 9, 3, 1).paths == ((0,), (0, 0), (0, 0, 0))
    assert search_tree(MEASURED, 9, 1).paths == ((0,), (1,), (2,))
    assert search_tree(MEASURED, 0, 3).paths == ()
    everything = search_tree(MEASURED, 999, 3)
    assert len(everything) == 3 + 9 + 27
    assert search_tree(guessed_accuracies(2), 3, 2).paths == ((0,), (1,), (0, 0))


def test_a_larger_budget_only_adds_nodes() -> None:
    for nodes in range(1, 20):
        smaller, larger = (set(search_tree(MEASURED, n, 3).paths) for n in (nodes, nodes + 1))
        assert smaller < larger


@pytest.mark.parametrize("paths", [((),), ((0,), (0,)), ((0, 0),), ((0, 0), (0,))])
def test_paths_that_are_no_tree_are_refused(paths: tuple) -> None:
    with pytest.raises(BadInput, match="rank path"):
        RankTree(paths)
