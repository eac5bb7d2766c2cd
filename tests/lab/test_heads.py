"""The table of heads: every setting in one run, honest counts, reasons for what cannot run."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise

import pytest
import torch
from tiny_pairs import tiny_handle
from typer.testing import CliRunner

from speclab.__main__ import app
from speclab.core.errors import BadInput
from speclab.core.records import Round, Trace, Verdict
from speclab.core.trees import TokenTree
from speclab.lab import readme_part
from speclab.lab.bench_prompts import bench_prompts, unseen_prompts
from speclab.lab.head_files import (
    head_facts,
    head_kinds,
    read_costs,
    target_parameters,
    training_curve,
)
from speclab.lab.head_numbers import Measured, by_depth, row, tau, tau_ratio
from speclab.lab.head_plan import HeadPlan, Setting, settings_for, usual_plan
from speclab.lab.head_report import BEGIN, END, markdown, print_heads, with_part
from speclab.lab.head_shapes import (
    Expected,
    PassCosts,
    best_of,
    expected_curve,
    pass_costs,
    tree_nodes,
)
from speclab.lab.head_table import branching, dynamic_against_static, run_heads
from speclab.lab.runs import generate
from speclab.methods import METHODS
from speclab.methods.rank_trees import expected_tokens, search_tree
from speclab.models.pair import Pair
from speclab.models.toy_pair import load_toy
from speclab.testing.toy_heads import heads_for
from speclab.training.corpus import FAMILIES, example_prompts
from speclab.training.corpus.prompts import held_out_prompts

PLAN = HeadPlan(
    max_new_tokens=12,
    num_prompts=2,
    repeats=1,
    sampled_repeats=2,
    budgets=(4, 8),
    sampled_budgets=(4,),
    widths=(1, 3, 9),
    passes=2,
)


class WordCodec:
    """Words to ids by length: enough for a tiny model."""

    chat_by_default = False

    def encode(self, text: str, *, chat: bool | None = None) -> tuple[int, ...]:
        return tuple(1 + len(word) % 40 for word in text.split())

    def piece(self, token: int) -> bytes:
        return b"x"


@pytest.fixture(scope="module")
def pair() -> Pair:
    target, draft = (tiny_handle(seed, vocab_size=60, dtype=torch.float64) for seed in (0, 1))
    return Pair(
        name="tiny",
        target=target,
        drafts=(draft,),
        codec=WordCodec(),
        eos_ids=frozenset({5}),
        dtype="float64",
        heads=heads_for(target),
    )


@pytest.fixture(scope="module")
def report(pair: Pair) -> dict:
    return run_heads(pair, PLAN, progress=lambda text: None)


def test_one_run_holds_every_setting_at_both_temperatures(pair: Pair, report: dict) -> None:
    rows = {
        (row["method"], row["shape"], row["budget"], row["temperature"]) for row in report["rows"]
    }
    for name in ("medusa", "hydra", "eagle-3"):
        assert {(name, "chain", 5, 0.0), (name, "tree", 4, 0.0), (name, "tree", 8, 0.0)} <= rows
        assert {(name, "chain", 5, 1.0), (name, "tree", 4, 1.0)} <= rows
        assert (name, "tree", 8, 1.0) not in rows
    assert {("autoregressive", "plain", None, 0.0), ("draft-model", "chain", 5, 1.0)} <= rows
    assert {("prompt-lookup", "chain", 5, 0.0), ("draft-tree", "tree", 14, 0.0)} <= rows
    for line in report["rows"]:
        repeats = 1 if line["temperature"] == 0.0 else 2
        assert line["emitted_tokens"] == 2 * 12 * repeats, line["label"]
        assert line["tau_low"] <= line["tau"] <= line["tau_high"]
        assert line["speedup_low"] <= line["speedup"] <= line["speedup_high"]
        assert 0.0 <= line["draft_share"] < 1.0 and line["decode_tokens_per_s"] > 0.0
        if line["temperature"] == 0.0:
            assert line["greedy_agreement"] == 1.0, line["label"]
    plain = report["rows"][0]
    assert plain["tau"] == plain["speedup"] == plain["decode_speedup"] == 1.0
    assert json.dumps(report), "only JSON types"


def test_methods_that_cannot_run_are_named_with_the_reason(report: dict) -> None:
    ran = {line["method"] for line in report["rows"]}
    wanted = {"medusa", "hydra", "eagle-1", "eagle-2", "eagle-3", "mtp"}
    assert wanted - ran == set(report["skipped"])
    assert all(reason["what"] and reason["code"] for reason in report["skipped"].values())
    bare, skipped = settings_for(load_toy(), HeadPlan(), 0.0)
    assert [setting.method for setting in bare[:2]] == ["autoregressive", "draft-model"]
    assert "head:medusa" in skipped["medusa"].what and "toy" in skipped["medusa"].what


def test_chains_draft_one_candidate_per_position(pair: Pair) -> None:
    settings, _ = settings_for(pair, PLAN, 0.0)
    for setting in settings:
        trace = generate(
            pair,
            (3, 4, 5, 6),
            method=setting.method,
            params=dict(setting.params),
            temperature=0,
            max_new_tokens=10,
            record_laws=False,
        )
        for each in trace.rounds:
            assert each.num_drafted <= (setting.budget or 0), setting.label
            assert each.tree.is_chain or setting.shape == "tree", setting.label


def test_chains_of_heads_are_drawn_as_well_where_sampling_draws(pair: Pair) -> None:
    drawn = [each for each in settings_for(pair, PLAN, 1.0)[0] if each.shape == "drawn"]
    assert {each.method for each in drawn} == {"eagle-2", "eagle-3"}
    assert all("draft_sampling=drawn" in each.label for each in drawn)
    assert not [each for each in settings_for(pair, PLAN, 0.0)[0] if each.shape == "drawn"]


def test_a_plan_gives_more_budgets_to_the_two_that_share_a_head() -> None:
    plan = HeadPlan(budgets=(16, 24), sampled_budgets=(16,), compared_budgets=(8,))
    assert plan.budgets_of("eagle-1", 0.0) == plan.budgets_of("eagle-2", 0.0) == (8, 16, 24)
    assert plan.budgets_of("medusa", 0.0) == (16, 24) and plan.budgets_of("eagle-2", 1.0) == (16,)
    assert usual_plan("smollm2-135m").max_new_tokens < usual_plan("pocket").max_new_tokens
    for wrong in ({"repeats": 0}, {"sampled_repeats": -1}, {"widths": (2, 3)}):
        with pytest.raises(BadInput):
            HeadPlan(**wrong)


def test_prompts_are_neither_presets_nor_those_that_shaped_the_trees() -> None:
    unseen = unseen_prompts(False, 20)
    assert len({text for _, text in unseen}) == 20
    assert {family for family, _ in unseen} == set(FAMILIES)
    for family, text in unseen:
        if len(text) > 40:  # a title such as "JSON: animal" is written more than once
            assert text not in held_out_prompts(family, 24), text
        assert text not in example_prompts()[family], text
    assert unseen_prompts(True, 20) == bench_prompts(True, 20)
    with pytest.raises(BadInput, match="unseen"):
        unseen_prompts(False, 10**6)


# --- numbers --------------------------------------------------------------------------------------


def chain_trace(accepted: list[int], depth: int = 3, most: int = 100) -> Trace:
    """Return a made-up trace: per round a chain of `depth`, of which so many were accepted."""
    blank = generate(load_toy(), "abca", method="autoregressive", max_new_tokens=1)
    rounds = tuple(
        Round(
            index=i,
            context_length=4,
            tree=TokenTree.chain(range(depth)),
            verdict=Verdict(accepted=tuple(range(n)), next_token=0, outcome="correction", flips=()),
            emitted=tuple(range(n + 1)),
        )
        for i, n in enumerate(accepted)
    )
    spec = dataclasses.replace(blank.spec, max_new_tokens=most)
    return dataclasses.replace(blank, spec=spec, rounds=rounds)


def test_acceptance_by_depth_counts_rounds() -> None:
    found = by_depth({(0, 0): chain_trace([3, 0, 1, 2]), (0, 1): chain_trace([3, 3])})
    assert found["drafting"] == 6 and found["reached"] == [5, 4, 3]
    assert found["cumulative"] == pytest.approx([5 / 6, 4 / 6, 3 / 6], abs=1e-4)
    rates = [rate for rate, _, _ in found["conditional"]]
    assert rates == pytest.approx([5 / 6, 4 / 5, 3 / 4], abs=1e-4)
    assert all(low <= rate <= high for rate, low, high in found["conditional"])


def test_rounds_cut_by_the_limit_do_not_count_against_the_depth() -> None:
    whole, cut = chain_trace([3, 3, 0], most=100), chain_trace([3, 3, 0], most=10)
    assert by_depth({(0, 0): whole})["drafting"] == 3
    assert by_depth({(0, 0): cut})["drafting"] == 2


def test_a_depth_that_nobody_reached_has_no_conditional_rate() -> None:
    found = by_depth({(0, 0): chain_trace([0, 0])})
    assert found["cumulative"] == [0.0, 0.0, 0.0]
    assert found["conditional"][0][0] == 0.0 and found["conditional"][1] is None
    assert by_depth({(0, 0): chain_trace([0], depth=0)})["conditional"] == []


def test_greedy_repeats_count_once_and_sampled_ones_all() -> None:
    measured = Measured(
        seconds={(0, 0): 1.0, (1, 0): 1.0},
        traces={(0, 0): chain_trace([3]), (1, 0): chain_trace([0, 0])},
    )
    assert tau(measured.counted(True))[0] == 4.0
    assert tau(measured.counted(False))[0] == 2.0


def test_tau_ratio_is_one_of_rounds() -> None:
    slow = Measured(traces={(0, 0): chain_trace([1, 1]), (0, 1): chain_trace([1, 1])})
    fast = Measured(traces={(0, 0): chain_trace([3]), (0, 1): chain_trace([3])})
    assert tau_ratio(fast, slow, True)["ratio"] == 2.0


def test_static_and_dynamic_trees_are_paired_by_budget() -> None:
    made = {
        (name, 0.0): Setting(method=name, shape="tree", budget=8) for name in ("eagle-1", "eagle-2")
    }
    done = {
        ("eagle-1", 0.0): Measured(traces={(0, 0): chain_trace([1, 1])}),
        ("eagle-2", 0.0): Measured(traces={(0, 0): chain_trace([3])}),
    }
    (found,) = dynamic_against_static(made, done)
    assert found["budget"] == 8 and found["ratio"] == 2.0
    del made["eagle-1", 0.0]
    assert dynamic_against_static(made, done) == []


def test_a_row_compares_with_plain_decoding(pair: Pair) -> None:
    trace = generate(
        pair, (3, 4), method="draft-model", temperature=0, max_new_tokens=8, record_laws=False
    )
    mine = Measured(seconds={(0, 0): 1.0}, traces={(0, 0): trace})
    base = Measured(seconds={(0, 0): 3.0}, traces={(0, 0): trace})
    found = row(Setting(method="draft-model", shape="chain", budget=4), 0.0, mine, base)
    assert found["speedup"] == 3.0 and found["tokens_per_s"] == 8.0
    assert found["decode_speedup"] == 1.0 and found["greedy_agreement"] == 1.0


def test_branching_trees_have_two_children_per_node() -> None:
    tree = branching(7)
    assert tree.parents == (-1, -1, 0, 0, 1, 1, 2) and tree.max_depth == 3


# --- what a tree should bring ---------------------------------------------------------------------

RANKS = ((0.6, 0.2, 0.1), (0.5, 0.2, 0.1))


def test_the_curve_is_the_search_of_the_method() -> None:
    costs = PassCosts(widths=(1, 9), verify=(1.0, 2.0))
    points = expected_curve(RANKS, costs, depth=2, width=2, most=20)
    assert [point.nodes for point in points] == list(range(7))
    assert points[0].tokens == points[0].speedup == 1.0
    for point in points[1:]:
        tree = search_tree(RANKS, point.nodes, 2, 2)
        assert point.tokens == pytest.approx(expected_tokens(tree, RANKS))
        assert point.cost == pytest.approx(1.0 + point.nodes / 8)
    gains = [b.tokens - a.tokens for a, b in pairwise(points)]
    assert gains == sorted(gains, reverse=True)


def test_nothing_is_said_beyond_the_widest_measured_pass() -> None:
    points = expected_curve(
        RANKS, PassCosts(widths=(1, 3), verify=(1.0, 1.5)), depth=2, width=3, most=4
    )
    assert [point.cost is None for point in points] == [False, False, False, True, True]
    assert points[3].speedup is None and best_of(points).nodes <= 2
    assert best_of([Expected(nodes=3, tokens=2.0, cost=None)]) is None
    assert all(p.cost is None for p in expected_curve(RANKS, None, depth=2, width=3, most=3)[1:])


def test_a_smaller_budget_keeps_the_first_nodes() -> None:
    large = search_tree(RANKS, 6, 2, 3)
    nodes = tree_nodes(large, RANKS)
    for budget in range(1, 6):
        kept = {large.paths[i] for i, node in enumerate(nodes) if node.order < budget}
        assert kept == set(search_tree(RANKS, budget, 2, 3).paths)
    assert sum(node.chance for node in nodes) + 1.0 == pytest.approx(expected_tokens(large, RANKS))
    assert [node.depth for node in nodes] == [len(path) for path in large.paths]


def test_costs_of_drafting_are_read_from_the_table(report: dict) -> None:
    medusa, eagle = pass_costs(report, ["medusa"]), pass_costs(report, ["eagle-3"])
    assert medusa.measured and medusa.draft_passes == 1 and medusa.per_draft_pass > 0.0
    assert eagle.draft_passes is None
    tree = search_tree(RANKS, 4, 2, 2)
    free = dataclasses.replace(medusa, per_draft_pass=0.0)
    assert medusa.of_round(tree) > free.of_round(tree)
    assert not pass_costs({"costs": report["costs"], "rows": []}, ["medusa"]).measured


def test_bundled_heads_are_known_without_loading_them() -> None:
    kinds = head_kinds("pocket")
    assert {"medusa", "hydra", "eagle3"} <= set(kinds) and head_kinds("") == ()
    for kind in kinds:
        facts = head_facts("pocket", kind)
        assert facts is not None and facts.parameters > 0 and facts.minutes > 0.0
        assert all(0.0 < rate < 1.0 for rate in facts.held_out_top1)
        assert set(facts.methods) <= METHODS.keys()
        assert any("loss" in line for line in training_curve("pocket", kind))
    assert target_parameters("pocket") == 4_674_240 and target_parameters("nothing") is None
    costs = read_costs("pocket", "float32")
    assert costs is not None and costs["costs"]["verify_cost"]["1"] == 1.0
    assert read_costs("nothing", "float32") is None
    assert head_facts("pocket", "nothing") is None and training_curve("pocket", "nothing") == []


# --- text -----------------------------------------------------------------------------------------


def test_the_report_reads_as_markdown_and_in_the_terminal(report: dict, capsys) -> None:
    given = {
        **report,
        "dynamic_against_static": [
            {"budget": 8, "temperature": 0.0, "ratio": 1.1, "ratio_low": 1.0, "ratio_high": 1.2}
        ],
    }
    text = markdown(given)
    medusa = next(line for line in report["rows"] if line["method"] == "medusa")
    assert f"{medusa['tau']:.2f}" in text and "`medusa` | chain 5" in text
    assert "8 nodes at T = 0: 1.10 (1.00–1.20)" in text
    assert all(f"`{name}` was not run" in text for name in report["skipped"])
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| `")}
    assert len(widths) == 2
    print_heads(report)
    assert "medusa" in capsys.readouterr().out


def test_the_readme_is_filled_between_its_marks(report: dict, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("speclab.lab.head_files.BENCHMARKS", tmp_path)
    old = f"before\n{BEGIN}\nold\n{END}\nafter"
    assert with_part(old) == f"before\n{BEGIN}\n\n{END}\nafter"
    (tmp_path / "heads-tiny.json").write_text(json.dumps(report), encoding="utf-8")
    filled = with_part(old)
    assert "`medusa` | tree 8" in filled and "old" not in filled
    assert with_part(filled) == filled
    with pytest.raises(BadInput, match="marks"):
        with_part("nothing here")


def test_the_readme_in_the_repository_is_up_to_date() -> None:
    text = readme_part.README.read_text(encoding="utf-8")
    assert with_part(text) == text, "run: python -m speclab heads --readme"


def test_the_command_runs_and_writes(pair: Pair, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("speclab.models.catalogue.load_pair", lambda name, **options: pair)
    monkeypatch.setattr("speclab.lab.head_files.BENCHMARKS", tmp_path)
    monkeypatch.setattr("speclab.lab.head_plan.PLANS", {"tiny": PLAN})
    monkeypatch.setattr("speclab.models.catalogue.PAIRS", {"tiny": pair})
    monkeypatch.setattr("speclab.lab.calibration.complaints", lambda state: [])
    monkeypatch.setattr("speclab.lab.calibration.drifted", lambda before, after: [])
    monkeypatch.setattr("speclab.lab.calibration.BUSY_CORES", 1e9)
    place = tmp_path / "out.json"
    words = ["heads", "--pair", "tiny", "--prompts", "1", "--sampled-repeats", "0", "--keep"]
    done = CliRunner().invoke(app, [*words, "--json", str(place)])
    assert done.exit_code == 0, done.output
    written = json.loads(place.read_text(encoding="utf-8"))
    assert written == json.loads((tmp_path / "heads-tiny.json").read_text(encoding="utf-8"))
    assert written["num_prompts"] == 1 and {line["temperature"] for line in written["rows"]} == {
        0.0
    }
    assert written["busy"] is False

    def busy(before: object, after: object) -> list[str]:
        return ["a fixed product takes 9 times what it took before"]

    monkeypatch.setattr("speclab.lab.calibration.drifted", busy)
    kept = (tmp_path / "heads-tiny.json").read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, [*words, "--max-new-tokens", "4"])
    assert "9 times" in str(refused.exception) and "medusa" in refused.output
    assert (tmp_path / "heads-tiny.json").read_text(encoding="utf-8") == kept
