"""Caches: every round leaves the state of a fresh session, for real transformers in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from fault_kit import (
    GREEDY,
    Offers,
    begin,
    draft_model,
    forced,
    greedy_by_hand,
    offers,
    rules_for,
    run,
)
from tiny_models import tiny, tiny_model

from speclab.core.errors import BadInput, UnsupportedModel
from speclab.core.randomness import Seeded
from speclab.core.records import Round
from speclab.core.rules import RULES
from speclab.core.trees import TokenTree
from speclab.engine.loop import Decoding
from speclab.lab.runs import check_compatible
from speclab.methods import make_method
from speclab.models.pair import Pair
from speclab.models.toy import ToyModel
from speclab.models.transformer import TransformerHandle
from speclab.testing import check_model

TARGET, DRAFT = tiny(seed=1), tiny(seed=2)
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)


def checked(decoding: Decoding) -> Iterator[Round]:
    """Yield the rounds; after each, both caches hold what they must and nothing else.

    The target's cache holds every token but the last. The draft's holds what it has processed of
    the accepted text: all but the last token too, one less when every draft was accepted.
    """
    session, prompt = decoding.session, list(decoding.session.tokens)
    for round_ in decoding:
        text = prompt + decoding.emitted
        if round_.stop_reason is None:
            assert session.tokens == text, "the session's text is not what was emitted"
            assert session.cache_length == len(text) - 1
            assert rows_of(session) == len(text) - 1, "the target's cache is off"
        draft = getattr(decoding.run, "session", None)
        if draft is not None and round_.stop_reason is None:
            assert draft.tokens == text, "the draft continues another text"
            missing = 1 + (0 < round_.num_drafted == round_.num_accepted)
            if round_.num_drafted:
                assert draft.cache_length == len(text) - missing, "the draft's cache is off"
            assert rows_of(draft) == draft.cache_length
        yield round_


def rows_of(session) -> int:
    return session.cache_rows() if hasattr(session, "cache_rows") else len(session.cache)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("llama", {}),
        ("llama", {"attention": "eager"}),
        ("mistral", {"sliding_window": None}),
        ("mistral", {"sliding_window": 20}),
        ("qwen2", {}),
        ("qwen3", {"head_dim": 8}),
        ("gemma2", {"head_dim": 8, "sliding_window": 64}),
        ("gpt2", {}),
        ("gpt_neox", {}),
    ],
    ids=str,
)
def test_commit_and_rollback_leave_a_fresh_session(kind: str, more: dict) -> None:
    """https://github.com/NVIDIA/TensorRT-LLM/pull/12962

    Transformers' eager attention takes its softmax in float32 whatever the dtype, and CPUs without
    AVX-512 round it differently by the number of rows.
    """
    handle = tiny(kind, **more)
    eager = handle.model.config._attn_implementation == "eager" or kind == "gemma2"
    within = 2e-6 if eager else 1e-9
    taps = ("hidden[1]", "hidden[-1]")
    check_model(handle, PROMPT, tolerance=within, taps=taps)
    check_model(handle, (7,), tolerance=within, tree=TokenTree.chain((1, 2, 3)))
    check_model(
        handle, (7, 7), tolerance=within, tree=TokenTree((1, 2, 3, 3, 4), (-1, 0, 0, -1, 2))
    )


def test_features_keep_the_precision_of_the_model() -> None:
    """A feature rounded to float32 cannot be compared at 1e-9."""
    session = TARGET.open(PROMPT, ("hidden[1]",))
    features = session.score(TokenTree.chain((1,))).features((0,))["hidden[1]"]
    assert (
        features.dtype == np.float64 and session.prefill_features["hidden[1]"].dtype == np.float64
    )


def test_positions_of_a_tree_follow_each_nodes_own_parent() -> None:
    """https://github.com/unslothai/llama.cpp/pull/224"""
    seen = []
    model = tiny_model(seed=1)
    model.model.layers[0].register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["position_ids"]), with_kwargs=True
    )
    session = TransformerHandle(model=model, name="spied", vocab_size=40).open(PROMPT)
    session.score(TokenTree((1, 2, 3, 4, 5), (-1, -1, 0, 0, 1)))
    assert seen[-1].tolist() == [[9, 10, 10, 11, 11, 11]]


def test_order_of_siblings_changes_nothing() -> None:
    """https://github.com/NVIDIA/TensorRT-LLM/pull/12962"""
    one = TARGET.open(PROMPT).score(TokenTree((1, 2, 3, 4), (-1, -1, 0, 1)))
    two = TARGET.open(PROMPT).score(TokenTree((2, 1, 4, 3), (-1, -1, 0, 1)))
    for a, b in ((0, 1), (1, 0), (2, 3), (3, 2)):
        assert one.row(1 + a).raw() == pytest.approx(two.row(1 + b).raw(), abs=1e-12)


