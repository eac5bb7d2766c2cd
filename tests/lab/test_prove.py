"""Proofs: exact laws, samples beside a control, and what both say of themselves."""

from __future__ import annotations

import json
from itertools import count

import numpy as np
import pytest

from speclab.core.errors import BadInput, TooManyBranches, UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.rules import LOSSLESS, RULES, rule_named
from speclab.engine.chain_sampler import PLACE_BY_PLACE
from speclab.engine.loop import Limits
from speclab.engine.prefix_rows import PrefixRows
from speclab.lab import prove_console
from speclab.lab.prove import ProveReport, ProveSpec, prove_exact, prove_samples
from speclab.lab.prove_case import rule_facts
from speclab.lab.prove_console import prove_on_console
from speclab.lab.sequence_law import sequence_law
from speclab.models.catalogue import load_pair
from speclab.testing import target_law

TOY = load_pair("toy")
SERVED_BY = {
    "coupled": ("draft-model", {"shared_noise": True, "num_speculative_tokens": 2}),
    "siblings-topk": ("draft-tree", {"siblings": "top-k", "depth": 2, "width": 2}),
}
SERVED = [
    (rule.name, *SERVED_BY.get(rule.name, ("draft-model", {"num_speculative_tokens": 3})))
    for rule in LOSSLESS
]
TREES = [
    ("siblings-iid", "draft-tree", {"siblings": "iid", "depth": 1, "width": 2}),
    ("k-seq", "draft-tree", {"siblings": "iid", "depth": 1, "width": 2}),
    ("siblings-without-replacement", "draft-tree", {"depth": 1, "width": 2}),
    ("one-hot", "prompt-lookup", {}),
]


def spec(**more) -> ProveSpec:
    return ProveSpec(**{"pair": "toy", "length": 3, **more})


def proved(pair, wanted: ProveSpec) -> ProveReport:
    *_, last = prove_samples(pair, wanted)
    assert last.report is not None
    return last.report


@pytest.mark.parametrize(("rule", "method", "params"), [*SERVED, *TREES])
def test_every_lossless_rule_is_exact_on_the_toy(rule, method, params) -> None:
    report = prove_exact(TOY, spec(rule=rule, method=method, params=params))
    assert report.within and report.difference < 1e-12 and report.total_variation < 1e-12
    assert report.num_sequences == 64 and report.num_leaves > 4
    assert sum(cell["law"] for cell in report.first) == pytest.approx(1.0)


@pytest.mark.parametrize("rule", ["broken-redraw-from-p", "lenience", "broken-wrong-temperature"])
def test_a_wrong_rule_is_not_exact_and_says_so(rule: str) -> None:
    report = prove_exact(TOY, spec(rule=rule))
    assert not report.within and report.total_variation > 0.05
    assert report.rule["kind"] == RULES[rule].kind and report.rule["why_not"]["zh"]


def test_the_tree_of_outcomes_of_a_tiny_case() -> None:
    tiny = spec(length=2, params={"num_speculative_tokens": 1})
    report = prove_exact(TOY, tiny)
    tree = report.tree
    assert tree is not None and tree[0]["parent"] == -1 and tree[0]["kind"] == "start"
    assert all(node["parent"] < node["id"] for node in tree)
    leaves = [node for node in tree if node["emitted"] is not None]
    assert sum(leaf["weight"] for leaf in leaves) == pytest.approx(1.0, abs=1e-12)
    law: dict[tuple[int, ...], float] = {}
    for leaf in leaves:
        text = tuple(leaf["emitted"])
        law[text] = law.get(text, 0.0) + leaf["weight"]
    for shown in report.sequences:
        assert law[tuple(shown["tokens"])] == pytest.approx(shown["target"], abs=1e-12)
    inner = {node["parent"] for node in tree}
    assert all((node["emitted"] is None) == (node["id"] in inner) for node in tree)
    assert prove_exact(TOY, spec(length=4)).tree is None
    json.dumps(report.to_data())


def test_branches_are_counted_aloud() -> None:
    told: list[int] = []
    report = prove_exact(TOY, spec(), progress=told.append)
    assert told == list(range(1, report.num_leaves + 1))


def test_the_console_counts_branches_and_says_what_to_make_smaller(monkeypatch) -> None:
    monkeypatch.setattr(prove_console, "SAY_EVERY_S", 0.0)
    monkeypatch.setattr(prove_console, "MAX_LEAVES", 40)
    said: list[str] = []
    with pytest.raises(TooManyBranches) as error:
        prove_on_console(TOY, spec(length=4), exact=True, say=said.append)
    assert said[:2] == ["1 branches, of at most 40", "2 branches, of at most 40"]
    assert "41" in error.value.what and "--length, --top-k" in error.value.hint


