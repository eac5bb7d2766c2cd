"""QuantSpec: exact on tiny and bundled targets, over splits, in text, rounds and evidence."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from greedy_kit import greedy
from tiny_models import tiny

from speclab.core.errors import UnsupportedModel
from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit, Room, provided
from speclab.core.randomness import Randomness, Seeded
from speclab.core.rules import RULES, lossless_rules
from speclab.engine.loop import Decoding, Limits
from speclab.lab.quantspec import long_texts
from speclab.lab.runs import open_run
from speclab.methods.quantspec import QuantSpec
from speclab.methods.self_drafting import SelfDraftRun
from speclab.models.catalogue import load_pair
from speclab.models.pair import Pair
from speclab.models.quantised_target import with_cache
from speclab.models.transformer import TransformerHandle
from speclab.testing import exact_law, largest_difference, target_law
from speclab.testing.conformance import check_method, toy_kit

PROMPT = (1, 3, 0, 2, 2, 1, 0, 3, 1, 1, 2, 0, 3, 0, 1, 2, 0, 3, 1, 2, 3, 0)
"""22 tokens with blocks of 8: new ones are drafted and judged on both sides of a split at 24."""
WARM = Sampling(temperature=0.8, top_k=2)


@pytest.fixture(scope="module")
def pocket8() -> Pair:
    return load_pair("pocket-int8kv", device="cpu", dtype="float64")


def small_target(cache: str) -> Any:
    return with_cache(tiny(vocab_size=4), cache)  # type: ignore[arg-type]


def begin(
    target: Any,
    rng: Randomness,
    *,
    rule: str = "token",
    n: int = 3,
    method: QuantSpec | None = None,
) -> Decoding:
    session = target.open(PROMPT)
    limits = Limits(max_new_tokens=n, max_context=100, eos_ids=frozenset({3}))
    kit = DraftKit(
        prompt=PROMPT,
        sampling=WARM,
        eos_ids=limits.eos_ids,
        vocab_size=target.vocab_size,
        target=session,
    )
    chosen = method or QuantSpec(num_speculative_tokens=2, group_size=16)
    return Decoding(
        session=session,
        run=chosen.start(kit),
        rule=RULES[rule],
        rng=rng,
        sampling=WARM,
        limits=limits,
    )


@pytest.mark.parametrize("cache", ["hierarchical", "full"])
@pytest.mark.parametrize("rule", ["token", "block"])
def test_exact_law_across_a_split(cache: str, rule: str) -> None:
    target = small_target(cache)
    limits = Limits(max_new_tokens=3, max_context=100, eos_ids=frozenset({3}))
    law = exact_law(partial(begin, target, rule=rule))
    want = target_law(target, PROMPT, WARM, limits)
    assert sum(law.probs.values()) == pytest.approx(1.0, abs=1e-12)
    assert largest_difference(law.probs, want) < 1e-9
    other = target_law(
        small_target("full" if cache != "full" else "hierarchical"), PROMPT, WARM, limits
    )
    assert largest_difference(law.probs, other) > 1e-6, "the two targets are two laws"


def test_judged_by_another_target_it_would_be_wrong() -> None:
    """The control: a draft law claimed of the full cache, drawn at 4 bits, changes the output."""

    class Liar(SelfDraftRun):
        def propose(self, room, rng):
            proposal = super().propose(room, rng)
            claimed = tuple(None if q is None else np.full(4, 0.25) for q in proposal.draft_probs)
            return replace(proposal, draft_probs=claimed)

    class Lying(QuantSpec):
        def start(self, kit):
            run = super().start(kit)
            run.__class__ = Liar
            return run

    target = small_target("hierarchical")
    limits = Limits(max_new_tokens=2, max_context=100, eos_ids=frozenset({3}))
    lying = Lying(num_speculative_tokens=1, group_size=16)
    law = exact_law(partial(begin, target, n=2, method=lying))
    assert largest_difference(law.probs, target_law(target, PROMPT, WARM, limits)) > 1e-3


def test_the_kit_on_real_sessions() -> None:
    target = small_target("hierarchical")

    def make(prompt: tuple[int, ...], sampling: Sampling) -> DraftKit:
        text = (*PROMPT[: 24 - len(prompt)], *prompt) if len(prompt) > 1 else prompt
        return replace(toy_kit(text, sampling), target=target.open(text), prompt=text, heads={})

    check_method(QuantSpec(num_speculative_tokens=2), make_kit=make, rule=RULES["token"])


def test_what_it_provides_depends_on_the_request() -> None:
    assert "sampled" in provided(QuantSpec(), Sampling())
    greedy_draft = provided(QuantSpec(draft_temperature=0.0), Sampling())
    assert "deterministic" in greedy_draft and "sampled" not in greedy_draft
    assert {"token", "block"} <= set(lossless_rules(provided(QuantSpec(), Sampling())))


def test_a_target_that_is_no_plain_llama_is_refused() -> None:
    kit = DraftKit(prompt=(1, 2), sampling=Sampling(), vocab_size=40, target=None)
    with pytest.raises(UnsupportedModel) as caught:
        QuantSpec().start(kit)
    assert caught.value.code == "no_layers"
    with pytest.raises(UnsupportedModel, match="alone"):
        session = tiny("qwen2").open((1, 2))
        QuantSpec().start(replace(kit, target=session))


def test_evidence_is_the_confidence_of_every_path() -> None:
    target = small_target("hierarchical")
    run = begin(target, Seeded(1)).run
    proposal = run.propose(Room(context=PROMPT, max_depth=2, max_nodes=9), Seeded(2))
    (shown,) = [item for item in proposal.evidence if item.kind == "confidence"]
    each = [q[token] for q, token in zip(proposal.draft_probs, proposal.tree.tokens)]
    assert np.allclose(shown.values, np.cumprod(each)) and len(shown.values) == len(each)
    none = run.propose(Room(context=PROMPT, max_depth=0, max_nodes=9), Seeded(2))
    assert not none.tree.tokens and none.evidence == ()
    run.close()
    assert not run.propose(Room(context=PROMPT, max_depth=2, max_nodes=9), Seeded(2)).tree.tokens


@pytest.mark.parametrize("cache", ["hierarchical", "full"])
def test_greedy_text_is_the_targets_own_on_twenty_prompts(pocket8: Pair, cache: str) -> None:
    """In float64: rounding to nibbles jumps, and float32 passes of two widths may differ there.

    Every text goes up to or past position 64, where the first block is read quantised.
    """
    pair = pocket8 if cache == "hierarchical" else replace(pocket8, target=full_twin(pocket8))
    count = 7 if cache == "hierarchical" else 4
    accepted = drafted = 0
    for text in long_texts(pocket8, 20, 80):
        prompt = text[:61]
        plain = greedy(pair, prompt, "autoregressive", tokens=count)
        fast = greedy(pair, prompt, "quantspec", tokens=count)
        assert fast.emitted == plain.emitted
        accepted += sum(round_.num_accepted for round_ in fast.rounds)
        drafted += sum(round_.num_drafted for round_ in fast.rounds)
    assert accepted > 0.5 * drafted


def full_twin(pair: Pair) -> Any:
    """Return the same weights over a full-precision cache."""
    target: Any = pair.target
    return TransformerHandle(model=target.model, name="pocket", vocab_size=target.vocab_size)


def test_exact_law_of_the_bundled_eight_bit_target(pocket8: Pair) -> None:
    """96 tokens: the pending one reads 32 quantised, the first drafted one 64, in one pass."""
    (prompt,) = long_texts(pocket8, 1, 96)
    sampling = Sampling(top_k=2)
    limits = Limits(max_new_tokens=2, max_context=1024, eos_ids=pocket8.eos_ids)
    target = pocket8.target

    def start(rng: Randomness) -> Decoding:
        session = target.open(prompt)
        kit = DraftKit(
            prompt=prompt,
            sampling=sampling,
            eos_ids=limits.eos_ids,
            vocab_size=target.vocab_size,
            target=session,
        )
        run = QuantSpec(num_speculative_tokens=2).start(kit)
        rule = RULES["token"]
        return Decoding(
            session=session, run=run, rule=rule, rng=rng, sampling=sampling, limits=limits
        )

    law = exact_law(start)
    want = target_law(target, prompt, sampling, limits)  # type: ignore[arg-type]
    assert largest_difference(law.probs, want) < 1e-9


def test_the_same_seed_gives_the_same_run_and_names_its_target(pocket8: Pair) -> None:
    request = {"method": "quantspec", "seed": 4, "max_new_tokens": 12, "record_laws": False}
    runs = [open_run(pocket8, "Once upon a time", **request) for _ in range(2)]
    for run in runs:
        for _ in run:
            pass
    assert runs[0].emitted == runs[1].emitted
    assert runs[0].spec.target.name.endswith("8-bit cache") and runs[0].spec.pair == "pocket-int8kv"
    stopped = open_run(pocket8, "Once upon a time", **request)
    next(stopped)
    stopped.close()