@pytest.mark.parametrize("passengers", [TokenTree.chain((5, 6)), TokenTree((5, 6), (-1, -1))])
def test_passengers_see_the_text_and_are_not_seen(passengers: TokenTree) -> None:
    """A second tree in the same pass changes no row and is never kept."""
    for tree in (TokenTree.chain((1, 2)), TokenTree((1, 2, 3), (-1, -1, 0)), TokenTree()):
        session = TARGET.open(PROMPT)
        scores, alone = session.score(tree, passengers), TARGET.open(PROMPT).score(tree)
        for index in range(len(tree) + 1):
            assert scores.row(index).raw() == pytest.approx(alone.row(index).raw(), abs=1e-9)
        for node in range(len(passengers)):
            ((row,),) = TARGET.evaluate([[*PROMPT, *passengers.path_tokens(node)]], [1])
            assert scores.passenger_row(node).raw() == pytest.approx(row.raw(), abs=1e-9)
        path = tree.path(len(tree) - 1)
        session.commit(path, 8)
        text = [*PROMPT, *tree.path_tokens(len(tree) - 1), 8]
        assert session.tokens == text and session.cache_rows() == len(text) - 1
        ((row,),) = TARGET.evaluate([text], [1])
        assert session.score().row(0).raw() == pytest.approx(row.raw(), abs=1e-9)


def test_a_lagging_session_scores_a_tree() -> None:
    """Tokens appended without a pass are fed before the tree, at their own positions."""
    session = TARGET.open(PROMPT)
    session.extend([7, 8, 9])
    scores = session.score(TokenTree((1, 2, 3), (-1, -1, 0)))
    for node, path in enumerate(([1], [2], [1, 3])):
        ((row,),) = TARGET.evaluate([[*PROMPT, 7, 8, 9, *path]], [1])
        assert scores.row(1 + node).raw() == pytest.approx(row.raw(), abs=1e-9)


