"""The bundled pairs: exact law through both sessions, greedy equality, self-draft."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, provided, taps_of
from speclab.core.randomness import Randomness
from speclab.core.records import Trace
from speclab.core.rules import RULES
from speclab.engine.loop import Decoding, Limits
from speclab.engine.memo import MemoHandle
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.runs import generate, heads_of
from speclab.methods import METHODS, make_method
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair
from speclab.testing import exact_law, largest_difference, target_law

GREEDY = Sampling(temperature=0.0)
NEAR_TIE = 1e-4


@pytest.fixture(scope="module")
def pocket64() -> Pair:
    return load_pair("pocket", device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def pocket_mtp64() -> Pair:
    return load_pair("pocket-mtp", device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def pocket() -> Pair:
    return load_pair("pocket", device="cpu")


TOP_3 = Sampling(top_k=3)
SMALL_WINDOW = {"window": 2, "ngram": 2, "guesses": 2, "pool_from_prompt": True}
OWN_SESSION = {"early_exit", "skip_layers", "quantised_draft"}
"""Needs that a memo over the target does not meet."""

EXACT_METHODS = (
    make_method("autoregressive"),
    make_method("draft-model", {"num_speculative_tokens": 2}),
    make_method("draft-model", {"num_speculative_tokens": 2, "shared_noise": True}),
    make_method("prompt-lookup", {"num_speculative_tokens": 2}),
    make_method("prompt-lookup", {"num_speculative_tokens": 1, "branches": 2}),
    make_method("suffix", {"mode": "tree", "num_speculative_tokens": 2, "factor": 2.0}),
    make_method("jacobi", {"num_speculative_tokens": 2}),
    make_method("lookahead", SMALL_WINDOW),
    make_method("lookahead-draft", {"depth": 1, **SMALL_WINDOW}),
    make_method("draft-tree", {"depth": 1, "width": 2, "siblings": "iid"}),
    make_method("draft-tree", {"depth": 1, "width": 2, "siblings": "without-replacement"}),
    make_method("draft-tree", {"depth": 2, "width": 2, "siblings": "top-k"}),
    make_method("multi-draft", {"num_speculative_tokens": 1}),
    make_method("multi-draft", {"num_speculative_tokens": 1, "models": "two"}),
    make_method("staged", {"num_speculative_tokens": 2}),
    make_method("staged", {"num_speculative_tokens": 1, "inner": "draft-model"}),
    make_method("cascade", {"num_speculative_tokens": 2, "tokens_per_level": 1}),
    make_method("cascade", {"num_speculative_tokens": 1, "drafters": 2}),
    make_method("string-match", {"num_speculative_tokens": 2}),
    make_method("token-intersection", {"num_speculative_tokens": 1}),
    make_method("medusa", {"tree_nodes": 6}),
    make_method("medusa", {"tree_nodes": 3, "siblings": "without-replacement"}),
    make_method("hydra", {"tree_nodes": 6}),
    make_method("eagle-1", {"depth": 1, "top_k": 2, "total_tokens": 2}),
    make_method("eagle-2", {"depth": 2, "top_k": 2, "total_tokens": 3}),
    make_method("eagle-3", {"depth": 2, "top_k": 2, "total_tokens": 3}),
    make_method("eagle-3", {"depth": 2, "top_k": 1, "draft_sampling": "drawn"}),
    make_method("mtp", {"num_speculative_tokens": 2}),
    make_method("parallel-mtp", {"num_speculative_tokens": 2}),
    make_method("early-exit", {"num_speculative_tokens": 2}),
    make_method("draft-and-verify", {"num_speculative_tokens": 2, "stop_threshold": 0.1}),
    make_method("kangaroo", {"num_speculative_tokens": 2}),
    make_method("quantspec", {"num_speculative_tokens": 1}),
)
EXACT_CASES = [
    pytest.param(method, rule.name, id=f"{method!r}-{rule.name}")
    for method in EXACT_METHODS
    for rule in RULES.values()
    if rule.lossless and rule.needs <= provided(method, TOP_3)
]


def begin(
    pair: Pair, method: Method, rule: str, prompt, limits: Limits, rng: Randomness
) -> Decoding:
    sampling = TOP_3
    heads = {name: pair.heads[name] for name in heads_of(method)}
    session = pair.target.open(prompt, taps_of(method, heads))
    kit = DraftKit(
        prompt=prompt,
        sampling=sampling,
        eos_ids=limits.eos_ids,
        vocab_size=pair.target.vocab_size,
        drafts=pair.drafts,
        target=session,
        prefill_features=session.prefill_features,
        heads=heads,
    )
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=sampling,
        limits=limits,
    )


def test_every_method_is_shown_exact_on_the_pair() -> None:
    assert {method.card.name for method in EXACT_METHODS} == set(METHODS)


@pytest.mark.parametrize("method, rule", EXACT_CASES)
def test_exact_law_of_the_pair(
    pocket64: Pair, pocket_mtp64: Pair, method: Method, rule: str
) -> None:
    mine = set(heads_of(method)) <= set(pocket64.heads)
    pair = pocket64 if mine else pocket_mtp64
    prompt = pair.codec.encode("Once upon a time, Once upon a")
    limits = Limits(max_new_tokens=2, max_context=1024, eos_ids=pair.eos_ids)
    want = target_law(pair.target, prompt, TOP_3, limits)
    if not heads_of(method) and not method.card.needs & OWN_SESSION:
        memo = replace(
            pair,
            target=MemoHandle(pair.target),
            drafts=tuple(MemoHandle(draft) for draft in pair.drafts),
        )
        by_memo = exact_law(partial(begin, memo, method, rule, prompt, limits))
        assert sum(by_memo.probs.values()) == pytest.approx(1.0, abs=1e-12)
        assert largest_difference(by_memo.probs, want) < 1e-12
    by_cache = exact_law(partial(begin, pair, method, rule, prompt, limits))
    assert sum(by_cache.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(by_cache.probs, want) < 1e-9


@pytest.mark.parametrize("name", ["draft-model", "prompt-lookup"])
def test_greedy_speculation_is_the_targets_own_text(
    pocket: Pair, pocket64: Pair, name: str
) -> None:
    ties = 0
    for _, text in bench_prompts(False, 20):
        plain = generate(pocket, text, method="autoregressive", sampling=GREEDY, max_new_tokens=32)
        for gamma in range(1, 9):
            request = {"sampling": GREEDY, "max_new_tokens": 32, "num_speculative_tokens": gamma}
            fast = generate(pocket, text, method=name, record_laws=False, **request)
            if fast.emitted != plain.emitted:
                ties += 1
                assert_near_tie(pocket64, plain, fast)
                exact = generate(pocket64, text, method=name, **request)
                del request["num_speculative_tokens"]
                want = generate(pocket64, text, method="autoregressive", **request)
                assert exact.emitted == want.emitted
    assert ties <= 8


@pytest.mark.parametrize("name", ["medusa", "hydra"])
def test_greedy_trees_of_heads_are_the_targets_own_text(
    pocket: Pair, pocket64: Pair, name: str
) -> None:
    ties = accepted = 0
    request = {"sampling": GREEDY, "max_new_tokens": 32, "record_laws": False}
    for _, text in bench_prompts(False, 20):
        plain = generate(pocket, text, method="autoregressive", **request)
        fast = generate(pocket, text, method=name, **request)
        accepted += sum(round_.num_accepted for round_ in fast.rounds)
        if fast.emitted != plain.emitted:
            ties += 1
            assert_near_tie(pocket64, plain, fast)
    assert ties <= 2 and accepted > 20 * 8


def assert_near_tie(pair64: Pair, plain: Trace, fast: Trace) -> None:
    """The texts part where the float64 target is undecided to within NEAR_TIE."""
    both = zip(plain.emitted, fast.emitted, strict=False)
    parting = next(place for place, (a, b) in enumerate(both) if a != b)
    context = [*plain.prompt_tokens, *plain.emitted[:parting]]
    ((row,),) = pair64.target.evaluate([context], [1])
    assert row.top_gap() < NEAR_TIE, f"token {parting}: gap {row.top_gap():.3g}"


@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
def test_greedy_self_draft_accepts_everything(pocket64: Pair, gamma: int) -> None:
    selfish = replace(pocket64, drafts=(pocket64.target,))
    trace = generate(
        selfish,
        "Once upon a time",
        method="draft-model",
        sampling=GREEDY,
        max_new_tokens=64,
        ignore_eos=True,
        num_speculative_tokens=gamma,
    )
    drafted = sum(round_.num_drafted for round_ in trace.rounds)
    assert drafted > 0
    assert sum(round_.num_accepted for round_ in trace.rounds) == drafted