def test_a_bias_is_that_of_the_parameters_in_use() -> None:
    for name, values, bias in (
        ("lenience", {}, 0.35),
        ("lenience", {"lenience": 0.5}, 0.35),
        ("lenience", {"lenience": 1.0}, 0.0),
        ("threshold", {"threshold": 1.0}, 0.105),
        ("token", {}, 0.0),
    ):
        assert rule_facts(rule_named(name, values))["bias"] == pytest.approx(bias, abs=1e-12)
    data = prove_exact(TOY, spec(rule="lenience", rule_params={"lenience": 1.0})).to_data()
    assert data["rule"]["bias"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("alpha", [1e-7, 0.0, 1.0, float("nan")])
def test_a_level_where_the_chi_square_is_not_valid_is_refused(alpha) -> None:
    with pytest.raises(BadInput):
        spec(alpha=alpha)
    assert spec(alpha=1e-6).alpha == 1e-6


def test_a_case_above_the_budget_is_refused_with_its_count() -> None:
    with pytest.raises(TooManyBranches, match="limit is 50"):
        prove_exact(TOY, spec(), max_leaves=50)


@pytest.mark.parametrize(("rule", "method", "params"), [*SERVED, *TREES[:2]])
def test_every_lossless_rule_passes_beside_its_control(rule, method, params) -> None:
    wanted = spec(rule=rule, method=method, params=params, num_samples=3_000, seed=1)
    report = proved(TOY, wanted)
    together = method == "draft-model" and rule in PLACE_BY_PLACE
    assert report.path == ("together" if together else "loop")
    assert report.num_samples == 3_000 and report.rounds >= 3_000
    assert report.verdict != "rejected"
    assert report.verdict == "not_rejected", report.control
    assert min(test.control_adjusted for test in report.report.family) < 1e-3
    assert not RULES[report.control["name"]].lossless


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("broken-redraw-from-p", {}),
        ("broken-softmax-residual", {}),
        ("broken-redraw-after-mismatch", {}),
        ("typical", {}),
        ("broken-argmax-draft-softmax-q", {"draft_temperature": 0.0}),
    ],
)
def test_wrong_rules_are_rejected(rule, params) -> None:
    report = proved(TOY, spec(rule=rule, params=params, num_samples=5_000))
    assert report.verdict == "rejected" and report.anytime_p < 1e-3
    assert report.control["name"] != rule


def test_an_impossible_token_is_enough() -> None:
    wanted = spec(rule="broken-softmax-residual", sampling=Sampling(top_k=2), num_samples=300)
    report = proved(TOY, wanted)
    assert report.verdict == "rejected" and report.anytime_p == 0.0
    main = report.to_data()["report"]["main"]
    assert main["num_forbidden"] > 0 and len(main["forbidden"]) <= 20


def test_what_cannot_be_seen_is_inconclusive() -> None:
    report = proved(TOY, spec(method="autoregressive", num_samples=2_000))
    assert report.verdict == "inconclusive" and report.control is None
    assert 0.0 < report.report.detectable_bias < 1.0


def test_the_same_seed_gives_the_same_numbers_however_it_is_batched() -> None:
    def numbers(rule: str, every_s: float) -> tuple:
        wanted = spec(rule=rule, num_samples=1_500, seed=5)
        *_, last = prove_samples(TOY, wanted, every_s=every_s)
        assert last.report is not None
        return last.cells, last.report.report, last.report.first

    for rule in ("token", "block"):
        assert numbers(rule, 0.001) == numbers(rule, 5.0)
    other = proved(TOY, spec(num_samples=1_500, seed=6))
    assert other.cells != numbers("token", 5.0)[0]


def test_progress_grows_and_stopping_judges_what_there_is() -> None:
    seen = []
    asked = count()
    wanted = spec(num_samples=100_000)
    for progress in prove_samples(TOY, wanted, cancelled=lambda: next(asked) > 6, every_s=0.01):
        seen.append(progress)
    samples = [progress.num_samples for progress in seen]
    assert samples[0] == 0 and samples == sorted(samples) and samples[-1] < 100_000
    assert [progress.report is None for progress in seen[:-1]] == [True] * (len(seen) - 1)
    last = seen[-1]
    assert last.report is not None and last.report.cancelled
    assert last.report.num_samples == last.num_samples
    assert sum(cell["observed"] for cell in last.cells) == last.num_samples
    assert sum(cell["control"] for cell in last.cells) == last.num_samples
    assert sum(cell["expected"] for cell in last.cells) == pytest.approx(last.num_samples)
    (start,) = prove_samples(TOY, wanted, cancelled=lambda: True)
    assert start.report is None and start.num_samples == 0