@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
@pytest.mark.parametrize("handle", [TARGET, ToyModel.random(1, vocab_size=6)], ids=["hf", "toy"])
def test_a_greedy_self_draft_accepts_everything(handle, gamma: int) -> None:
    """https://github.com/lablup/mlxcel/issues/994 ; https://github.com/vllm-project/vllm/pull/9730"""
    decoding = begin(
        handle,
        (3, 1),
        method=draft_model(gamma),
        drafts=[handle],
        sampling=GREEDY,
        n=64,
    )
    rounds = list(checked(decoding))
    drafted = sum(round_.num_drafted for round_ in rounds)
    assert drafted > 0 and drafted == sum(round_.num_accepted for round_ in rounds)
    assert len(rounds) == -(-64 // (gamma + 1)), "a draft that is not used"


@pytest.mark.parametrize("accepted", range(5))
def test_both_caches_hold_the_accepted_text(accepted: int) -> None:
    """https://github.com/lablup/mlxcel/pull/1002 : prompt 10, gamma 4, a kept -> 10 + a rows."""
    decoding = begin(
        TARGET,
        PROMPT,
        method=draft_model(4),
        drafts=[DRAFT],
        sampling=GREEDY,
        n=30,
        rule=FORCED[accepted],
    )
    next(rounds := iter(decoding))
    draft = decoding.run.session
    assert decoding.session.cache_rows() == decoding.session.cache_length == 10 + accepted
    assert draft.cache_rows() == draft.cache_length == min(10 + accepted, 13)
    assert draft.length == decoding.session.length == 11 + accepted
    before = draft.num_forwards
    next(rounds)
    assert draft.num_forwards == before + 4, "one pass per drafted token"
    rounds.close()


FORCED = {count: forced(count) for count in range(5)}


def test_rejected_tokens_leave_the_sequence() -> None:
    """https://github.com/lucidrains/speculative-decoding/issues/3"""
    prompt = [int(token) for token in np.random.default_rng(0).integers(0, 40, 128)]
    truth = greedy_by_hand(TARGET, prompt, 1)[0]
    wrong = offers([(truth + 1) % 40] * 5)
    decoding = begin(TARGET, prompt, method=wrong, sampling=GREEDY, n=30)
    first = next(rounds := iter(decoding))
    assert first.num_drafted == 5 and first.num_accepted == 0
    assert decoding.session.length == 129 and decoding.session.cache_rows() == 128
    rounds.close()


def test_two_requests_with_no_and_all_drafts_accepted() -> None:
    """https://github.com/lucidrains/speculative-decoding/issues/3 : rows grow by 1 and by 6."""
    truth = greedy_by_hand(TARGET, PROMPT, 12)
    wrong = Offers(offer=lambda context, rng: [(truth[len(context) - 10] + 1) % 40] * 5)
    right = Offers(offer=lambda context, rng: truth[len(context) - 10 :][:5])
    both = [begin(TARGET, PROMPT, method=m, sampling=GREEDY, n=12) for m in (wrong, right)]
    rounds = [checked(decoding) for decoding in both]
    for iterator in rounds:
        next(iterator)
    assert [decoding.session.length for decoding in both] == [11, 16]
    for iterator in rounds:
        list(iterator)
    assert [decoding.emitted for decoding in both] == [truth, truth]


@pytest.mark.parametrize("gamma", range(1, 9))
def test_greedy_speculation_is_the_targets_own_text(gamma: int) -> None:
    """https://github.com/huggingface/transformers/issues/30042 : unrelated draft, any gamma."""
    for prompt in ((5,), PROMPT):
        want = greedy_by_hand(TARGET, prompt, 24)
        for rule in rules_for("chain", "deterministic"):
            decoding = begin(
                TARGET,
                prompt,
                method=draft_model(gamma),
                drafts=[DRAFT],
                rule=rule,
                sampling=GREEDY,
                n=24,
            )
            list(checked(decoding))
            assert decoding.emitted == want


@pytest.mark.parametrize("name", ["autoregressive", "prompt-lookup"])
def test_greedy_text_of_methods_without_a_draft_model(name: str) -> None:
    """https://github.com/huggingface/transformers/pull/32189 : the one-token prompt too."""
    for prompt in ((5,), PROMPT * 2):
        decoding = begin(TARGET, prompt, method=make_method(name), sampling=GREEDY, n=40)
        list(checked(decoding))
        assert decoding.emitted == greedy_by_hand(TARGET, prompt, 40)


LAYERED = tiny(seed=1, num_hidden_layers=4)
SELF_DRAFTS = {
    "early-exit": {"num_speculative_tokens": 4},
    "draft-and-verify": {
        "num_speculative_tokens": 4,
        "stop_threshold": 0.0,
        "adaptive_threshold": False,
    },
}


@pytest.mark.parametrize("name", SELF_DRAFTS)
@pytest.mark.parametrize("accepted", range(5))
def test_drafts_of_the_targets_own_layers_leave_only_the_accepted_text(
    name: str, accepted: int
) -> None:
    """https://github.com/lablup/mlxcel/pull/1002 : prompt 10, gamma 4, a kept -> 10 + a rows."""
    method = make_method(name, SELF_DRAFTS[name])
    decoding = begin(LAYERED, PROMPT, method=method, sampling=GREEDY, n=30, rule=FORCED[accepted])
    rounds = checked(decoding)
    for count in (1, 2):
        assert next(rounds).num_drafted == 4
        session = decoding.session
        assert session.cache_rows() == session.cache_length == 9 + count * (accepted + 1)
        ((row,),) = LAYERED.evaluate([session.tokens], [1])
        fresh = LAYERED.open(session.tokens).shallow(2).extend()
        assert session.shallow(2).extend() == pytest.approx(fresh, abs=1e-9)
        assert session.score().row(0).logits == pytest.approx(row.logits, abs=1e-9)
    rounds.close()


@pytest.mark.parametrize("name", SELF_DRAFTS)
def test_greedy_text_of_drafts_from_the_targets_own_layers(name: str) -> None:
    for prompt in ((5,), PROMPT):
        want = greedy_by_hand(LAYERED, prompt, 24)
        for gamma in (1, 3, 8):
            method = make_method(name, {**SELF_DRAFTS[name], "num_speculative_tokens": gamma})
            for rule in rules_for("chain", "deterministic") if gamma == 3 else ("token",):
                decoding = begin(LAYERED, prompt, method=method, sampling=GREEDY, rule=rule, n=24)
                list(checked(decoding))
                assert decoding.emitted == want


@pytest.mark.parametrize("name", SELF_DRAFTS)
@pytest.mark.parametrize(
    ("kind", "more"),
    [("mistral", {"sliding_window": 8}), ("gemma2", {"head_dim": 8}), ("gpt2", {})],
    ids=str,
)
def test_targets_whose_layers_run_only_together_are_refused_by_name(
    name: str, kind: str, more: dict
) -> None:
    """https://github.com/huggingface/transformers/pull/48280 : before the first token."""
    handle, method = tiny(kind, num_hidden_layers=4, **more), make_method(name)
    with pytest.raises(UnsupportedModel, match=f"tiny-{kind}"):
        begin(handle, (3, 1, 4), method=method)
    pair = Pair(name="own", target=handle, drafts=(), codec=None, eos_ids=frozenset())
    with pytest.raises(UnsupportedModel, match=rf"{name} needs .*which the pair own lacks"):
        check_compatible(method, RULES["token"], pair, GREEDY)


@pytest.mark.parametrize("name", SELF_DRAFTS)
def test_a_short_context_ends_drafts_from_the_targets_own_layers(name: str) -> None:
    handle = tiny(seed=3, num_hidden_layers=4, max_position_embeddings=8)
    for prompt in ((3,), (3, 1, 4)):
        want = greedy_by_hand(handle, prompt, 40, max_context=8)
        method = make_method(name, SELF_DRAFTS[name])
        text, rounds = run(handle, prompt, method=method, sampling=GREEDY, n=40)
        assert text == want and rounds[-1].stop_reason == "context_limit"


def test_drafts_of_every_length_keep_their_text() -> None:
    """Sampled runs stop and reject at every depth; no cache may drift."""
    depths = set()
    for seed in range(6):
        decoding = begin(
            TARGET,
            PROMPT,
            method=draft_model(4, min_confidence=0.1),
            drafts=[DRAFT],
            rng=Seeded(seed),
            n=40,
        )
        depths |= {(r.num_drafted, r.num_accepted) for r in checked(decoding)}
    assert {drafted for drafted, _ in depths} >= {1, 2, 3, 4}


@pytest.mark.parametrize("kind", ["mistral", "gemma2"])
def test_a_sliding_window_bounds_the_context_and_says_so(kind: str) -> None:
    """https://github.com/huggingface/transformers/pull/48280 ; https://github.com/ml-explore/mlx-lm/pull/1109

    Within the window sliding and full attention are the same law; beyond it a run ends instead of
    going on with a cache that cannot be cut.
    """
    handle = tiny(kind, seed=3, sliding_window=8, head_dim=8)
    assert handle.max_context == 8
    for prompt in ((3,), (3, 1, 4)):
        want = greedy_by_hand(handle, prompt, 40, max_context=8)
        wrong = Offers(offer=lambda context, rng: [39] * 4)
        size = len(prompt)
        alternating = Offers(
            offer=lambda context, rng, want=want, size=size: (
                want[len(context) - size :][:4] if len(context) % 2 else [39] * 4
            )
        )
        for method in (draft_model(4), wrong, alternating, make_method("autoregressive")):
            text, rounds = run(
                handle, prompt, method=method, drafts=[handle], sampling=GREEDY, n=40
            )
            assert text == want and rounds[-1].stop_reason == "context_limit"
    with pytest.raises(BadInput, match=r"9 tokens.*8"):
        handle.open([1] * 9)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("mamba", {}),
        ("mamba2", {"head_dim": 16, "num_heads": 4, "n_groups": 1}),
        ("falcon_mamba", {}),
        ("recurrent_gemma", {}),
        ("jamba", {"num_experts": 1, "use_mamba_kernels": False}),
        ("bamba", {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1}),
        ("rwkv", {}),
        ("falcon_h1", {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8}),
        ("xlstm", {"num_heads": 4}),
    ],
    ids=str,
)
def test_models_that_cannot_forget_are_refused_by_name(kind: str, more: dict) -> None:
    """https://github.com/huggingface/transformers/pull/47153 ; https://github.com/vllm-project/vllm/issues/39273"""
    with pytest.raises(UnsupportedModel, match=f"tiny-{kind}.*rolled back"):
        tiny(kind, **more)


