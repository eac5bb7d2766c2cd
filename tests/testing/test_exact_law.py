"""Exact law: every method under every lossless rule gives the target's law."""

from __future__ import annotations

from functools import partial

import pytest
from toy_methods import TOY_METHODS

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Method, provided
from speclab.core.randomness import Randomness
from speclab.core.rules import RULES
from speclab.engine.loop import Decoding, Limits
from speclab.methods import METHODS, make_method
from speclab.models.toy import ToyModel
from speclab.testing import exact_law, largest_difference, target_law

PROMPT = (0, 1, 0)
LIMITS = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({2}))
TARGET, DRAFTS = ToyModel.random(7), (ToyModel.random(8), ToyModel.random(9))
SAMPLINGS = {
    "plain": Sampling(),
    "warped": Sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.3),
    "greedy": Sampling(temperature=0.0),
}


def begin(method: Method, rule: str, sampling: Sampling, rng: Randomness) -> Decoding:
    session = TARGET.open(PROMPT, method.taps)
    kit = DraftKit(
        prompt=PROMPT,
        sampling=sampling,
        eos_ids=LIMITS.eos_ids,
        vocab_size=3,
        drafts=DRAFTS,
        target=session,
        prefill_features=session.prefill_features,
    )
    return Decoding(
        session=session,
        run=method.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=sampling,
        limits=LIMITS,
    )


def shipped() -> list[Method]:
    methods = [make_method(name) for name in METHODS if name != "draft-model"]
    return [
        *methods,
        make_method("draft-model", {"num_speculative_tokens": 1}),
        make_method("draft-model", {"num_speculative_tokens": 2}),
        make_method("draft-model", {"num_speculative_tokens": 2, "draft_temperature": 0.0}),
        make_method("draft-model", {"num_speculative_tokens": 2, "draft_temperature": 1.7}),
        make_method("draft-model", {"num_speculative_tokens": 2, "min_confidence": 0.4}),
    ]


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("rule", [rule.name for rule in RULES.values() if rule.lossless])
@pytest.mark.parametrize("method", [*shipped(), *TOY_METHODS], ids=repr)
def test_law_is_the_targets(method: Method, rule: str, sampling: Sampling) -> None:
    if not RULES[rule].needs <= provided(method, sampling):
        pytest.skip("not claimed")
    law = exact_law(partial(begin, method, rule, sampling))
    want = target_law(TARGET, PROMPT, sampling, LIMITS)
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(law.probs, want) < 1e-12


def test_stopped_sequences_sum_to_one() -> None:
    want = target_law(TARGET, PROMPT, Sampling(), LIMITS)
    assert {len(text) for text in want} == {1, 2, 3}
    assert sum(want.values()) == pytest.approx(1.0, abs=1e-12)
