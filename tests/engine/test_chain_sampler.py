"""Requests decoded together against the decode loop: the same uniforms, the same tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_pairs import tiny_handle

from speclab.core.laws import Sampling
from speclab.core.protocols import DraftKit
from speclab.core.randomness import Scripted
from speclab.core.rules import RULES
from speclab.engine.chain_sampler import PLACE_BY_PLACE, ChainSampler, TextTree
from speclab.engine.loop import Decoding, Limits
from speclab.engine.memo import MemoHandle
from speclab.engine.prefix_rows import PrefixRows, SparseLaw
from speclab.methods.draft_model import DraftModel
from speclab.models.toy import ToyModel

PROMPT = (0, 1, 2)
TARGET, DRAFT = (ToyModel.random(seed, vocab_size=6, concentration=0.8) for seed in (3, 4))
CASES = [
    (DraftModel(num_speculative_tokens=4), Sampling(top_k=4), 4, frozenset(), 4_000),
    (DraftModel(num_speculative_tokens=2), Sampling(temperature=0.8), 6, frozenset({5}), 2_500),
    (DraftModel(num_speculative_tokens=1), Sampling(top_p=0.8), 2, frozenset({1}), 1_000),
    (
        DraftModel(num_speculative_tokens=5, draft_temperature=1.6, min_confidence=0.3),
        Sampling(min_p=0.1),
        7,
        frozenset({0, 4}),
        2_500,
    ),
]


def decoded(method, rule, sampling, length, eos, column, target=TARGET, draft=DRAFT):
    """What the unmodified loop emits with the uniforms of one column."""
    session = target.open(PROMPT)
    kit = DraftKit(
        prompt=PROMPT, sampling=sampling, eos_ids=eos, vocab_size=6, drafts=(draft,), target=session
    )
    run = Decoding(
        session=session,
        run=method.start(kit),
        rule=rule,
        rng=Scripted(column),
        sampling=sampling,
        limits=Limits(max_new_tokens=length, max_context=100, eos_ids=eos),
    )
    for _ in run:
        pass
    return tuple(run.emitted)


def together(method, rule, sampling, length, eos, *, target=TARGET, draft=DRAFT, **more):
    return ChainSampler(
        PrefixRows(target, PROMPT, sampling),
        PrefixRows(draft, PROMPT, method.draft_sampling(sampling)),
        rule,
        TextTree(),
        gamma=method.num_speculative_tokens,
        length=length,
        eos_ids=eos,
        min_confidence=method.min_confidence,
        **more,
    )


@pytest.mark.parametrize("name", sorted(PLACE_BY_PLACE))
def test_same_uniforms_same_sequences(name: str) -> None:
    """10,000 requests under `token`, 2,000 under every other rule."""
    generator = np.random.default_rng(11)
    for method, sampling, length, eos, count in CASES:
        sampler = together(method, RULES[name], sampling, length, eos)
        count = count if name == "token" else count // 5
        uniforms = generator.random((sampler.num_columns + 1, count))
        uniforms[:, :3] = [0.0, 1.0 - 2.0**-53, 0.5]
        fast = sampler.sample(uniforms)
        slow = [
            decoded(method, RULES[name], sampling, length, eos, column) for column in uniforms.T
        ]
        assert fast == slow


def test_rules_that_do_not_go_place_by_place_would_be_noticed() -> None:
    method, sampling, length, eos, _ = CASES[0]
    sampler = together(method, RULES["block"], sampling, length, eos)
    uniforms = np.random.default_rng(0).random((sampler.num_columns + 8, 500))
    slow = [decoded(method, RULES["block"], sampling, length, eos, u) for u in uniforms.T]
    assert sampler.sample(uniforms) != slow


def test_a_short_draft_context_ends_drafting() -> None:
    method, sampling, length, eos, _ = CASES[0]
    short = replace(DRAFT, max_context=5)
    sampler = together(method, RULES["token"], sampling, length, eos, draft=short)
    uniforms = np.random.default_rng(1).random((sampler.num_columns, 500))
    slow = [
        decoded(method, RULES["token"], sampling, length, eos, u, draft=short) for u in uniforms.T
    ]
    assert sampler.sample(uniforms) == slow


def test_stopping_at_the_impossible_changes_only_what_follows_it() -> None:
    method, sampling, length, eos, _ = CASES[0]
    rule = RULES["broken-softmax-residual"]
    going, stopping = (
        together(method, rule, sampling, length, eos, go_on=go_on) for go_on in (True, False)
    )
    uniforms = np.random.default_rng(2).random((going.num_columns, 800))
    whole, cut = going.sample(uniforms), stopping.sample(uniforms)
    assert all(long[: len(short)] == short for long, short in zip(whole, cut))
    assert any(len(short) < len(long) for long, short in zip(whole, cut))
    rows = PrefixRows(TARGET, PROMPT, sampling)
    for short in cut:
        zero = [rows.law(short[:i]).prob(short[i]) == 0.0 for i in range(len(short))]
        assert any(zero) == (len(short) < length) or zero[-1]


def test_rows_of_a_transformer_in_tree_passes_are_those_of_whole_passes() -> None:
    handle, sampling = tiny_handle(5), Sampling(top_k=6)
    rows = PrefixRows(handle, PROMPT, sampling)
    generator = np.random.default_rng(3)
    texts = [tuple(generator.integers(0, 50, size=n).tolist()) for n in (0, 1, 2, 2, 5, 3)]
    texts.append((*texts[3], 7))
    rows.ensure(texts)
    assert rows.num_passes == 1
    for text in texts:
        (whole,) = handle.evaluate([[*PROMPT, *text]], [1])[0]
        assert np.abs(rows.law(text).dense() - whole.law(sampling)).max() < 1e-9
    rows.close()


def test_a_model_without_tree_attention_is_asked_for_whole_texts() -> None:
    class Plain:
        name, vocab_size, max_context, provides = "plain", 6, 100, frozenset()
        evaluate = TARGET.evaluate

    rows = PrefixRows(Plain(), PROMPT, Sampling())
    rows.ensure([(), (1,), (1, 2)])
    assert np.array_equal(rows.law((1, 2)).dense(), TARGET.row((*PROMPT, 1, 2)).law(Sampling()))


def test_kept_rows_are_handed_to_a_memo_unchanged() -> None:
    rows = PrefixRows(TARGET, PROMPT, Sampling(), keep_rows=True)
    rows.ensure([(), (1,)])
    passes = rows.num_passes
    session = MemoHandle(rows).open((*PROMPT, 1))
    law = session.score().row(0).law(Sampling())
    assert rows.num_passes == passes
    assert np.array_equal(law, rows.law((1,)).dense())


def test_sparse_laws_draw_as_dense_ones() -> None:
    from speclab.core.randomness import invert_cdf

    law = np.array([0.0, 0.3, 0.0, 0.45, 0.25, 0.0])
    sparse = SparseLaw.of(law)
    noises = np.array([0.0, 0.3, np.nextafter(0.3, 0), 0.75, 1.0 - 2.0**-53, 0.5])
    assert sparse.draw(noises).tolist() == [invert_cdf(law, float(u)) for u in noises]
    assert np.array_equal(sparse.dense(), law)
    assert sparse.prob(3) == 0.45 and sparse.prob(0) == 0.0 and sparse.prob(5) == 0.0


def test_likely_texts_are_evaluated_first_and_no_more_than_allowed() -> None:
    target, draft = PrefixRows(TARGET, PROMPT, Sampling()), PrefixRows(DRAFT, PROMPT, Sampling())
    target.follow(draft, 3, 0.0, 10)
    assert target.num_misses == draft.num_misses == 10
    best = max(range(6), key=lambda x: max(target.law(()).prob(x), draft.law(()).prob(x)))
    assert target.held((best,)) is not None and draft.held((best,)) is not None