def test_the_cut_law_is_the_targets_law_summed() -> None:
    rows = PrefixRows(TOY.target, (0, 1), Sampling())
    law = sequence_law(rows, length=4, eos_ids=frozenset({3}), num_samples=400)
    limits = Limits(max_new_tokens=4, max_context=100, eos_ids=frozenset({3}))
    whole = target_law(TOY.target, (0, 1), Sampling(), limits)
    summed: dict[tuple[int, ...], float] = {}
    for text, prob in whole.items():
        part = law.label(text, rows)
        summed[part] = summed.get(part, 0.0) + prob
    assert summed.keys() == law.probs.keys() and len(summed) < len(whole)
    for text, prob in summed.items():
        assert law.probs[text] == pytest.approx(prob, abs=1e-12)


def test_impossible_sequences_have_no_part() -> None:
    rows = PrefixRows(TOY.target, (0, 1), Sampling(top_k=2))
    law = sequence_law(rows, length=3, eos_ids=frozenset(), num_samples=30)
    never = next(token for token in range(4) if rows.law(()).prob(token) == 0.0)
    assert law.label((never, 0, 0), rows) == (never,)
    closed = next(text for text in law.probs if len(text) < 3)
    rows.ensure([closed])
    below = next(token for token in range(4) if rows.law(closed).prob(token) == 0.0)
    assert law.label((*closed, below, 0)[:3], rows) == (*closed, below)
    assert (*closed, below) not in law.probs


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"num_samples": 0}, BadInput),
        ({"num_samples": 2.5}, BadInput),
        ({"length": 0}, BadInput),
        ({"alpha": 0.0}, BadInput),
        ({"alpha": 1.5}, BadInput),
        ({"seed": -1}, BadInput),
        ({"rule": "nope"}, BadInput),
        ({"method": "nope"}, BadInput),
        ({"params": {"gamma": 3}}, BadInput),
        ({"rule": "lenience", "rule_params": {"nope": 1}}, BadInput),
        ({"rule": "siblings-topk"}, BadInput),
        ({"control": "token"}, BadInput),
        ({"control": "broken-naive-multi-draft"}, BadInput),
        ({"prompt": "xyz"}, BadInput),
        ({"sampling": Sampling(temperature=0.0)}, BadInput),
        ({"num_samples": 1}, BadInput),
        ({"method": "medusa"}, (BadInput, UnsupportedModel)),
    ],
)
def test_bad_input_is_said_before_anything_is_drawn(more, error) -> None:
    with pytest.raises(error):
        next(prove_samples(TOY, spec(**more)))


def test_pocket_two_thousand_sequences() -> None:
    pair = load_pair("pocket", device="cpu")
    progress = list(prove_samples(pair, ProveSpec(num_samples=2_000)))
    report = progress[-1].report
    assert report is not None and report.path == "together"
    assert report.verdict == "not_rejected" and report.report.control.p_value < 1e-3
    assert report.num_passes < report.num_laws / 5 and report.hit_rate > 0.5
    assert report.cpu_s < 10.0
    data = json.loads(json.dumps(report.to_data()))
    assert data["about"]["target"]["source"].startswith("bundled:pocket/target@")
    assert data["smallest_detectable_bias"] == pytest.approx(0.08, abs=0.02)
    assert data["spec"]["sampling"]["top_k"] == 20


def test_pocket_in_the_loop_with_memo_rows() -> None:
    pair = load_pair("pocket", device="cpu")
    report = proved(pair, ProveSpec(rule="block", num_samples=300, length=3))
    assert report.path == "loop" and report.verdict == "not_rejected"


def test_pocket_exactly() -> None:
    pair = load_pair("pocket", device="cpu")
    small = ProveSpec(length=2, sampling=Sampling(top_k=4), params={"num_speculative_tokens": 1})
    report = prove_exact(pair, small)
    assert report.within and report.num_sequences == 16
    wrong = prove_exact(pair, ProveSpec(length=2, sampling=Sampling(top_k=4), rule="lenience"))
    assert not wrong.within
    assert np.isclose(sum(cell["target"] for cell in wrong.first), 1.0)
