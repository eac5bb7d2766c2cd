"""How many nodes pay: the best tree per budget against brute force, and where the speed turns."""

from __future__ import annotations

import pytest

from speclab.core.errors import BadInput
from speclab.lab.tree_budget import best_budget, budgets, head_budgets, head_manifest
from speclab.lab.tree_exact import shapes_of
from speclab.methods.rank_trees import expected_tokens

FALLING = ((0.6, 0.2, 0.1), (0.4, 0.2, 0.1), (0.3, 0.1, 0.05), (0.2, 0.1, 0.05))
COSTS = {"verify_cost": {"1": 1.0, "3": 1.2, "9": 1.8}}


def test_the_best_tree_is_the_best_of_all_shapes() -> None:
    for budget in budgets(FALLING, lambda tokens: 1.0, 4):
        fitting = [shape for shape in shapes_of(budget.nodes) if shape.width <= 3]
        assert budget.tree == pytest.approx(max(expected_tokens(s, FALLING) for s in fitting))
        assert len(budget.shape) == budget.nodes


def test_a_flat_cost_wants_the_widest_tree_and_a_steep_one_none() -> None:
    flat, steep = (budgets(FALLING, cost, 8) for cost in (lambda n: 1.0, float))
    assert best_budget(flat).nodes == 8
    assert best_budget(steep).nodes == 1
    assert best_budget(steep).speedup < 1


def test_a_chain_is_no_longer_than_there_are_heads() -> None:
    found = budgets(FALLING, lambda tokens: 1.0, 8)
    chain = 1 + 0.6 + 0.6 * 0.4 + 0.6 * 0.4 * 0.3 + 0.6 * 0.4 * 0.3 * 0.2
    assert [budget.chain for budget in found[3:]] == pytest.approx([chain] * 5)
    assert found[0].chain == pytest.approx(1.6)


def test_the_widest_pass_measured_bounds_the_tree() -> None:
    found = head_budgets({"accuracies": FALLING}, COSTS)
    assert [budget.nodes for budget in found] == list(range(1, 9))
    assert found[0].verify_cost == pytest.approx(1.1)
    assert found[-1].verify_cost == pytest.approx(1.8)
    assert found[-1].speedup == pytest.approx(found[-1].tree / 1.8)


@pytest.mark.parametrize("kind", ["medusa", "hydra"])
def test_bundled_heads_have_ranks(kind: str) -> None:
    accuracies = head_manifest("pocket", kind)["accuracies"]
    found = head_budgets(head_manifest("pocket", kind), COSTS)
    assert found[0].tree == pytest.approx(1 + accuracies[0][0])


@pytest.mark.parametrize(("target", "kind"), [("pocket", "none"), ("..", "pocket"), ("", "")])
def test_a_head_that_is_not_there_is_named(target: str, kind: str) -> None:
    with pytest.raises(BadInput, match="no bundled head"):
        head_manifest(target, kind)


def test_heads_without_ranks_are_refused() -> None:
    with pytest.raises(BadInput, match="has no accuracies by rank"):
        head_budgets(head_manifest("pocket", "eagle3"), COSTS)
