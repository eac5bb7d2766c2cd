"""The bundled pair of two tokenizers: exact law, greedy equality, hard texts, acceptance."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from greedy_kit import greedy

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method
from speclab.core.randomness import Randomness
from speclab.core.rules import RULES
from speclab.engine.loop import Decoding, Limits
from speclab.engine.memo import MemoHandle
from speclab.lab.bench_prompts import bench_prompts
from speclab.lab.runs import generate
from speclab.methods import make_method
from speclab.models.catalogue import load_pair
from speclab.models.foreign import IntersectionHandle
from speclab.models.pair import Pair
from speclab.testing import exact_law, largest_difference, target_law

TOP_3 = Sampling(top_k=3)
PROMPT = "Once upon a time, Once upon a"


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair("pocket-foreign", device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def held(pair: Pair) -> Pair:
    """The pair with a memo over either model, for many runs of one prompt."""
    assert pair.foreign is not None
    foreign = replace(pair.foreign, model=MemoHandle(pair.foreign.model))
    draft = IntersectionHandle(foreign=foreign, vocab_size=pair.target.vocab_size)
    return replace(pair, target=MemoHandle(pair.target), drafts=(draft,), foreign=foreign)


def begin(pair: Pair, method: Method, rule: str, limits: Limits, rng: Randomness) -> Decoding:
    prompt = pair.codec.encode(PROMPT)
    session = pair.target.open(prompt)
    kit = DraftKit(
        prompt=prompt,
        sampling=TOP_3,
        eos_ids=limits.eos_ids,
        vocab_size=pair.target.vocab_size,
        drafts=pair.drafts,
        foreign=pair.foreign,
        target=session,
    )
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=TOP_3,
        limits=limits,
    )


@pytest.mark.parametrize(
    ("name", "gamma", "rule"),
    [
        ("string-match", 3, "one-hot"),
        ("token-intersection", 1, "token"),
    ],
)
def test_exact_law(pair: Pair, held: Pair, name: str, gamma: int, rule: str) -> None:
    method = make_method(name, {"num_speculative_tokens": gamma})
    limits = Limits(max_new_tokens=2, max_context=1024, eos_ids=held.eos_ids)
    want = target_law(pair.target, pair.codec.encode(PROMPT), TOP_3, limits)
    found = exact_law(partial(begin, held, method, rule, limits))
    assert sum(found.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(found.probs, want) < 1e-12


HARD = (
    "A smile 😀 👨‍👩‍👧 and",
    "从前有一只狐狸，住在河边。",
    "two  spaces   and\n\n\tlines\n",
    "<|im_start|>user\nHi<|im_end|>\n",
)


@pytest.mark.parametrize("name", ["string-match", "token-intersection"])
def test_greedy_text_is_the_targets_own(pair: Pair, name: str) -> None:
    accepted = 0
    for text in (*HARD, *(text for _, text in bench_prompts(False, 20))):
        plain = greedy(pair, text, "autoregressive", tokens=8)
        fast = greedy(pair, text, name, tokens=8, num_speculative_tokens=3)
        assert fast.emitted == plain.emitted
        accepted += sum(round_.num_accepted for round_ in fast.rounds)
    assert accepted > 10


def test_both_vocabularies_share_enough_and_it_is_told(pair: Pair) -> None:
    assert pair.foreign is not None
    shared, mass = len(pair.foreign.spelling.shared_own), pair.foreign.shared_mass
    assert 1000 < shared < pair.target.vocab_size
    assert 0.0 < mass < 1.0
    trace = generate(pair, "Once", method="token-intersection", max_new_tokens=8)
    told = [e for r in trace.rounds for e in r.evidence if e.kind == "retokenised"]
    assert told and all(0.0 < value <= 1.0 for e in told for value in e.values)
    assert any(f"{shared} that the target" in warning for warning in trace.warnings)


def test_of_one_tokenizer_nothing_changes() -> None:
    pair = load_pair("pocket", device="cpu")
    assert pair.foreign is None
    request = {"temperature": 0.8, "seed": 1, "max_new_tokens": 24}
    left, right = (
        generate(pair, "Once", method=name, **request)
        for name in ("draft-model", "token-intersection")
    )
    assert left.emitted == right.emitted
    assert not any("tokenizer" in warning for warning in right.warnings)