def test_rows_of_unequal_length_equal_their_solo_runs() -> None:
    """https://github.com/unslothai/unsloth/pull/3795 : right padding under a causal mask."""
    texts = [[3, 1, 4], [2, 7, 1, 8, 2, 8, 1, 8, 2]]
    together = TARGET.evaluate(texts, [3, 2])
    for text, keep, rows in zip(texts, (3, 2), together):
        (alone,) = TARGET.evaluate([text], [keep])
        session = TARGET.open(text).score().row(0)
        assert rows[-1].raw() == pytest.approx(session.raw(), abs=1e-9)
        for row, solo in zip(rows, alone, strict=True):
            assert row.raw() == pytest.approx(solo.raw(), abs=1e-9)


def test_interleaved_requests_of_unequal_length_equal_their_solo_runs() -> None:
    """https://github.com/unslothai/unsloth/pull/3795"""
    prompts = [(3, 1, 4), (2, 7, 1, 8, 2, 8, 1, 8, 2)]

    def open_both():
        return [
            begin(TARGET, prompt, method=draft_model(3), drafts=[DRAFT], n=16) for prompt in prompts
        ]

    solo = [list(decoding) and decoding.emitted for decoding in open_both()]
    both = open_both()
    rounds = [checked(decoding) for decoding in both]
    while [round_ for iterator in rounds if (round_ := next(iterator, None))]:
        pass
    assert [decoding.emitted for decoding in both] == solo


def test_an_impossible_rollback_is_refused() -> None:
    session = TARGET.open(PROMPT)
    for length in (0, -1, 11):
        with pytest.raises(BadInput, match="roll back"):
            session.rollback(length)
