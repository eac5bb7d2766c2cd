"""Exact law: every method under every lossless rule gives the target's law."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from toy_methods import TOY_METHODS, small

from speclab.core.errors import TooManyBranches
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, provided, taps_of
from speclab.core.randomness import Randomness, Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.engine.loop import Decoding, Limits
from speclab.methods import METHODS, make_method
from speclab.models.toy import ToyModel
from speclab.testing import ExactLaw, exact_law, largest_difference, target_law
from speclab.testing.toy_heads import heads_for

PROMPT = (0, 1, 0)
LIMITS = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
LONG = Limits(max_new_tokens=20, max_context=100)
TARGET, DRAFTS = ToyModel.random(7), (ToyModel.random(8), ToyModel.random(9))
SAMPLINGS = {
    "plain": Sampling(),
    "warped": Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.3),
    "greedy": Sampling(temperature=0.0),
}


def begin(
    method: Method,
    rule: str,
    sampling: Sampling,
    rng: Randomness,
    *,
    target: ToyModel = TARGET,
    drafts: tuple[ToyModel, ...] = DRAFTS,
    limits: Limits = LIMITS,
) -> Decoding:
    session = target.open(PROMPT, taps_of(method, heads_for(target)))
    kit = DraftKit(
        prompt=PROMPT,
        sampling=sampling,
        eos_ids=limits.eos_ids,
        vocab_size=target.vocab_size,
        drafts=drafts,
        target=session,
        prefill_features=session.prefill_features,
        heads=heads_for(target),
    )
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=sampling,
        limits=limits,
    )


def chains() -> list[Method]:
    gamma_two = {"num_speculative_tokens": 2}
    return [
        make_method("draft-model", {"num_speculative_tokens": 1}),
        make_method("draft-model", gamma_two),
        make_method("draft-model", {**gamma_two, "draft_temperature": 0.0}),
        make_method("draft-model", {**gamma_two, "draft_temperature": 1.7}),
        make_method("draft-model", {**gamma_two, "min_confidence": 0.4}),
        make_method("draft-model", {"num_speculative_tokens": 1, "shared_noise": True}),
        make_method("draft-model", {**gamma_two, "shared_noise": True}),
        make_method("draft-model", {**gamma_two, "shared_noise": True, "min_confidence": 0.4}),
        make_method("early-exit", {**gamma_two, "min_confidence": 0.4}),
        make_method("early-exit", {**gamma_two, "draft_temperature": 0.0}),
        make_method("draft-and-verify", {**gamma_two, "stop_threshold": 0.4}),
    ]


def trees(width: int) -> list[Method]:
    kinds = ("without-replacement", "iid", "top-k")
    return [
        make_method("draft-tree", {"depth": 2, "width": width, "siblings": kind}) for kind in kinds
    ]


def others() -> list[Method]:
    return [small(name) for name in METHODS if not name.startswith("draft-")]


def allowed(methods: list[Method], samplings: dict[str, Sampling]) -> list[Any]:
    """Return every method x sampling x lossless rule whose needs the proposals meet."""
    return [
        pytest.param(method, rule, sampling, id=f"{method}-{rule}-{name}")
        for method in methods
        for name, sampling in samplings.items()
        for rule in lossless_rules(provided(method, sampling))
    ]


@pytest.mark.parametrize(
    ("method", "rule", "sampling"),
    allowed([*others(), *chains(), *trees(1), *trees(2), *TOY_METHODS], SAMPLINGS),
)
def test_law_is_the_targets(method: Method, rule: str, sampling: Sampling) -> None:
    law = exact_law(partial(begin, method, rule, sampling))
    want = target_law(TARGET, PROMPT, sampling, LIMITS)
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(law.probs, want) < 1e-12


def test_every_lossless_rule_was_tried() -> None:
    cases = allowed([*chains(), *trees(2)], SAMPLINGS)
    tried = {case.values[1] for case in cases}
    assert tried == {rule.name for rule in RULES.values() if rule.lossless}


WIDE = ToyModel.random(7, vocab_size=4), (ToyModel.random(8, vocab_size=4),)
NO_EOS = Limits(max_new_tokens=3, max_context=100)


@pytest.mark.parametrize(("method", "rule", "sampling"), allowed(trees(2), {"plain": Sampling()}))
def test_law_of_trees_over_four_tokens(method: Method, rule: str, sampling: Sampling) -> None:
    """Depth 2, width 2, vocabulary 4, 3 new tokens: 4^6 drafts, with every coin of each."""
    target, drafts = WIDE
    start = partial(begin, method, rule, sampling, target=target, drafts=drafts, limits=NO_EOS)
    law = exact_law(start)
    want = target_law(target, PROMPT, sampling, NO_EOS)
    assert len(want) == 64 and largest_difference(law.probs, want) < 1e-12


def both_laws(method: Method, rule: str, new_tokens: int) -> tuple[ExactLaw, ExactLaw]:
    limits = Limits(max_new_tokens=new_tokens, max_context=100)
    start = partial(begin, method, rule, Sampling(), limits=limits)
    return exact_law(start), exact_law(start, merge=False, max_leaves=1_000_000)


@pytest.mark.parametrize(
    ("method", "rule", "tokens"),
    [
        (trees(2)[1], "token", 2),
        (trees(2)[1], "k-seq", 2),
        (chains()[1], "block", 3),
        (chains()[6], "coupled", 3),
        (chains()[6], "match", 3),
        (trees(2)[0], "token", 3),
        (trees(2)[1], "siblings-iid", 3),
    ],
    ids=str,
)
def test_merging_changes_nothing(method: Method, rule: str, tokens: int) -> None:
    merged, unmerged = both_laws(method, rule, tokens)
    assert unmerged.num_leaves > merged.num_leaves, "nothing was merged, or it was not switched off"
    assert largest_difference(merged.probs, unmerged.probs) < 1e-12


@pytest.mark.slow
def test_merging_changes_nothing_of_four_tokens() -> None:
    merged, unmerged = both_laws(trees(2)[0], "token", 4)
    assert unmerged.num_leaves > 30 * merged.num_leaves
    assert largest_difference(merged.probs, unmerged.probs) < 1e-12


def test_what_is_above_the_budget_is_refused_with_its_count() -> None:
    start = partial(begin, trees(2)[1], "token", Sampling())
    whole = exact_law(start)
    assert exact_law(start, max_leaves=whole.num_leaves).probs == whole.probs
    with pytest.raises(TooManyBranches, match=f"branch {whole.num_leaves} ") as caught:
        exact_law(start, max_leaves=whole.num_leaves - 1)
    assert caught.value.values["count"] == whole.num_leaves


def test_a_rule_that_spends_coins_of_its_own_may_not_trust_shared_noise() -> None:
    """Block verification looks at tokens whose noise the next round draws with again."""
    shared, limits = chains()[6], Limits(max_new_tokens=3, max_context=100)
    want = target_law(TARGET, PROMPT, Sampling(), limits)
    biased = exact_law(partial(begin, shared, "block", Sampling(), limits=limits))
    assert largest_difference(biased.probs, want) > 1e-4
    given = provided(shared, Sampling())
    assert set(lossless_rules(given)) == {"match", "coupled"}


def test_coupled_text_is_plain_text_of_the_same_seed() -> None:
    shared, plain = chains()[6], make_method("autoregressive")
    for seed in range(60):
        texts = []
        for method in (shared, plain):
            decoding = begin(method, "coupled", Sampling(), Seeded(seed), limits=LONG)
            rounds = list(decoding)
            texts.append(decoding.emitted)
        assert texts[0] == texts[1] and len(rounds) == len(texts[1])


def test_stopped_sequences_sum_to_one() -> None:
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    assert {len(text) for text in want} == {1, 2, 3}
    assert sum(want.values()) == pytest.approx(1.0, abs=1e-12)
